// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements locks, lock-free structures, type-stable memory and some raw system calls for
//! openpath: every memory ordering and every raw pointer of the core is in this crate.
//!
//! The core and the backends write no `unsafe` and name no memory ordering. They and the faces
//! call these modules:
//!
//! | module | main calls | what it is |
//! |---|---|---|
//! | [`word`](Word) | `get`, `set` | shared words |
//! | [`life`](Life) | `sample`, `is_unchanged`, `change` | a sequence count with flags |
//! | [`store`](Store) | `new_dentry`, `try_pin`, `reclaim_dentries` | slabs with pins |
//! | [`hash`](Table) | `probe`, `missed`, `lock` | a hash table searched without a lock |
//! | [`pages`](Pages) | `page` | a pool of pages that return to the system |
//! | [`region`](Region) | `at` | an array that never moves |
//! | [`bounded_counter`](BoundedCounter) | `take`, `give` | a sharded counter with an upper bound |
//! | [`once`](WriteOnce) | `set`, `get` | a value that is set at most once |
//! | [`shards`](Shards) | `mine`, `all` | a value for each group of threads |
//! | [`slots`](Slots) | `get`, `set` | an array that grows under its readers |
//! | [`biased`](Biased) | `lock`, `share` | a lock that is free while there is one handle |
//! | [`lock`](Mutex) | `lock`, `read`, `write` | locks with a checked order |
//! | [`wait`](WaitQueue) | `wait`, `wake_one`, `interrupt` | wait queues |
//! | [`message_list`](MessageList) | `post`, `take`, `arm` | a lock-free list, taken as a whole |
//! | [`rcu`] | `enter`, `retire`, `replace` | read sections and deferred drops |
//! | [`asymmetric_fence`] | `light`, `heavy` | a fence that is free on the hot side |
//! | `seccomp` | [`install_seccomp_filter`] | a system-call filter, given by a pointer |
//! | `keyring` | [`join_new_session_keyring`] | a session keyring, made by a raw system call |
//! | `landlock` | [`enter_landlock_domain`] | a Landlock domain, made by a raw descriptor |
//! | `process` | [`fork()`] | a copy of a process with one thread, made by a raw system call |
//! | `background` | [`run_in_background`] | the scheduling class for idle CPUs |
//! | `clock` | [`coarse_wall_clock`] | the system's time |
//! | `random` | [`random_bytes`] | random bytes from the system |
//! | `heap` | [`trim_heap`] | unused memory, given back to the system |

#![deny(missing_debug_implementations)]

pub mod asymmetric_fence;
mod background;
mod biased;
mod bounded_counter;
mod cache_padded;
mod clock;
mod debug;
#[cfg(shuttle)]
pub mod fault;
mod hash;
mod heap;
mod keyring;
mod landlock;
mod life;
mod lock;
#[cfg(debug_assertions)]
mod lockdep;
#[cfg(not(debug_assertions))]
mod lockdep_disabled;
mod message_list;
mod once;
#[cfg(not(loom))]
mod pages;
mod primitive;
mod process;
mod random;
pub mod rcu;
mod region;
mod seccomp;
mod shards;
mod slots;
mod store;
mod wait;
mod word;
mod zero_valid;

#[cfg(not(debug_assertions))]
use lockdep_disabled as lockdep;

pub use background::run_in_background;
pub use biased::{Biased, BiasedGuard};
pub use bounded_counter::BoundedCounter;
pub use clock::coarse_wall_clock;
pub use hash::{
    CHAIN_CAP, CHAIN_MAX, Census, Certificate, Chain, ChainRelief, HashKey, Locked, Miss, Probe,
    Table, View,
};
pub use heap::trim_heap;
pub use keyring::join_new_session_keyring;
pub use landlock::{LandlockScope, enter_landlock_domain, landlock_version};
pub use life::{Change, Life, Sample};
pub use lock::{
    ClassInfo, LockClass, Mutex, MutexGuard, OwnedReadGuard, RawGuard, RawLock, RwLock,
    RwLockReadGuard, RwLockWriteGuard,
};
pub use message_list::{Message, MessageList, TakenMessages};
pub use once::WriteOnce;
#[cfg(not(loom))]
pub use pages::{PAGE_SIZE, Page, Pages};
pub use process::{command_line_capacity, fork, set_command_line};
pub use random::random_bytes;
pub use region::{NoSpace, Region};
pub use seccomp::{BpfInstruction, install_seccomp_filter};
pub use shards::Shards;
pub use slots::Slots;
pub use store::{
    FileHead, FileItem, FileRef, FileSlots, FrozenMounts, Item, LastRef, NoFile, Opens,
    PINS_PER_BLOCK, PayloadCell, Pin, PinSet, Store,
};
pub use wait::{WaitError, WaitQueue, Waiter, Wake};
pub use word::{Word, Word32};
pub use zero_valid::ZeroValid;

#[doc(hidden)]
pub use primitive::{NoFaultInjection, no_fault_injection};

/// One turn of a short wait for another thread: spins, and sometimes yields.
#[inline]
pub fn relax() {
    primitive::relax();
}

/// Spins until `done` returns true, for about as long as waking the caller would take; returns
/// whether it did.
pub fn spin_until(mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..primitive::SPINS {
        if done() {
            return true;
        }
        primitive::relax();
    }
    done()
}
