// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two threads that do a pair of operations in turns, between marks that a tracer sees.
//!
//! One thread runs at a time: it is told to, rests until the teller sleeps, sets its mark, does one
//! operation, sets the other mark, and answers. So everything between the two marks is its own.
//! Before that both do each operation a few times, so that everything is cached.
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

use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Task, Vfs};

use super::case::{Case, task};
use super::pair::{Pair, all};
use super::plant::Field;
use super::sys::{Marks, objects};
use super::{Plant, spans};
use crate::error::Error;
use crate::ours;
use crate::paths::{Chain, Rng, chains};

/// How to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to put the marks that the tracer looks for.
    #[arg(long, default_value_t = 0x6f70_0000_0000)]
    marks: usize,
    /// Lay out memory another way.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tasks that live already.
    #[arg(long, default_value_t = 0)]
    tasks: usize,
    /// Let two other threads have tasks before, and end.
    #[arg(long)]
    reuse: bool,
    /// Let one thread make all tasks, side by side in one array.
    #[arg(long)]
    together: bool,
    /// Only pairs whose name contains NAME.
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Commit this fault with every operation.
    #[arg(long)]
    plant: Option<Plant>,
}

/// How often each does its operation before anybody looks.
const HEAT: usize = 3;
/// How often each does it between marks, in each order.
const ROUNDS: usize = 2;
/// Time for the teller to fall asleep.
const REST: Duration = Duration::from_micros(300);

/// A pair, and the paths of the two threads.
struct Bout {
    pair: Pair,
    paths: [Chain; 2],
}

/// What the threads are told and what they answer.
#[derive(Default)]
struct Table {
    said: Mutex<Said>,
    changed: Condvar,
}

/// Whose turn it is, to do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Said {
    #[default]
    Nothing,
    /// This thread does its half of this bout so often, between marks or not.
    Do(usize, usize, usize, bool),
    /// It was done, right or wrong.
    Done(bool),
    /// No more.
    Over,
}

impl Table {
    fn look(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, what: Said) {
        *self.look() = what;
        self.changed.notify_all();
    }

    /// Sleeps until `wanted` is said.
    fn hear(&self, wanted: impl Fn(Said) -> bool) -> Said {
        let asleep = self.changed.wait_while(self.look(), |said| !wanted(*said));
        *asleep.unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one thread do what it is told; whether it was right.
    fn order(&self, what: Said) -> bool {
        self.say(what);
        self.hear(|said| matches!(said, Said::Done(_))) == Said::Done(true)
    }
}

/// Runs the pairs and says on `out` what a reader of the trace must know.
pub(crate) fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let wants = |pair: &Pair| {
        options
            .filter
            .as_ref()
            .is_none_or(|f| pair.name().contains(f))
    };
    let pairs: Vec<Pair> = all().into_iter().filter(wants).collect();
    let marks = Marks::map(options.marks).map_err(|e| Error::setup("map the marks", e))?;
    let mut rng = Rng::new(options.seed);
    let _padding = padding(&mut rng);
    let secret = [rng.below(usize::MAX) as u64, options.seed];
    let vfs = ours::keyed(MemFs::new(MemOptions::default()), secret)?;
    let maker = ours::task(&vfs)?;
    let laid = lay(&maker, &pairs, &mut rng)?;
    let living: Result<Vec<Task>, Error> = (0..options.tasks).map(|_| ours::task(&vfs)).collect();
    let field = Field::default();
    describe(&vfs, &pairs, out)?;
    let stage = Stage {
        vfs: &vfs,
        field: &field,
        together: options.together,
        marks: None,
        plant: None,
    };
    if options.reuse {
        stage.duel(&laid[..laid.len().min(3)])?;
    }
    let stage = Stage {
        marks: Some(marks),
        plant: options.plant,
        ..stage
    };
    let fought = stage.duel(&laid);
    drop(living?);
    fought
}

/// Blocks of random sizes, every other one given back: what comes next lies elsewhere.
fn padding(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 16 + rng.below(3000)]).collect();
    let mut keep = false;
    blocks.retain(|_| {
        keep = !keep;
        keep
    });
    blocks
}

/// Creates the files, in an order and with names that depend on the seed. Pairs that change
/// nothing and go the same way share them.
fn lay(maker: &Task, pairs: &[Pair], rng: &mut Rng) -> Result<Vec<Bout>, Error> {
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
    let bout = |pair: &Pair| {
        let shared = |way: &Pair| !way.changes() && !pair.changes() && way.how == pair.how;
        let own = |way: &&Pair| std::ptr::eq(*way, pair);
        let found = laid.iter().find(|(way, _)| own(way) || shared(way));
        let both = found.map(|(_, both)| both.as_slice());
        let Some([one, other]) = both else {
            return Err(Error::Setup(format!("{} has no files", pair.name())));
        };
        let second = if pair.elsewhere { other } else { one };
        Ok(Bout {
            pair: *pair,
            paths: [one.clone(), second.clone()],
        })
    };
    pairs.iter().map(bout).collect()
}

/// One line for each thing: `span NAME START BYTES`, `object BIAS START END FILE`, `pair NAME`.
fn describe(vfs: &Vfs, pairs: &[Pair], out: &mut dyn Write) -> Result<(), Error> {
    for span in spans(vfs) {
        writeln!(out, "span {} {:x} {:x}", span.name, span.start, span.bytes)?;
    }
    for object in objects() {
        let (start, end) = object.code;
        writeln!(
            out,
            "object {:x} {start:x} {end:x} {}",
            object.bias, object.name
        )?;
    }
    for pair in pairs {
        writeln!(out, "pair {}", pair.name())?;
    }
    out.flush()?;
    Ok(())
}

/// Where two threads meet.
#[derive(Clone, Copy)]
struct Stage<'a> {
    vfs: &'a Vfs,
    field: &'a Field,
    together: bool,
    marks: Option<Marks>,
    plant: Option<Plant>,
}

impl Stage<'_> {
    fn duel(self, bouts: &[Bout]) -> Result<(), Error> {
        let table = Table::default();
        let mut made = self.tasks()?;
        let mut given = [Vec::new(), Vec::new()];
        for (at, task) in made.iter_mut().enumerate() {
            given[at % 2].push(task);
        }
        thread::scope(|scope| {
            for (who, given) in given.into_iter().enumerate() {
                let table = &table;
                scope.spawn(move || self.serve(who, &given, bouts, table));
            }
            let wrong = (0..bouts.len()).find(|&bout| !self.fight(bout, &table));
            table.say(Said::Over);
            wrong.map_or(Ok(()), |bout| Err(Error::Wrong(bouts[bout].pair.name())))
        })
    }

    /// Two tasks with one table; then two of root and two of a user, if one thread makes all.
    fn tasks(self) -> Result<Vec<Task>, Error> {
        let first = task(self.vfs, false)?;
        let second = first.clone_files();
        let second = second.map_err(|e| Error::setup("share a table", e))?;
        let mut made = vec![first, second];
        if self.together {
            for user in [false, false, true, true] {
                made.push(task(self.vfs, user)?);
            }
        }
        Ok(made)
    }

    fn fight(self, bout: usize, table: &Table) -> bool {
        let heated = |who| table.order(Said::Do(who, bout, HEAT, false));
        if ![0, 1].into_iter().all(heated) {
            return false;
        }
        let mut orders = [[0, 1], [1, 0]].into_iter();
        orders.all(|order| {
            if let Some(marks) = self.marks {
                marks.set(0);
            }
            let mut turns = order.repeat(ROUNDS).into_iter();
            turns.all(|who| table.order(Said::Do(who, bout, 1, true)))
        })
    }

    /// A thread: has a task of each kind, given or its own, and does what it is told.
    fn serve(self, me: usize, given: &[&mut Task], bouts: &[Bout], table: &Table) {
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
            let to_me = |said| matches!(said, Said::Do(who, ..) if who == me);
            let said = table.hear(|said| to_me(said) || said == Said::Over);
            let Said::Do(_, bout, times, marked) = said else {
                return;
            };
            let Bout { pair, paths } = &bouts[bout];
            let right = task(pair.how).is_some_and(|task| {
                thread::sleep(REST);
                let marks = self.marks.filter(|_| marked);
                (0..times).all(|_| self.once(me, task, pair, &paths[me], marks))
            });
            table.say(Said::Done(right));
        }
    }

    fn once(self, me: usize, task: &Task, pair: &Pair, path: &Chain, marks: Option<Marks>) -> bool {
        if let Some(marks) = marks {
            marks.set(1 + 2 * me);
        }
        let right = pair.deeds[me].once(task, pair.how, path);
        if let Some(plant) = self.plant {
            self.field.strike(plant, me);
        }
        if let Some(marks) = marks {
            marks.set(2 + 2 * me);
        }
        right && pair.deeds[me].undo(task, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair can be done in both orders, on fresh and on used slots, and what is said names
    /// each of them.
    #[test]
    fn every_pair_can_be_done() {
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
