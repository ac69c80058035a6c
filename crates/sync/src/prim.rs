// SPDX-License-Identifier: MIT OR Apache-2.0
//! The primitives everything in this crate stands on, from the system, from loom or from shuttle.
//!
//! With `--cfg loom` every atomic, cell, lock and thread-local of this crate is loom's, so that its
//! tests can run a protocol through every interleaving. With `--cfg shuttle` they are points of
//! shuttle's, so that what is built on this crate can be run under a scheduler that chooses. No
//! other module asks which build this is, except [`crate::asym`] (loom has no `membarrier`), the
//! region (loom's atomics are not zeroes) and the raw lock (neither has one of a byte).
//!
//! # Rules
//! R1. Loom's constructors are not `const`: a static is declared with `global!`.
//! R2. Loom's atomics have no `get_mut`: with `&mut` at hand, load relaxed.
//! R3. What takes or lets go of a lock is `unfailing`: a test that makes a thread fail at any other
//!     step does not ask what a lock does that is half taken.

pub(crate) use core::sync::atomic::Ordering;

#[cfg(loom)]
mod modelled;
#[cfg(not(any(loom, shuttle)))]
mod native;
#[cfg(shuttle)]
mod scheduled;
#[cfg(any(loom, shuttle))]
mod unpoisoned;
#[cfg(not(loom))]
mod zeroed;

#[cfg(loom)]
pub(crate) use self::modelled::*;
#[cfg(loom)]
pub use self::modelled::{Unfailing, unfailing};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use self::native::*;
#[cfg(not(any(loom, shuttle)))]
pub use self::native::{Unfailing, unfailing};
#[cfg(shuttle)]
pub(crate) use self::scheduled::*;
#[cfg(shuttle)]
pub use self::scheduled::{Unfailing, unfailing};
#[cfg(any(loom, shuttle))]
pub(crate) use self::unpoisoned::*;
#[cfg(not(loom))]
pub(crate) use self::zeroed::*;

/// Keeps the compiler, and nothing else, from moving memory accesses across.
#[inline(always)]
pub(crate) fn compiler_fence() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}
