// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses golden facts (operations with the answers that Linux gave), and checks a run against
//! them.
//!
//! # Rules
//! * `tree NAME`, operations, `end` names a set-up; `tree NAME BASE` extends another one.
//! * `each NAME TREE`, lines, `end`: every line runs on a fresh tree. `seq NAME TREE`, lines,
//!   `end`: all lines run in order on one tree.
//! * A line is an operation, then `=> ERRNO`, `=> ok` or `=> NUMBER` (octal with a leading 0);
//!   without `=>` it only prepares.
//! * An answer is a fact about Linux: a side that differs from it is wrong, the host included.

use std::collections::HashMap;

use openpath_abi::Errno;

use crate::case::{Case, Trace};
use crate::op::Op;
use crate::outcome::Outcome;

/// Embeds a file of facts.
macro_rules! file {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../conformance/cases/", $name, ".case")),
        )
    };
}

/// The files of facts: name and text.
pub const FILES: &[(&str, &str)] = &[
    file!("open_shapes"),
    file!("open_order"),
    file!("openat2"),
    file!("rights"),
    file!("acl"),
    file!("links"),
    file!("names"),
    file!("mounts"),
    file!("namespaces"),
    file!("descriptors"),
    file!("io"),
];

/// Probes that are not facts of this part: lines of id, count and reason.
pub const NOT_APPLICABLE: &str = include_str!("../../../conformance/cases/not_applicable.txt");

/// The required outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Success, with any value.
    Ok,
    /// This error.
    Err(Errno),
    /// This number.
    Num(i64),
}

impl Expect {
    /// Whether an outcome meets the requirement.
    #[must_use]
    pub fn fits(self, outcome: &Outcome) -> bool {
        match self {
            Expect::Ok => outcome.is_ok(),
            Expect::Err(e) => *outcome == Outcome::Err(e),
            Expect::Num(n) => *outcome == Outcome::Num(n),
        }
    }

    fn parse(word: &str) -> Result<Expect, String> {
        if word == "ok" {
            return Ok(Expect::Ok);
        }
        let number = match word.strip_prefix('0') {
            Some(octal) if !octal.is_empty() => i64::from_str_radix(octal, 8).ok(),
            _ => word.parse().ok(),
        };
        match (number, Errno::from_name(word)) {
            (Some(n), _) => Ok(Expect::Num(n)),
            (_, Some(e)) => Ok(Expect::Err(e)),
            _ => Err(format!("not an answer: {word}")),
        }
    }
}

/// A case with the required answers.
#[derive(Clone, Debug)]
pub struct Fact {
    /// File, group and line.
    pub name: String,
    /// The operations.
    pub case: Case,
    /// The required answer of each operation, where there is one.
    pub expect: Vec<Option<Expect>>,
}

impl Fact {
    /// The first operation with another outcome than required, and the requirement.
    #[must_use]
    pub fn wrong(&self, trace: &Trace) -> Option<(usize, Expect)> {
        let pairs = self.expect.iter().zip(&trace.outcomes).enumerate();
        pairs
            .filter_map(|(i, (want, got))| want.filter(|w| !w.fits(got)).map(|w| (i, w)))
            .next()
    }

    /// How many answers the fact checks.
    #[must_use]
    pub fn answers(&self) -> usize {
        self.expect.iter().flatten().count()
    }
}

/// Parses all files of facts.
///
/// # Errors
/// A message with file and line.
pub fn all() -> Result<Vec<Fact>, String> {
    let mut reader = Reader::default();
    for (file, text) in FILES {
        for (i, line) in text.lines().enumerate() {
            reader
                .line(file, i + 1, line)
                .map_err(|e| format!("{file}:{}: {e}", i + 1))?;
        }
        if reader.block.is_some() {
            return Err(format!("{file}: no end"));
        }
    }
    Ok(reader.facts)
}

enum Block {
    Tree { name: String, ops: Vec<Op> },
    Each { name: String, setup: Vec<Op> },
    Seq { fact: Fact },
}

#[derive(Default)]
struct Reader {
    trees: HashMap<String, Vec<Op>>,
    facts: Vec<Fact>,
    block: Option<Block>,
}

fn fact(name: String, setup: &[Op]) -> Fact {
    let case = Case {
        ops: setup.to_vec(),
        setup: setup.len(),
    };
    Fact {
        name,
        expect: vec![None; case.ops.len()],
        case,
    }
}

impl Reader {
    fn line(&mut self, file: &str, number: usize, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match (self.block.take(), words.as_slice()) {
            (None, ["tree", name, base @ ..]) => {
                let ops = self.base(base)?;
                self.block = Some(Block::Tree {
                    name: (*name).to_owned(),
                    ops,
                });
            }
            (None, ["each", name, base @ ..]) => {
                let (name, setup) = (format!("{file}/{name}"), self.base(base)?);
                self.block = Some(Block::Each { name, setup });
            }
            (None, ["seq", name, base @ ..]) => {
                let fact = fact(format!("{file}/{name}"), &self.base(base)?);
                self.block = Some(Block::Seq { fact });
            }
            (None, _) => return Err("outside of a block".to_owned()),
            (Some(block), ["end"]) => self.end(block),
            (Some(block), _) => self.block = Some(self.inside(block, number, line)?),
        }
        Ok(())
    }

    fn base(&self, words: &[&str]) -> Result<Vec<Op>, String> {
        match words {
            [] => Ok(Vec::new()),
            [name] => self
                .trees
                .get(*name)
                .cloned()
                .ok_or_else(|| format!("no tree {name}")),
            _ => Err("too many words".to_owned()),
        }
    }

    fn end(&mut self, block: Block) {
        match block {
            Block::Tree { name, ops } => {
                self.trees.insert(name, ops);
            }
            Block::Each { .. } => {}
            Block::Seq { fact } => self.facts.push(fact),
        }
    }

    fn inside(&mut self, mut block: Block, number: usize, line: &str) -> Result<Block, String> {
        let (op, answer) = match line.split_once(" => ") {
            Some((op, answer)) => {
                let word = answer.split_whitespace().next().unwrap_or("");
                (op, Some(Expect::parse(word)?))
            }
            None => (line, None),
        };
        let op: Op = op.parse()?;
        match &mut block {
            Block::Tree { ops, .. } => ops.push(op),
            Block::Each { name, setup } => {
                let mut one = fact(format!("{name}:{number}"), setup);
                one.case.ops.push(op);
                one.expect
                    .push(Some(answer.ok_or("a line of `each` has no answer")?));
                self.facts.push(one);
            }
            Block::Seq { fact } => {
                fact.case.ops.push(op);
                fact.expect.push(answer);
            }
        }
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_can_be_parsed() {
        let facts = all().expect("the files of facts");
        let answers: usize = facts.iter().map(Fact::answers).sum();
        assert!(answers > 1200, "{answers} answers");
    }
}
