// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that run where nobody else wants to.

/// Has this thread run only on processors where nobody else wants to run, from now on; whether that
/// could be had. Linux: sched(7) `SCHED_IDLE`.
#[must_use = "it may be in others' way"]
pub fn run_in_background() -> bool {
    let first = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads a structure that is there, and changes how this thread is scheduled alone.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const first) == 0 }
}
