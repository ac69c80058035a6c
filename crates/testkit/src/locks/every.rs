// SPDX-License-Identifier: MIT OR Apache-2.0
//! All rows of one, two or three calls of two processes with two threads each on three files.
//!
//! # Shape
//! A call is one of [`ACTS`] on the descriptor of a file: a lock of one of three ranges that meet,
//! of either owner, in either way, or the end of one; flock(2) in its three ways; closing the
//! descriptor, making a second one, and making one that is closed at once. A process has a
//! descriptor of each file: of an open file of its own, or of one that both have in common; each is
//! a set. After a row every thread looks at all files by its descriptors, and then somebody from
//! outside.
//!
//! # Rules
//! R1. Of rows that become each other by renaming files, processes, or threads of one process, one
//!     is done: in which a process, a thread of it and a file is used first before those after it
//!     are. What a row begins with is the same under each such name, and nothing that is compared
//!     says a name; so on a side that treats names alike its answers are those of the others. That
//!     openpath does so is for [`super::random`] to show, which renames nothing.
//! R2. Each row begins with nothing locked, the same descriptors, and as they were when new.

use super::both::{self, Both};
use super::{Cast, FILES, HIDDEN, Look, Op, Script, Step, hidden};
use openpath_abi::Flock;
use openpath_abi::fcntl::O_RDWR;
use openpath_abi::lock as l;
use std::io;

/// Ranges that are locked.
const RANGES: [(i64, i64); 3] = [(0, 2), (1, 2), (0, 0)];
/// Bytes that are looked at, and then the rest.
const BYTES: i64 = 3;
/// What may be done with a descriptor.
pub const ACTS: usize = 2 * 3 * RANGES.len() + 3 + 3;
/// Most calls of a row.
pub const LENGTH: usize = 3;
/// Rows that are done together.
const TOGETHER: usize = 200;
/// Where a second descriptor of a file is, after the first.
const SECOND: i32 = FILES;
/// Where open files in common are kept while they are closed.
const KEPT: i32 = 10;
const THREADS: &[usize] = &[2, 2];

/// A call of a row: who, on which file, and what.
type Letter = (usize, i32, usize);

/// The sets: whether the processes have open files in common.
pub const SETS: [bool; 2] = [false, true];

/// Puts all rows, by [`ACTS`] and names in their order of use (R1), where `each` has them.
fn rows(
    row: &mut Vec<Letter>,
    each: &mut impl FnMut(&[Letter]) -> io::Result<bool>,
) -> io::Result<bool> {
    if !row.is_empty() && !each(row)? {
        return Ok(false);
    }
    if row.len() == LENGTH {
        return Ok(true);
    }
    for who in 0..4 {
        let used = |other: usize| row.iter().any(|letter| letter.0 == other);
        let is_new = match who {
            0 => true,
            1 => used(0),
            2 => used(0),
            _ => used(2),
        };
        if !is_new {
            continue;
        }
        let files = row.iter().map(|letter| letter.1 + 1).max().unwrap_or(0);
        for file in 0..FILES.min(files + 1) {
            for act in 0..ACTS {
                row.push((who, file, act));
                let goes_on = rows(row, each)?;
                row.pop();
                if !goes_on {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// The calls of a letter.
fn ops(file: i32, act: usize) -> Vec<Op> {
    let locks = 3 * RANGES.len();
    if act < 2 * locks {
        let cmd = [l::F_SETLK, l::F_OFD_SETLK][act / locks];
        let kind = [l::F_RDLCK, l::F_WRLCK, l::F_UNLCK][act % 3];
        let (start, len) = RANGES[act % locks / 3];
        return vec![Op::Fcntl(file, cmd, Flock::new(kind, start, len))];
    }
    match act - 2 * locks {
        0 => vec![Op::Flock(file, l::LOCK_SH | l::LOCK_NB)],
        1 => vec![Op::Flock(file, l::LOCK_EX | l::LOCK_NB)],
        2 => vec![Op::Flock(file, l::LOCK_UN)],
        3 => vec![Op::Close(file)],
        4 => vec![Op::Dup2(file, file + SECOND)],
        _ => vec![
            Op::Dup2(file, file + 2 * SECOND),
            Op::Close(file + 2 * SECOND),
        ],
    }
}

/// What a row is: its calls, and looks of all.
fn steps(row: &[Letter]) -> Vec<Step> {
    let calls = row.iter().flat_map(|(who, file, act)| {
        let ops = ops(*file, *act).into_iter();
        ops.map(|op| Step { who: *who, op })
    });
    let by_own = Look {
        base: 0,
        bytes: BYTES,
        flock: false,
    };
    let outside = Look {
        base: HIDDEN,
        bytes: BYTES,
        flock: true,
    };
    let looks = (0..4).map(|who| Step {
        who,
        op: Op::Look(by_own),
    });
    let last = Step {
        who: 3,
        op: Op::Look(outside),
    };
    calls.chain(looks).chain([last]).collect()
}

/// What each table begins with.
fn setup(cast: &Cast) -> Vec<Step> {
    let mut steps = hidden(cast);
    if cast.common {
        for who in cast.firsts() {
            let keep = (0..FILES).map(|file| Op::Dup2(file, KEPT + file));
            steps.extend(keep.map(|op| Step { who, op }));
        }
    }
    // By who has looked last, and then by the other.
    for who in [3, 0] {
        steps.extend(afresh(cast.common).into_iter().map(|op| Step { who, op }));
    }
    steps
}

/// Has a process begin again (R2).
fn afresh(common: bool) -> Vec<Op> {
    let last = (KEPT - 1).cast_unsigned();
    let files = 0..FILES;
    let mut ops = vec![Op::CloseRange(0, last)];
    if common {
        ops.extend(files.flat_map(|file| {
            let kept = KEPT + file;
            let none = Flock::new(l::F_UNLCK, 0, 0);
            let end = Op::Fcntl(kept, l::F_OFD_SETLK, none);
            [Op::Dup2(kept, file), end, Op::Flock(kept, l::LOCK_UN)]
        }));
    } else {
        ops.extend(files.map(|file| Op::Open(file, O_RDWR.bits())));
    }
    ops
}

/// What all rows gave.
#[derive(Debug, Default)]
pub struct Sum {
    /// Rows that were done.
    pub rows: u64,
    /// What differed, each the smallest nearby.
    pub reports: Vec<String>,
}

/// How many rows there are, of all sets.
#[must_use]
pub fn count() -> u64 {
    let mut count = 0;
    let mut each = |_: &[Letter]| {
        count += 1;
        Ok(true)
    };
    // It asks nobody.
    let _counted = rows(&mut Vec::new(), &mut each);
    count * SETS.len() as u64
}

/// Does every row whose number `nth` divides, until so many differ.
///
/// # Errors
/// What kept a side from being made.
pub fn run(nth: u64, reports: usize) -> io::Result<Sum> {
    let mut sum = Sum::default();
    for common in SETS {
        let cast = Cast {
            threads: THREADS,
            common,
        };
        let mut pending: Vec<Vec<Letter>> = Vec::new();
        let both = Both::new(&cast)?;
        let setup = setup(&cast);
        for answers in both.run(setup.clone()) {
            super::is_set_up(&setup, &answers).map_err(io::Error::other)?;
        }
        let mut number = 0;
        rows(&mut Vec::new(), &mut |row| {
            number += 1;
            if number % nth == 0 {
                pending.push(row.to_vec());
            }
            if pending.len() == TOGETHER {
                together(&both, &cast, &mut pending, &mut sum)?;
            }
            Ok(sum.reports.len() < reports)
        })?;
        together(&both, &cast, &mut pending, &mut sum)?;
        let left = both.end(0);
        let said = left.map(|left| format!("all rows of {cast:?}\n{}", left.text));
        sum.reports.extend(said);
    }
    Ok(sum)
}

/// Does rows one after the other, and each by itself in which both sides differ.
fn together(
    both: &Both,
    cast: &Cast,
    pending: &mut Vec<Vec<Letter>>,
    sum: &mut Sum,
) -> io::Result<()> {
    let again = setup(cast).split_off(setup(cast).len() - 2 * afresh(cast.common).len());
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for row in &*pending {
        all.extend(steps(row).into_iter().chain(again.clone()).enumerate());
        ends.push(all.len());
    }
    let [kernel, ours] = both.run(all.iter().map(|(_, step)| *step).collect());
    let mut from = 0;
    for (row, end) in pending.drain(..).zip(ends) {
        let part = core::mem::replace(&mut from, end)..end;
        sum.rows += 1;
        let sides = [&kernel[part.clone()], &ours[part.clone()]];
        if let Some(first) = both::first(&all[part], sides) {
            let script = Script {
                cast: *cast,
                setup: setup(cast),
                steps: steps(&row),
                look: None,
            };
            sum.reports.push(both::report(&script, &first)?);
            // What follows may have begun with what this has left.
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_is_one_of_the_renamings_of_one_that_is_done() {
        // Without acts: as many rows as there are ways to name three calls.
        let mut names: HashSet<Vec<(usize, i32)>> = HashSet::new();
        let mut all = 0;
        let counted = rows(&mut Vec::new(), &mut |row| {
            all += 1;
            let name = row.iter().map(|(who, file, _)| (*who, *file));
            if row.len() == LENGTH {
                names.insert(name.collect());
            }
            Ok(true)
        });
        assert!(matches!(counted, Ok(true)));
        // Each stands for all that its names can be renamed to; together they are all 12^3.
        let mut covered = HashSet::new();
        for row in &names {
            for at in 0..48 {
                let [file_at, swap_a, swap_b, swap] = [at % 6, at / 6 % 2, at / 12 % 2, at / 24];
                let files = [
                    [0, 1, 2],
                    [0, 2, 1],
                    [1, 0, 2],
                    [1, 2, 0],
                    [2, 0, 1],
                    [2, 1, 0],
                ];
                let renamed = row.iter().map(|(who, file)| {
                    let (process, thread) = (who / 2, who % 2);
                    let thread = thread ^ [swap_a, swap_b][process];
                    (
                        (process ^ swap) * 2 + thread,
                        files[file_at][*file as usize],
                    )
                });
                covered.insert(renamed.collect::<Vec<_>>());
            }
        }
        assert_eq!(covered.len(), 12 * 12 * 12);
        assert_eq!(names.len(), 50, "ten ways of who, five of where");
        assert_eq!(all * 2, count());
        assert_eq!(count(), 2 * (24 + 3 * 2 * 24 * 24 + 50 * 24 * 24 * 24));
    }
}
