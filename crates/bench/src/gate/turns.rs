// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a pair of operations on two threads in turns, between marks that a tracer sees.
//!
//! One thread runs at a time: it gets an order, waits until the ordering thread sleeps, sets its
//! mark, does one operation, sets the other mark, and answers. So everything between the two marks
//! is its own. Before that both threads do each operation a few times, so that everything is
//! cached.
//!
//! # Events
//! | mark | meaning |
//! |---|---|
//! | 0 | the next round begins: pair 0 in one order, pair 0 in the other, pair 1 ... |
//! | 1, 2 | thread 0 begins, ends |
//! | 3, 4 | thread 1 begins, ends |

use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::case::{Case, task};
use super::loaded::objects;
use super::pair::{Pair, all};
use super::plant::Target;
use super::sys::Marks;
use super::{Plant, spans};
use crate::common::*;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The address of the marks.
    #[arg(long, default_value_t = 0x6f70_0000_0000)]
    marks: usize,
    /// Seed of the memory layout.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many tasks exist before.
    #[arg(long, default_value_t = 0)]
    tasks: usize,
    /// Let two other threads have tasks before, and end.
    #[arg(long)]
    reuse: bool,
    /// Let one thread make all tasks, side by side in one array.
    #[arg(long)]
    together: bool,
    /// Run only pairs with NAME in their name.
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Plant this fault in every operation.
    #[arg(long)]
    plant: Option<Plant>,
}

/// How often each thread does its operation untraced.
const HEAT: usize = 3;
/// How often each thread does it between marks, in each order.
const ROUNDS: usize = 2;
/// Time for the ordering thread to fall asleep.
const REST: Duration = Duration::from_micros(300);

struct Exercise {
    pair: Pair,
    paths: [Chain; 2],
}

/// The order of a thread, or its answer. A channel would not do: its receiver spins before it
/// sleeps, and the tracer would take that for a part of the operation.
#[derive(Default)]
struct Exchange {
    said: Mutex<Message>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Message {
    #[default]
    None,
    /// Do this thread's half of this exercise this often, between marks or not.
    Do(usize, usize, usize, bool),
    /// Done, right or wrong.
    Done(bool),
    End,
}

impl Exchange {
    fn lock(&self) -> MutexGuard<'_, Message> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, what: Message) {
        *self.lock() = what;
        self.changed.notify_all();
    }

    /// Sleeps until a `wanted` message is there.
    fn wait(&self, wanted: impl Fn(Message) -> bool) -> Message {
        let asleep = self.changed.wait_while(self.lock(), |said| !wanted(*said));
        *asleep.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order; returns whether all results were right.
    fn order(&self, what: Message) -> bool {
        self.post(what);
        self.wait(|said| matches!(said, Message::Done(_))) == Message::Done(true)
    }
}

/// Runs the pairs, and writes to `out` what the analysis of the trace needs.
pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let filter = options.filter.as_deref().unwrap_or_default();
    let wants = |pair: &Pair| pair.name().contains(filter);
    let pairs: Vec<Pair> = all().into_iter().filter(wants).collect();
    let marks = Marks::map(options.marks).setup("map the marks")?;
    let mut rng = Rng::new(options.seed);
    let _padding = padding(&mut rng);
    let secret = [rng.below(usize::MAX) as u64, options.seed];
    let vfs = ours::build(Vfs::builder().secret(secret), ours::memory())?;
    let maker = ours::task(&vfs)?;
    let laid = lay(&maker, &pairs, &mut rng)?;
    let living: Result<Vec<Task>, Error> = (0..options.tasks).map(|_| ours::task(&vfs)).collect();
    let target = Target::default();
    describe(&vfs, &pairs, out)?;
    let mut run = Run {
        vfs: &vfs,
        target: &target,
        together: options.together,
        marks: None,
        plant: None,
    };
    if options.reuse {
        run.all(&laid[..laid.len().min(3)])?;
    }
    (run.marks, run.plant) = (Some(marks), options.plant);
    let ended = run.all(&laid);
    drop(living?);
    ended
}

/// Blocks of random sizes, every other one freed, so that later allocations lie elsewhere.
fn padding(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 16 + rng.below(3000)]).collect();
    let mut keep = [true, false].into_iter().cycle();
    blocks.retain(|_| keep.next() != Some(false));
    blocks
}

/// Creates the files, in an order and with names that depend on the seed. Pairs that change nothing
/// and meet the same objects share them.
fn lay(maker: &Task, pairs: &[Pair], rng: &mut Rng) -> Result<Vec<Exercise>, Error> {
    let mut ways: Vec<&Pair> = Vec::new();
    for pair in pairs {
        if pair.changes() || ways.iter().all(|way| way.changes() || way.how != pair.how) {
            ways.push(pair);
        }
    }
    rng.shuffle(&mut ways);
    let mut laid: Vec<(&Pair, Vec<Chain>)> = Vec::new();
    for way in ways {
        let mut both = chains(2, way.how.depth, rng.below(1 << 40) as u64);
        way.how.lay(maker, &mut both)?;
        laid.push((way, both));
    }
    let exercise = |pair: &Pair| {
        let shared = |way: &Pair| !way.changes() && !pair.changes() && way.how == pair.how;
        let own = |way: &&Pair| std::ptr::eq(*way, pair);
        let found = laid.iter().find(|(way, _)| own(way) || shared(way));
        let Some([one, other]) = found.map(|(_, both)| both.as_slice()) else {
            return Err(Error::Setup(format!("{} has no files", pair.name())));
        };
        let (pair, second) = (*pair, if pair.elsewhere { other } else { one });
        let paths = [one.clone(), second.clone()];
        Ok(Exercise { pair, paths })
    };
    pairs.iter().map(exercise).collect()
}

/// One line for each thing: `span NAME START BYTES`, `object BIAS START END FILE`, `pair NAME`.
fn describe(vfs: &Vfs, pairs: &[Pair], out: &mut dyn Write) -> Result<(), Error> {
    for span in spans(vfs) {
        writeln!(out, "span {} {:x} {:x}", span.name, span.start, span.bytes)?;
    }
    for (file, bias, code) in objects().host("find the code")? {
        let (start, end) = (code.start, code.end);
        writeln!(out, "object {bias:x} {start:x} {end:x} {file}")?;
    }
    for pair in pairs {
        writeln!(out, "pair {}", pair.name())?;
    }
    out.flush()?;
    Ok(())
}

/// The data of two threads.
#[derive(Clone, Copy)]
struct Run<'a> {
    vfs: &'a Vfs,
    target: &'a Target,
    together: bool,
    marks: Option<Marks>,
    plant: Option<Plant>,
}

impl Run<'_> {
    fn all(self, exercises: &[Exercise]) -> Result<(), Error> {
        let exchange = Exchange::default();
        let mut made = self.tasks()?;
        let mut given = [Vec::new(), Vec::new()];
        for (at, task) in made.iter_mut().enumerate() {
            given[at % 2].push(task);
        }
        thread::scope(|scope| {
            for (who, given) in given.into_iter().enumerate() {
                let exchange = &exchange;
                scope.spawn(move || self.serve(who, &given, exercises, exchange));
            }
            let wrong = (0..exercises.len()).find(|&exercise| !self.one(exercise, &exchange));
            exchange.post(Message::End);
            wrong.map_or(Ok(()), |exercise| {
                Err(Error::Wrong(exercises[exercise].pair.name()))
            })
        })
    }

    /// Makes two tasks with one table; if one thread makes all, also two of root and two of a user.
    fn tasks(self) -> Result<Vec<Task>, Error> {
        let first = task(self.vfs, false)?;
        let second = first.clone_files().setup("share a table")?;
        let mut made = vec![first, second];
        if self.together {
            for user in [false, false, true, true] {
                made.push(task(self.vfs, user)?);
            }
        }
        Ok(made)
    }

    fn one(self, exercise: usize, exchange: &Exchange) -> bool {
        let warmed = |who| exchange.order(Message::Do(who, exercise, HEAT, false));
        if ![0, 1].into_iter().all(warmed) {
            return false;
        }
        let mut orders = [[0, 1], [1, 0]].into_iter();
        orders.all(|order| {
            if let Some(marks) = self.marks {
                marks.set(0);
            }
            let mut turns = order.repeat(ROUNDS).into_iter();
            turns.all(|who| exchange.order(Message::Do(who, exercise, 1, true)))
        })
    }

    /// Runs a thread: it has a task of each kind, given or its own, and follows orders.
    fn serve(self, me: usize, given: &[&mut Task], exercises: &[Exercise], exchange: &Exchange) {
        let mine = [false, true].map(|user| task(self.vfs, user));
        let task = |how: Case| {
            if how.shared {
                return given.first().map(|task| &**task);
            }
            let kind = usize::from(how.user);
            let given = given.get(1 + kind).map(|task| &**task);
            given.or(mine[kind].as_ref().ok())
        };
        loop {
            let to_me = |said| matches!(said, Message::Do(who, ..) if who == me);
            let said = exchange.wait(|said| to_me(said) || said == Message::End);
            let Message::Do(_, exercise, times, marked) = said else {
                return;
            };
            let Exercise { pair, paths } = &exercises[exercise];
            let right = task(pair.how).is_some_and(|task| {
                thread::sleep(REST);
                let marks = self.marks.filter(|_| marked);
                (0..times).all(|_| self.once(me, task, pair, &paths[me], marks))
            });
            exchange.post(Message::Done(right));
        }
    }

    fn once(self, me: usize, task: &Task, pair: &Pair, path: &Chain, marks: Option<Marks>) -> bool {
        let mark = |event| marks.iter().for_each(|marks| marks.set(event));
        mark(1 + 2 * me);
        let right = pair.actions[me].once(task, pair.how, path);
        if let Some(plant) = self.plant {
            self.target.commit_fault(plant, me);
        }
        mark(2 + 2 * me);
        right && pair.actions[me].undo(task, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair runs in both orders, on fresh and on used slots, and the description names each
    /// of them.
    #[test]
    fn every_pair_runs_in_both_orders() {
        let options = Options {
            marks: 0x6f61_0000_0000,
            seed: 3,
            tasks: 70,
            reuse: true,
            together: true,
            filter: None,
            plant: Some(Plant::RemoteFree),
        };
        let mut out = Vec::new();
        run(&options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let said = text.lines().filter(|line| line.starts_with("pair "));
        assert_eq!(said.count(), all().len());
        assert!(text.contains("span ") && text.contains("object "));
    }
}
