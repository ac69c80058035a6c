// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures a plan: its sides in turn, window by window, and then its rows, each of which compares
//! the medians of two sides.
//!
//! # Rules
//! R1. Each round has one window of each side, so that a ratio compares the same moments; it starts
//!     at another side each time.
//! R2. A window of calls is about [`WINDOW_NS`]: short enough to fit between two preemptions, long
//!     enough that reading the clocks does not matter.
//! R3. A window is dropped if its thread got less than 95 % of it as processor time, and a whole
//!     round if the hypervisor stole time meanwhile. Dropped windows are counted.
//! R4. A warm side walks every path twice untimed before each window, because the side before it
//!     used the caches. A plan sets how many operations walk every path once if that is not
//!     [`ROTATION`]: a side with a single long path would otherwise spend its time untimed.
//! R5. An operation reports whether its result was wrong. One wrong result ends the benchmark.
//! R6. A side without a wanted row is neither set up nor measured.

use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use crate::common::*;
use crate::row::WINDOWS_MIN;
use crate::threads::Group;
use crate::window::{Timed, WINDOW_NS, fit, stolen, timed};

/// Windows are multiples of this many operations, so that each walks every path equally often.
const ROTATION: u64 = 64;
/// Rotations before a window of a warm side.
const WARM: u64 = 2;

/// Runs this many operations; returns how many were wrong.
pub(crate) type Burst<'a> = Box<dyn FnMut(u64) -> u64 + 'a>;
type Step<'a> = Box<dyn FnMut() -> Result<(), Error> + 'a>;
type Setup<'a> = Box<dyn FnOnce() -> Result<(Step<'a>, Burst<'a>), Error> + 'a>;
/// Makes a row of two sides: its name, ours, the label of the other, the other.
type Compare = fn(&str, &Samples, &str, &Samples) -> Row;

/// Whether a side is measured with warm caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heat {
    /// Two untimed rotations run before each window.
    Warm,
    /// Nothing runs before: the window continues where the last one ended.
    Cold,
    /// Warm, but other threads do the work: the calling thread's processor clock says nothing about
    /// a window, so only stolen time drops one.
    Offloaded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(usize);

/// The source of a side's windows.
enum Window<'a> {
    Calls(Calls<'a>),
    /// This many threads of a group.
    Threads(usize, usize),
    /// A function that measures itself: nanoseconds per operation.
    Own(Box<dyn FnMut() -> Result<f64, Error> + 'a>),
}

struct Calls<'a> {
    heat: Heat,
    setup: Option<Setup<'a>>,
    enter: Step<'a>,
    burst: Burst<'a>,
    rotation: u64,
    ops: u64,
}

struct Side<'a> {
    label: String,
    window: Window<'a>,
    /// How many operations one operation of the side stands for.
    each: f64,
}

pub(crate) struct Planned {
    name: String,
    compare: Compare,
    ours: Id,
    label: String,
    peer: Id,
    note: Option<String>,
}

impl Planned {
    pub(crate) fn note(&mut self, note: &str) {
        self.note = Some(note.to_owned());
    }
}

/// Sides to measure together, and their rows.
pub(crate) struct Plan<'a> {
    rotation: u64,
    long: bool,
    sides: Vec<Side<'a>>,
    groups: Vec<(String, Vec<Make<'a>>)>,
    rows: Vec<Planned>,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self::of(ROTATION)
    }
}

impl<'a> Plan<'a> {
    /// A plan with calls that walk every path in `rotation` operations.
    pub(crate) fn of(rotation: u64) -> Self {
        Self {
            rotation: rotation.max(1),
            long: false,
            sides: Vec::new(),
            groups: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// A plan of windows too long to avoid stolen time: the first round warms up, every other one
    /// counts, and there are as many as a row needs, however long they take.
    #[cfg(feature = "wasi")]
    pub(crate) fn long() -> Self {
        let mut plan = Self::of(1);
        plan.long = true;
        plan
    }

    fn side(&mut self, label: &str, window: Window<'a>) -> Id {
        self.sides.push(Side {
            label: label.to_owned(),
            window,
            each: 1.0,
        });
        Id(self.sides.len() - 1)
    }

    /// Adds calls of this thread. `setup` runs if a wanted row needs the side; it returns what runs
    /// untimed before each window, and the burst.
    pub(crate) fn set_up(
        &mut self,
        label: &str,
        heat: Heat,
        setup: impl FnOnce() -> Result<(Step<'a>, Burst<'a>), Error> + 'a,
    ) -> Id {
        let calls = Calls {
            heat,
            setup: Some(Box::new(setup)),
            enter: Box::new(|| Ok(())),
            burst: Box::new(|_| 0),
            rotation: self.rotation,
            ops: 1,
        };
        self.side(label, Window::Calls(calls))
    }

    pub(crate) fn add(
        &mut self,
        label: &str,
        heat: Heat,
        enter: impl FnMut() -> Result<(), Error> + 'a,
        burst: impl FnMut(u64) -> u64 + 'a,
    ) -> Id {
        self.set_up(label, heat, move || {
            let (enter, burst): (Step<'a>, Burst<'a>) = (Box::new(enter), Box::new(burst));
            Ok((enter, burst))
        })
    }

    /// Adds warm calls on our side.
    pub(crate) fn ours(&mut self, label: &str, burst: impl FnMut(u64) -> u64 + 'a) -> Id {
        self.add(label, Heat::Warm, || Ok(()), burst)
    }

    /// Adds warm calls of the host, made with `root` as the root directory.
    pub(crate) fn host(
        &mut self,
        label: &str,
        root: &'a Root,
        burst: impl FnMut(u64) -> u64 + 'a,
    ) -> Id {
        self.add(label, Heat::Warm, || root.enter(), burst)
    }

    /// Adds a group of threads, one for each of `makes`: a side for each of `counts`.
    pub(crate) fn threads(
        &mut self,
        label: &str,
        makes: Vec<Make<'a>>,
        counts: &[usize],
    ) -> Vec<Id> {
        self.groups.push((label.to_owned(), makes));
        let group = self.groups.len() - 1;
        let mut side = |&count: &usize| self.side(label, Window::Threads(group, count));
        counts.iter().map(&mut side).collect()
    }

    /// Adds a side that measures its own windows.
    pub(crate) fn own(
        &mut self,
        label: &str,
        window: impl FnMut() -> Result<f64, Error> + 'a,
    ) -> Id {
        self.side(label, Window::Own(Box::new(window)))
    }

    /// Sets how many operations one operation of a side stands for.
    pub(crate) fn stands_for(&mut self, side: Id, operations: f64) {
        self.sides[side.0].each = operations;
    }

    pub(crate) fn row(
        &mut self,
        compare: Compare,
        name: &str,
        ours: Id,
        label: &str,
        peer: Id,
    ) -> &mut Planned {
        self.rows.push(Planned {
            name: name.to_owned(),
            compare,
            ours,
            label: label.to_owned(),
            peer,
            note: None,
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    /// Measures the sides of the wanted rows, and makes the rows.
    pub(crate) fn run(mut self, ask: &Ask) -> Result<Vec<Row>, Error> {
        self.rows.retain(|row| ask.wants(&row.name));
        let both = self.rows.iter().flat_map(|row| [row.ours.0, row.peer.0]);
        let used: Vec<usize> = both.collect::<BTreeSet<_>>().into_iter().collect();
        let (mut sides, groups) = (self.sides, self.groups);
        let Some(&first) = used.first() else {
            return Ok(Vec::new());
        };
        let label = &sides[first].label;
        match used.len() - 1 {
            0 => tell(label),
            more => tell(&format!("{label}, and {more} beside it")),
        }
        let group_of = |&side: &usize| match sides[side].window {
            Window::Threads(group, _) => Some(group),
            _ => None,
        };
        let needed: BTreeSet<usize> = used.iter().filter_map(group_of).collect();
        let samples = thread::scope(|scope| {
            let mut hired = Vec::new();
            for (at, (label, makes)) in groups.into_iter().enumerate() {
                let start = || Group::start(scope, &label, makes);
                hired.push(needed.contains(&at).then(start).transpose()?);
            }
            for &side in &used {
                sides[side].prepare()?;
            }
            rounds(ask, self.long, used.len(), |at| {
                sides[used[at]].window(&hired)
            })
        })?;
        let of = |id: Id| &samples[used.binary_search(&id.0).unwrap_or(0)];
        let rows = self.rows.iter().map(|row| {
            let made = (row.compare)(&row.name, of(row.ours), &row.label, of(row.peer));
            match &row.note {
                Some(note) => made.with_note(note),
                None => made,
            }
        });
        Ok(rows.collect())
    }
}

/// Measures a window of each of `count` sides in turn, until there are enough or time is up. A
/// window without a value is dropped.
fn rounds(
    ask: &Ask,
    long: bool,
    count: usize,
    mut window: impl FnMut(usize) -> Result<Option<f64>, Error>,
) -> Result<Vec<Samples>, Error> {
    let mut kept = vec![(Vec::new(), 0); count];
    let rounds_min = if long { WINDOWS_MIN + 1 } else { 1 };
    let (begun, mut round) = (Instant::now(), 0);
    while kept.iter().any(|(windows, _)| windows.len() < ask.rounds) {
        if round >= rounds_min && begun.elapsed() > ask.time() {
            break;
        }
        let before = stolen();
        let order = (0..count).map(|i| (i + round) % count);
        let values = order.map(|at| window(at).map(|value| (at, value)));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let calm = long || before == stolen();
        round += 1;
        if long && round == 1 {
            continue;
        }
        for (at, value) in values {
            match value.filter(|_| calm) {
                Some(value) => kept[at].0.push(value),
                None => kept[at].1 += 1,
            }
        }
    }
    let samples = kept.into_iter();
    let samples = samples.map(|(windows, dropped)| Samples::new(windows, dropped));
    Ok(samples.collect())
}

impl Side<'_> {
    fn prepare(&mut self) -> Result<(), Error> {
        let Window::Calls(calls) = &mut self.window else {
            return Ok(());
        };
        if let Some(setup) = calls.setup.take() {
            (calls.enter, calls.burst) = setup()?;
        }
        calls.size(&self.label)
    }

    /// Nanoseconds per operation of a window; None if it is not clean.
    fn window(&mut self, groups: &[Option<Group>]) -> Result<Option<f64>, Error> {
        let value = match &mut self.window {
            Window::Calls(calls) => {
                let timed = calls.window(&self.label)?;
                let clean = calls.heat == Heat::Offloaded || timed.is_clean();
                clean.then(|| timed.wall_ns as f64 / calls.ops as f64)
            }
            Window::Threads(group, count) => match &groups[*group] {
                Some(group) => group.window(*count)?,
                None => None,
            },
            Window::Own(window) => Some(window()?),
        };
        Ok(value.map(|ns| ns / self.each))
    }
}

impl Calls<'_> {
    /// Chooses the length of bursts. A warm burst is never shorter than a rotation, because each
    /// window would walk paths that the last one did not warm.
    fn size(&mut self, label: &str) -> Result<(), Error> {
        let step = match self.heat {
            Heat::Cold => 1,
            Heat::Warm | Heat::Offloaded => self.rotation,
        };
        self.ops = fit(step, WINDOW_NS, |ops| {
            self.ops = ops;
            Ok(self.window(label)?.wall_ns)
        })?;
        Ok(())
    }

    fn window(&mut self, label: &str) -> Result<Timed, Error> {
        (self.enter)()?;
        if self.heat != Heat::Cold {
            all_right((self.burst)(WARM * self.rotation), label)?;
        }
        let (timed, wrong) = timed(|| (self.burst)(self.ops));
        all_right(wrong, label).map(|()| timed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::time::Duration;

    fn spin(ns: u64) -> u64 {
        let start = Instant::now();
        while (start.elapsed().as_nanos() as u64) < ns {}
        0
    }

    /// A plan of one side, compared with itself.
    fn alone<'a>(mut plan: Plan<'a>, heat: Heat, burst: impl FnMut(u64) -> u64 + 'a) -> Plan<'a> {
        let id = plan.add("alone", heat, || Ok(()), burst);
        plan.row(Row::faster, "alone", id, "itself", id);
        plan
    }

    #[test]
    fn medians_are_per_operation() {
        let mut plan = Plan::default();
        let slow = plan.add("slow", Heat::Cold, || Ok(()), |ops| spin(ops * 2000));
        let fast = plan.add("fast", Heat::Cold, || Ok(()), |ops| spin(ops * 1000));
        plan.row(Row::growth, "growth", slow, "fast", fast);
        let row = &plan.run(&Ask::rounds(20)).unwrap()[0];
        let (slow, ratio) = (row.ours.unwrap(), row.ratio.unwrap());
        assert!((1.8..2.2).contains(&ratio), "{ratio}");
        assert!((2000.0..2400.0).contains(&slow), "{slow}");
    }

    #[test]
    fn sleeping_window_is_dropped_and_counted() {
        let nap = |_| {
            thread::sleep(Duration::from_millis(1));
            0
        };
        let mut ask = Ask::rounds(3);
        ask.seconds = 0;
        let row = &alone(Plan::default(), Heat::Cold, nap).run(&ask).unwrap()[0];
        assert!(row.windows == 0 && row.dropped > 0);
    }

    #[test]
    fn warm_burst_walks_every_path_equally_within_window() {
        for (rotation, most) in [(ROTATION, WARM * ROTATION), (1, WARM)] {
            let asked = RefCell::new(Vec::new());
            // One operation lasts as long as a window should.
            let plan = alone(Plan::of(rotation), Heat::Warm, |ops| {
                asked.borrow_mut().push(ops);
                spin(WINDOW_NS)
            });
            plan.run(&Ask::rounds(2)).unwrap();
            let asked = asked.into_inner();
            assert!(asked.iter().all(|ops| ops % rotation == 0), "{asked:?}");
            assert_eq!(asked.iter().max(), Some(&most), "{asked:?}");
        }
    }

    #[test]
    fn wrong_result_ends_run() {
        let liar = alone(Plan::default(), Heat::Warm, |_| 1);
        assert!(matches!(liar.run(&Ask::rounds(1)), Err(Error::Wrong(_))));
    }

    #[test]
    fn sides_without_wanted_row_are_not_set_up() {
        let mut plan = alone(Plan::default(), Heat::Warm, spin);
        let other = plan.set_up("other", Heat::Warm, || panic!("it is set up"));
        let refuse: Make<'_> = Box::new(|| panic!("a thread is started"));
        let threads = plan.threads("threads", vec![refuse], &[1]);
        plan.row(Row::faster, "other", other, "itself", other);
        plan.row(Row::faster, "threads", Id(0), "threads", threads[0]);
        let mut ask = Ask::rounds(1);
        ask.common.filter = Some("alone".to_owned());
        assert_eq!(plan.run(&ask).unwrap().len(), 1);
    }
}
