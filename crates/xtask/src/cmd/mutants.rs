// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wrong rules that the oracle must notice: each is one that somebody could have written.

mod acls;
mod descriptors;
mod locks;
mod mounts;
mod names;

/// Wrong rules of one part of the core.
pub(super) struct Set {
    /// What `--set` calls it.
    pub(super) name: &'static str,
    /// The parts of the oracle that look for them, the quickest first.
    pub(super) parts: &'static [&'static str],
    /// The rules.
    pub(super) mutants: &'static [Mutant],
}

/// All of them.
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
    /// What `--only` calls it.
    pub(super) name: &'static str,
    /// What is wrong.
    pub(super) wrong: &'static str,
    /// The file it is planted in, below `crates/vfs/src`.
    pub(super) file: &'static str,
    /// What stands there, once.
    pub(super) right: &'static str,
    /// What is put in its place.
    pub(super) planted: &'static str,
}
