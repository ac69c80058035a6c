// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves the calling thread to `SCHED_IDLE`, the scheduling class that runs only on idle CPUs.

/// Lets the calling thread run only on CPUs that are otherwise idle, from now on; returns whether
/// the system agreed. Linux: sched(7) `SCHED_IDLE`.
#[must_use = "it may be in others' way"]
pub fn run_in_background() -> bool {
    let first = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads `first`, and changes only how this thread is scheduled.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const first) == 0 }
}
