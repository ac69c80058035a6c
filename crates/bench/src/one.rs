// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one operation by itself, so that counters see nothing else.

use std::time::Duration;

use crate::common::*;
use crate::gate::Plant;
use crate::gate::case::{Actor, Case};
use crate::gate::plant::Target;
use crate::gate::sys::shared;
use crate::watch::sys::{Kind, Log, watched};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The operation and its depth, as in "open-close d16".
    case: String,
    /// How many operations to run.
    #[arg(long, default_value_t = 1000)]
    ops: u64,
    /// Plant this fault in every operation.
    #[arg(long)]
    plant: Option<Plant>,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let case = Case::parse(&options.case)?;
    let plant = options.plant;
    One { case, plant }.warm(|burst| case.right(burst(options.ops)))
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

    /// Runs `ops` operations while all memory that exists before the measured task is read-only,
    /// because it may be shared; returns the report of the first store to it.
    pub(crate) fn sealed(self, ops: u64) -> Result<Option<String>, Error> {
        let watch = |made: Made| {
            let (actor, mut ring) = self.act(&made)?;
            let body = |log: &Log| {
                let wrong = self.burst(&actor.task, ops, &mut ring, &made.target);
                (wrong, log.report())
            };
            let spans = shared(gate::spans(&made.vfs));
            let seen = spans.and_then(|spans| watched(spans, Kind::NoStore, body));
            let (wrong, report) = seen.host("seal the shared memory")?;
            self.case.right(wrong).map(|()| report)
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
