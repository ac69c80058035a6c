// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts attributes and times between a component guest and the engine, and makes the number by
//! which a guest tells files apart.

use super::bindings::wasi::filesystem::types::{
    Datetime, DescriptorStat, MetadataHashValue, NewTimestamp,
};
use super::descriptor::kind;
use openpath_abi::time::NSEC_PER_SEC;
use openpath_abi::{Errno, Stat, TimeSet, Timespec};

/// A time for the guest; none before 1970.
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

/// A time that the guest sets; nanoseconds beyond a second are carried over.
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

/// A number unique to the file: a mix of its device and inode that reveals neither.
pub(super) fn hash(stat: &Stat) -> MetadataHashValue {
    MetadataHashValue {
        lower: mix(stat.ino ^ mix(stat.dev)),
        upper: mix(stat.dev ^ mix(!stat.ino)),
    }
}

/// A one-to-one mix of all bits.
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_carry_over_and_a_time_out_of_range_is_refused() {
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
        let converted = stat(&old);
        assert!(converted.data_modification_timestamp.is_none());
        assert!(converted.data_access_timestamp.is_some());
    }

    #[test]
    fn neighbouring_files_have_unrelated_hashes() {
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
