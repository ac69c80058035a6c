// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one operation by itself, in a process of its own, so that counters see nothing else.

use std::ffi::CString;
use std::time::Duration;

use openpath_vfs::{Task, Vfs};

use crate::common::*;
use crate::gate::Plant;
use crate::gate::case::{Actor, Case};
use crate::gate::plant::Target;
use crate::gate::sys::shared;
use crate::watch::sys::{Kind, watched};

/// The circumstances of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// Nothing special: an instruction counter is around the whole process.
    Plain,
    /// Between two stops for the tracer.
    Traced,
    /// With the shared memory read-only: a store ends the process.
    Sealed,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The operation and its depth, as in "open-close d16".
    case: String,
    /// How many operations to run.
    #[arg(long, default_value_t = 1000)]
    ops: u64,
    /// The circumstances.
    #[arg(long, value_enum, default_value_t = How::Plain)]
    how: How,
    /// Plant this fault in every operation.
    #[arg(long)]
    plant: Option<Plant>,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let case = Case::parse(&options.case)?;
    let plant = options.plant;
    One { case, plant }.run(options.ops, options.how)
}

/// The built tree, and the tasks that built it.
struct Made {
    vfs: Vfs,
    paths: Vec<CString>,
    target: Target,
    _tasks: (Task, Actor),
}

/// How often every path is walked before the count: caches that admit only repeated use then have
/// it.
const HEAT_TURNS: u64 = 32;
/// Longer than the ticks of the coarse clock, at any `CONFIG_HZ`.
const TICKS: Duration = Duration::from_millis(25);

/// A case, and the fault that is planted in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct One {
    pub(crate) case: Case,
    pub(crate) plant: Option<Plant>,
}

impl One {
    /// Builds the tree, walks every path a few times, then calls `body` with a function that runs
    /// operations and returns how many results were wrong.
    pub(crate) fn warm<T>(
        self,
        body: impl FnOnce(&mut dyn FnMut(u64) -> u64) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let made = self.build()?;
        let (actor, mut ring) = self.act(&made)?;
        body(&mut |ops| self.burst(&actor.task, ops, &mut ring, &made.target))
    }

    /// Runs `ops` operations under `how`.
    fn run(self, ops: u64, how: How) -> Result<(), Error> {
        match how {
            How::Plain => self.warm(|burst| self.case.right(burst(ops))),
            How::Traced => self.warm(|burst| {
                sys::trace_mark();
                let wrong = burst(ops);
                sys::trace_mark();
                self.case.right(wrong)
            }),
            How::Sealed => self.sealed(ops),
        }
    }

    /// Seals all memory that exists before the measured task: it may be shared.
    fn sealed(self, ops: u64) -> Result<(), Error> {
        let watch = |made: Made| {
            let (actor, mut ring) = self.act(&made)?;
            let body = |_: &_| self.burst(&actor.task, ops, &mut ring, &made.target);
            let wrong = watched(shared(gate::spans(&made.vfs)), Kind::NoStore, body);
            self.case.right(wrong.host("seal the shared memory")?)
        };
        gate::apart(|| self.build(), watch)
    }

    fn build(self) -> Result<Made, Error> {
        let mut tree = chains(PATHS, self.case.depth, SEED);
        let vfs = ours::instance()?;
        let maker = ours::task(&vfs)?;
        self.case.lay(&maker, &mut tree)?;
        let paths = rotation(&tree, self.case.op.wants_missing());
        let first = self.case.actor(&vfs)?;
        // An access within the clock tick of a file's birth does not move the access time. The
        // first one after that tick does, and must not be counted.
        std::thread::sleep(TICKS);
        self.heat(&first.task, &mut Ring::new(&paths, 0))?;
        Ok(Made {
            vfs,
            paths,
            target: Target::default(),
            _tasks: (maker, first),
        })
    }

    /// A task that has walked every path.
    fn act(self, made: &Made) -> Result<(Actor, Ring<'_>), Error> {
        let (actor, mut ring) = (self.case.actor(&made.vfs)?, Ring::new(&made.paths, 0));
        self.heat(&actor.task, &mut ring)?;
        Ok((actor, ring))
    }

    fn heat(self, task: &Task, ring: &mut Ring<'_>) -> Result<(), Error> {
        let ops = HEAT_TURNS * PATHS as u64;
        let mut wrong = self.case.burst(task, ops, ring);
        if self.case.op == Op::DupClose {
            let op = Op::OpenClose;
            wrong += Case { op, ..self.case }.burst(task, ops, ring);
        }
        self.case.right(wrong)
    }

    fn burst(self, task: &Task, ops: u64, ring: &mut Ring<'_>, target: &Target) -> u64 {
        match self.plant {
            None => self.case.burst(task, ops, ring),
            Some(Plant::FivePercent) => self.case.burst(task, ops + ops / 20, ring),
            Some(plant) => {
                let mut wrong = 0;
                for _ in 0..ops {
                    wrong += self.case.burst(task, 1, ring);
                    target.commit_fault(plant, 0);
                }
                wrong
            }
        }
    }
}
