// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the performance contract as data: one line per row, with its bar and its goal.
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

/// One row of the contract.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) name: &'static str,
    pub(crate) sense: Sense,
    /// The value that must be reached.
    pub(crate) bar: f64,
    /// The value that we aim at.
    pub(crate) goal: f64,
}

/// Lists of rows: `"NAME" >= LEAST, GOAL;` or `"NAME" <= MOST, GOAL;`.
macro_rules! contract {
    ($($(#[$doc:meta])* $list:ident {
        $($name:literal $sense:tt $bar:literal, $goal:literal;)*
    })*) => {
        $(
            $(#[$doc])*
            pub(crate) const $list: &[Bar] = &[$(Bar {
                name: $name,
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
        "depth-16-over-1 failed-open" <= 2.5, 1.7;
        "depth-16-over-1 open-close" <= 2.5, 1.7;
        "depth-16-over-1 stat" <= 2.5, 1.7;
        "cold open-close d1" >= 2.0, 2.5;
        "cold open-close d5" >= 3.0, 5.0;
        "cold open-close d16" >= 6.0, 12.0;
        "two-threads same-file" >= 1.8, 1.9;
        "big-dir rename" <= 1.5, 1.1;
        "big-dir chmod" <= 1.5, 1.1;
    }
    CACHED {
        "ring 33% cached, host, 1 at once, always offloaded" >= 1.1, 1.4;
        "ring 89% cached, host, 1 at once, always offloaded" >= 1.9, 5.0;
        "ring 100% cached, host, 1 at once, always offloaded" >= 2.9, 20.0;
        "ring 33% cached, mem, 1 at once, always offloaded" >= 1.1, 1.4;
        "ring 89% cached, mem, 1 at once, always offloaded" >= 1.9, 5.0;
        "ring 100% cached, mem, 1 at once, always offloaded" >= 2.9, 20.0;
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
        "allocations failed-open d1" <= 0.0, 0.0;
        "allocations failed-open d16" <= 0.0, 0.0;
        "allocations open-close d1" <= 0.0, 0.0;
        "allocations open-close d16" <= 0.0, 0.0;
        "allocations creat-existing d1" <= 0.0, 0.0;
        "allocations stat d1" <= 0.0, 0.0;
        "instructions failed-open d1" <= 250.0, 170.0;
        "instructions failed-open d16" <= 600.0, 370.0;
        "instructions open-close d1" <= 700.0, 450.0;
        "instructions open-close d16" <= 1000.0, 650.0;
        "locked open-close d1" <= 2.0, 0.0;
        "locked open-close shared-table d1" <= 5.0, 3.0;
        "shared-stores failed-open d1" <= 0.0, 0.0;
        "shared-stores failed-open d16" <= 0.0, 0.0;
        "shared-stores open-close d1" <= 0.0, 0.0;
        "shared-stores open-close d16" <= 0.0, 0.0;
        "shared-stores creat-existing d1" <= 0.0, 0.0;
        "shared-stores stat d1" <= 0.0, 0.0;
        "shared-stores denied-open d5" <= 0.0, 0.0;
        "shared-stores open-close symlink d5" <= 0.0, 0.0;
        "shared-stores open-close dotdot d5" <= 0.0, 0.0;
        "shared-stores open-close mount d5" <= 0.0, 0.0;
        "bytes-per-dentry" <= 256.0, 160.0;
    }
    FAILED_OPEN {
        "openneg ENOENT ext4" >= 12.0, 20.0;
        "openneg ENOENT tmpfs" >= 25.0, 45.0;
    }
    SAME_FILE {
        "same-file O_RDONLY, own tables, 2T over 1T" >= 1.8, 1.9;
        "same-file O_RDWR, own tables, 2T over 1T" >= 1.8, 1.9;
        "same-file O_CREAT|O_RDWR, own tables, 2T over 1T" >= 1.8, 1.9;
    }
    LOCKS {
        "opens of a file, lines written" <= 0.0, 0.0;
        "opens of a locked file, lines written" <= 0.0, 0.0;
        "locks posix, tmpfs" >= 5.0, 10.0;
        "locks flock, tmpfs" >= 5.0, 10.0;
    }
    CREATE {
        "create-existing 64 absolute, root stores" <= 0.0, 0.0;
        "create-existing 64 absolute, locked first, root stores" <= 0.0, 0.0;
        "create-existing 64 absolute, root counted, locked first, root stores" >= 1.0, 1.0;
        "create-existing 64 absolute, 1T, tmpfs" >= 8.0, 12.0;
        "create-existing 64 absolute, 2T, tmpfs" >= 8.0, 12.0;
        "create-existing 64 absolute, 2T, switch" >= 0.9, 1.0;
        "create-existing 1024 absolute, root stores" <= 0.0, 0.0;
        "create-existing 1024 absolute, 1T, tmpfs" >= 8.0, 12.0;
        "create-existing 1024 absolute, 2T, tmpfs" >= 8.0, 12.0;
    }
    MANY {
        "many table open p99.9" <= 10_000.0, 1_000.0;
        "many table dup p99.9" <= 10_000.0, 1_000.0;
        "many table close p99.9" <= 10_000.0, 1_000.0;
        "many table churn open p99.9" <= 10_000.0, 1_000.0;
        "many table churn close p99.9" <= 10_000.0, 1_000.0;
        "many tasks open p99.9" <= 10_000.0, 1_000.0;
        "many tasks dup p99.9" <= 10_000.0, 1_000.0;
        "many tasks close p99.9" <= 10_000.0, 1_000.0;
    }
    WASI {
        "wasi open-close d1, default" >= 20.0, 40.0;
        "wasi open-close d1, blocking" >= 5.0, 10.0;
        "wasi open-close d5, default" >= 20.0, 40.0;
        "wasi open-close d5, blocking" >= 5.0, 10.0;
        "wasi open-close d10, default" >= 20.0, 40.0;
        "wasi open-close d10, blocking" >= 5.0, 10.0;
        "wasi failed-open d1, default" >= 20.0, 40.0;
        "wasi failed-open d1, blocking" >= 5.0, 10.0;
        "wasi failed-open d5, default" >= 20.0, 40.0;
        "wasi failed-open d5, blocking" >= 5.0, 10.0;
        "wasi failed-open d10, default" >= 20.0, 40.0;
        "wasi failed-open d10, blocking" >= 5.0, 10.0;
        "wasi stat d1, default" >= 5.0, 20.0;
        "wasi stat d1, blocking" >= 5.0, 10.0;
        "wasi stat d5, default" >= 5.0, 20.0;
        "wasi stat d5, blocking" >= 5.0, 10.0;
        "wasi stat d10, default" >= 5.0, 20.0;
        "wasi stat d10, blocking" >= 5.0, 10.0;
        "wasi readdir d1, default" >= 5.0, 10.0;
        "wasi readdir d1, blocking" >= 5.0, 10.0;
        "wasi readdir d5, default" >= 5.0, 10.0;
        "wasi readdir d5, blocking" >= 5.0, 10.0;
        "wasi readdir d10, default" >= 5.0, 10.0;
        "wasi readdir d10, blocking" >= 5.0, 10.0;
        "wasi whole program, default" >= 1.0, 2.0;
        "wasi whole program, blocking" >= 1.0, 1.5;
        "wasi guests, directory each, bytes" <= 16384.0, 8192.0;
        "wasi guests, overlay each, bytes" <= 16384.0, 8192.0;
        "wasi guests, directory each, common stores" <= 0.0, 0.0;
        "wasi guests, overlay each, common stores" <= 0.0, 0.0;
    }
}

/// The contract's line for a row, if it has one.
pub(crate) fn find(name: &str) -> Option<&'static Bar> {
    ALL.iter().copied().flatten().find(|bar| bar.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_goals_at_least_bars() {
        let all: Vec<&Bar> = ALL.iter().copied().flatten().collect();
        for (i, bar) in all.iter().enumerate() {
            let name = bar.name;
            assert!(bar.sense.holds(bar.goal, bar.bar), "{name}");
            assert!(all[..i].iter().all(|other| other.name != name), "{name}");
        }
    }
}
