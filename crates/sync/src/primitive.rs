// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the atomics, locks, statics and thread-locals that this crate is built on: those of the
//! system, of loom or of shuttle.
//!
//! With `--cfg loom` every atomic, cell, lock and thread-local of this crate is loom's, so that its
//! tests can run a protocol through every interleaving. With `--cfg shuttle` they are scheduling
//! points of shuttle's, so that code above this crate can run under a scheduler that chooses. Other
//! modules ask which build this is for sizes, which are small under a model, and for what loom or
//! shuttle lacks: `membarrier`, zeroed atomics, pages of the system, a lock of one byte, an owned
//! read guard.
//!
//! # Rules
//! R1. Loom's constructors are not `const`: a static is declared with `global!`.
//! R2. Loom's atomics have no `get_mut`: with `&mut` at hand, load relaxed.
//! R3. Acquiring and releasing a lock is `no_fault_injection`: fault injection at any other step
//!     does not ask how a half-taken lock behaves.

use crate::zero_valid::ZeroValid;
pub(crate) use core::sync::atomic::Ordering;

#[cfg(not(any(loom, shuttle)))]
mod native;
#[cfg(loom)]
mod under_loom;
#[cfg(shuttle)]
mod under_shuttle;
#[cfg(any(loom, shuttle))]
mod unpoisoned;
#[cfg(not(loom))]
mod zeroed;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use self::native::*;
#[cfg(not(any(loom, shuttle)))]
pub use self::native::{NoFaultInjection, no_fault_injection};
#[cfg(loom)]
pub(crate) use self::under_loom::*;
#[cfg(loom)]
pub use self::under_loom::{NoFaultInjection, no_fault_injection};
#[cfg(shuttle)]
pub(crate) use self::under_shuttle::*;
#[cfg(shuttle)]
pub use self::under_shuttle::{NoFaultInjection, no_fault_injection};
#[cfg(any(loom, shuttle))]
pub(crate) use self::unpoisoned::*;
#[cfg(not(loom))]
pub(crate) use self::zeroed::*;

// SAFETY: an atomic integer has the layout of its integer, for which zero is valid; there is
// nothing to drop.
unsafe impl ZeroValid for AtomicU32 {}
// SAFETY: as for `AtomicU32`.
unsafe impl ZeroValid for AtomicU64 {}

/// Prevents only the compiler from moving memory accesses across.
#[inline(always)]
pub(crate) fn compiler_fence() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}
