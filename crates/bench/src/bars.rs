// SPDX-License-Identifier: MIT OR Apache-2.0
//! The performance contract as data: one line a row, the least and what we are after.
//!
//! A row that is measured but not in this table is for information.

use serde::Serialize;

/// Which side of the bar is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sense {
    /// The value has to reach the bar (a ratio host / ours, a scaling).
    AtLeast,
    /// The value has to stay under the bar (a cost growth, a count).
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
    /// The row's name, as `--filter` sees it.
    pub(crate) name: &'static str,
    /// Which side is good.
    pub(crate) sense: Sense,
    /// The least.
    pub(crate) bar: f64,
    /// What we are after.
    pub(crate) goal: f64,
}

const fn least(name: &'static str, bar: f64, goal: f64) -> Bar {
    Bar {
        name,
        sense: Sense::AtLeast,
        bar,
        goal,
    }
}

const fn most(name: &'static str, bar: f64, goal: f64) -> Bar {
    Bar {
        name,
        sense: Sense::AtMost,
        bar,
        goal,
    }
}

/// The rows of `bench walk`: times, as ratios.
pub(crate) const WALK: &[Bar] = &[
    least("failed-open ext4 d1", 12.0, 20.0),
    least("failed-open ext4 d5", 15.0, 30.0),
    least("failed-open ext4 d16", 25.0, 50.0),
    least("failed-open tmpfs d1", 25.0, 45.0),
    least("failed-open tmpfs d5", 25.0, 55.0),
    least("failed-open tmpfs d16", 30.0, 65.0),
    least("open-close d1", 10.0, 16.0),
    least("open-close d5", 12.0, 20.0),
    least("open-close d16", 16.0, 28.0),
    least("open-close shared-table d1", 8.0, 12.0),
    least("open-close shared-table d5", 9.0, 15.0),
    least("open-close shared-table d16", 13.0, 20.0),
    least("creat-existing d1", 8.0, 12.0),
    least("creat-existing d5", 9.0, 15.0),
    least("creat-existing d16", 13.0, 20.0),
    least("stat d1", 8.0, 16.0),
    least("stat d5", 10.0, 20.0),
    least("stat d16", 14.0, 30.0),
    most("depth-16-over-1 failed-open", 2.5, 1.7),
    most("depth-16-over-1 open-close", 2.5, 1.7),
    most("depth-16-over-1 stat", 2.5, 1.7),
    least("cold open-close d1", 2.0, 2.5),
    least("cold open-close d5", 3.0, 5.0),
    least("cold open-close d16", 6.0, 12.0),
    least("two-threads same-file", 1.8, 1.9),
    most("big-dir rename", 1.5, 1.1),
    most("big-dir chmod", 1.5, 1.1),
];

/// The rows of `bench cached`.
pub(crate) const CACHED: &[Bar] = &[
    least(
        "ring 33% cached, host, 1 at once, always offloaded",
        1.1,
        1.4,
    ),
    least(
        "ring 89% cached, host, 1 at once, always offloaded",
        1.9,
        5.0,
    ),
    least(
        "ring 100% cached, host, 1 at once, always offloaded",
        2.9,
        20.0,
    ),
    least(
        "ring 33% cached, mem, 1 at once, always offloaded",
        1.1,
        1.4,
    ),
    least(
        "ring 89% cached, mem, 1 at once, always offloaded",
        1.9,
        5.0,
    ),
    least(
        "ring 100% cached, mem, 1 at once, always offloaded",
        2.9,
        20.0,
    ),
    least("future 100% cached, host, tokio::fs", 5.0, 20.0),
    most("future 100% cached, host, over the call", 2.0, 1.3),
];

/// The rows of `bench run`.
pub(crate) const PROGRAMS: &[Bar] = &[
    most("run compile", 1.1, 1.02),
    most("run tar", 3.0, 2.0),
    least("run geometric mean, fuse-overlayfs", 1.5, 3.0),
    least("run geometric mean, proot", 2.0, 3.0),
];

/// The rows of `bench fd`.
pub(crate) const FD: &[Bar] = &[most("fd-churn 1M over 10", 6.0, 4.0)];

/// The rows of `bench counts`: what one warm operation takes, without a clock.
pub(crate) const COUNTS: &[Bar] = &[
    most("allocations failed-open d1", 0.0, 0.0),
    most("allocations failed-open d16", 0.0, 0.0),
    most("allocations open-close d1", 0.0, 0.0),
    most("allocations open-close d16", 0.0, 0.0),
    most("allocations creat-existing d1", 0.0, 0.0),
    most("allocations stat d1", 0.0, 0.0),
    most("instructions failed-open d1", 250.0, 170.0),
    most("instructions failed-open d16", 600.0, 370.0),
    most("instructions open-close d1", 700.0, 450.0),
    most("instructions open-close d16", 1000.0, 650.0),
    most("locked open-close d1", 2.0, 0.0),
    most("locked open-close shared-table d1", 5.0, 3.0),
    most("shared-stores failed-open d1", 0.0, 0.0),
    most("shared-stores failed-open d16", 0.0, 0.0),
    most("shared-stores open-close d1", 0.0, 0.0),
    most("shared-stores open-close d16", 0.0, 0.0),
    most("shared-stores creat-existing d1", 0.0, 0.0),
    most("shared-stores stat d1", 0.0, 0.0),
    most("shared-stores denied-open d5", 0.0, 0.0),
    most("shared-stores open-close symlink d5", 0.0, 0.0),
    most("shared-stores open-close dotdot d5", 0.0, 0.0),
    most("shared-stores open-close mount d5", 0.0, 0.0),
    most("bytes-per-dentry", 256.0, 160.0),
];

/// The rows of the commands that reproduce a change of Linux, and of very many descriptors.
pub(crate) const SEEDS: &[Bar] = &[
    least("openneg ENOENT ext4", 12.0, 20.0),
    least("openneg ENOENT tmpfs", 25.0, 45.0),
    least("same-file O_RDONLY, own tables, 2T over 1T", 1.8, 1.9),
    least("same-file O_RDWR, own tables, 2T over 1T", 1.8, 1.9),
    least("same-file O_CREAT|O_RDWR, own tables, 2T over 1T", 1.8, 1.9),
    most("opens of a file, lines written", 0.0, 0.0),
    most("opens of a locked file, lines written", 0.0, 0.0),
    least("locks posix, tmpfs", 5.0, 10.0),
    least("locks flock, tmpfs", 5.0, 10.0),
    most("create-existing 64 absolute, root stores", 0.0, 0.0),
    most(
        "create-existing 64 absolute, locked first, root stores",
        0.0,
        0.0,
    ),
    least(
        "create-existing 64 absolute, root counted, locked first, root stores",
        1.0,
        1.0,
    ),
    least("create-existing 64 absolute, 1T, tmpfs", 8.0, 12.0),
    least("create-existing 64 absolute, 2T, tmpfs", 8.0, 12.0),
    least("create-existing 64 absolute, 2T, switch", 0.9, 1.0),
    most("create-existing 1024 absolute, root stores", 0.0, 0.0),
    least("create-existing 1024 absolute, 1T, tmpfs", 8.0, 12.0),
    least("create-existing 1024 absolute, 2T, tmpfs", 8.0, 12.0),
    most("many table open p99.9", 10_000.0, 1_000.0),
    most("many table dup p99.9", 10_000.0, 1_000.0),
    most("many table close p99.9", 10_000.0, 1_000.0),
    most("many table churn open p99.9", 10_000.0, 1_000.0),
    most("many table churn close p99.9", 10_000.0, 1_000.0),
    most("many tasks open p99.9", 10_000.0, 1_000.0),
    most("many tasks dup p99.9", 10_000.0, 1_000.0),
    most("many tasks close p99.9", 10_000.0, 1_000.0),
];

/// The rows of `bench wasi`.
pub(crate) const WASI: &[Bar] = &[
    least("wasi open-close d1, default", 20.0, 40.0),
    least("wasi open-close d1, blocking", 5.0, 10.0),
    least("wasi open-close d5, default", 20.0, 40.0),
    least("wasi open-close d5, blocking", 5.0, 10.0),
    least("wasi open-close d10, default", 20.0, 40.0),
    least("wasi open-close d10, blocking", 5.0, 10.0),
    least("wasi failed-open d1, default", 20.0, 40.0),
    least("wasi failed-open d1, blocking", 5.0, 10.0),
    least("wasi failed-open d5, default", 20.0, 40.0),
    least("wasi failed-open d5, blocking", 5.0, 10.0),
    least("wasi failed-open d10, default", 20.0, 40.0),
    least("wasi failed-open d10, blocking", 5.0, 10.0),
    least("wasi stat d1, default", 5.0, 20.0),
    least("wasi stat d1, blocking", 5.0, 10.0),
    least("wasi stat d5, default", 5.0, 20.0),
    least("wasi stat d5, blocking", 5.0, 10.0),
    least("wasi stat d10, default", 5.0, 20.0),
    least("wasi stat d10, blocking", 5.0, 10.0),
    least("wasi readdir d1, default", 5.0, 10.0),
    least("wasi readdir d1, blocking", 5.0, 10.0),
    least("wasi readdir d5, default", 5.0, 10.0),
    least("wasi readdir d5, blocking", 5.0, 10.0),
    least("wasi readdir d10, default", 5.0, 10.0),
    least("wasi readdir d10, blocking", 5.0, 10.0),
    least("wasi whole program, default", 1.0, 2.0),
    least("wasi whole program, blocking", 1.0, 1.5),
    most("wasi guests, directory each, bytes", 16384.0, 8192.0),
    most("wasi guests, overlay each, bytes", 16384.0, 8192.0),
    most("wasi guests, directory each, common stores", 0.0, 0.0),
    most("wasi guests, overlay each, common stores", 0.0, 0.0),
];

fn all() -> impl Iterator<Item = &'static Bar> {
    let rest = FD
        .iter()
        .chain(COUNTS)
        .chain(SEEDS)
        .chain(PROGRAMS)
        .chain(WASI);
    WALK.iter().chain(CACHED).chain(rest)
}

/// The contract's line for a row, if it has one.
pub(crate) fn find(name: &str) -> Option<&'static Bar> {
    all().find(|bar| bar.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_goals_no_easier_than_bars() {
        let all: Vec<&Bar> = all().collect();
        for (i, bar) in all.iter().enumerate() {
            assert!(bar.sense.holds(bar.goal, bar.bar), "{}", bar.name);
            assert!(
                all[..i].iter().all(|other| other.name != bar.name),
                "{}",
                bar.name
            );
        }
    }

    #[test]
    fn senses_point_the_right_way() {
        assert!(Sense::AtLeast.holds(2.0, 2.0) && !Sense::AtLeast.holds(1.9, 2.0));
        assert!(Sense::AtMost.holds(2.0, 2.0) && !Sense::AtMost.holds(2.1, 2.0));
    }
}
