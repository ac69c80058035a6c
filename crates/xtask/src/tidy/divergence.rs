// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `divergence`: every difference from Linux has a heading on a page of `docs/linux`,
//! and the index in `docs/LINUX.md` lists all of them.
//!
//! # Form
//! A heading is `## L44: stat of a file`. Below it are the items `* **Linux:**`, `* **openpath:**`,
//! `* **Why:**` and `* **Test:**`. The last one names test files that exist, each followed by its
//! tests, or a command of xtask. Code says `Divergence: L44`.

use super::lexer::is_word;
use super::{Report, Source, Tree};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const RULE: &str = "divergence";
const INDEX: &str = "docs/LINUX.md";
const FOLDER: &str = "docs/linux/";
/// The marks around the generated part of the index.
const BEGIN: &str = "<!-- `cargo xtask index` writes the lines from here to the end mark. -->\n";
const END: &str = "<!-- end of the index -->";
const ITEMS: &[&str] = &["Linux", "openpath", "Why", "Test"];
/// The text before the numbers in code.
const MARK: &str = "Divergence: ";
/// How a command in a test item begins.
const COMMAND: &str = "cargo xtask ";

/// One difference.
struct Entry<'a> {
    page: &'a str,
    /// The line of its heading, from 1.
    line: usize,
    id: &'a str,
    title: &'a str,
    /// Labels and texts.
    items: Vec<(&'a str, String)>,
}

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let Some(page) = tree.get(INDEX) else {
        return;
    };
    let mut known = BTreeSet::new();
    for entry in tree.pages().flat_map(entries) {
        let (path, line, id) = (entry.page, entry.line, entry.id);
        for item in ITEMS {
            if !entry.items.iter().any(|(label, _)| label == item) {
                report.fail(RULE, path, line, format!("{id}: no item `* **{item}:**`"));
            }
        }
        for (_, text) in entry.items.iter().filter(|(label, _)| *label == "Test") {
            if let Err(why) = check_test(tree, text) {
                report.fail(RULE, path, line, format!("{id}: {why}"));
            }
        }
        if !known.insert(id) {
            report.fail(RULE, path, line, format!("{id} is used twice"));
        }
    }
    for file in tree.rust() {
        check_marks(file, &known, report);
    }
    match index(tree) {
        Some((_, text)) if text == page.text => {}
        Some(_) => report.fail(RULE, INDEX, 0, "stale index: run `cargo xtask index`"),
        None => report.fail(
            RULE,
            INDEX,
            0,
            format!("has no lines `{BEGIN}` and `{END}`"),
        ),
    }
}

/// The path and the right text of the index; none where its page or a mark is missing.
#[must_use]
pub fn index(tree: &Tree) -> Option<(&'static str, String)> {
    let page = tree.get(INDEX)?;
    let (before, rest) = page.text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let mut all: Vec<Entry<'_>> = tree.pages().flat_map(entries).collect();
    all.sort_by_key(|entry| entry.id[1..].parse::<usize>().unwrap_or(usize::MAX));
    let mut text = format!("{before}{BEGIN}\n| id | call | page |\n|---|---|---|\n");
    for Entry {
        page, id, title, ..
    } in all
    {
        let file = page.strip_prefix("docs/").unwrap_or(page);
        let name = page.strip_prefix(FOLDER).unwrap_or(page);
        let name = name.strip_suffix(".md").unwrap_or(name);
        let anchor = anchor(&format!("{id}: {title}"));
        let _ = writeln!(text, "| {id} | {title} | [{name}]({file}#{anchor}) |");
    }
    text.push('\n');
    text.push_str(END);
    text.push_str(after);
    Some((INDEX, text))
}

/// The anchor of a heading on the rendered pages.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
    });
    kept.collect()
}

/// The differences of a page.
fn entries(page: &Source) -> Vec<Entry<'_>> {
    let mut all: Vec<Entry<'_>> = Vec::new();
    if !page.path.starts_with(FOLDER) {
        return all;
    }
    let mut inside = false;
    for (at, line) in page.text.lines().enumerate() {
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim();
            let named = heading
                .split_once(": ")
                .filter(|(id, _)| number(id) == Some(id));
            inside = named.is_some();
            all.extend(named.map(|(id, title)| Entry {
                page: &page.path,
                line: at + 1,
                id,
                title,
                items: Vec::new(),
            }));
        }
        let Some(entry) = all.last_mut().filter(|_| inside) else {
            continue;
        };
        if let Some((label, text)) = line.strip_prefix("* **").and_then(|l| l.split_once(":**")) {
            entry.items.push((label, text.to_owned()));
        } else if let (true, Some((_, text))) = (line.starts_with(' '), entry.items.last_mut()) {
            text.push_str(line);
        }
    }
    all
}

/// Checks that the files and tests, or the command, of a test item exist.
fn check_test(tree: &Tree, text: &str) -> Result<(), String> {
    let mut file: Option<&Source> = None;
    let mut named = false;
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 0 {
            let paths = part.split([' ', ',']).filter(|word| word.ends_with(".rs"));
            for path in paths {
                let path = beside(file, path);
                file = Some(tree.get(&path).ok_or(format!("`{path}` does not exist"))?);
                named = true;
            }
        } else if part.starts_with(COMMAND) {
            named = true;
        } else if part.chars().all(is_word) {
            let has = file.is_some_and(|file| file.text.contains(&format!("fn {part}(")));
            if !has {
                return Err(format!("no test `{part}` there"));
            }
        }
    }
    let none = "names neither a test nor a command".to_owned();
    if named { Ok(()) } else { Err(none) }
}

/// The path of a file that may be named without its folder, if it is in that of the last one.
fn beside(file: Option<&Source>, path: &str) -> String {
    match file.and_then(|file| file.path.rsplit_once('/')) {
        Some((folder, _)) if !path.contains('/') => format!("{folder}/{path}"),
        _ => path.to_owned(),
    }
}

fn check_marks(file: &Source, known: &BTreeSet<&str>, report: &mut Report) {
    for (at, line) in file.text.lines().enumerate() {
        let Some((_, rest)) = line.split_once(MARK) else {
            continue;
        };
        for id in rest.split(", ").map_while(number) {
            if !known.contains(id) {
                let text = format!("{id} has no heading in {FOLDER}");
                report.fail(RULE, &file.path, at + 1, text);
            }
        }
    }
}

/// The number that `text` begins with, such as `L7`.
fn number(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('L')?;
    let more = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let len = text.len() - more.len();
    (len > 1).then(|| &text[..len])
}

#[cfg(test)]
mod tests {
    use super::super::{Tree, planted};
    use super::{BEGIN, END, FOLDER, INDEX, MARK, check, index};

    const TEST: &str = "fn holds() {}\n";

    fn entry(id: &str, test: &str) -> String {
        format!(
            "## {id}: a call\n\n* **Linux:** x `y`\n* **openpath:** z.\n  * w.\n* **Why:** v\n\
             * **Test:** {test}\n\n"
        )
    }

    /// The findings for a page beside a right index, and for code.
    fn found(page: &str, code: &str) -> Vec<(usize, String)> {
        let path = format!("{FOLDER}a.md");
        let empty = format!("# Index\n\n{BEGIN}{END}\n");
        let tree = Tree::of(&[(INDEX, &empty), (&path, page)]);
        let (_, index) = index(&tree).expect("the marks are there");
        let files = [
            (INDEX, index.as_str()),
            (path.as_str(), page),
            ("crates/a/tests/t.rs", TEST),
            ("crates/a/tests/u.rs", TEST),
            ("crates/a/src/lib.rs", code),
        ];
        planted(check, &files)
    }

    #[test]
    fn entry_with_a_test_or_a_command_is_accepted() {
        let all = [
            entry("L1", "crates/a/tests/t.rs `holds`,\n  u.rs `holds`"),
            entry("L2", "`cargo xtask oracle`, `--serve opens`"),
            entry("L3", "crates/a/tests/t.rs"),
        ];
        assert_eq!(found(&all.concat(), &format!("// {MARK}L1, L3.\n")), []);
    }

    #[test]
    fn missing_test_is_reported() {
        let all = [
            entry("L1", "crates/a/tests/t.rs `gone`"),
            entry("L2", "v.rs"),
            entry("L3", "its head"),
        ];
        let said = found(&all.concat(), "");
        let lines: Vec<usize> = said.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 9, 17], "{said:?}");
    }

    #[test]
    fn missing_item_is_reported() {
        let page = entry("L1", "crates/a/tests/t.rs").replace("* **Why:** v\n", "");
        let said = found(&page, "");
        assert_eq!(said, [(1, "L1: no item `* **Why:**`".to_owned())]);
    }

    #[test]
    fn ids_are_unique_and_marks_in_code_are_known() {
        let once = entry("L1", "crates/a/tests/t.rs");
        let said = found(&once.repeat(2), "");
        assert_eq!(said, [(9, "L1 is used twice".to_owned())]);
        let unknown = found(&once, &format!("\n/// # {MARK}L1, L2\n"));
        assert_eq!(unknown, [(2, format!("L2 has no heading in {FOLDER}"))]);
    }

    #[test]
    fn stale_index_is_reported() {
        let page = entry("L1", "crates/a/tests/t.rs");
        let path = format!("{FOLDER}a.md");
        let test = ("crates/a/tests/t.rs", TEST);
        for index in ["# Index\n", &format!("{BEGIN}\n| L1 | gone | |\n{END}\n")] {
            let said = planted(check, &[(INDEX, index), (&path, &page), test]);
            assert_eq!(said.len(), 1, "{said:?}");
        }
    }

    #[test]
    fn index_is_by_number_with_the_anchor_of_each_heading() {
        let page = "## L10: stat(2) of `a_b`, twice\n## L9: B-c\n## Other: L3\n";
        let old = format!("# Index\n{BEGIN}old\n{END}\nlast\n");
        let tree = Tree::of(&[(INDEX, old.as_str()), ("docs/linux/a.md", page)]);
        let want = format!(
            "# Index\n{BEGIN}\n| id | call | page |\n|---|---|---|\n\
             | L9 | B-c | [a](linux/a.md#l9-b-c) |\n\
             | L10 | stat(2) of `a_b`, twice | [a](linux/a.md#l10-stat2-of-a_b-twice) |\n\
             \n{END}\nlast\n"
        );
        assert_eq!(index(&tree), Some((INDEX, want)));
    }
}
