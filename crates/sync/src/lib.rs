// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock-free ground of openpath: every atomic ordering and every raw pointer lives here.
//!
//! Users of this crate write no `unsafe` and name no memory ordering; they use verbs:
//!
//! | module | verb | what it is |
//! |---|---|---|
//! | [`word`](Word) | `get`, `set` | shared words |
//! | [`life`](Life) | `sample`, `still`, `change` | a sequence count with flags in one word |
//! | [`store`](Store) | `new_dentry`, `try_pin`, `reclaim_dentries` | slabs, and pins for counts |
//! | [`hash`](Table) | `probe`, `missed`, `lock` | a table searched without a lock |
//! | [`pages`](Pages) | `page` | pages that go back to the system |
//! | [`region`](Region) | `at` | an array that never moves |
//! | [`allowance`](Allowance) | `take`, `give` | a quantity with a bound, for many threads |
//! | [`shards`](Shards) | `mine`, `all` | a value for each group of threads |
//! | [`slots`](Slots) | `get`, `set` | an array that grows under its readers |
//! | [`biased`](Biased) | `lock`, `share` | a lock that is free while there is one handle |
//! | [`lock`](Mutex) | `lock`, `read`, `write` | locks that know their place in the lock order |
//! | [`wait`](WaitQueue) | `wait`, `wake_one`, `interrupt` | waiting for what a lock protects |
//! | [`inbox`](Inbox) | `post`, `take`, `arm` | what other threads have done, for one to take |
//! | [`rcu`] | `enter`, `retire`, `replace` | sections, and memory that outlives them |
//! | [`asym`] | `light`, `heavy` | a fence that costs the rare side everything |
//! | `seccomp` | [`install_seccomp_filter`] | a filter of system calls, given by a pointer |
//! | `keyring` | [`join_new_session_keyring`] | a session keyring, made by a raw system call |
//! | `landlock` | [`enter_landlock_domain`] | a Landlock domain, made by a raw descriptor |

mod allowance;
mod apart;
pub mod asym;
mod background;
mod biased;
mod clock;
#[cfg(shuttle)]
pub mod fault;
mod hash;
mod heap;
mod inbox;
mod keyring;
mod landlock;
mod life;
mod lock;
#[cfg(debug_assertions)]
mod lockdep;
#[cfg(not(debug_assertions))]
mod lockdep_disabled;
mod once;
#[cfg(not(loom))]
mod pages;
mod prim;
mod random;
pub mod rcu;
mod region;
mod seccomp;
mod shards;
mod slots;
mod store;
mod wait;
mod word;
mod zero;

#[cfg(not(debug_assertions))]
use lockdep_disabled as lockdep;

pub use allowance::Allowance;
pub use background::run_in_background;
pub use biased::{Biased, BiasedGuard};
pub use clock::coarse_wall_clock;
pub use hash::{
    CHAIN_CAP, CHAIN_MAX, Census, Certificate, Chain, HashKey, Locked, Missed, Probe, Relief,
    Table, View,
};
pub use heap::trim_heap;
pub use inbox::{Inbox, Parcel, Taken};
pub use keyring::join_new_session_keyring;
pub use landlock::{LandlockScope, enter_landlock_domain, landlock_version};
pub use life::{Change, Life, Sample};
pub use lock::{
    ClassInfo, Hold, LockClass, Mutex, MutexGuard, RawGuard, RawLock, RwLock, RwLockReadGuard,
    RwLockWriteGuard,
};
pub use once::WriteOnce;
#[cfg(not(loom))]
pub use pages::{PAGE_SIZE, Page, Pages};
pub use random::random_bytes;
pub use region::{NoSpace, Region};
pub use seccomp::{BpfInstruction, install_seccomp_filter};
pub use shards::Shards;
pub use slots::Slots;
pub use store::{
    FileHead, FileItem, FileRef, FileSlots, Item, LastRef, NoFile, Opens, PINS_PER_BLOCK,
    PayloadCell, Pin, PinSet, Seized, Store,
};
pub use wait::{Ended, Sleeper, WaitQueue, Wake};
pub use word::{Word, Word32};
pub use zero::ZeroValid;

#[doc(hidden)]
pub use prim::{Unfailing, unfailing};

/// One turn of a short wait for another thread: spins, and now and then lets others run.
#[inline]
pub fn relax() {
    prim::relax();
}

/// Looks for what another thread is about to do, for about as long as it would take to wake the
/// caller; whether it was done.
pub fn look_for(mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..prim::SPINS {
        if done() {
            return true;
        }
        prim::relax();
    }
    done()
}
