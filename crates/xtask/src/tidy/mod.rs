// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the rules of the house that neither the compiler nor clippy knows.
//!
//! A rule is a function over the whole tree; it reports, it never repairs. Every rule has a unit
//! test beside it that plants the fault and requires a report.
//!
//! # Rules
//! | rule | what it requires |
//! |---|---|
//! | `head` | the licence line first, then a `//!` head, in every file |
//! | `size` | 500 lines a file, 800 at most, tests apart; 100 columns |
//! | `unsafe` | `unsafe` in `sync` and in the `sys.rs` of some only; the others forbid it |
//! | `ordering` | memory orderings in `sync`, in test code, and in three crates of tools only |
//! | `words` | no postponed work, no debugging aids, no printing from libraries |
//! | `static` | no state outside a value in `vfs` |
//! | `graph` | dependencies point down; external crates by list; one lint table |
//! | `modules` | imports inside a crate point down, by one table |
//! | `adr` | every decision is in the index and has a date and the four headings |
//! | `divergence` | every difference from Linux has a heading, a test or a command; its index |
//! | `pair` | every named barrier has two ends |
//! | `reason` | every lint exception and every skipped test says why |
//! | `orphan` | every source file belongs to a module |
//! | `prose` | short sentences and table lines; "who" for people |
//! | `subject` | a commit's subject is `area: verb ...`; of the history, not of the tree |

mod adr;
mod divergence;
mod graph;
mod head;
mod lexer;
mod modules;
mod orphan;
mod pair;
mod place;
mod prose;
mod reason;
mod size;
mod statics;
mod subject;
mod tree;
mod words;

pub use divergence::index;
pub use subject::check_subject;
pub use tree::{Source, Tree};

use std::fmt;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Printed only.
    Warn,
    /// Fails the check.
    Fail,
}

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// File, relative to the root of the tree.
    pub path: String,
    /// Line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// What is wrong.
    pub text: String,
    /// Its severity.
    pub level: Level,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Warn => "warning",
            Level::Fail => "error",
        };
        write!(
            f,
            "{}:{}: {level} [{}] {}",
            self.path, self.line, self.rule, self.text
        )
    }
}

/// Collects the findings of the rules.
#[derive(Debug, Default)]
pub struct Report {
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, level: Level, rule: &'static str, at: (&str, usize), text: String) {
        let (path, line) = at;
        self.findings.push(Finding {
            path: path.to_owned(),
            line,
            rule,
            text,
            level,
        });
    }

    fn fail(&mut self, rule: &'static str, path: &str, line: usize, text: impl Into<String>) {
        self.add(Level::Fail, rule, (path, line), text.into());
    }

    fn warn(&mut self, rule: &'static str, path: &str, line: usize, text: impl Into<String>) {
        self.add(Level::Warn, rule, (path, line), text.into());
    }
}

/// Every rule, in the order of the table above.
const RULES: &[fn(&Tree, &mut Report)] = &[
    head::check,
    size::check,
    place::check_unsafe,
    place::check_ordering,
    words::check,
    statics::check,
    graph::check,
    modules::check,
    adr::check,
    divergence::check,
    pair::check,
    reason::check,
    orphan::check,
    prose::check,
];

/// The findings of all rules in a tree, by path and line.
#[must_use]
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut report = Report::default();
    for rule in RULES {
        rule(tree, &mut report);
    }
    report
        .findings
        .sort_by(|a, b| (&a.path, a.line, a.rule).cmp(&(&b.path, b.line, b.rule)));
    report.findings
}

/// The findings of one rule in a planted tree, for the tests of the rules.
#[cfg(test)]
fn planted(rule: fn(&Tree, &mut Report), files: &[(&str, &str)]) -> Vec<(usize, String)> {
    let mut report = Report::default();
    rule(&Tree::of(files), &mut report);
    report
        .findings
        .into_iter()
        .map(|finding| (finding.line, finding.text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Level, Tree, check};

    #[test]
    fn every_rule_runs_and_findings_are_sorted() {
        let head = "// SPDX-License-Identifier: MIT OR Apache-2.0\n//! Head.\n";
        let faults = [
            (
                "crates/abi/src/lib.rs",
                format!("{head}mod gone;\nunsafe fn f() {{}}\n"),
            ),
            (
                "crates/vfs/src/lib.rs",
                format!("{head}static S: Mutex<u8> = new();\n"),
            ),
            (
                "crates/vfs/src/lost.rs",
                format!("{head}// PAIR(one.end): alone\n"),
            ),
            (
                "crates/mem/src/lib.rs",
                format!("{head}#[allow(unused)]\nfn f() {{ todo!() }}\n"),
            ),
            (
                "crates/bench/src/lib.rs",
                format!("{head}{}\n", " ".repeat(101)),
            ),
            (
                "crates/cli/src/main.rs",
                format!("{head}use std::sync::atomic::Ordering;\n"),
            ),
            ("crates/cli/src/cmd.rs", String::new()),
            (
                "crates/abi/Cargo.toml",
                "[package]\nname = \"openpath-abi\"\n".to_owned(),
            ),
            ("docs/adr/0001-a.md", String::new()),
        ];
        let files: Vec<(&str, &str)> = faults.iter().map(|(p, t)| (*p, t.as_str())).collect();
        let findings = check(&Tree::of(&files));
        assert!(findings.iter().all(|finding| finding.level == Level::Fail));
        let mut rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let all = "adr graph head modules ordering orphan pair reason size static unsafe words";
        assert_eq!(rules.join(" "), all);
        assert!(findings.is_sorted_by(|a, b| (&a.path, a.line) <= (&b.path, b.line)));
        let shown = findings
            .first()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(shown.starts_with("crates/abi/Cargo.toml:"), "{shown}");
    }
}
