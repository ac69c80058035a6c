// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `adr`: every decision is in the index, is short, and has a date and the four
//! headings.

use super::{Report, Source, Tree};
use std::collections::BTreeMap;

const RULE: &str = "adr";
const FOLDER: &str = "docs/adr/";
const INDEX: &str = "docs/adr/README.md";
const LINES_MAX: usize = 80;
const HEADINGS: &[&str] = &["## Context", "## Decision", "## Consequences", "## Numbers"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let index = tree.get(INDEX).map_or("", |file| file.text.as_str());
    let mut numbers: BTreeMap<&str, &str> = BTreeMap::new();
    for file in tree
        .pages()
        .filter(|file| file.path.starts_with(FOLDER) && file.path != INDEX)
    {
        let name = file.name();
        let number = name.split('-').next().unwrap_or(name);
        if number.len() != 4 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            report.fail(RULE, &file.path, 0, "the name must be `NNNN-title.md`");
        } else if let Some(other) = numbers.insert(number, name) {
            report.fail(RULE, &file.path, 0, format!("has the number of `{other}`"));
        }
        if !index.contains(&format!("({name})")) {
            report.fail(RULE, &file.path, 0, format!("has no link in {INDEX}"));
        }
        check_shape(file, report);
    }
    for (at, line) in index.lines().enumerate() {
        for link in line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let here = !link.contains('/') && link.ends_with(".md");
            if here && tree.get(&format!("{FOLDER}{link}")).is_none() {
                report.fail(RULE, INDEX, at + 1, format!("`{link}` does not exist"));
            }
        }
    }
}

fn check_shape(file: &Source, report: &mut Report) {
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        report.fail(
            RULE,
            &file.path,
            0,
            format!("{lines} lines; {LINES_MAX} at most"),
        );
    }
    let dated = |line: &str| line.strip_prefix("Date: ").is_some_and(is_date);
    if !file.text.lines().any(dated) {
        report.fail(RULE, &file.path, 0, "needs a line `Date: YYYY-MM-DD`");
    }
    for heading in HEADINGS {
        if !file.text.lines().any(|line| line == *heading) {
            report.fail(
                RULE,
                &file.path,
                0,
                format!("needs the heading `{heading}`"),
            );
        }
    }
}

/// Whether it is a date like `2026-11-24`.
fn is_date(text: &str) -> bool {
    let shape = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c });
    shape.eq("0000-00-00".chars())
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::{HEADINGS, INDEX, check};

    fn page() -> String {
        format!(
            "# 1. A\n\nDate: 2026-11-24\n\n{}\n",
            HEADINGS.join("\n\ntext\n\n")
        )
    }

    #[test]
    fn indexed_decision_is_accepted() {
        let files = [
            ("docs/adr/0001-a.md", page()),
            (INDEX, "[A](0001-a.md)\n".to_owned()),
        ];
        assert_eq!(
            planted(check, &files.each_ref().map(|(p, t)| (*p, t.as_str()))),
            []
        );
    }

    #[test]
    fn unlisted_decision_is_reported() {
        let page = page();
        assert_eq!(planted(check, &[("docs/adr/0001-a.md", &page)]).len(), 1);
        assert_eq!(
            planted(
                check,
                &[("docs/adr/0001-a.md", &page), (INDEX, "0001-a.md")]
            )
            .len(),
            1
        );
    }

    #[test]
    fn dead_link_is_reported() {
        let index = "# Index\n[A](0001-a.md) [B](https://example.org/b.md)\n";
        assert_eq!(planted(check, &[(INDEX, index)])[0].0, 2);
    }

    #[test]
    fn numbers_lengths_and_headings_are_checked() {
        let (page, index) = (page(), "[A](0001-a.md) [B](0001-b.md) [C](c.md)");
        let twice = [
            ("docs/adr/0001-a.md", &*page),
            ("docs/adr/0001-b.md", &page),
        ];
        let found = planted(
            check,
            &[twice[0], twice[1], ("docs/adr/c.md", &page), (INDEX, index)],
        );
        assert_eq!(found.len(), 2, "{found:?}");
        let long = format!("{page}{}", "x\n".repeat(80));
        let index = (INDEX, "[A](0001-a.md)");
        assert_eq!(
            planted(check, &[("docs/adr/0001-a.md", &long), index]).len(),
            1
        );
        assert_eq!(
            planted(check, &[("docs/adr/0001-a.md", "# 1. A\n"), index]).len(),
            5
        );
        let undated = page.replace("2026-11-24", "24 November");
        let said = planted(check, &[("docs/adr/0001-a.md", &undated), index]);
        assert_eq!(said.len(), 1, "{said:?}");
    }
}
