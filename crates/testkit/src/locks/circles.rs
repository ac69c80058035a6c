// SPDX-License-Identifier: MIT OR Apache-2.0
//! Circles of processes that wait for each other: who is refused with `EDEADLK`, who waits, and who
//! goes on when something is let go.
//!
//! # Shape
//! Two to fourteen processes of three threads. Each has a range of a file; the first thread of each
//! comes to wait for a byte of the next one's, in any order; the second threads of some come to
//! wait for a byte of anybody's. Some of this by open files' locks, which nobody is refused. Then
//! the third threads let go, in any order, until nobody waits.
//!
//! # Rules
//! R1. No two wait for the same byte, so that which of several goes on first makes no difference
//!     (L80).
//! R2. After each call both sides are left alone until each thread has its answer or sleeps in its
//!     call; what has come of all is compared then.

use super::crew::{Crew, Play, serve};
use super::kernel::Kernel;
use super::ours::Ours;
use super::text;
use super::{Answer, Cast, FILES, Op, Step};
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

/// Fewest processes of a circle.
pub const SHORTEST: usize = 2;
/// Most that either side sees.
pub const SEEN: usize = 12;
/// Most.
pub const LONGEST: usize = SEEN + 2;
/// Threads of each process.
const THREADS: [usize; LONGEST] = [3; LONGEST];
/// Bytes that each process has.
const BYTES: i64 = 32;
/// Longer than any call takes that does not wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls one at a time, some of which wait.
#[derive(Clone, Debug)]
pub struct Circle {
    cast: Cast,
    /// Nothing but the circle, all of it by locks of processes.
    is_plain: bool,
    /// Opens, and what each has.
    setup: Vec<Step>,
    /// Waits, and then what is let go.
    steps: Vec<Step>,
}

/// The circle of a seed.
#[must_use]
pub fn circle(seed: u64) -> Circle {
    let mut rng = Rng::new(seed);
    let length = SHORTEST + rng.below(LONGEST + 1 - SHORTEST);
    let cast = Cast {
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
        let who = at * 3;
        setup.extend((0..FILES).map(|file| Step {
            who,
            op: Op::Open(file, O_RDWR.bits()),
        }));
        let ask = Flock::new(l::F_WRLCK, at as i64 * BYTES, BYTES);
        setup.push(Step {
            who,
            op: Op::Fcntl(*file, *cmd, ask),
        });
    }
    // R1
    let mut wanted = vec![0; length];
    let mut wait = |rng: &mut Rng, who: usize, of: usize| {
        let at = of as i64 * BYTES + wanted[of];
        wanted[of] += 1;
        let ask = Flock::new(*rng.pick(&[l::F_RDLCK, l::F_WRLCK]), at, 1);
        Step {
            who,
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
        cast,
        is_plain,
        setup,
        steps,
    }
}

/// Third threads that let go of what each process has: a file, and by which call.
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
            who: at * 3 + 2,
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

/// Those who are in a call.
type Inside = BTreeMap<usize, Arc<Play>>;

/// A side whose calls may wait.
trait Side {
    fn crew(&self) -> &Crew;
    /// Whether all who are in a call, which all have begun, sleep there.
    fn rests(&self, inside: &Inside) -> bool;
}

impl Side for Kernel {
    fn crew(&self) -> &Crew {
        Kernel::crew(self)
    }

    fn rests(&self, inside: &Inside) -> bool {
        inside.keys().all(|who| self.sleeps(*who))
    }
}

/// Our tasks, each in a thread.
struct Threads {
    vfs: Vfs,
    crew: Crew,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    fn new(ours: Ours) -> Self {
        let begin = |(who, task): (usize, Task)| {
            let (plays, told) = channel::<Arc<Play>>();
            let thread = thread::spawn(move || serve(who, &told, &task));
            (plays, thread)
        };
        let begun = ours.tasks.into_iter().enumerate().map(begin);
        let (members, threads): (Vec<_>, Vec<_>) = begun
            .map(|(plays, thread)| ((plays, thread.thread().clone()), thread))
            .unzip();
        Self {
            vfs: ours.vfs,
            crew: Crew::new(members),
            threads,
        }
    }

    /// Ends them; whether something is locked still.
    fn end(mut self) -> bool {
        self.crew.dismiss();
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
        !self.vfs.locks().is_empty()
    }
}

impl Side for Threads {
    fn crew(&self) -> &Crew {
        &self.crew
    }

    /// Who is granted or refused something is in no line any more when who did that returns.
    fn rests(&self, inside: &Inside) -> bool {
        let locks = self.vfs.locks();
        locks.iter().filter(|lock| lock.waits).count() == inside.len()
    }
}

/// What has come of a call: who was told, and what all have said that had not before.
type Came = (usize, BTreeMap<usize, Answer>);

/// Does a circle on one side. R2
fn play(side: &impl Side, circle: &Circle) -> Result<Vec<Came>, String> {
    let crew = side.crew();
    let answers = crew.begin(circle.setup.clone()).wait();
    super::is_set_up(&circle.setup, &answers)?;
    let mut inside = Inside::new();
    let mut came = Vec::new();
    for step in &circle.steps {
        inside.insert(step.who, crew.begin(vec![*step]));
        let answers = settle(side, &mut inside)?;
        came.push((step.who, answers));
    }
    Ok(came)
}

/// Leaves all alone until each has answered or sleeps; the answers.
fn settle(side: &impl Side, inside: &mut Inside) -> Result<BTreeMap<usize, Answer>, String> {
    let began = Instant::now();
    let mut answers = BTreeMap::new();
    loop {
        let has_begun = inside.values().all(|play| play.has_begun());
        let rests = has_begun && side.rests(inside);
        // Whoever was on its way may have woken others, so all are looked at again after it.
        let before = inside.len();
        inside.retain(|who, play| {
            let said = play.answers().and_then(|mut all| all.pop());
            let is_in = said.is_none();
            answers.extend(said.map(|said| (*who, said)));
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

/// What circles gave.
#[derive(Debug, Default)]
pub struct Sum {
    /// How many.
    pub circles: u64,
    /// Of those that are a circle and no more: how many of each length, and in how many of them
    /// somebody was refused.
    pub lengths: BTreeMap<usize, [u64; 2]>,
    /// Calls in all.
    pub calls: u64,
    /// Of those, such as waited first.
    pub waited: u64,
    /// Of those, refused with `EDEADLK`.
    pub refused: u64,
    /// What differed.
    pub reports: Vec<String>,
}

/// Does so many circles, until so many differ.
///
/// # Errors
/// What kept a side from being made.
pub fn run(seed: u64, count: u64, reports: usize) -> io::Result<Sum> {
    let mut sum = Sum::default();
    for seed in seed..seed + count {
        let circle = circle(seed);
        let ours = Ours::new(&circle.cast);
        let ours = ours.map_err(|e| io::Error::other(format!("no Vfs: {e}")))?;
        let (kernel, threads) = (Kernel::new(&circle.cast)?, Threads::new(ours));
        let both = (play(&kernel, &circle), play(&threads, &circle));
        let (theirs, own) = match both {
            (Ok(theirs), Ok(own)) => (theirs, own),
            (theirs, own) => {
                // Those who wait for ever are left where they are.
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
            let of_length = sum.lengths.entry(circle.cast.threads.len()).or_default();
            of_length[0] += 1;
            of_length[1] += u64::from(refused > 0);
        }
        sum.calls += circle.steps.len() as u64;
        sum.refused += refused;
        let late = |(who, came): &&Came| !came.contains_key(who);
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

/// What was done, up to where both sides differ.
fn told(circle: &Circle, theirs: &[Came], own: &[Came]) -> String {
    let mut lines = format!("{} processes\n", circle.cast.threads.len());
    let name = |who: &usize| circle.cast.name(*who);
    let said = |came: &Came| {
        let all = came
            .1
            .iter()
            .map(|(who, answer)| format!("{} {}", name(who), text::said(answer)));
        all.collect::<Vec<_>>().join(", ")
    };
    for step in &circle.setup {
        lines += &format!("{} {}\n", name(&step.who), step.op);
    }
    for (step, (a, b)) in circle.steps.iter().zip(theirs.iter().zip(own)) {
        lines += &format!("{} {} = {}\n", name(&step.who), step.op, said(a));
        if a != b {
            return lines + &format!("    openpath: {}\n", said(b));
        }
    }
    lines + "    openpath: locked when all have ended\n"
}

impl std::fmt::Display for Circle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for step in self.setup.iter().chain(&self.steps) {
            writeln!(f, "{} {}", self.cast.name(step.who), step.op)?;
        }
        Ok(())
    }
}
