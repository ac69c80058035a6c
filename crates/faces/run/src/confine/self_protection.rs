// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the command, which often runs as the same user, from tracing this program's own processes
//! or ending them by a resource limit. Raises their limit on descriptors.
//!
//! # Kernel analogue
//! prctl(2) `PR_SET_DUMPABLE`: without privilege, no process can trace one that is not dumpable, or
//! reach its memory, its descriptors and its root by `/proc`.
//!
//! # Rules
//! R1. `/proc/self` then belongs to root. What this process does by `/proc/self/fd` still works,
//!     because the kernel lets a process use its own descriptors. Its ID maps must have been
//!     written before.
//! R2. execve(2) resets the setting, so each process sets it again when it starts. A fork has it
//!     from the beginning.
//! R3. prlimit(2) checks users alone. If another process of the user lowers a limit, which a pid
//!     namespace prevents, the result is an error where possible, and not the end of the process.

use openpath_commit::Refusal;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use signal_hook::consts::signal::{SIGXCPU, SIGXFSZ};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Keeps other processes of the user from tracing this one and from reading its memory.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn protect() -> Result<(), Refusal> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|why| Refusal::step("cannot protect this process from the command", why))
}

/// Undoes [`protect`] for a while. R1
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn unprotect() -> Result<(), Refusal> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
        .map_err(|why| Refusal::step("cannot write the ID maps of this process", why))
}

/// R3: a file size limit gives `EFBIG`, and the soft limit on processor time is ignored.
///
/// # Errors
/// No handler can be set.
pub(crate) fn outlive_limits() -> std::io::Result<()> {
    for signal in [SIGXFSZ, SIGXCPU] {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Raises the soft limits on processes, file sizes and processor time to the hard ones: another
/// process is started, and what it has to do must be done.
pub(crate) fn raise_limits() {
    for which in [Resource::Nproc, Resource::Fsize, Resource::Cpu] {
        raise(which);
    }
}

/// Raises the limit on descriptors to its maximum: each directory of the host and each mount of a
/// view needs one.
pub(crate) fn raise_fd_limit() {
    // With fewer descriptors it is slower, or fails where they are needed.
    raise(Resource::Nofile);
}

fn raise(which: Resource) {
    let limit = rustix::process::getrlimit(which);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(which, most).ok();
}
