// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the wrong rules that the oracle must notice: each is a mistake that a developer could
//! make.

mod acls;
mod descriptors;
mod locks;
mod mounts;
mod names;

/// Wrong rules of one part of the core.
pub(super) struct Set {
    /// Its name for `--set`.
    pub(super) name: &'static str,
    /// The parts of the oracle that look for them, the fastest first.
    pub(super) parts: &'static [&'static str],
    /// The rules.
    pub(super) mutants: &'static [Mutant],
}

/// All sets.
pub(super) const SETS: &[Set] = &[
    Set {
        name: "names",
        parts: &["golden", "random"],
        mutants: names::ALL,
    },
    Set {
        name: "acls",
        parts: &["golden", "random"],
        mutants: acls::ALL,
    },
    Set {
        name: "descriptors",
        parts: &["golden", "random"],
        mutants: descriptors::ALL,
    },
    Set {
        name: "mounts",
        parts: &["golden", "mounts"],
        mutants: mounts::ALL,
    },
    Set {
        name: "locks",
        parts: &["locks"],
        mutants: locks::ALL,
    },
];

/// A wrong rule, as a change of one place in the source.
pub(super) struct Mutant {
    /// Its name for `--only`.
    pub(super) name: &'static str,
    /// The wrong rule in words.
    pub(super) wrong: &'static str,
    /// The file to change, below `crates/vfs/src`.
    pub(super) file: &'static str,
    /// The right text, which the file has once.
    pub(super) right: &'static str,
    /// The text that replaces it.
    pub(super) planted: &'static str,
}
