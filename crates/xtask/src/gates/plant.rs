// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the faults that must turn a gate red, each with the text in the gate's report that shows
//! it.

use super::Gate;

/// A fault, the gate that must see it, and how it reports it.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Its name for `--plant`, here and in the `openpath-bench` program.
    pub name: &'static str,
    /// The gate.
    pub gate: Gate,
    /// The rows or pairs with the fault.
    pub rows: &'static str,
    /// Text in the gate's report that identifies the fault.
    pub sign: &'static str,
}

const PAIR: &str = "open-close | open-close, same d1";

const fn in_lines(name: &'static str, sign: &'static str) -> Planted {
    Planted {
        name,
        gate: Gate::Lines,
        rows: PAIR,
        sign,
    }
}

const fn in_rows(name: &'static str, gate: Gate, rows: &'static str) -> Planted {
    Planted {
        name,
        gate,
        rows,
        sign: "open-close d1",
    }
}

/// All faults. A fault that two gates see is listed twice.
pub const PLANTS: &[Planted] = &[
    in_rows("shared-counter", Gate::Arena, "shared-stores open-close d1"),
    in_lines("shared-counter", "commit_fault"),
    in_rows("visited-bit", Gate::Arena, "shared-stores open-close d1"),
    in_lines("visited-bit", "commit_fault"),
    in_lines("false-sharing", "commit_fault"),
    in_lines("adjacent-line", "0 lines of 64"),
    in_lines("remote-free", "free"),
    in_rows("allocation", Gate::Allocations, "allocations open-close d1"),
    in_rows(
        "five-percent",
        Gate::Instructions,
        "instructions open-close d1",
    ),
    in_rows("locked", Gate::Locked, "locked open-close d1"),
];
