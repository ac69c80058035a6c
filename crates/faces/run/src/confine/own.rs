// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection of this program's own processes from the command, which often has the same user.
//!
//! # Kernel analogue
//! prctl(2) `PR_SET_DUMPABLE`: a process that is not dumpable cannot be traced, nor its memory, its
//! descriptors and its root be reached by `/proc`, without privilege.
//!
//! # Rules
//! R1. `/proc/self` belongs to root then. What this process does by `/proc/self/fd` goes on,
//!     because the kernel lets a process at its own descriptors; its ID maps must have been written
//!     before.
//! R2. Execution takes the setting back, so each process that starts says it again.
//! R3. prlimit(2) goes by users alone. A limit that another process of the user lowers (which a pid
//!     namespace prevents) costs an error where there is one to answer, and not the process.

use openpath_commit::Refusal;
use rustix::process::DumpableBehavior;
use signal_hook::consts::signal::{SIGXCPU, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Keeps other processes of the user from tracing this one and from reading its memory.
///
/// # Errors
/// The kernel cannot.
pub(crate) fn protect() -> Result<(), Refusal> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|why| Refusal::step("cannot protect this process from the command", why))
}

/// R3: a file size limit becomes `EFBIG`, and the soft limit of processor time is passed.
///
/// # Errors
/// No handler can be set.
pub(crate) fn outlive_limits() -> std::io::Result<()> {
    for signal in [SIGXFSZ, SIGXCPU] {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
