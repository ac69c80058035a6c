// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes and times, as a guest and the engine call them.

use super::bindings::wasi::filesystem::types::{
    Datetime, DescriptorStat, MetadataHashValue, NewTimestamp,
};
use super::descriptor::kind;
use openpath_abi::time::NSEC_PER_SEC;
use openpath_abi::{Errno, Stat, TimeSet, Timespec};

/// A time for the guest, which knows none before 1970.
fn datetime(time: Timespec) -> Option<Datetime> {
    Some(Datetime {
        seconds: u64::try_from(time.sec).ok()?,
        nanoseconds: time.nsec,
    })
}

/// Attributes for the guest.
pub(super) fn stat(stat: &Stat) -> DescriptorStat {
    DescriptorStat {
        type_: kind(stat.mode),
        link_count: stat.nlink,
        size: u64::try_from(stat.size).unwrap_or(0),
        data_access_timestamp: datetime(stat.atime),
        data_modification_timestamp: datetime(stat.mtime),
        status_change_timestamp: datetime(stat.ctime),
    }
}

/// A time that the guest sets; nanoseconds past a second are carried over.
///
/// # Errors
/// `EOVERFLOW`.
pub(super) fn time_set(time: NewTimestamp) -> Result<TimeSet, Errno> {
    let at = match time {
        NewTimestamp::NoChange => return Ok(TimeSet::Omit),
        NewTimestamp::Now => return Ok(TimeSet::Now),
        NewTimestamp::Timestamp(at) => at,
    };
    let seconds = at
        .seconds
        .checked_add(u64::from(at.nanoseconds / NSEC_PER_SEC))
        .and_then(|seconds| i64::try_from(seconds).ok());
    Ok(TimeSet::At(Timespec {
        sec: seconds.ok_or(Errno::EOVERFLOW)?,
        nsec: at.nanoseconds % NSEC_PER_SEC,
    }))
}

/// A number that only this file has: its device and inode, stirred so that neither can be read off.
pub(super) fn hash(stat: &Stat) -> MetadataHashValue {
    MetadataHashValue {
        lower: stir(stat.ino ^ stir(stat.dev)),
        upper: stir(stat.dev ^ stir(!stat.ino)),
    }
}

/// One to one, and far from linear.
fn stir(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_carried_over_and_refused_when_it_is_too_far() {
        let at = |seconds, nanoseconds| {
            let at = Datetime {
                seconds,
                nanoseconds,
            };
            time_set(NewTimestamp::Timestamp(at))
        };
        let carried = Timespec {
            sec: 3,
            nsec: 500_000_000,
        };
        assert_eq!(at(1, 2_500_000_000), Ok(TimeSet::At(carried)));
        assert_eq!(at(u64::MAX, 0), Err(Errno::EOVERFLOW));
        assert_eq!(
            at(i64::MAX.cast_unsigned(), NSEC_PER_SEC),
            Err(Errno::EOVERFLOW)
        );
        assert_eq!(time_set(NewTimestamp::Now), Ok(TimeSet::Now));
    }

    #[test]
    fn files_before_1970_have_no_time() {
        let old = Stat {
            mtime: Timespec { sec: -1, nsec: 0 },
            ..Stat::default()
        };
        let told = stat(&old);
        assert!(told.data_modification_timestamp.is_none());
        assert!(told.data_access_timestamp.is_some());
    }

    #[test]
    fn neighbours_have_hashes_far_apart() {
        let of = |dev, ino| {
            let stat = Stat {
                dev,
                ino,
                ..Stat::default()
            };
            let hash = hash(&stat);
            (hash.lower, hash.upper)
        };
        assert_eq!(of(1, 2), of(1, 2));
        let others = [of(1, 3), of(2, 2), of(2, 1), of(0, 3)];
        assert!(!others.contains(&of(1, 2)));
        assert!((of(1, 2).0 ^ of(1, 3).0).count_ones() > 8);
    }
}
