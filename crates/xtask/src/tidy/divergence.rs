// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rule `divergence`: every difference from Linux has a line in the page of them, and every line
//! names a file of tests that is there, with those it names, or a command of xtask.

use super::lexer::is_word;
use super::{Report, Source, Tree};
use std::collections::BTreeSet;

const RULE: &str = "divergence";
const PAGE: &str = "docs/LINUX.md";
/// What stands before the numbers in code.
const MARK: &str = "Divergence: ";
/// What a command of the page begins with.
const COMMAND: &str = "cargo xtask ";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let Some(page) = tree.get(PAGE) else {
        return;
    };
    let mut known = BTreeSet::new();
    for (at, row) in page.text.lines().enumerate() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, id, .., test, _] = cells[..] else {
            continue;
        };
        if number(id) != Some(id) {
            continue;
        }
        if !known.insert(id) {
            report.fail(RULE, PAGE, at + 1, format!("{id} is used twice"));
        }
        if let Err(why) = check_test(tree, test) {
            report.fail(RULE, PAGE, at + 1, format!("{id}: {why}"));
        }
    }
    for file in tree.rust() {
        check_marks(file, &known, report);
    }
}

/// Whether what the last cell names is there: files, each followed by its tests, or a command.
fn check_test(tree: &Tree, cell: &str) -> Result<(), String> {
    let mut file: Option<&Source> = None;
    let mut named = false;
    for (at, part) in cell.split('`').enumerate() {
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

/// The path of a file that may be named alone, if it is beside the last one.
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
                report.fail(RULE, &file.path, at + 1, format!("{id} is not in {PAGE}"));
            }
        }
    }
}

/// The number that `text` begins with, as `L7`.
fn number(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('L')?;
    let more = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let len = text.len() - more.len();
    (len > 1).then(|| &text[..len])
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::{MARK, PAGE, check};

    const HEAD: &str = "| id | call | test |\n|---|---|---|\n";

    fn rows(rows: &str, code: &str) -> Vec<(usize, String)> {
        let page = format!("{HEAD}{rows}\n");
        let test = "fn holds() {}\n";
        let files = [
            (PAGE, page.as_str()),
            ("crates/a/tests/t.rs", test),
            ("crates/a/tests/u.rs", test),
            ("crates/a/src/lib.rs", code),
        ];
        planted(check, &files)
    }

    #[test]
    fn a_row_with_a_test_or_a_command_is_fine() {
        let all = "| L1 | x `y` | crates/a/tests/t.rs `holds`, u.rs `holds` |\n\
                   | L2 | x | `cargo xtask oracle`, `--serve opens` |\n\
                   | L3 | x | crates/a/tests/t.rs |";
        assert!(rows(all, &format!("// {MARK}L1, L3.\n")).is_empty());
    }

    #[test]
    fn a_test_that_is_not_there_is_reported() {
        let said = rows(
            "| L1 | x | crates/a/tests/t.rs `gone` |\n| L2 | x | v.rs |\n| L3 | x | its head |",
            "",
        );
        let lines: Vec<usize> = said.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 4, 5], "{said:?}");
    }

    #[test]
    fn numbers_are_used_once_and_known() {
        let twice = "| L1 | x | crates/a/tests/t.rs |\n| L1 | x | crates/a/tests/t.rs |";
        assert_eq!(rows(twice, "")[0].0, 4);
        let code = format!("\n/// # {MARK}L1, L2\n");
        let unknown = rows("| L1 | x | crates/a/tests/t.rs |", &code);
        assert_eq!(unknown, [(2, format!("L2 is not in {PAGE}"))]);
    }
}
