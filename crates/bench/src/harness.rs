// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variants interleaved round by round, each in short windows, medians over clean windows.
//!
//! # Rules
//! R1 every round runs one window of every variant, so that a ratio compares the same moments;
//! the round starts at another variant each time.
//! R2 a window is a burst of about [`BURST_NS`]: short enough to fit between two preemptions,
//! long enough that reading the clocks does not matter.
//! R3 a window is dropped if the thread got less than 95 % of it as processor time, and a whole
//! round if the machine below stole time meanwhile; what is dropped is counted.
//! R4 a warm variant walks every path twice untimed first: the variant before it used the caches.
//! So a suite says how many operations walk every path once, where it is not [`ROTATION`]: else
//! one with a single long path would spend its time on what nobody times.
//! R5 a burst answers how many results were wrong; one wrong result ends the benchmark.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::stats::Samples;
use crate::sys;

/// How long a burst should take.
pub const BURST_NS: u64 = 150_000;
/// Bursts are multiples of this many operations, so that each walks every path equally often,
/// unless the suite has fewer paths ([`Suite::of`]).
pub const ROTATION: u64 = 64;
/// Rotations before a window of a warm variant.
const WARM: u64 = 2;

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Clean windows wanted of each variant.
    pub rounds: usize,
    /// No more than this for one suite.
    pub time: Duration,
    /// Told what is measured next, before it is: nothing else is said until all is done.
    pub tell: fn(&str),
}

/// Tells nobody.
pub fn silent(_: &str) {}

/// Whether a variant is measured with warm caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heat {
    /// Two untimed rotations run before each window.
    Warm,
    /// Nothing runs before: the burst goes on where the last one ended.
    Cold,
    /// As a warm one, but other threads do the work: the calling thread's processor clock says
    /// nothing of a window, so that only stolen time makes one be dropped.
    Offloaded,
}

/// A handle of a variant in its suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(usize);

struct Variant<'a> {
    label: String,
    heat: Heat,
    enter: Box<dyn FnMut() -> Result<(), Error> + 'a>,
    burst: Box<dyn FnMut(u64) -> u64 + 'a>,
    rotation: u64,
    ops: u64,
    windows: Vec<f64>,
    dropped: usize,
}

/// Variants to be measured together.
pub struct Suite<'a> {
    variants: Vec<Variant<'a>>,
    rotation: u64,
}

impl Default for Suite<'_> {
    fn default() -> Self {
        Self::of(ROTATION)
    }
}

/// One timed burst.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// What the wall clock says.
    pub wall_ns: u64,
    /// What the thread got.
    pub cpu_ns: u64,
}

impl Window {
    /// Whether the thread had its processor (nearly) all the time.
    pub fn is_clean(&self) -> bool {
        self.wall_ns <= self.cpu_ns + self.cpu_ns / 20
    }
}

/// Times one call; the processor clock is read outside the wall clock.
pub fn timed<T>(burst: impl FnOnce() -> T) -> (Window, T) {
    let cpu = sys::thread_cpu_ns();
    let wall = Instant::now();
    let out = burst();
    let wall_ns = wall.elapsed().as_nanos() as u64;
    (
        Window {
            wall_ns,
            cpu_ns: sys::thread_cpu_ns() - cpu,
        },
        out,
    )
}

/// Reads the time the machine below stole from this one, in clock ticks.
pub struct Steal(Option<File>);

impl Steal {
    /// Opens the counter; a host without one counts as never stolen from.
    pub fn open() -> Self {
        Self(File::open("/proc/stat").ok())
    }

    /// Ticks stolen so far.
    pub fn ticks(&self) -> u64 {
        let mut head = [0; 256];
        let len = self
            .0
            .as_ref()
            .and_then(|f| f.read_at(&mut head, 0).ok())
            .unwrap_or(0);
        parse_steal(&head[..len])
    }
}

fn parse_steal(stat: &[u8]) -> u64 {
    let line = stat.split(|&b| b == b'\n').next().unwrap_or_default();
    let text = std::str::from_utf8(line).unwrap_or_default();
    text.split_whitespace()
        .nth(8)
        .and_then(|word| word.parse().ok())
        .unwrap_or(0)
}

impl<'a> Suite<'a> {
    /// A suite whose operations have walked every path after so many.
    pub fn of(rotation: u64) -> Self {
        Self {
            variants: Vec::new(),
            rotation: rotation.max(1),
        }
    }

    /// Adds a variant: `enter` runs untimed before each window, `burst` runs that many
    /// operations and answers how many went wrong.
    pub fn add(
        &mut self,
        label: &str,
        heat: Heat,
        enter: impl FnMut() -> Result<(), Error> + 'a,
        burst: impl FnMut(u64) -> u64 + 'a,
    ) -> Id {
        self.variants.push(Variant {
            label: label.to_owned(),
            heat,
            enter: Box::new(enter),
            burst: Box::new(burst),
            rotation: self.rotation,
            ops: 1,
            windows: Vec::new(),
            dropped: 0,
        });
        Id(self.variants.len() - 1)
    }

    fn tell(&self, effort: Effort) {
        let Some((first, others)) = self.variants.split_first() else {
            return;
        };
        let label = &first.label;
        match others.len() {
            0 => (effort.tell)(label),
            more => (effort.tell)(&format!("{label}, and {more} beside it")),
        }
    }

    /// Measures everything; the answer is indexed by [`Id`].
    ///
    /// # Errors
    /// `Wrong` if an operation's result was; what an `enter` says.
    pub fn run(mut self, effort: Effort, steal: &Steal) -> Result<Measured, Error> {
        self.tell(effort);
        for variant in &mut self.variants {
            variant.size_burst()?;
        }
        let (start, count) = (Instant::now(), self.variants.len());
        let mut round = 0;
        while self
            .variants
            .iter()
            .any(|v| v.windows.len() < effort.rounds)
        {
            if round > 0 && start.elapsed() > effort.time {
                break;
            }
            let stolen = steal.ticks();
            let mut windows = Vec::with_capacity(count);
            for i in 0..count {
                let i = (i + round) % count;
                windows.push((i, self.variants[i].window()?));
            }
            let disturbed = steal.ticks() != stolen;
            for (i, window) in windows {
                self.variants[i].keep(window, disturbed);
            }
            round += 1;
        }
        let samples = self
            .variants
            .into_iter()
            .map(|v| Samples::new(v.windows, v.dropped));
        Ok(Measured(samples.collect()))
    }
}

/// The samples of a suite.
pub struct Measured(Vec<Samples>);

impl std::ops::Index<Id> for Measured {
    type Output = Samples;
    fn index(&self, id: Id) -> &Samples {
        &self.0[id.0]
    }
}

impl Variant<'_> {
    fn run(&mut self, ops: u64) -> Result<(), Error> {
        match (self.burst)(ops) {
            0 => Ok(()),
            wrong => Err(Error::Wrong(format!(
                "{}: {wrong} of {ops} operations",
                self.label
            ))),
        }
    }

    /// Doubles the burst until it lasts long enough, then cuts it to fit. A warm one is never
    /// shorter than a rotation: each window would walk paths that the last one did not warm.
    fn size_burst(&mut self) -> Result<(), Error> {
        let ops_min = match self.heat {
            Heat::Cold => 1,
            Heat::Warm | Heat::Offloaded => self.rotation,
        };
        self.ops = ops_min;
        loop {
            // The best of three: a moment without the processor must not make it too short.
            let mut wall_ns = u64::MAX;
            for _ in 0..3 {
                wall_ns = wall_ns.min(self.window()?.wall_ns.max(1));
            }
            if wall_ns >= BURST_NS / 4 {
                let fit = self.ops * BURST_NS / wall_ns;
                self.ops = (fit / ops_min * ops_min).max(ops_min);
                return Ok(());
            }
            self.ops *= 2;
        }
    }

    fn window(&mut self) -> Result<Window, Error> {
        (self.enter)()?;
        if self.heat != Heat::Cold {
            self.run(WARM * self.rotation)?;
        }
        let ops = self.ops;
        let (window, result) = timed(|| self.run(ops));
        result.map(|()| window)
    }

    fn keep(&mut self, window: Window, disturbed: bool) {
        let clean = self.heat == Heat::Offloaded || window.is_clean();
        if disturbed || !clean {
            self.dropped += 1;
        } else {
            self.windows.push(window.wall_ns as f64 / self.ops as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn effort(rounds: usize) -> Effort {
        Effort {
            rounds,
            time: Duration::from_secs(20),
            tell: silent,
        }
    }

    fn spin(ns: u64) -> u64 {
        let start = Instant::now();
        while (start.elapsed().as_nanos() as u64) < ns {}
        0
    }

    #[test]
    fn medians_are_per_operation() {
        let mut suite = Suite::default();
        let slow = suite.add("slow", Heat::Cold, || Ok(()), |ops| spin(ops * 2000));
        let fast = suite.add("fast", Heat::Cold, || Ok(()), |ops| spin(ops * 1000));
        let out = suite.run(effort(20), &Steal(None)).unwrap();
        let (slow, fast) = (out[slow].median().unwrap(), out[fast].median().unwrap());
        assert!((1.8..2.2).contains(&(slow / fast)), "{slow} / {fast}");
        assert!((1000.0..1200.0).contains(&fast), "{fast}");
    }

    #[test]
    fn a_window_that_slept_is_dropped_and_counted() {
        let nap = |_| {
            std::thread::sleep(Duration::from_millis(1));
            0
        };
        let mut suite = Suite::default();
        let id = suite.add("nap", Heat::Cold, || Ok(()), nap);
        let time = Duration::from_millis(20);
        let effort = Effort { time, ..effort(3) };
        let out = suite.run(effort, &Steal(None)).unwrap();
        assert_eq!(out[id].windows(), 0);
        assert!(out[id].dropped() > 0);
    }

    #[test]
    fn a_warm_burst_walks_every_path_as_often_and_no_more_than_fits() {
        for (rotation, most) in [(ROTATION, WARM * ROTATION), (1, WARM)] {
            let asked = RefCell::new(Vec::new());
            let mut suite = Suite::of(rotation);
            // One operation lasts as long as a burst should.
            suite.add(
                "long",
                Heat::Warm,
                || Ok(()),
                |ops| {
                    asked.borrow_mut().push(ops);
                    spin(BURST_NS)
                },
            );
            suite.run(effort(2), &Steal(None)).unwrap();
            let asked = asked.into_inner();
            assert!(asked.iter().all(|ops| ops % rotation == 0), "{asked:?}");
            assert_eq!(asked.iter().max(), Some(&most), "{asked:?}");
        }
    }

    #[test]
    fn a_wrong_result_ends_the_run() {
        let mut suite = Suite::default();
        suite.add("liar", Heat::Warm, || Ok(()), |_| 1);
        assert!(matches!(
            suite.run(effort(1), &Steal(None)),
            Err(Error::Wrong(_))
        ));
    }

    #[test]
    fn the_eighth_number_is_the_stolen_time() {
        assert_eq!(parse_steal(b"cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1 1"), 88);
        assert_eq!(parse_steal(b""), 0);
    }
}
