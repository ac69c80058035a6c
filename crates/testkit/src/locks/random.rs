// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes random scripts of lock calls, and compares openpath with the kernel by them. Four tasks,
//! two of which share a table, lock ranges that meet, open and close descriptors of three files,
//! and pass odd arguments.

use super::both::{self, Both};
use super::{HIDDEN, Layout, Look, Op, Script, Step, hidden};
use crate::rng::Rng;
use openpath_abi::fcntl::{O_PATH, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_abi::lock as l;
use openpath_abi::{Flock, OFlags};
use std::io;

/// How many calls a script has.
pub const OPS: usize = 250;
/// The first bytes of ranges are below this.
const BYTES: usize = 12;
/// How many descriptors are used.
const FDS: usize = 8;

/// The script of a seed.
#[must_use]
pub fn script(seed: u64) -> Script {
    let mut rng = Rng::new(seed);
    let layout = Layout {
        threads: &[2, 1, 1],
        common: rng.one_in(2),
    };
    let mut setup = hidden(&layout);
    for thread in layout.firsts() {
        for file in 0..super::FILES {
            setup.push(Step {
                thread,
                op: Op::Open(file, O_RDWR.bits()),
            });
        }
    }
    let steps = (0..OPS).map(|_| Step {
        thread: rng.below(layout.count()),
        op: op(&mut rng),
    });
    let steps = steps.collect();
    let look = Look {
        base: HIDDEN,
        bytes: 14,
        flock: true,
    };
    Script {
        layout,
        setup,
        steps,
        look: Some(look),
    }
}

fn fd(rng: &mut Rng) -> i32 {
    match rng.below(60) {
        0 => *rng.pick(&[-1, -100, 19, 1_000_000, i32::MAX]),
        at => i32::try_from(at % FDS).unwrap_or(0),
    }
}

fn op(rng: &mut Rng) -> Op {
    let fd = fd(rng);
    match rng.below(100) {
        0..32 => Op::Fcntl(fd, l::F_SETLK, ask(rng, false)),
        32..58 => Op::Fcntl(fd, l::F_OFD_SETLK, ask(rng, true)),
        58..62 => Op::Fcntl(fd, l::F_GETLK, ask(rng, false)),
        62..66 => Op::Fcntl(fd, l::F_OFD_GETLK, ask(rng, true)),
        66..80 => Op::Flock(fd, whole(rng)),
        80..88 => {
            let flags = [
                O_RDWR,
                O_RDWR,
                O_RDWR,
                O_RDONLY,
                O_WRONLY,
                OFlags::from_bits_retain(3),
                O_PATH,
            ];
            Op::Open(
                i32::try_from(rng.below(3)).unwrap_or(0),
                (*rng.pick(&flags)).bits(),
            )
        }
        88..92 => Op::Close(fd),
        92..94 => Op::Dup(fd),
        // Always below the descriptors for inspection.
        94..96 => Op::Dup2(fd, i32::try_from(rng.below(FDS)).unwrap_or(0)),
        96 => {
            let first = rng.below(FDS) as u32;
            let past = (HIDDEN - 1).cast_unsigned();
            Op::CloseRange(first, *rng.pick(&[first, first + 1, past, 0]))
        }
        97..99 => Op::Seek(fd, rng.below(BYTES) as i64),
        _ => Op::Truncate(fd, rng.below(BYTES) as i64),
    }
}

/// An operation for flock(2) that never waits.
fn whole(rng: &mut Rng) -> u32 {
    let sane = [l::LOCK_SH, l::LOCK_EX, l::LOCK_EX, l::LOCK_UN];
    let odd = [0, 3, 16, l::LOCK_MAND, l::LOCK_SH | l::LOCK_UN, u32::MAX];
    let op = if rng.one_in(30) {
        *rng.pick(&odd)
    } else {
        *rng.pick(&sane)
    };
    op | l::LOCK_NB
}

fn ask(rng: &mut Rng, of_file: bool) -> Flock {
    let kinds = [l::F_RDLCK, l::F_RDLCK, l::F_WRLCK, l::F_WRLCK, l::F_UNLCK];
    let kind = if rng.one_in(50) {
        *rng.pick(&[-1, 3, 7, 4, 32])
    } else {
        *rng.pick(&kinds)
    };
    let whence = match rng.below(30) {
        0 => *rng.pick(&[3, -1, 9, i16::MAX]),
        1..4 => 1,
        4..7 => 2,
        _ => 0,
    };
    let small = |rng: &mut Rng| rng.below(BYTES) as i64;
    let (start, len) = match rng.below(16) {
        0 => (0, 0),
        1 => (small(rng), 0),
        2 => (small(rng) - 4, small(rng)),
        3 => (small(rng), -small(rng)),
        4 => (-small(rng), small(rng)),
        5 => (i64::MAX - small(rng), small(rng)),
        6 => (small(rng), i64::MAX - small(rng)),
        7 if rng.one_in(4) => {
            let ends = [i64::MAX, i64::MIN, i64::MIN + 1, -1, 0, 1];
            (*rng.pick(&ends), *rng.pick(&ends))
        }
        _ => (small(rng), 1 + small(rng) / 2),
    };
    let has_pid = if of_file {
        rng.one_in(40)
    } else {
        rng.one_in(10)
    };
    let pid = if has_pid {
        *rng.pick(&[1, -1, i32::MAX])
    } else {
        0
    };
    Flock {
        kind,
        whence,
        start,
        len,
        pid,
    }
}

/// The results of all scripts.
#[derive(Debug, Default)]
pub struct Sum {
    /// Calls, without inspections.
    pub ops: u64,
    /// Calls, with those of set-ups.
    pub calls: u64,
    /// Compared answers.
    pub answers: u64,
    /// Calls that succeeded.
    pub worked: u64,
    /// The differences, each with the smallest script nearby.
    pub reports: Vec<String>,
}

/// Runs scripts of at least this many calls in all, until this many differ.
///
/// # Errors
/// Those of making a side.
pub fn run(seed: u64, ops: u64, reports: usize) -> io::Result<Sum> {
    let mut sum = Sum::default();
    for seed in seed..seed + ops.div_ceil(OPS as u64) {
        let script = script(seed);
        let both = Both::new(&script.layout)?;
        let all = script.all();
        let [kernel, ours] = both.run(all.iter().map(|(_, step)| *step).collect());
        let found = both::first(&all, [&kernel, &ours]).or(both.end(script.steps.len()));
        let calls = all.iter().map(|(_, step)| step).zip(&kernel);
        let (looks, calls): (Vec<_>, Vec<_>) =
            calls.partition(|(step, _)| matches!(step.op, Op::Look(_)));
        sum.ops += script.steps.len() as u64;
        sum.calls += calls.len() as u64;
        sum.worked += calls.iter().filter(|(_, answer)| answer.is_ok()).count() as u64;
        let seen = looks.iter().map(|(_, answer)| match answer {
            Ok(super::Told::Seen(all)) => all.len() as u64,
            _ => 1,
        });
        sum.answers += calls.len() as u64 + seen.sum::<u64>();
        if let Some(first) = found {
            let text = both::report(&script, &first)?;
            sum.reports.push(format!("seed {seed}\n{text}"));
            if sum.reports.len() >= reports {
                break;
            }
        }
    }
    Ok(sum)
}
