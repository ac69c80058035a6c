// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the cases that come with this crate, parsed from the texts in `cases/`.

use crate::case::Case;
use crate::parse::parse;

/// The texts, by topic.
const TEXTS: &[&str] = &[
    include_str!("../cases/known.case"),
    include_str!("../cases/absent.case"),
    include_str!("../cases/flags.case"),
    include_str!("../cases/links.case"),
    include_str!("../cases/scopes.case"),
    include_str!("../cases/mounts.case"),
    include_str!("../cases/magic.case"),
    include_str!("../cases/rights.case"),
    include_str!("../cases/changes.case"),
    include_str!("../cases/left.case"),
];

/// Every case, in order.
#[must_use]
pub fn suite() -> Vec<Case> {
    // A test parses each of them: none is left out here.
    TEXTS
        .iter()
        .flat_map(|text| parse(text).unwrap_or_default())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{TEXTS, suite};
    use crate::parse::parse;
    use std::collections::BTreeSet;

    #[test]
    fn every_text_can_be_read() {
        for text in TEXTS {
            let cases = parse(text).unwrap_or_else(|line| panic!("{line}"));
            assert!(!cases.is_empty());
            for case in cases {
                assert!(!case.says.is_empty(), "{} says nothing", case.id);
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let cases = suite();
        let names: BTreeSet<_> = cases.iter().map(|case| &case.id).collect();
        assert_eq!(names.len(), cases.len());
    }
}
