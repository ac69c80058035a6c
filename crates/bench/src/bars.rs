// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the performance contract as data: one line for rows with the same bar and goal.
//!
//! A measured row that is not in this table is for information.

use serde::Serialize;

/// Which side of the bar is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sense {
    /// The value must reach the bar (a ratio host / ours, a scaling).
    AtLeast,
    /// The value must stay under the bar (a cost growth, a count).
    AtMost,
}

impl Sense {
    /// Whether `value` is on the good side of `limit`.
    pub(crate) fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Sense::AtLeast => value >= limit,
            Sense::AtMost => value <= limit,
        }
    }
}

/// A line of the contract.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    /// The names of its rows: `{a,b}` stands for either.
    pattern: &'static str,
    pub(crate) sense: Sense,
    /// The value that must be reached.
    pub(crate) bar: f64,
    /// The value that we aim at.
    pub(crate) goal: f64,
}

impl Bar {
    /// The names of its rows.
    pub(crate) fn names(&self) -> Vec<String> {
        expand(self.pattern)
    }
}

fn expand(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (choices, after) = rest.split_once('}').unwrap_or((rest, ""));
    let ends = expand(after);
    let with = |choice| ends.iter().map(move |end| format!("{before}{choice}{end}"));
    choices.split(',').flat_map(with).collect()
}

/// Lists of lines: `"ROWS" >= LEAST, GOAL;` or `"ROWS" <= MOST, GOAL;`.
macro_rules! contract {
    ($($(#[$doc:meta])* $list:ident {
        $($pattern:literal $sense:tt $bar:literal, $goal:literal;)*
    })*) => {
        $(
            $(#[$doc])*
            pub(crate) const $list: &[Bar] = &[$(Bar {
                pattern: $pattern,
                sense: contract!(@ $sense),
                bar: $bar,
                goal: $goal,
            },)*];
        )*
        const ALL: &[&[Bar]] = &[$($list),*];
    };
    (@ >=) => { Sense::AtLeast };
    (@ <=) => { Sense::AtMost };
}

contract! {
    /// The rows of `walk`: times, as ratios.
    WALK {
        "failed-open ext4 d1" >= 12.0, 20.0;
        "failed-open ext4 d5" >= 15.0, 30.0;
        "failed-open ext4 d16" >= 25.0, 50.0;
        "failed-open tmpfs d1" >= 25.0, 45.0;
        "failed-open tmpfs d5" >= 25.0, 55.0;
        "failed-open tmpfs d16" >= 30.0, 65.0;
        "open-close d1" >= 10.0, 16.0;
        "open-close d5" >= 12.0, 20.0;
        "open-close d16" >= 16.0, 28.0;
        "open-close shared-table d1" >= 8.0, 12.0;
        "open-close shared-table d5" >= 9.0, 15.0;
        "open-close shared-table d16" >= 13.0, 20.0;
        "creat-existing d1" >= 8.0, 12.0;
        "creat-existing d5" >= 9.0, 15.0;
        "creat-existing d16" >= 13.0, 20.0;
        "stat d1" >= 8.0, 16.0;
        "stat d5" >= 10.0, 20.0;
        "stat d16" >= 14.0, 30.0;
        "depth-16-over-1 {failed-open,open-close,stat}" <= 2.5, 1.7;
        "cold open-close d1" >= 2.0, 2.5;
        "cold open-close d5" >= 3.0, 5.0;
        "cold open-close d16" >= 6.0, 12.0;
        "two-threads same-file" >= 1.8, 1.9;
        "big-dir {rename,chmod}" <= 1.5, 1.1;
    }
    CACHED {
        "ring 33% cached, {host,mem}, 1 at once, always offloaded" >= 1.1, 1.4;
        "ring 89% cached, {host,mem}, 1 at once, always offloaded" >= 1.9, 5.0;
        "ring 100% cached, {host,mem}, 1 at once, always offloaded" >= 2.9, 20.0;
        "future 100% cached, host, tokio::fs" >= 5.0, 20.0;
        "future 100% cached, host, over the call" <= 2.0, 1.3;
    }
    PROGRAMS {
        "run compile" <= 1.1, 1.02;
        "run tar" <= 3.0, 2.0;
        "run geometric mean, fuse-overlayfs" >= 1.5, 3.0;
        "run geometric mean, proot" >= 2.0, 3.0;
    }
    FD {
        "fd-churn 1M over 10" <= 6.0, 4.0;
    }
    /// The rows of `counts`: the cost of one warm operation, without a clock.
    COUNTS {
        "allocations {failed-open,open-close} d{1,16}" <= 0.0, 0.0;
        "allocations {creat-existing,stat} d1" <= 0.0, 0.0;
        "instructions failed-open d1" <= 250.0, 170.0;
        "instructions failed-open d16" <= 600.0, 370.0;
        "instructions open-close d1" <= 700.0, 450.0;
        "instructions open-close d16" <= 1000.0, 650.0;
        "locked open-close d1" <= 2.0, 0.0;
        "locked open-close shared-table d1" <= 5.0, 3.0;
        "shared-stores {failed-open,open-close} d{1,16}" <= 0.0, 0.0;
        "shared-stores {creat-existing,stat} d1" <= 0.0, 0.0;
        "shared-stores {denied-open,open-close symlink} d5" <= 0.0, 0.0;
        "shared-stores open-close {dotdot,mount} d5" <= 0.0, 0.0;
        "bytes-per-dentry" <= 256.0, 160.0;
    }
    FAILED_OPEN {
        "openneg ENOENT ext4" >= 12.0, 20.0;
        "openneg ENOENT tmpfs" >= 25.0, 45.0;
    }
    SAME_FILE {
        "same-file {O_RDONLY,O_RDWR,O_CREAT|O_RDWR}, own tables, 2T over 1T" >= 1.8, 1.9;
    }
    LOCKS {
        "opens of {a file,a locked file}, lines written" <= 0.0, 0.0;
        "locks {posix,flock}, tmpfs" >= 5.0, 10.0;
    }
    CREATE {
        "create-existing {64,1024} absolute, root stores" <= 0.0, 0.0;
        "create-existing 64 absolute, locked first, root stores" <= 0.0, 0.0;
        "create-existing 64 absolute, root counted, locked first, root stores" >= 1.0, 1.0;
        "create-existing {64,1024} absolute, {1T,2T}, tmpfs" >= 8.0, 12.0;
        "create-existing 64 absolute, 2T, switch" >= 0.9, 1.0;
    }
    MANY {
        "many table {open,dup,close,churn open,churn close} p99.9" <= 10_000.0, 1_000.0;
        "many tasks {open,dup,close} p99.9" <= 10_000.0, 1_000.0;
    }
    WASI {
        "wasi {open-close,failed-open} d{1,5,10}, default" >= 20.0, 40.0;
        "wasi {open-close,failed-open} d{1,5,10}, blocking" >= 5.0, 10.0;
        "wasi stat d{1,5,10}, default" >= 5.0, 20.0;
        "wasi stat d{1,5,10}, blocking" >= 5.0, 10.0;
        "wasi readdir d{1,5,10}, {default,blocking}" >= 5.0, 10.0;
        "wasi whole program, default" >= 1.0, 2.0;
        "wasi whole program, blocking" >= 1.0, 1.5;
        "wasi guests, {directory,overlay} each, bytes" <= 16384.0, 8192.0;
        "wasi guests, {directory,overlay} each, common stores" <= 0.0, 0.0;
    }
}

/// The contract's line for a row, if it has one.
pub(crate) fn find(name: &str) -> Option<&'static Bar> {
    let mut bars = ALL.iter().copied().flatten();
    bars.find(|bar| bar.names().iter().any(|known| known == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_goals_at_least_bars() {
        let bars = || ALL.iter().copied().flatten();
        assert!(bars().all(|bar| bar.sense.holds(bar.goal, bar.bar)));
        let mut names: Vec<String> = bars().flat_map(Bar::names).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(expand("a {b,c d}{1,}"), ["a b1", "a b", "a c d1", "a c d"]);
    }
}
