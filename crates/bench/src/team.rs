// SPDX-License-Identifier: MIT OR Apache-2.0
//! Crews of threads, interleaved: the same work by one thread, by two and by one a processor.
//!
//! A crew is one contender at one task: as many threads as there are processors, each pinned to
//! its own, each with its own burst, asleep while another crew is measured.
//!
//! # Rules
//! R1 every round has one window of every crew with every number of threads; each round starts
//! at another one.
//! R2 the threads of a window run their bursts untimed first, then spin until one common
//! instant: bursts that ran one after the other cannot pass for bursts that ran together.
//! R3 a window is dropped if one of its threads came late or lost its processor, and a round's
//! windows are dropped if the machine below stole time.
//! R4 a burst answers how many results were wrong; one wrong result ends the benchmark.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::harness::{BURST_NS, Effort, Steal, Window, timed};
use crate::stats::Samples;
use crate::sys;

/// From the order to start to the start: both threads have to be awake by then.
const LEAD: Duration = Duration::from_micros(150);
const LATE: Duration = Duration::from_micros(3);
/// Operations before each window, untimed.
const WARM_OPS: u64 = 128;
/// No burst is shorter: the starts differ by a fraction of a microsecond.
const WINDOW_NS: u64 = 2 * BURST_NS;

/// What a thread does: it runs that many operations and answers how many went wrong.
pub type Burst<'a> = Box<dyn FnMut(u64) -> u64 + 'a>;
/// Makes a thread's burst, in that thread.
pub type Make<'a> = Box<dyn FnOnce() -> Result<Burst<'a>, Error> + Send + 'a>;

/// The numbers of threads that are measured: one, two, and one a processor.
pub fn counts() -> Vec<usize> {
    let most = sys::processors().len().max(1);
    let mut out: Vec<usize> = [1, 2, most].into_iter().filter(|&n| n <= most).collect();
    out.dedup();
    out
}

/// Crews to be measured together.
#[derive(Default)]
pub struct Team<'a> {
    crews: Vec<(String, Vec<Make<'a>>)>,
}

/// Nanoseconds per operation of all threads together, for each number of threads.
pub type ByCount = Vec<Samples>;

enum Order {
    /// Find out how many operations a window takes.
    Size,
    Warm(u64),
    Go {
        start: Instant,
        ops: u64,
    },
}

enum Answer {
    Sized(u64),
    Warmed,
    Done(Done),
}

struct Done {
    window: Window,
    end: Instant,
    late: bool,
}

struct Worker {
    orders: Sender<Order>,
    answers: Receiver<Result<Answer, Error>>,
}

struct Crew {
    workers: Vec<Worker>,
    ops: u64,
}

#[derive(Default)]
struct Kept {
    windows: Vec<f64>,
    dropped: usize,
}

impl<'a> Team<'a> {
    /// Adds a crew of one thread for each of `makes`; the answer is its place in the results.
    pub fn add(&mut self, label: &str, makes: Vec<Make<'a>>) -> usize {
        self.crews.push((label.to_owned(), makes));
        self.crews.len() - 1
    }

    /// Measures every crew with each of `counts` threads.
    ///
    /// # Errors
    /// What a `make` says; `Wrong` if an operation's result was; `Setup` if a thread ended.
    pub fn run(
        self,
        counts: &[usize],
        effort: Effort,
        steal: &Steal,
    ) -> Result<Vec<ByCount>, Error> {
        if let Some((first, _)) = self.crews.first() {
            let all = self.crews.len();
            (effort.tell)(&format!("{first}: {all} crews of {counts:?} threads"));
        }
        let processors = sys::processors();
        thread::scope(|scope| {
            let mut crews = Vec::new();
            for (label, makes) in self.crews {
                crews.push(Crew::hire(scope, &label, makes, &processors)?);
            }
            rounds(&crews, counts, effort, steal)
        })
    }
}

fn rounds(
    crews: &[Crew],
    counts: &[usize],
    effort: Effort,
    steal: &Steal,
) -> Result<Vec<ByCount>, Error> {
    let cells = crews.len() * counts.len();
    let mut kept: Vec<Kept> = (0..cells).map(|_| Kept::default()).collect();
    let (begun, mut round) = (Instant::now(), 0);
    while kept.iter().any(|k| k.windows.len() < effort.rounds) {
        if round > 0 && begun.elapsed() > effort.time {
            break;
        }
        let stolen = steal.ticks();
        let mut windows = Vec::with_capacity(cells);
        for i in (0..cells).map(|i| (i + round) % cells) {
            let (crew, count) = (&crews[i / counts.len()], counts[i % counts.len()]);
            windows.push((i, crew.window(count)?));
        }
        let calm = steal.ticks() == stolen;
        for (i, window) in windows {
            match window.filter(|_| calm) {
                Some(value) => kept[i].windows.push(value),
                None => kept[i].dropped += 1,
            }
        }
        round += 1;
    }
    let mut samples = kept.into_iter().map(|k| Samples::new(k.windows, k.dropped));
    Ok(crews
        .iter()
        .map(|_| samples.by_ref().take(counts.len()).collect())
        .collect())
}

impl Crew {
    fn hire<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        label: &str,
        makes: Vec<Make<'env>>,
        processors: &[usize],
    ) -> Result<Self, Error> {
        let mut workers = Vec::new();
        for (i, make) in makes.into_iter().enumerate() {
            let (orders, to_do) = channel();
            let (answer, answers) = channel();
            let (label, processor) = (label.to_owned(), processors[i % processors.len()]);
            scope.spawn(move || {
                sys::pin(&[processor]);
                match make() {
                    Ok(burst) => work(&label, burst, &to_do, &answer),
                    Err(why) => drop(answer.send(Err(why))),
                }
            });
            workers.push(Worker { orders, answers });
        }
        let mut crew = Self { workers, ops: 0 };
        for worker in &crew.workers {
            worker.order(Order::Size)?;
            if let Answer::Sized(ops) = worker.answer()? {
                crew.ops = crew.ops.max(ops);
            }
        }
        Ok(crew)
    }

    /// Nanoseconds per operation with `count` threads; None if the window has to be dropped.
    fn window(&self, count: usize) -> Result<Option<f64>, Error> {
        let workers = &self.workers[..count.min(self.workers.len())];
        let ops = self.ops;
        for worker in workers {
            worker.order(Order::Warm(ops.min(WARM_OPS)))?;
        }
        for worker in workers {
            worker.answer()?;
        }
        let start = Instant::now() + LEAD;
        for worker in workers {
            worker.order(Order::Go { start, ops })?;
        }
        let (mut end, mut clean) = (start, true);
        for worker in workers {
            if let Answer::Done(done) = worker.answer()? {
                end = end.max(done.end);
                clean &= done.window.is_clean() && !done.late;
            }
        }
        let all = ops * workers.len() as u64;
        Ok(clean.then(|| (end - start).as_nanos() as f64 / all as f64))
    }
}

impl Worker {
    fn order(&self, order: Order) -> Result<(), Error> {
        // A thread that could not be made has left its reason in the other channel.
        if self.orders.send(order).is_err() {
            return self.answer().map(drop);
        }
        Ok(())
    }

    fn answer(&self) -> Result<Answer, Error> {
        let lost = |_| Error::Setup("a measuring thread ended".to_owned());
        self.answers.recv().map_err(lost)?
    }
}

fn work(
    label: &str,
    mut burst: Burst<'_>,
    orders: &Receiver<Order>,
    answers: &Sender<Result<Answer, Error>>,
) {
    for order in orders {
        let (answer, wrong) = match order {
            Order::Size => {
                let (ops, wrong) = size(&mut burst);
                (Answer::Sized(ops), wrong)
            }
            Order::Warm(ops) => {
                let wrong = burst(ops);
                (Answer::Warmed, wrong)
            }
            Order::Go { start, ops } => {
                let (done, wrong) = go(&mut burst, start, ops);
                (Answer::Done(done), wrong)
            }
        };
        let answer = match wrong {
            0 => Ok(answer),
            _ => Err(Error::Wrong(format!("{label}: {wrong} operations"))),
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

fn go(burst: &mut Burst<'_>, start: Instant, ops: u64) -> (Done, u64) {
    while Instant::now() < start {
        std::hint::spin_loop();
    }
    let late = start.elapsed() > LATE;
    let (window, wrong) = timed(|| burst(ops));
    let end = Instant::now();
    (Done { window, end, late }, wrong)
}

fn size(burst: &mut Burst<'_>) -> (u64, u64) {
    let (mut ops, mut wrong) = (64, 0);
    loop {
        let mut wall_ns = u64::MAX;
        for _ in 0..3 {
            let (window, missed) = timed(|| burst(ops));
            wrong += missed;
            wall_ns = wall_ns.min(window.wall_ns.max(1));
        }
        if wall_ns >= WINDOW_NS / 4 || wrong > 0 {
            return ((ops * WINDOW_NS / wall_ns).max(64), wrong);
        }
        ops *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::private_burst;

    const EFFORT: Effort = Effort {
        rounds: 3,
        time: Duration::from_secs(10),
        tell: crate::harness::silent,
    };

    fn crew(turns: u64) -> Vec<Make<'static>> {
        let make = move |seed| -> Make<'static> {
            let mut burst = private_burst(seed);
            Box::new(move || Ok(Box::new(move |ops| burst(ops * turns))))
        };
        (0..sys::processors().len()).map(|i| make(i + 1)).collect()
    }

    #[test]
    fn every_crew_is_measured_with_every_number_of_threads() {
        let mut team = Team::default();
        let (once, twice) = (team.add("once", crew(1)), team.add("twice", crew(2)));
        let counts = counts();
        let out = team.run(&counts, EFFORT, &Steal::open()).unwrap();
        assert_eq!((out.len(), out[once].len()), (2, counts.len()));
        assert!(out[once][0].windows() + out[once][0].dropped() > 0);
        if let (Some(once), Some(twice)) = (out[once][0].median(), out[twice][0].median()) {
            assert!(twice > 1.5 * once, "{once} {twice}");
        }
    }

    #[test]
    fn a_wrong_result_and_a_failed_make_end_the_run() {
        let mut team = Team::default();
        team.add("liar", vec![Box::new(|| Ok(Box::new(|_| 1)))]);
        let out = team.run(&[1], EFFORT, &Steal::open());
        assert!(matches!(out, Err(Error::Wrong(_))));
        let mut team = Team::default();
        let refuse = || Err(Error::Setup("refused".to_owned()));
        team.add("none", vec![Box::new(refuse)]);
        let out = team.run(&[1], EFFORT, &Steal::open());
        assert!(matches!(out, Err(Error::Setup(why)) if why == "refused"));
    }
}
