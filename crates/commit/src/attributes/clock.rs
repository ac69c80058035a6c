// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the time now, by the clock of the system and by the coarser one that stamps files.

use crate::attributes::file_stat::Time;
use rustix::time::{ClockId, clock_gettime};

/// The time now: no change of a file so far is later.
pub(crate) fn now() -> Time {
    read(ClockId::Realtime)
}

/// The time that the kernel gives to a file that is made or changed now. Its clock advances in
/// ticks.
pub(crate) fn file_clock() -> Time {
    read(ClockId::RealtimeCoarse)
}

fn read(clock: ClockId) -> Time {
    let now = clock_gettime(clock);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}
