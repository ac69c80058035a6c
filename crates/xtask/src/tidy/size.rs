// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `size`: without its tests a file has 500 lines or gets a warning, and 800 at most; a
//! line has 100 columns at most.

use super::{Report, Tree};

const RULE: &str = "size";
const LINES_WARN: usize = 500;
const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 100;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let lines = file.code().count();
        let text = format!("{lines} lines without tests; {LINES_MAX} at most, {LINES_WARN} wanted");
        if lines > LINES_MAX {
            report.fail(RULE, &file.path, 0, text);
        } else if lines > LINES_WARN {
            report.warn(RULE, &file.path, 0, text);
        }
        for (at, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                let text = format!("{columns} columns; {COLUMNS_MAX} at most");
                report.fail(RULE, &file.path, at + 1, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Level, Report, Tree, planted};
    use super::check;

    const PATH: &str = "crates/a/src/x.rs";

    #[test]
    fn long_file_warns_and_longer_one_fails() {
        let level = |text: &str| {
            let mut report = Report::default();
            check(&Tree::of(&[(PATH, text)]), &mut report);
            report.findings.first().map(|finding| finding.level)
        };
        assert_eq!(level(&"x\n".repeat(500)), None);
        assert_eq!(level(&"x\n".repeat(501)), Some(Level::Warn));
        assert_eq!(level(&"x\n".repeat(801)), Some(Level::Fail));
        let tests = format!("x\n#[cfg(test)]\nmod tests {{\n{}}}\n", "x\n".repeat(900));
        assert_eq!(level(&tests), None);
    }

    #[test]
    fn wide_line_is_reported() {
        let wide = format!("x\n{}\n", "\u{e9}".repeat(101));
        assert_eq!(planted(check, &[(PATH, &wide)])[0].0, 2);
        assert_eq!(planted(check, &[(PATH, &"\u{e9}".repeat(100))]), []);
    }
}
