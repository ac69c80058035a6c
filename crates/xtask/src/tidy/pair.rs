// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `pair`: a barrier works only with its other end, so every named pair has at least
//! two.
//!
//! The mark is the word in capitals, the name in parentheses, a colon and what this end does. The
//! name has small letters, digits, dots, dashes and underscores.

use super::{Report, Tree};
use std::collections::BTreeMap;

const RULE: &str = "pair";
const MARK: &str = concat!("PAIR", "(");

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let mut ends: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for file in tree.rust() {
        for (at, line) in file.numbered() {
            for rest in line.comment.split(MARK).skip(1) {
                match rest.split_once("):") {
                    Some((name, text)) if is_name(name) && !text.trim().is_empty() => {
                        ends.entry(name).or_default().push((&file.path, at));
                    }
                    _ => report.fail(RULE, &file.path, at, "write `PAIR(name): what it does`"),
                }
            }
        }
    }
    for (name, places) in ends {
        if let [(path, line)] = places[..] {
            report.fail(
                RULE,
                path,
                line,
                format!("the pair `{name}` has no other end"),
            );
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::{MARK, check};

    fn end(name: &str) -> String {
        format!("\n// {MARK}{name}): store before load\n")
    }

    #[test]
    fn single_end_is_reported() {
        let one = end("a.b");
        assert_eq!(planted(check, &[("crates/a/src/x.rs", &one)])[0].0, 2);
        let typo = [
            ("crates/a/src/x.rs", &*one),
            ("crates/a/src/y.rs", &end("a.c")),
        ];
        assert_eq!(planted(check, &typo).len(), 2);
    }

    #[test]
    fn two_ends_are_accepted_in_any_file() {
        let one = end("a.b");
        let files = [("crates/a/src/x.rs", &*one), ("crates/b/src/y.rs", &one)];
        assert_eq!(planted(check, &files), []);
        assert_eq!(
            planted(check, &[("crates/a/src/x.rs", &format!("{one}{one}"))]),
            []
        );
    }

    #[test]
    fn mark_without_name_or_text_is_reported() {
        for text in [
            format!("// {MARK}a.b)\n"),
            format!("// {MARK}): x\n"),
            format!("// {MARK}a):\n"),
        ] {
            assert_eq!(
                planted(check, &[("crates/a/src/x.rs", &text)]).len(),
                1,
                "{text}"
            );
        }
        let text = format!("f(\"{MARK}a): x\");\n");
        assert_eq!(planted(check, &[("crates/a/src/x.rs", &text)]), []);
    }
}
