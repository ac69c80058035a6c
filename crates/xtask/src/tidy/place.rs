// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rules `unsafe` and `ordering`: unsafe code and memory orderings are only in the files
//! that may have them, and other crates forbid unsafe code.

use super::lexer::has_word;
use super::{Report, Tree};

const UNSAFE: &str = "unsafe";
const ORDERING: &str = "ordering";

/// The crates that must forbid unsafe code in their `lib.rs`.
const FORBIDDING: &[&str] = &[
    "abi",
    "vfs",
    "backends/mem",
    "backends/host",
    "faces/fuse",
    "ring",
    "commit",
    "faces/run",
    "conformance",
];

const ORDERINGS: &[&str] = &["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Crates with unsafe code in files `sys.rs`.
const HOSTS: &[&str] = &[
    "crates/testkit/src/",
    "crates/testkit-sqlite/src/",
    "crates/bench/src/",
    "crates/uring/src/",
    "crates/faces/wasi/src/",
];

/// Whether this file may hold unsafe code.
fn may_be_unsafe(path: &str) -> bool {
    let host = HOSTS.iter().any(|part| path.starts_with(part));
    path.starts_with("crates/sync/") || (host && path.ends_with("/sys.rs"))
}

pub(super) fn check_unsafe(tree: &Tree, report: &mut Report) {
    for file in tree.rust().filter(|file| !may_be_unsafe(&file.path)) {
        for (at, line) in file.numbered() {
            if has_word(&line.code, "unsafe") {
                let text = "`unsafe` belongs in crates/sync, or in the sys.rs of testkit, \
                    testkit-sqlite, bench, uring or wasi";
                report.fail(UNSAFE, &file.path, at, text);
            }
        }
    }
    for name in FORBIDDING {
        let Some(file) = tree.get(&format!("crates/{name}/src/lib.rs")) else {
            continue;
        };
        if !file
            .lines
            .iter()
            .any(|line| line.code.starts_with("#![forbid(unsafe_code)]"))
        {
            report.fail(UNSAFE, &file.path, 0, "needs `#![forbid(unsafe_code)]`");
        }
    }
}

pub(super) fn check_ordering(tree: &Tree, report: &mut Report) {
    let exempt = [
        "crates/sync/",
        "crates/testkit/",
        "crates/testkit-sqlite/",
        "crates/bench/",
    ];
    let files = tree
        .rust()
        .filter(|file| !exempt.iter().any(|part| file.path.starts_with(part)));
    for file in files {
        for (at, line) in file.code() {
            if names_ordering(&line.code) {
                report.fail(
                    ORDERING,
                    &file.path,
                    at,
                    "memory orderings belong in crates/sync",
                );
            }
        }
    }
}

/// Whether this line names a memory ordering, or imports the type.
fn names_ordering(code: &str) -> bool {
    let named = |place: usize| {
        let after = code[place + "Ordering".len()..].trim_start();
        let Some(after) = after.strip_prefix("::") else {
            return false;
        };
        let after = after.trim_start();
        after.starts_with(['{', '*'])
            || ORDERINGS.iter().any(|ordering| after.starts_with(ordering))
    };
    code.match_indices("Ordering")
        .any(|(place, _)| named(place))
        || (code.contains("atomic::") && has_word(code, "Ordering"))
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::{check_ordering, check_unsafe};

    #[test]
    fn unsafe_outside_its_places_is_reported() {
        let text = "fn f() {}\nunsafe fn g() {}\n";
        for path in [
            "crates/cli/src/main.rs",
            "crates/testkit/src/x.rs",
            "crates/bench/sys.rs",
            "crates/uring/src/lib.rs",
        ] {
            assert_eq!(planted(check_unsafe, &[(path, text)])[0].0, 2, "{path}");
        }
        for path in [
            "crates/sync/src/x/y.rs",
            "crates/sync/tests/x.rs",
            "crates/testkit/src/sys.rs",
            "crates/testkit-sqlite/src/sys.rs",
            "crates/bench/src/host/sys.rs",
            "crates/uring/src/sys.rs",
        ] {
            assert_eq!(planted(check_unsafe, &[(path, text)]), [], "{path}");
        }
    }

    #[test]
    fn unsafe_in_a_test_is_still_unsafe() {
        let text = "#[cfg(test)]\nmod tests {\n fn f() { unsafe { g() } }\n}\n";
        assert_eq!(
            planted(check_unsafe, &[("crates/cli/src/x.rs", text)])[0].0,
            3
        );
    }

    #[test]
    fn word_unsafe_alone_is_accepted() {
        let text = "// unsafe\nconst A: &str = \"unsafe\"; /* unsafe */\n#![deny(unsafe_code)]\n";
        assert_eq!(planted(check_unsafe, &[("crates/cli/src/x.rs", text)]), []);
    }

    #[test]
    fn missing_forbid_is_reported() {
        assert_eq!(
            planted(check_unsafe, &[("crates/vfs/src/lib.rs", "//! x\n")]).len(),
            1
        );
        let good = "//! x\n#![forbid(unsafe_code)]\n";
        assert_eq!(
            planted(check_unsafe, &[("crates/vfs/src/lib.rs", good)]),
            []
        );
    }

    #[test]
    fn orderings_outside_sync_are_reported() {
        let path = "crates/vfs/src/x.rs";
        for text in [
            "a.load(Ordering::Relaxed);\n",
            "use std::sync::atomic::{AtomicU8, Ordering};\n",
            "use Ordering::{Acquire, Release};\n",
            "use core::sync::atomic::Ordering as O;\n",
        ] {
            assert_eq!(planted(check_ordering, &[(path, text)]).len(), 1, "{text}");
            assert_eq!(
                planted(check_ordering, &[("crates/sync/src/x.rs", text)]),
                []
            );
            assert_eq!(
                planted(check_ordering, &[("crates/vfs/tests/x.rs", text)]),
                []
            );
        }
        let fine = "match a.cmp(&b) { Ordering::Less => 1, cmp::Ordering::Equal => 2 }\n";
        assert_eq!(planted(check_ordering, &[(path, fine)]), []);
    }
}
