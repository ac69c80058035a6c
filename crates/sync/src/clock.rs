// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the coarse wall clock (`CLOCK_REALTIME_COARSE`), from which the kernel takes the times of
//! files.

use openpath_abi::Timespec;

/// The time of the last tick (`CLOCK_REALTIME_COARSE`).
#[cfg(target_os = "linux")]
const COARSE: libc::clockid_t = libc::CLOCK_REALTIME_COARSE;
#[cfg(not(target_os = "linux"))]
const COARSE: libc::clockid_t = libc::CLOCK_REALTIME;

/// The wall clock at its last tick, at most a few milliseconds ago. The kernel stamps files with
/// it, so a stamp of ours is never later than one that the kernel makes afterwards.
#[must_use]
pub fn coarse_wall_clock() -> Timespec {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local value. The call cannot fail for a clock that the system
    // has; for another one the value stays as it is.
    unsafe { libc::clock_gettime(COARSE, &raw mut now) };
    Timespec {
        sec: now.tv_sec,
        // Below a billion.
        nsec: now.tv_nsec as u32,
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    #[test]
    fn coarse_clock_is_not_ahead_of_the_fine_one() {
        let coarse = coarse_wall_clock();
        let fine = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let coarse = Duration::new(coarse.sec.cast_unsigned(), coarse.nsec);
        assert!(coarse <= fine && fine - coarse < Duration::from_secs(60));
    }
}
