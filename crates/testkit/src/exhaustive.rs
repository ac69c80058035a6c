// SPDX-License-Identifier: MIT OR Apache-2.0
//! All short sequences: every row of one, two or three operations out of a small alphabet, on a
//! small tree.
//!
//! # Rules
//! * A set is a file: the tree, `---`, the alphabet.
//! * Cases are numbered through all sets, short rows first; a number gives its case at once, so
//!   that any share of them can be run anywhere.

use crate::case::Case;

/// Longest row.
pub const LENGTH: u32 = 3;

/// Builds in a set.
macro_rules! set {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../cases/exhaustive/", $name, ".txt")),
        )
    };
}

/// The sets: name and text.
pub const SETS: &[(&str, &str)] = &[
    set!("open"),
    set!("names"),
    set!("rights"),
    set!("mounts"),
    set!("spread"),
    set!("attrs"),
    set!("table"),
];

/// A set, read.
#[derive(Debug)]
pub struct Set {
    name: &'static str,
    /// The tree is the set-up; the alphabet follows it.
    case: Case,
}

impl Set {
    fn letters(&self) -> u64 {
        (self.case.ops.len() - self.case.setup) as u64
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> u64 {
        (1..=LENGTH).map(|n| self.letters().pow(n)).sum()
    }

    /// The row of this number.
    #[must_use]
    pub fn row(&self, mut number: u64) -> Case {
        let mut length = 1;
        while number >= self.letters().pow(length) {
            number -= self.letters().pow(length);
            length += 1;
        }
        let mut ops = self.case.ops[..self.case.setup].to_vec();
        let setup = ops.len();
        for _ in 0..length {
            let letter = usize::try_from(number % self.letters()).unwrap_or(0);
            ops.push(self.case.ops[setup + letter].clone());
            number /= self.letters();
        }
        Case { ops, setup }
    }
}

/// All sets.
///
/// # Panics
/// If a set cannot be read, which a test rules out.
#[must_use]
pub fn sets() -> Vec<Set> {
    let read = |(name, text): &(&'static str, &str)| Set {
        name,
        case: text.parse().unwrap_or_else(|e| panic!("{name}: {e}")),
    };
    SETS.iter().map(read).collect()
}

/// How many cases there are in all.
#[must_use]
pub fn count(sets: &[Set]) -> u64 {
    sets.iter().map(Set::rows).sum()
}

/// The first and the end of the numbers of a set's cases.
#[must_use]
pub fn range(sets: &[Set], name: &str) -> Option<[u64; 2]> {
    let at = sets.iter().position(|set| set.name == name)?;
    let first = count(&sets[..at]);
    Some([first, first + sets[at].rows()])
}

/// The case of this number, and where it comes from.
#[must_use]
pub fn case(sets: &[Set], mut number: u64) -> Option<(String, Case)> {
    for set in sets {
        if number < set.rows() {
            return Some((format!("{} {number}", set.name), set.row(number)));
        }
        number -= set.rows();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_can_be_read_and_every_row_is_there_once() {
        for set in sets() {
            assert!(set.letters() >= 40, "{}: {}", set.name, set.letters());
        }
        let small = Set {
            name: "small",
            case: "getcwd\n---\nstat a\nstat b\n".parse().expect("a case"),
        };
        assert_eq!(small.rows(), 2 + 4 + 8);
        let rows: Vec<String> = (0..small.rows())
            .map(|i| small.row(i).to_string())
            .collect();
        assert!((1..rows.len()).all(|i| !rows[..i].contains(&rows[i])));
        let sets = [small];
        assert_eq!(range(&sets, "small"), Some([0, 14]));
        assert_eq!(range(&sets, "large"), None);
        assert!(case(&sets, 14).is_none());
    }
}
