// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `head`: every Rust file begins with the licence line, then a `//!` head.

use super::{Report, Tree};

const RULE: &str = "head";
const LICENCE: &str = "// SPDX-License-Identifier: MIT OR Apache-2.0";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let mut lines = file.text.lines();
        if lines.next() != Some(LICENCE) {
            report.fail(
                RULE,
                &file.path,
                1,
                format!("the first line must be `{LICENCE}`"),
            );
        }
        let head = lines.find(|line| !line.trim().is_empty());
        let bare = file.name() == "tests.rs";
        if !bare && !head.is_some_and(|line| line.starts_with("//! ")) {
            report.fail(
                RULE,
                &file.path,
                2,
                "a `//!` head must follow the licence line",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::{LICENCE, check};

    #[test]
    fn file_without_licence_or_head_is_reported() {
        let good = format!("{LICENCE}\n//! Head.\n");
        assert_eq!(planted(check, &[("crates/a/src/lib.rs", &good)]), []);
        let bare = format!("{LICENCE}\nfn f() {{}}\n");
        assert_eq!(planted(check, &[("crates/a/src/mod.rs", &bare)]).len(), 1);
        assert_eq!(planted(check, &[("crates/a/src/x/tests.rs", &bare)]), []);
        assert_eq!(
            planted(check, &[("crates/a/src/lib.rs", "//! Head.\n//! More.\n")]).len(),
            1
        );
        assert_eq!(planted(check, &[("crates/a/src/lib.rs", "")]).len(), 2);
    }
}
