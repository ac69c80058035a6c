// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the limits on the processes of a view (memory, number of processes, share of the
//! processors, run time), and parses and prints them as options and files write them.
//!
//! # Rules
//! R1. A limit is one number. Of two limits on the same resource the smaller holds, wherever each
//!     comes from.
//! R2. A printed limit is parsed as the same limit: limits are kept with a view as text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A limit on one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Bytes of memory of all processes together.
    Memory(u64),
    /// Processes and threads at a time.
    Pids(u32),
    /// Processor time, in thousandths of a core.
    Cpu(u32),
    /// Time from the start of the command to its end.
    Time(Duration),
}

/// The smallest limit on memory: less kills most programs while they start.
const MEMORY_MIN: u64 = 1 << 20;
/// The valid limits on processes. The kernel has 4194304 numbers for them.
const PIDS: std::ops::RangeInclusive<u32> = 2..=4_000_000;
/// The valid limits on processor time, in thousandths of a core: the kernel accounts in
/// milliseconds.
const CPU: std::ops::RangeInclusive<u64> = 10..=1_000_000;
/// The valid limits on time, in milliseconds: a year at most.
const TIME: std::ops::RangeInclusive<u64> = 1..=366 * 24 * 3_600_000;

/// Units of time, in milliseconds.
const UNITS: [(&str, u64); 6] = [
    ("d", 24 * 3_600_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
    ("", 1000),
];

impl Limit {
    /// The name of the resource.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Limit::Memory(_) => "memory",
            Limit::Pids(_) => "pids",
            Limit::Cpu(_) => "cpu",
            Limit::Time(_) => "time",
        }
    }

    fn same_resource(self, other: Limit) -> bool {
        self.resource() == other.resource()
    }

    /// Whether this limit allows more than `other`, which is on the same resource.
    fn allows_more_than(self, other: Limit) -> bool {
        match (self, other) {
            (Limit::Memory(one), Limit::Memory(other)) => one > other,
            (Limit::Pids(one), Limit::Pids(other)) => one > other,
            (Limit::Cpu(one), Limit::Cpu(other)) => one > other,
            (Limit::Time(one), Limit::Time(other)) => one > other,
            _ => false,
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((resource, value)) = text.split_once('=') else {
            return Err(format!(
                "`{text}` is no limit: write memory=SIZE, pids=N, cpu=CORES or time=DURATION"
            ));
        };
        let wrong = |wanted: &str| format!("`{value}` is no limit on {resource}: write {wanted}");
        match resource {
            "memory" => {
                let size = crate::size::size(value).ok();
                let size = size.filter(|size| *size >= MEMORY_MIN);
                size.map(Limit::Memory)
                    .ok_or_else(|| wrong("a size of 1M or more, as 512M or 2G"))
            }
            "pids" => {
                let count = value.parse().ok().filter(|count| PIDS.contains(count));
                count
                    .map(Limit::Pids)
                    .ok_or_else(|| wrong("a number of processes from 2 to 4000000"))
            }
            "cpu" => {
                let cores = thousandths(value, 1000).filter(|cores| CPU.contains(cores));
                let cores = cores.and_then(|cores| u32::try_from(cores).ok());
                cores
                    .map(Limit::Cpu)
                    .ok_or_else(|| wrong("a number of cores from 0.01 to 1000, as 0.5 or 2"))
            }
            "time" => duration(value)
                .map(Limit::Time)
                .ok_or_else(|| wrong("a time of up to 366d, as 90s, 1.5m, 2h or 500ms")),
            _ => Err(format!(
                "`{resource}` cannot be limited: write memory, pids, cpu or time"
            )),
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let time = thousandths(number, *unit)?;
    TIME.contains(&time).then(|| Duration::from_millis(time))
}

/// A decimal number times `factor`; none if the result is not a whole number.
fn thousandths(text: &str, factor: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let scale = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = part.parse::<u64>().ok()?.checked_mul(factor)?;
    if part % scale != 0 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    whole.checked_add(part / scale)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = self.resource();
        match self {
            Limit::Memory(size) => {
                let units = [(30, "G"), (20, "M"), (10, "K"), (0, "")];
                let fits = |(power, _): &&(u32, &str)| size.is_multiple_of(1 << power);
                let (power, unit) = units.iter().find(fits).unwrap_or(&(0, ""));
                write!(f, "{resource}={}{unit}", size >> power)
            }
            Limit::Pids(count) => write!(f, "{resource}={count}"),
            Limit::Cpu(cores) => write!(f, "{resource}={}", f64::from(*cores) / 1000.0),
            Limit::Time(time) => {
                let millis = time.as_millis();
                let fits = |(_, unit): &&(&str, u64)| millis.is_multiple_of(u128::from(*unit));
                let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("ms", 1));
                write!(f, "{resource}={}{name}", millis / u128::from(*unit))
            }
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The limits of a view, at most one for each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Limits(Vec<Limit>);

impl Limits {
    /// Adds limits (R1).
    pub fn add(&mut self, more: &[Limit]) {
        for limit in more {
            let known = self.0.iter_mut().find(|known| known.same_resource(*limit));
            match known {
                Some(known) if known.allows_more_than(*limit) => *known = *limit,
                Some(_) => {}
                None => self.0.push(*limit),
            }
        }
    }

    /// The first limit that allows more than the one in `kept`, and that one.
    #[must_use]
    pub fn loosened(&self, kept: &Limits) -> Option<(Limit, Limit)> {
        let pairs = self.0.iter().flat_map(|limit| {
            let kept = kept.0.iter().find(|kept| kept.same_resource(*limit));
            kept.map(|kept| (*limit, *kept))
        });
        pairs
            .into_iter()
            .find(|(limit, kept)| limit.allows_more_than(*kept))
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Limit] {
        &self.0
    }

    /// Processes and threads at a time.
    pub(crate) fn pids(&self) -> Option<u32> {
        self.0.iter().find_map(|limit| match limit {
            Limit::Pids(count) => Some(*count),
            _ => None,
        })
    }

    /// Time from the start of the command to its end.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.0.iter().find_map(|limit| match limit {
            Limit::Time(time) => Some(*time),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Limits};
    use std::time::Duration;

    fn limits(texts: &[&str]) -> Limits {
        let mut limits = Limits::default();
        let all: Vec<Limit> = texts.iter().map(|text| text.parse().unwrap()).collect();
        limits.add(&all);
        limits
    }

    #[test]
    fn limits_are_parsed_with_units_and_printed_to_be_parsed_again() {
        let time = |millis| Limit::Time(Duration::from_millis(millis));
        for (text, limit, printed) in [
            ("memory=1536M", Limit::Memory(1536 << 20), "memory=1536M"),
            ("memory=2097153", Limit::Memory(2_097_153), "memory=2097153"),
            ("pids=100", Limit::Pids(100), "pids=100"),
            ("cpu=0.5", Limit::Cpu(500), "cpu=0.5"),
            ("cpu=2", Limit::Cpu(2000), "cpu=2"),
            ("cpu=1.125", Limit::Cpu(1125), "cpu=1.125"),
            ("time=90", time(90_000), "time=90s"),
            ("time=1.5m", time(90_000), "time=90s"),
            ("time=0.25s", time(250), "time=250ms"),
            ("time=20m", time(1_200_000), "time=20m"),
            ("time=7200s", time(7_200_000), "time=2h"),
            ("time=48h", time(172_800_000), "time=2d"),
            ("time=1501ms", time(1501), "time=1501ms"),
        ] {
            let read: Limit = text.parse().unwrap();
            assert_eq!(
                (read, read.to_string().as_str()),
                (limit, printed),
                "{text}"
            );
            assert_eq!(printed.parse(), Ok(limit));
        }
    }

    #[test]
    fn invalid_limits_are_refused_with_the_valid_form() {
        for (text, said) in [
            ("memory", "`memory` is no limit: write memory=SIZE"),
            ("memory=", "write a size"),
            ("memory=1K", "1M or more"),
            ("memory=99999999T", "write a size"),
            ("pids=1", "from 2 to 4000000"),
            ("pids=-3", "from 2 to 4000000"),
            ("pids=4000001", "from 2 to 4000000"),
            ("cpu=0", "from 0.01"),
            ("cpu=0.0005", "from 0.01"),
            ("cpu=.5", "from 0.01"),
            ("cpu=1e3", "from 0.01"),
            ("cpu=0.00000000000000000000000001", "from 0.01"),
            ("time=0", "write a time"),
            ("time=5y", "write a time"),
            ("time=367d", "write a time"),
            ("time=99999999999999999999s", "write a time"),
            ("disk=1G", "`disk` cannot be limited"),
        ] {
            let why = text.parse::<Limit>().unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }

    #[test]
    fn smaller_of_two_limits_holds_and_a_larger_one_is_reported() {
        let both = limits(&["pids=9", "time=5s", "pids=7", "time=8s"]);
        assert_eq!(both, limits(&["pids=7", "time=5s"]));
        let kept = limits(&["pids=7", "memory=1M"]);
        assert_eq!(
            limits(&["pids=7", "cpu=4", "time=5s"]).loosened(&kept),
            None
        );
        let wider = limits(&["time=5s", "pids=8"]).loosened(&kept);
        assert_eq!(wider, Some((Limit::Pids(8), Limit::Pids(7))));
    }
}
