// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enumerates all sequences of one, two or three operations from a small alphabet, on a small tree.
//!
//! # Rules
//! * A set is a file: the tree, `---`, the alphabet.
//! * Cases are numbered through all sets, short sequences first; a number gives its case at once,
//!   so that any share of them can run anywhere.

use crate::case::Case;

/// Length of the longest sequence.
pub const LENGTH: u32 = 3;

/// Embeds the file of a set.
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

/// A parsed set.
#[derive(Debug)]
pub struct Set {
    name: &'static str,
    /// The tree as set-up, followed by the alphabet.
    case: Case,
}

impl Set {
    fn letters(&self) -> u64 {
        (self.case.ops.len() - self.case.setup) as u64
    }

    /// How many sequences the set has.
    #[must_use]
    pub fn sequences(&self) -> u64 {
        (1..=LENGTH).map(|n| self.letters().pow(n)).sum()
    }

    /// The sequence with this number.
    #[must_use]
    pub fn sequence(&self, mut number: u64) -> Case {
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
/// If a set cannot be parsed, which a test excludes.
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
    sets.iter().map(Set::sequences).sum()
}

/// The range of the numbers of a set's cases.
#[must_use]
pub fn range(sets: &[Set], name: &str) -> Option<[u64; 2]> {
    let at = sets.iter().position(|set| set.name == name)?;
    let first = count(&sets[..at]);
    Some([first, first + sets[at].sequences()])
}

/// The case with this number, and its origin.
#[must_use]
pub fn case(sets: &[Set], mut number: u64) -> Option<(String, Case)> {
    for set in sets {
        if number < set.sequences() {
            return Some((format!("{} {number}", set.name), set.sequence(number)));
        }
        number -= set.sequences();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_parses_and_has_each_sequence_once() {
        for set in sets() {
            assert!(set.letters() >= 40, "{}: {}", set.name, set.letters());
        }
        let small = Set {
            name: "small",
            case: "getcwd\n---\nstat a\nstat b\n".parse().expect("a case"),
        };
        assert_eq!(small.sequences(), 2 + 4 + 8);
        let sequences: Vec<String> = (0..small.sequences())
            .map(|i| small.sequence(i).to_string())
            .collect();
        assert!((1..sequences.len()).all(|i| !sequences[..i].contains(&sequences[i])));
        let sets = [small];
        assert_eq!(range(&sets, "small"), Some([0, 14]));
        assert_eq!(range(&sets, "large"), None);
        assert!(case(&sets, 14).is_none());
    }
}
