// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench same-file --locks` with a filter: the rows that it names, and nothing else is built.

use openpath_bench::Ask;
use openpath_bench::harness::{Effort, silent};
use openpath_bench::locked;
use openpath_bench::sys::CountingAlloc;
use std::time::Duration;

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc;

/// The names of the rows that contain this, with the number of their first side.
fn rows(filter: &str) -> Vec<(String, Option<f64>)> {
    let effort = Effort {
        rounds: 1,
        time: Duration::ZERO,
        tell: silent,
    };
    let filter = Some(filter.to_owned());
    let rows = locked::run(&Ask { effort, filter }).expect("rows");
    rows.into_iter().map(|row| (row.name, row.ours)).collect()
}

#[test]
fn a_filter_may_name_any_part_of_a_row() {
    let [plain, locked] = ["a file", "a locked file"].map(|of| format!("opens of {of}"));
    let name = |of: &str, by: &str| format!("{of}{by}, lines written");
    let written = rows("lines written");
    let names: Vec<&str> = written.iter().map(|(name, _)| &**name).collect();
    let all = [
        (&plain, ""),
        (&plain, ", flag off"),
        (&locked, ""),
        (&locked, ", flag off"),
    ];
    assert_eq!(names, all.map(|(of, by)| name(of, by)));
    assert!(
        written.iter().all(|(_, count)| *count == Some(0.0)),
        "{written:?}"
    );
    assert_eq!(rows("file, lines read").len(), 2);
    assert_eq!(rows("no row at all"), []);
}
