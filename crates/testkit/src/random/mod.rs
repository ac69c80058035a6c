// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random cases: a prepared tree, then operations over few names, so that they meet.
//!
//! # Rules
//! * The same seed gives the same case.
//! * The generator runs nothing: it guesses what exists from the operations that it made.
//! * In a case with a FIFO or an event queue nothing waits (`tame`), whatever shrinking removes.

mod acls;
mod data;
mod guess;
pub mod mounts;
mod names;
mod ops;
mod paths;
mod pipes;
mod table;
mod tables;

use openpath_abi::{fcntl as f, mode};

use crate::case::Case;
use crate::op::{OFlags, Op, Request};
use crate::rng::Rng;

/// The prepared trees: name, weight, operations.
pub const TREES: &[(&str, usize, &str)] = &[
    ("plain", 3, include_str!("../../cases/trees/plain.txt")),
    ("links", 6, include_str!("../../cases/trees/links.txt")),
    ("people", 5, include_str!("../../cases/trees/people.txt")),
    ("mounts", 5, include_str!("../../cases/trees/mounts.txt")),
    ("deep", 2, include_str!("../../cases/trees/deep.txt")),
    ("special", 3, include_str!("../../cases/trees/special.txt")),
];

/// How many operations follow the set-up of a random case.
pub const OPS: usize = 30;

/// The tree with this name.
#[must_use]
pub fn tree(name: &str) -> Option<Case> {
    let (_, _, text) = TREES.iter().find(|(n, ..)| *n == name)?;
    text.parse().ok()
}

/// The state of the generator while it makes a case.
pub(crate) struct Gen {
    rng: Rng,
    /// Objects that may exist.
    guess: guess::Guess,
    /// The family of operations that this case prefers.
    lean: ops::Lean,
}

/// The case of this seed.
///
/// # Panics
/// If a prepared tree cannot be parsed, which a test excludes.
#[must_use]
pub fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let which: Vec<(usize, usize)> = TREES.iter().enumerate().map(|(i, t)| (t.1, i)).collect();
    let (name, _, text) = TREES[rng.weighted(&which)];
    let mut case: Case = text.parse().expect("a prepared tree");
    let lean = ops::Lean::pick(&mut rng, name);
    let mut made = Gen {
        rng,
        guess: guess::Guess::default(),
        lean,
    };
    for op in &case.ops {
        made.guess.learn(op);
    }
    for op in made.in_hand() {
        made.guess.learn(&op);
        case.ops.push(op);
    }
    case.setup = case.ops.len();
    if made.rng.below(2) == 0 {
        case.ops.push(Op::Cred { uid: 1000 });
    }
    for _ in 0..OPS {
        let op = made.op();
        made.guess.learn(&op);
        case.ops.push(op);
    }
    tame(&mut case);
    // The path cache takes no path of names of one letter, and none with a long name.
    match seed % 6 {
        0 => lengthen(&mut case, 12),
        3 => lengthen(&mut case, 18),
        _ => {}
    }
    case
}

/// Replaces every name of one letter by the letter `times` times, wherever it is.
fn lengthen(case: &mut Case, times: usize) {
    let longer = |name: &str| match name {
        "a" | "b" | "c" | "d" | "e" | "f" | "g" | "x" => name.repeat(times),
        _ => name.to_owned(),
    };
    for op in &mut case.ops {
        let line = op.to_string();
        let words = line.split(' ').map(|word| {
            let parts: Vec<String> = word.split('/').map(longer).collect();
            parts.join("/")
        });
        let words: Vec<String> = words.collect();
        // An operation with such a letter in another place stays as it is.
        if let Ok(long) = words.join(" ").parse() {
            *op = long;
        }
    }
}

/// Whether it makes an object that can be waited for.
pub(crate) fn waits(op: &Op) -> bool {
    match op {
        Op::Mknod { mode: m, .. } => mode::file_type((m.0 & 0xffff) as u32) == mode::S_IFIFO,
        Op::InotifyInit { .. } | Op::Pipe2 { .. } => true,
        _ => false,
    }
}

/// Makes every open in a case with a FIFO or an event queue non-blocking, and keeps it so.
pub fn tame(case: &mut Case) {
    if !case.ops.iter().any(waits) {
        return;
    }
    for op in &mut case.ops {
        match op {
            Op::Open { flags, .. } | Op::Openat2 { flags, .. } | Op::Openat2Raw { flags, .. }
                if flags.0 & u64::from(f::O_PATH) != 0 => {}
            Op::Open { flags, .. }
            | Op::Openat2 { flags, .. }
            | Op::Openat2Raw { flags, .. }
            | Op::SetFl { flags, .. }
            | Op::Pipe2 { flags }
            | Op::InotifyInit { flags } => {
                *flags = OFlags(flags.0 | u64::from(f::O_NONBLOCK));
            }
            Op::Ioctl {
                request: Request(FIONBIO),
                arg,
                ..
            } => *arg = 1,
            _ => {}
        }
    }
}

/// ioctl(2): the argument says whether to block.
const FIONBIO: u32 = 0x5421;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tree_parses_and_every_case_can_be_written() {
        for (name, ..) in TREES {
            assert!(tree(name).is_some(), "{name}");
        }
        for seed in 0..500 {
            let case = case(seed);
            assert_eq!(case.to_string().parse(), Ok(case.clone()), "seed {seed}");
            assert_eq!(super::case(seed), case);
        }
    }
}
