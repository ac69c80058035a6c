// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs all sequences of one, two or three lock calls on openpath and on the kernel, and compares
//! the answers. The calls are those of two processes with two threads each on three files.
//!
//! # Shape
//! A call is one of [`ACTS`] on the descriptor of a file. It locks one of three ranges that meet,
//! by either owner, in either mode, or unlocks it; it calls flock(2) in its three modes; it closes
//! the descriptor, duplicates it, or duplicates it and closes the copy at once. A process has a
//! descriptor of each file: of an open file of its own, or of one that both processes share; each
//! choice is a set. After a sequence every thread inspects all files by its descriptors, and then a
//! thread of neither process does.
//!
//! # Rules
//! R1. Of sequences that become each other by renaming files, processes, or threads of one process,
//!     one is run: that in which each process, thread and file is first used in the order of its
//!     name. The initial state is the same under each renaming, and no compared answer contains a
//!     name; so on a side that treats names alike one sequence answers for all. That openpath does
//!     so is for [`super::random`] to show, which renames nothing.
//! R2. Each sequence begins without locks, and with the same descriptors, as new.

use super::both::{self, Both};
use super::{FILES, HIDDEN, Layout, Look, Op, Script, Step, hidden};
use openpath_abi::Flock;
use openpath_abi::fcntl::O_RDWR;
use openpath_abi::lock as l;
use std::io;

/// Ranges to lock.
const RANGES: [(i64, i64); 3] = [(0, 2), (1, 2), (0, 0)];
/// Bytes that are inspected one by one; then the rest.
const BYTES: i64 = 3;
/// The number of acts on a descriptor.
pub const ACTS: usize = 2 * 3 * RANGES.len() + 3 + 3;
/// The most calls of a sequence.
pub const LENGTH: usize = 3;
/// Sequences that run together.
const TOGETHER: usize = 200;
/// The number of a file's second descriptor, after the first.
const SECOND: i32 = FILES;
/// Where shared open files are kept while their descriptors are closed.
const KEPT: i32 = 10;
const THREADS: &[usize] = &[2, 2];

/// A call of a sequence: thread, file and act.
type Call = (usize, i32, usize);

/// The sets: whether the processes share open files.
pub const SETS: [bool; 2] = [false, true];

/// Passes all sequences, by [`ACTS`] and names in their order of use (R1), to `each`.
fn sequences(
    sequence: &mut Vec<Call>,
    each: &mut impl FnMut(&[Call]) -> io::Result<bool>,
) -> io::Result<bool> {
    if !sequence.is_empty() && !each(sequence)? {
        return Ok(false);
    }
    if sequence.len() == LENGTH {
        return Ok(true);
    }
    for thread in 0..4 {
        let used = |other: usize| sequence.iter().any(|call| call.0 == other);
        let is_new = match thread {
            0 => true,
            1 => used(0),
            2 => used(0),
            _ => used(2),
        };
        if !is_new {
            continue;
        }
        let files = sequence.iter().map(|call| call.1 + 1).max().unwrap_or(0);
        for file in 0..FILES.min(files + 1) {
            for act in 0..ACTS {
                sequence.push((thread, file, act));
                let goes_on = sequences(sequence, each)?;
                sequence.pop();
                if !goes_on {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// The calls of an act.
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

/// The steps of a sequence: its calls, and looks of all threads.
fn steps(sequence: &[Call]) -> Vec<Step> {
    let calls = sequence.iter().flat_map(|(thread, file, act)| {
        let ops = ops(*file, *act).into_iter();
        ops.map(|op| Step {
            thread: *thread,
            op,
        })
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
    let looks = (0..4).map(|thread| Step {
        thread,
        op: Op::Look(by_own),
    });
    let last = Step {
        thread: 3,
        op: Op::Look(outside),
    };
    calls.chain(looks).chain([last]).collect()
}

/// The calls that fill each table.
fn setup(layout: &Layout) -> Vec<Step> {
    let mut steps = hidden(layout);
    if layout.common {
        for thread in layout.firsts() {
            let keep = (0..FILES).map(|file| Op::Dup2(file, KEPT + file));
            steps.extend(keep.map(|op| Step { thread, op }));
        }
    }
    // First by the thread that looked last, and then by the other process's.
    for thread in [3, 0] {
        steps.extend(
            afresh(layout.common)
                .into_iter()
                .map(|op| Step { thread, op }),
        );
    }
    steps
}

/// Restores the initial state of a process (R2).
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

/// The results of all sequences.
#[derive(Debug, Default)]
pub struct Sum {
    /// Sequences that ran.
    pub sequences: u64,
    /// The differences, each with the smallest script nearby.
    pub reports: Vec<String>,
}

/// How many sequences there are, of all sets.
#[must_use]
pub fn count() -> u64 {
    let mut count = 0;
    let mut each = |_: &[Call]| {
        count += 1;
        Ok(true)
    };
    // The callback never stops.
    let _counted = sequences(&mut Vec::new(), &mut each);
    count * SETS.len() as u64
}

/// Runs every `nth` sequence, until this many differ.
///
/// # Errors
/// Those of making a side.
pub fn run(nth: u64, reports: usize) -> io::Result<Sum> {
    let mut sum = Sum::default();
    for common in SETS {
        let layout = Layout {
            threads: THREADS,
            common,
        };
        let mut pending: Vec<Vec<Call>> = Vec::new();
        let both = Both::new(&layout)?;
        let setup = setup(&layout);
        for answers in both.run(setup.clone()) {
            super::is_set_up(&setup, &answers).map_err(io::Error::other)?;
        }
        let mut number = 0;
        sequences(&mut Vec::new(), &mut |sequence| {
            number += 1;
            if number % nth == 0 {
                pending.push(sequence.to_vec());
            }
            if pending.len() == TOGETHER {
                together(&both, &layout, &mut pending, &mut sum)?;
            }
            Ok(sum.reports.len() < reports)
        })?;
        together(&both, &layout, &mut pending, &mut sum)?;
        let left = both.end(0);
        let said = left.map(|left| format!("all sequences of {layout:?}\n{}", left.text));
        sum.reports.extend(said);
    }
    Ok(sum)
}

/// Runs sequences one after the other, and again by itself each that differs.
fn together(
    both: &Both,
    layout: &Layout,
    pending: &mut Vec<Vec<Call>>,
    sum: &mut Sum,
) -> io::Result<()> {
    let again = setup(layout).split_off(setup(layout).len() - 2 * afresh(layout.common).len());
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for sequence in &*pending {
        all.extend(steps(sequence).into_iter().chain(again.clone()).enumerate());
        ends.push(all.len());
    }
    let [kernel, ours] = both.run(all.iter().map(|(_, step)| *step).collect());
    let mut from = 0;
    for (sequence, end) in pending.drain(..).zip(ends) {
        let part = core::mem::replace(&mut from, end)..end;
        sum.sequences += 1;
        let sides = [&kernel[part.clone()], &ours[part.clone()]];
        if let Some(first) = both::first(&all[part], sides) {
            let script = Script {
                layout: *layout,
                setup: setup(layout),
                steps: steps(&sequence),
                look: None,
            };
            sum.reports.push(both::report(&script, &first)?);
            // Later sequences may have begun with what this one has left.
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
    fn renamings_cover_every_sequence() {
        // Without acts: as many sequences as there are ways to name three calls.
        let mut names: HashSet<Vec<(usize, i32)>> = HashSet::new();
        let mut all = 0;
        let counted = sequences(&mut Vec::new(), &mut |sequence| {
            all += 1;
            let name = sequence.iter().map(|(thread, file, _)| (*thread, *file));
            if sequence.len() == LENGTH {
                names.insert(name.collect());
            }
            Ok(true)
        });
        assert!(matches!(counted, Ok(true)));
        // Each stands for all of its renamings; together they are all 12^3.
        let mut covered = HashSet::new();
        for sequence in &names {
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
                let renamed = sequence.iter().map(|(thread, file)| {
                    let (process, thread) = (thread / 2, thread % 2);
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
        assert_eq!(
            names.len(),
            50,
            "ten ways to name threads, five to name files"
        );
        assert_eq!(all * 2, count());
        assert_eq!(count(), 2 * (24 + 3 * 2 * 24 * 24 + 50 * 24 * 24 * 24));
    }
}
