// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `reason`: every lint exception and every skipped test says why.
//!
//! `expect` is better than `allow`, because the compiler reports it once it is not needed.

use super::lexer::has_word;
use super::{Report, Source, Tree};

const RULE: &str = "reason";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        for (at, attribute) in attributes(file) {
            let lint = ["allow", "expect"]
                .iter()
                .find(|name| attribute.contains(&format!("{name}(")) && has_word(&attribute, name));
            if let Some(name) = lint.filter(|_| !has_word(&attribute, "reason")) {
                report.fail(
                    RULE,
                    &file.path,
                    at,
                    format!("`{name}` needs `reason = \"...\"`"),
                );
            }
            let ignored = attribute
                .trim_start_matches(['#', '!', '['])
                .trim_end_matches(']')
                .trim();
            if ignored == "ignore" {
                report.fail(RULE, &file.path, at, "write `#[ignore = \"why\"]`");
            }
        }
    }
}

/// The attributes of a file with the lines where they start, each as one line.
fn attributes(file: &Source) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut depth = 0_usize;
    for (at, line) in file.numbered() {
        let mut before = [' '; 2];
        for c in line.code.chars() {
            let starts = c == '[' && matches!(before, [_, '#'] | ['#', '!']);
            if depth == 0 && starts {
                found.push((at, "#".to_owned()));
            }
            if depth > 0 || starts {
                match c {
                    '[' => depth += 1,
                    ']' => depth -= 1,
                    _ => {}
                }
                if let Some((_, text)) = found.last_mut() {
                    text.push(c);
                }
            }
            before = [before[1], c];
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::check;

    fn lines(text: &str) -> Vec<usize> {
        let found = planted(check, &[("crates/a/src/x.rs", text)]);
        found.into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn exception_without_reason_is_reported() {
        assert_eq!(lines("\n#[allow(dead_code)]\n"), [2]);
        assert_eq!(lines("#![allow(dead_code)]\n"), [1]);
        assert_eq!(lines("#[expect(dead_code)]\n"), [1]);
        assert_eq!(lines("#[cfg_attr(loom, allow(dead_code))]\n"), [1]);
        assert_eq!(
            lines("#[allow(\n    dead_code,\n    unused\n)]\nfn f() {}\n"),
            [1]
        );
    }

    #[test]
    fn exception_with_reason_is_accepted() {
        assert!(lines("#[expect(dead_code, reason = \"used by loom\")]\n").is_empty());
        assert!(lines("#[allow(\n    dead_code,\n    reason = \"x\"\n)]\n").is_empty());
        assert!(lines("let a = b.expect(\"c\")[0]; vec![allow(1)];\n// #[allow(x)]\n").is_empty());
    }

    #[test]
    fn skipped_test_without_reason_is_reported() {
        assert_eq!(lines("#[test]\n#[ignore]\nfn f() {}\n"), [2]);
        assert!(lines("#[test]\n#[ignore = \"takes an hour\"]\nfn f() {}\n").is_empty());
        assert!(lines("//! ```\n//! #[ignore]\n").is_empty());
    }
}
