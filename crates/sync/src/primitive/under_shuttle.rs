// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives shuttle's primitives the names that this crate uses in every build: before each atomic
//! operation and each wait for a lock the scheduler may switch threads or inject a fault.
//!
//! Shuttle runs one thread at a time and has no weak memory: every operation gets the strongest
//! order. Its own atomics are not zero-valid, so these are the system's, each operation after a
//! point where shuttle may switch. Each execution has its own statics.

pub(super) use crate::fault::may_fail;
pub use crate::fault::{NoFaultInjection, no_fault_injection};
use core::sync::atomic as system;
/// Decided once per process, whatever the schedule.
pub(crate) use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering;
pub(crate) use core::sync::atomic::fence;
pub(crate) use shuttle::thread::yield_now as relax;
pub(crate) use shuttle::thread::yield_now as short_sleep;

pub(crate) const SHARDS: usize = 2;
pub(crate) const SPINS: usize = 1;

/// A point where the scheduler may switch threads, or inject a fault.
fn point() {
    // An operation of shuttle's makes it switch.
    shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    may_fail();
}

/// The operations of every kind of atomic.
macro_rules! operations {
    ($value:ty) => {
        pub(crate) fn load(&self, order: Ordering) -> $value {
            point();
            self.0.load(order)
        }
        pub(crate) fn store(&self, value: $value, order: Ordering) {
            point();
            self.0.store(value, order);
        }
        pub(crate) fn compare_exchange(
            &self,
            from: $value,
            to: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            point();
            self.0.compare_exchange(from, to, success, failure)
        }
    };
}

/// An atomic integer.
macro_rules! number {
    ($name:ident, $value:ty) => {
        #[derive(Default, Debug)]
        #[repr(transparent)]
        pub(crate) struct $name(system::$name);

        #[allow(dead_code, reason = "not every kind of number needs every operation")]
        impl $name {
            pub(crate) const fn new(value: $value) -> Self {
                Self(system::$name::new(value))
            }
            operations!($value);
            pub(crate) fn compare_exchange_weak(
                &self,
                from: $value,
                to: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(from, to, success, failure)
            }
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_add(value, order)
            }
            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_sub(value, order)
            }
            pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_or(value, order)
            }
            pub(crate) fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.fetch_and(value, order)
            }
        }
    };
}

number!(AtomicU32, u32);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);

#[derive(Default, Debug)]
#[repr(transparent)]
pub(crate) struct AtomicBool(system::AtomicBool);

#[allow(dead_code, reason = "the system has it")]
impl AtomicBool {
    pub(crate) const fn new(value: bool) -> Self {
        Self(system::AtomicBool::new(value))
    }
    operations!(bool);
}

#[derive(Default, Debug)]
#[repr(transparent)]
pub(crate) struct AtomicPtr<T>(system::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub(crate) const fn new(value: *mut T) -> Self {
        Self(system::AtomicPtr::new(value))
    }
    operations!(*mut T);
    pub(crate) fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        point();
        self.0.swap(value, order)
    }
}

macro_rules! global {
    ($(#[$m:meta])* $(pub($vis:ident))? $(lazy)? static $name:ident: $ty:ty = $init:expr;) => {
        shuttle::lazy_static! {
            $(#[$m])*
            $(pub($vis))? static ref $name: $ty = $init;
        }
    };
}
pub(crate) use global;

macro_rules! local {
    ($($(#[$m:meta])* static $name:ident: $ty:ty = $init:expr;)+) => {
        shuttle::thread_local! {
            $($(#[$m])* static $name: $ty = $init;)+
        }
    };
}
pub(crate) use local;
