// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `Debug` for types with locks, pointers or counters inside: it prints the type's name,
//! and for a life word its present value.
//!
//! # Rules
//! R1. No impl takes a lock, waits, or reads more than one word of shared memory.

use crate::biased::BiasedGuard;
use crate::bounded_counter::BoundedCounter;
use crate::hash::{Locked, Table};
use crate::life::{Change, Life};
use crate::lock::{
    LockClass, MutexGuard, OwnedReadGuard, RawGuard, RawLock, RwLockReadGuard, RwLockWriteGuard,
};
use crate::message_list::{MessageList, TakenMessages};
use crate::once::WriteOnce;
#[cfg(not(loom))]
use crate::pages::{Page, Pages};
use crate::rcu::{Guard, RcuCell, Reader};
use crate::region::Region;
use crate::shards::Shards;
use crate::slots::Slots;
use crate::store::{FileHead, FileItem, FileSlots, FrozenMounts, Item, PayloadCell, PinSet, Store};
use crate::zero_valid::ZeroValid;
use core::fmt;

/// Implements `Debug` as the type's name alone.
macro_rules! opaque {
    ($($(#[$meta:meta])* [$($generics:tt)*] $type:ty = $name:literal;)*) => {$(
        $(#[$meta])*
        impl<$($generics)*> fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        }
    )*};
}

opaque! {
    [S, T, C: LockClass] BiasedGuard<'_, S, T, C> = "BiasedGuard";
    [const N: usize] BoundedCounter<N> = "BoundedCounter";
    [] Locked<'_> = "Locked";
    [] Table = "Table";
    [T, C: LockClass] MutexGuard<'_, T, C> = "MutexGuard";
    [T, C: LockClass] RwLockReadGuard<'_, T, C> = "RwLockReadGuard";
    [T, C: LockClass] RwLockWriteGuard<'_, T, C> = "RwLockWriteGuard";
    [O, T, C: LockClass] OwnedReadGuard<O, T, C> = "OwnedReadGuard";
    [C: LockClass] RawLock<C> = "RawLock";
    [C: LockClass] RawGuard<'_, C> = "RawGuard";
    [T] MessageList<T> = "MessageList";
    [T] TakenMessages<T> = "TakenMessages";
    [T] WriteOnce<T> = "WriteOnce";
    #[cfg(not(loom))]
    [] Page = "Page";
    #[cfg(not(loom))]
    [] Pages = "Pages";
    [] Guard<'_> = "Guard";
    [T] RcuCell<T> = "RcuCell";
    [] Reader = "Reader";
    [T: ZeroValid] Region<T> = "Region";
    [T] Shards<T> = "Shards";
    [] Slots = "Slots";
    [] FileHead = "FileHead";
    [] FileSlots = "FileSlots";
    [P] PayloadCell<P> = "PayloadCell";
    [M: Item, D: Item, F: FileItem] FrozenMounts<'_, M, D, F> = "FrozenMounts";
    [M: Item, D: Item, F: FileItem] PinSet<M, D, F> = "PinSet";
    [M: Item, D: Item, F: FileItem] Store<M, D, F> = "Store";
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Life").field(&self.sample()).finish()
    }
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Change").field(&self.now()).finish()
    }
}
