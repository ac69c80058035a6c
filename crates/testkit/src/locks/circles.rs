// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares circles of waiting processes: which call fails with `EDEADLK`, which waits, and which
//! continues when a lock is released.
//!
//! # Shape
//! Two to fourteen processes of three threads. Each process locks a range of a file; its first
//! thread then waits for a byte of the next process's range, in any order; the second threads of
//! some wait for a byte of any process. Some locks are open file locks, which are never refused.
//! Then the third threads release, in any order, until no thread waits.
//!
//! # Rules
//! R1. No two threads wait for the same byte, so the order in which waiters continue makes no
//!     difference (L80).
//! R2. After each call both sides run until each thread has its answer or sleeps in its call; then
//!     all results are compared.

use super::kernel::Kernel;
use super::ours::Ours;
use super::text;
use super::turns::{Batch, ThreadGroup, serve};
use super::{Answer, FILES, Layout, Op, Step};
use crate::rng::Rng;
use openpath_abi::Flock;
use openpath_abi::fcntl::O_RDWR;
use openpath_abi::lock as l;
use openpath_vfs::{Task, Vfs};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The fewest processes of a circle.
pub const SHORTEST: usize = 2;
/// The longest circle that either side detects.
pub const SEEN: usize = 12;
/// The most processes.
pub const LONGEST: usize = SEEN + 2;
/// Threads of each process.
const THREADS: [usize; LONGEST] = [3; LONGEST];
/// Bytes that each process locks.
const BYTES: i64 = 32;
/// More time than any call takes that does not wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// A circle: calls made one at a time, some of which wait.
#[derive(Clone, Debug)]
pub struct Circle {
    layout: Layout,
    /// Whether there is only the circle, all of it by process locks.
    is_plain: bool,
    /// Opens files, and takes the first locks.
    setup: Vec<Step>,
    /// Waits, and then releases.
    steps: Vec<Step>,
}

/// Makes the circle of a seed.
#[must_use]
pub fn circle(seed: u64) -> Circle {
    let mut rng = Rng::new(seed);
    let length = SHORTEST + rng.below(LONGEST + 1 - SHORTEST);
    let layout = Layout {
        threads: &THREADS[..length],
        common: false,
    };
    let mut setup = Vec::new();
    let mut steps = Vec::new();
    let is_plain = rng.one_in(2);
    let owner = |rng: &mut Rng| {
        if !is_plain && rng.one_in(10) {
            [l::F_OFD_SETLK, l::F_OFD_SETLKW]
        } else {
            [l::F_SETLK, l::F_SETLKW]
        }
    };
    let held: Vec<(i32, u32)> = (0..length)
        .map(|_| (rng.pick(&[0, 1, 2]).to_owned(), owner(&mut rng)[0]))
        .collect();
    for (at, (file, cmd)) in held.iter().enumerate() {
        let thread = at * 3;
        setup.extend((0..FILES).map(|file| Step {
            thread,
            op: Op::Open(file, O_RDWR.bits()),
        }));
        let ask = Flock::new(l::F_WRLCK, at as i64 * BYTES, BYTES);
        setup.push(Step {
            thread,
            op: Op::Fcntl(*file, *cmd, ask),
        });
    }
    // R1
    let mut wanted = vec![0; length];
    let mut wait = |rng: &mut Rng, thread: usize, of: usize| {
        let at = of as i64 * BYTES + wanted[of];
        wanted[of] += 1;
        let ask = Flock::new(*rng.pick(&[l::F_RDLCK, l::F_WRLCK]), at, 1);
        Step {
            thread,
            op: Op::Fcntl(held[of].0, owner(rng)[1], ask),
        }
    };
    for at in 0..length {
        steps.push(wait(&mut rng, at * 3, (at + 1) % length));
    }
    if !is_plain {
        for at in 0..length {
            let of = rng.below(length);
            if rng.one_in(4) && of != at {
                steps.push(wait(&mut rng, at * 3 + 1, of));
            }
        }
    }
    shuffle(&mut rng, &mut steps);
    steps.extend(ends(&mut rng, &held));
    Circle {
        layout,
        is_plain,
        setup,
        steps,
    }
}

/// Third threads that release what each process has: a file, and by which call.
fn ends(rng: &mut Rng, held: &[(i32, u32)]) -> Vec<Step> {
    let mut ends: Vec<Step> = Vec::new();
    for (at, (file, cmd)) in held.iter().enumerate() {
        let none = Flock::new(l::F_UNLCK, at as i64 * BYTES, BYTES);
        let op = if rng.one_in(3) && *cmd == l::F_SETLK {
            Op::Close(*file)
        } else {
            Op::Fcntl(*file, *cmd, none)
        };
        ends.push(Step {
            thread: at * 3 + 2,
            op,
        });
    }
    shuffle(rng, &mut ends);
    ends
}

fn shuffle(rng: &mut Rng, steps: &mut [Step]) {
    for last in (1..steps.len()).rev() {
        steps.swap(last, rng.below(last + 1));
    }
}

/// The threads that are in a call.
type Inside = BTreeMap<usize, Arc<Batch>>;

/// A side with calls that may wait.
trait Side {
    fn group(&self) -> &ThreadGroup;
    /// Whether all threads that are in a call, all of which have begun, sleep there.
    fn rests(&self, inside: &Inside) -> bool;
}

impl Side for Kernel {
    fn group(&self) -> &ThreadGroup {
        Kernel::group(self)
    }

    fn rests(&self, inside: &Inside) -> bool {
        inside.keys().all(|thread| self.sleeps(*thread))
    }
}

/// Our tasks, each in a thread.
struct Threads {
    vfs: Vfs,
    group: ThreadGroup,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    fn new(ours: Ours) -> Self {
        let begin = |(thread, task): (usize, Task)| {
            let (batches, told) = channel::<Arc<Batch>>();
            let thread = thread::spawn(move || serve(thread, &told, &task));
            (batches, thread)
        };
        let begun = ours.tasks.into_iter().enumerate().map(begin);
        let (members, threads): (Vec<_>, Vec<_>) = begun
            .map(|(batches, thread)| ((batches, thread.thread().clone()), thread))
            .unzip();
        Self {
            vfs: ours.vfs,
            group: ThreadGroup::new(members),
            threads,
        }
    }

    /// Ends the threads; returns whether a lock is left.
    fn end(mut self) -> bool {
        self.group.close();
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
        !self.vfs.locks().is_empty()
    }
}

impl Side for Threads {
    fn group(&self) -> &ThreadGroup {
        &self.group
    }

    /// A waiter that is granted or refused has left its line when the granting call returns.
    fn rests(&self, inside: &Inside) -> bool {
        let locks = self.vfs.locks();
        locks.iter().filter(|lock| lock.waits).count() == inside.len()
    }
}

/// The result of a call: the thread that made it, and all new answers.
type Came = (usize, BTreeMap<usize, Answer>);

/// Runs a circle on one side. R2
fn run_on(side: &impl Side, circle: &Circle) -> Result<Vec<Came>, String> {
    let group = side.group();
    let answers = group.begin(circle.setup.clone()).wait();
    super::is_set_up(&circle.setup, &answers)?;
    let mut inside = Inside::new();
    let mut came = Vec::new();
    for step in &circle.steps {
        inside.insert(step.thread, group.begin(vec![*step]));
        let answers = settle(side, &mut inside)?;
        came.push((step.thread, answers));
    }
    Ok(came)
}

/// Waits until each thread has answered or sleeps; returns the answers.
fn settle(side: &impl Side, inside: &mut Inside) -> Result<BTreeMap<usize, Answer>, String> {
    let began = Instant::now();
    let mut answers = BTreeMap::new();
    loop {
        let has_begun = inside.values().all(|batch| batch.has_begun());
        let rests = has_begun && side.rests(inside);
        // A thread that was still running may have woken others, so all are checked again.
        let before = inside.len();
        inside.retain(|thread, batch| {
            let said = batch.answers().and_then(|mut all| all.pop());
            let is_in = said.is_none();
            answers.extend(said.map(|said| (*thread, said)));
            is_in
        });
        let is_quiet = rests && inside.len() == before;
        if is_quiet {
            return Ok(answers);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("threads {:?} do not come to rest", inside.keys()));
        }
        thread::yield_now();
    }
}

/// The results of all circles.
#[derive(Debug, Default)]
pub struct Sum {
    /// How many circles.
    pub circles: u64,
    /// Of plain circles: how many of each length, and in how many of them a call was refused.
    pub lengths: BTreeMap<usize, [u64; 2]>,
    /// Calls in all.
    pub calls: u64,
    /// Calls that waited at first.
    pub waited: u64,
    /// Calls refused with `EDEADLK`.
    pub refused: u64,
    /// The differences.
    pub reports: Vec<String>,
}

/// Runs this many circles, or until this many differ.
///
/// # Errors
/// Those of making a side.
pub fn run(seed: u64, count: u64, reports: usize) -> io::Result<Sum> {
    let mut sum = Sum::default();
    for seed in seed..seed + count {
        let circle = circle(seed);
        let ours = Ours::new(&circle.layout);
        let ours = ours.map_err(|e| io::Error::other(format!("no Vfs: {e}")))?;
        let (kernel, threads) = (Kernel::new(&circle.layout)?, Threads::new(ours));
        let both = (run_on(&kernel, &circle), run_on(&threads, &circle));
        let (theirs, own) = match both {
            (Ok(theirs), Ok(own)) => (theirs, own),
            (theirs, own) => {
                // Threads that wait for ever are left there.
                core::mem::forget((kernel, threads));
                let why = [theirs.err(), own.err()];
                return Err(io::Error::other(format!("seed {seed}: {why:?}\n{circle}")));
            }
        };
        let is_left = threads.end();
        drop(kernel);
        let is_refusal = |answer: &Answer| *answer == Err(openpath_abi::Errno::EDEADLK);
        let all = || theirs.iter().flat_map(|(_, came)| came.values());
        let refused = all().filter(|answer| is_refusal(answer)).count() as u64;
        sum.circles += 1;
        if circle.is_plain {
            let of_length = sum.lengths.entry(circle.layout.threads.len()).or_default();
            of_length[0] += 1;
            of_length[1] += u64::from(refused > 0);
        }
        sum.calls += circle.steps.len() as u64;
        sum.refused += refused;
        let late = |(thread, came): &&Came| !came.contains_key(thread);
        sum.waited += theirs.iter().filter(late).count() as u64;
        if theirs != own || is_left {
            sum.reports
                .push(format!("seed {seed}\n{}", told(&circle, &theirs, &own)));
            if sum.reports.len() >= reports {
                break;
            }
        }
    }
    Ok(sum)
}

/// Renders the calls up to the difference.
fn told(circle: &Circle, theirs: &[Came], own: &[Came]) -> String {
    let mut lines = format!("{} processes\n", circle.layout.threads.len());
    let name = |thread: &usize| circle.layout.name(*thread);
    let said = |came: &Came| {
        let all = came
            .1
            .iter()
            .map(|(thread, answer)| format!("{} {}", name(thread), text::said(answer)));
        all.collect::<Vec<_>>().join(", ")
    };
    for step in &circle.setup {
        lines += &format!("{} {}\n", name(&step.thread), step.op);
    }
    for (step, (a, b)) in circle.steps.iter().zip(theirs.iter().zip(own)) {
        lines += &format!("{} {} = {}\n", name(&step.thread), step.op, said(a));
        if a != b {
            return lines + &format!("    openpath: {}\n", said(b));
        }
    }
    lines + "    openpath: locked when all have ended\n"
}

impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for step in self.setup.iter().chain(&self.steps) {
            writeln!(f, "{} {}", self.layout.name(step.thread), step.op)?;
        }
        Ok(())
    }
}
