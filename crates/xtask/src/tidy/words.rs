// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `words`: no postponed work, no debugging aids, no printing from libraries, no
//! example that is not compiled.

use super::lexer::has_word;
use super::{Report, Source, Tree};

const RULE: &str = "words";

/// Marks of postponed work: they belong in `docs/STATUS.md`, in a sentence.
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
/// Macros that no code may use.
const MACROS: &[&str] = &["todo!", "unimplemented!", "dbg!"];
/// Macros that only programs, tests and examples may use.
const PRINTS: &[&str] = &["println!", "print!", "eprintln!", "eprint!"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree.rust().chain(tree.pages()) {
        for (at, line) in file.text.lines().enumerate() {
            for mark in MARKS.iter().filter(|mark| has_word(line, mark)) {
                report.fail(
                    RULE,
                    &file.path,
                    at + 1,
                    format!("{mark}: do it or write it down"),
                );
            }
        }
    }
    for file in tree.rust() {
        for (at, line) in file.numbered() {
            for name in MACROS.iter().filter(|name| calls(&line.code, name)) {
                report.fail(RULE, &file.path, at, format!("`{name}` must not stay"));
            }
        }
        for (at, line) in file.code().filter(|_| is_library(file)) {
            for name in PRINTS.iter().filter(|name| calls(&line.code, name)) {
                report.fail(
                    RULE,
                    &file.path,
                    at,
                    format!("`{name}`: a library does not print"),
                );
            }
        }
        for (at, line) in file.numbered() {
            if line.comment.contains("```ignore") {
                report.fail(
                    RULE,
                    &file.path,
                    at,
                    "an example must compile: `no_run` at most",
                );
            }
        }
    }
}

/// Whether the macro, with its `!`, is called here.
fn calls(code: &str, name: &str) -> bool {
    let bare = name.trim_end_matches('!');
    code.contains(name) && has_word(code, bare)
}

fn is_library(file: &Source) -> bool {
    let program = file.path.contains("/src/bin/") || file.name() == "main.rs";
    let own = file.path.starts_with("crates/cli/") || file.path.starts_with("crates/xtask/");
    !program && !own && file.name() != "build.rs"
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::{MARKS, check};

    const LIBRARY: &str = "crates/vfs/src/x.rs";

    #[test]
    fn marks_of_postponed_work_are_reported_everywhere() {
        for mark in MARKS {
            for text in [format!("a\n// {mark}: b\n"), format!("a\nf(\"{mark}\")\n")] {
                assert_eq!(planted(check, &[(LIBRARY, &text)])[0].0, 2, "{text}");
                assert_eq!(planted(check, &[("docs/a.md", &text)])[0].0, 2, "{text}");
            }
        }
        let fine = format!("{}S of A{}\n", MARKS[0], MARKS[2]);
        assert_eq!(planted(check, &[(LIBRARY, &fine)]), []);
    }

    #[test]
    fn debugging_aids_are_reported_even_in_tests() {
        for call in ["todo!()", "unimplemented!(\"x\")", "dbg!(a)"] {
            assert_eq!(planted(check, &[(LIBRARY, call)]).len(), 1, "{call}");
            assert_eq!(
                planted(check, &[("crates/vfs/tests/x.rs", call)]).len(),
                1,
                "{call}"
            );
        }
        assert_eq!(
            planted(check, &[(LIBRARY, "my_todo!(); f(\"dbg!\"); // todo!()\n")]),
            []
        );
    }

    #[test]
    fn printing_library_is_reported() {
        for call in ["println!(\"x\");", "eprint!(\"x\");"] {
            assert_eq!(planted(check, &[(LIBRARY, call)]).len(), 1, "{call}");
            assert_eq!(
                planted(check, &[("crates/testkit/src/x.rs", call)]).len(),
                1,
                "{call}"
            );
            for path in [
                "crates/testkit/src/bin/x.rs",
                "crates/cli/src/cmd/x.rs",
                "crates/bench/src/main.rs",
                "crates/vfs/examples/x.rs",
                "crates/vfs/tests/x.rs",
            ] {
                assert_eq!(planted(check, &[(path, call)]), [], "{path}");
            }
        }
        assert_eq!(planted(check, &[(LIBRARY, "//! println!(\"x\");\n")]), []);
    }

    #[test]
    fn uncompiled_example_is_reported() {
        assert_eq!(
            planted(check, &[(LIBRARY, "//! a\n//! ```ignore\n")])[0].0,
            2
        );
        assert_eq!(planted(check, &[(LIBRARY, "//! a\n//! ```no_run\n")]), []);
    }
}
