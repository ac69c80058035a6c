// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures a table that grows to a million descriptors, is used when full, and is emptied.

use super::clock::{Clock, Times};
use super::latency;
use crate::common::*;

/// The beginning of the rows' names.
pub(super) const NAME: &str = "many table";
const FILE: &CStr = c"/many/file";
/// The sides take turns after this many operations.
const TURN: usize = 1000;
/// Open descriptors of the control.
const FEW: usize = 10;
/// Descriptors that the process needs besides the measured ones.
const SPARE: usize = 1000;
/// One close and open of a random descriptor per this many in the full table.
const CHURN: usize = 4;

/// A table and its opened descriptors, with the times of one phase.
struct Lane<'a, T> {
    table: &'a T,
    fds: Vec<Fd>,
    rng: Rng,
    made: Times,
    closed: Times,
}

/// The operation of a phase.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Dup,
    Churn,
    Close,
}

impl<'a, T: Calls> Lane<'a, T> {
    fn new(table: &'a T, count: usize) -> Self {
        let mut fds = vec![-1; count + 1];
        fds.clear();
        Self {
            table,
            fds,
            rng: Rng::new(SEED),
            made: Times::new(count),
            closed: Times::new(count),
        }
    }

    fn begin(&mut self) {
        self.made.clear();
        self.closed.clear();
    }

    /// Makes one descriptor; the first one is always an open.
    fn make(&mut self, dup: bool) -> Option<Fd> {
        let table = self.table;
        let first = self.fds.first().copied().filter(|_| dup);
        let made = self.made.time(|| match first {
            Some(first) => table.dup(first),
            None => table.open(FILE, O_RDONLY, 0),
        });
        made.ok()
    }

    fn close(&mut self, fd: Fd) -> bool {
        let table = self.table;
        self.closed.time(|| table.close(fd))
    }

    /// One step of a phase on a table that grows; false if its result was wrong.
    fn step(&mut self, phase: Phase) -> bool {
        match phase {
            Phase::Open | Phase::Dup => {
                let made = self.make(phase == Phase::Dup);
                self.fds.extend(made);
                made.is_some()
            }
            Phase::Churn => {
                let fd = self.fds[self.rng.below(self.fds.len())];
                // The lowest free one: the one just closed.
                self.close(fd) && self.make(false) == Some(fd)
            }
            Phase::Close => {
                let at = self.rng.below(self.fds.len());
                let fd = self.fds.swap_remove(at);
                self.close(fd)
            }
        }
    }

    /// The same without growth: a new descriptor is closed.
    fn control(&mut self, phase: Phase) -> bool {
        let made = self.make(phase == Phase::Dup);
        made.is_some_and(|fd| self.close(fd))
    }
}

/// The lanes of a run.
struct Lanes<'a> {
    grown: Lane<'a, Task>,
    control: Lane<'a, Task>,
    host: Lane<'a, Kernel>,
    /// How many descriptors ours has, and the host's: its limit may be lower.
    counts: [usize; 2],
}

impl Lanes<'_> {
    /// Runs a phase on every lane in turns: a step for each of `of` descriptors.
    fn phase(&mut self, phase: Phase, of: usize) -> Result<(), Error> {
        let [count, theirs] = self.counts.map(|count| count / of);
        self.grown.begin();
        self.control.begin();
        self.host.begin();
        let mut done = 0;
        while done < count {
            let next = done + TURN.min(count - done);
            let right = (done..next).all(|_| self.grown.step(phase))
                && (done..next).all(|_| self.control.control(phase))
                && (done..next.min(theirs)).all(|_| self.host.step(phase));
            if !right {
                return Err(Error::Wrong(format!(
                    "{NAME}: among the first {next} steps"
                )));
            }
            done = next;
        }
        Ok(())
    }

    /// The rows of an operation: of those that make descriptors, or of those that close them.
    fn rows(&self, name: &str, clock: &Clock, closed: bool) -> Vec<Row> {
        fn of<'a, T>(lane: &'a Lane<'_, T>, closed: bool) -> &'a Times {
            if closed { &lane.closed } else { &lane.made }
        }
        let [grown, control] = [&self.grown, &self.control].map(|lane| of(lane, closed));
        let (name, host) = (format!("{NAME} {name}"), of(&self.host, closed));
        latency(&name, clock, grown, control, host)
    }
}

/// The rows, by threads with their own tables on the host, which end with them: one table grows by
/// opens, another by duplicates.
pub(super) fn rows(count: usize, host: &Host, clock: &Clock) -> Result<Vec<Row>, Error> {
    let chain = Chain::of(FILE);
    let vfs = ours::instance()?;
    ours::task(&vfs)?.grow(std::slice::from_ref(&chain))?;
    host.tmpfs.grow(&[chain])?;
    host.leave()?;
    let resident = &Resident::open()?;
    let room = (count + SPARE) as u64;
    let allowed = usize::try_from(sys::allow_descriptors(room)).unwrap_or(count);
    let theirs = count.min(allowed.saturating_sub(SPARE)).max(1);
    let mut rows = Vec::new();
    // Kept until the end: memory released by one table would hide what the next takes.
    let mut kept = Vec::new();
    for (phase, name) in [(Phase::Open, "open"), (Phase::Dup, "dup")] {
        let tasks = [ours::task(&vfs)?, ours::task(&vfs)?];
        let run = move || {
            sys::unshare_thread(true).host("a table of its own")?;
            host.tmpfs.enter()?;
            tasks[0].set_rlimit_nofile(room);
            let rows = measure((phase, name), [count, theirs], (clock, resident), &tasks)?;
            Ok::<_, Error>((rows, tasks))
        };
        let ran = std::thread::scope(|scope| scope.spawn(run).join());
        let ran = ran.map_err(|_| Error::Setup("the measuring thread ended".to_owned()));
        let (of_one, tasks) = ran??;
        rows.extend(of_one);
        kept.push(tasks);
    }
    Ok(rows)
}

fn measure(
    (phase, name): (Phase, &str),
    counts @ [count, theirs]: [usize; 2],
    (clock, resident): (&Clock, &Resident),
    [grown, control]: &[Task; 2],
) -> Result<Vec<Row>, Error> {
    for _ in 0..FEW {
        Calls::open(control, FILE, O_RDONLY, 0).setup("an open")?;
    }
    let mut lanes = Lanes {
        grown: Lane::new(grown, count),
        control: Lane::new(control, count),
        host: Lane::new(&Kernel, theirs),
        counts,
    };
    lanes.control.fds.push(0);
    let before = resident.bytes()?;
    lanes.phase(phase, 1)?;
    let took = resident.bytes()?.saturating_sub(before) as f64 / count as f64;
    let bytes = format!("{NAME} bytes-per-descriptor {name}");
    let mut rows = vec![Row::count(&bytes, "B", took)];
    rows.extend(lanes.rows(name, clock, false));
    if phase == Phase::Open {
        lanes.phase(Phase::Churn, CHURN)?;
        rows.extend(lanes.rows("churn close", clock, true));
        rows.extend(lanes.rows("churn open", clock, false));
        lanes.phase(Phase::Close, 1)?;
        rows.extend(lanes.rows("close", clock, true));
    }
    Ok(rows)
}
