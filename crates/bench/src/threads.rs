// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a group of threads that do the same work: one of them, two, and all.
//!
//! Each thread is pinned to a processor of its own and has its own burst. It sleeps while other
//! sides are measured.
//!
//! # Rules
//! R1. The threads of a window run their bursts untimed first, then spin until a common start time:
//!     so bursts that ran one after the other cannot pass for bursts that ran together.
//! R2. A window is dropped if one of its threads was late or lost its processor.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::common::*;
use crate::harness::Burst;
use crate::window::{WINDOW_NS, fit, timed};

/// From the order to the start time: all threads must be awake by then.
const LEAD: Duration = Duration::from_micros(150);
const LATE: Duration = Duration::from_micros(3);
/// Operations before each window, untimed.
const WARM_OPS: u64 = 128;
/// Bursts are multiples of this many operations.
const OPS_MIN: u64 = 64;
/// The shortest burst: the starts differ by a fraction of a microsecond.
const BURST_NS: u64 = 2 * WINDOW_NS;

/// Makes a thread's burst, in that thread.
pub(crate) type Make<'a> = Box<dyn FnOnce() -> Result<Burst<'a>, Error> + Send + 'a>;

/// The measured numbers of threads: one, two, and one per processor.
pub(crate) fn counts() -> Vec<usize> {
    let most = sys::processors().len().max(1);
    let mut out: Vec<usize> = [1, 2, most].into_iter().filter(|&n| n <= most).collect();
    out.dedup();
    out
}

/// A make of a burst that its thread need not set up.
pub(crate) fn ready<'a>(burst: impl FnMut(u64) -> u64 + Send + 'a) -> Make<'a> {
    Box::new(move || Ok(Box::new(burst)))
}

/// An order: this many operations untimed, or from a start time on. None finds out how many
/// operations a window takes.
type Order = Option<(u64, Option<Instant>)>;

/// The answer: the number of operations, when they were done, and whether the thread had its
/// processor and was not late.
struct Done {
    ops: u64,
    end: Instant,
    clean: bool,
}

struct Worker {
    orders: Sender<Order>,
    answers: Receiver<Result<Done, Error>>,
}

/// Threads that wait for orders.
pub(crate) struct Group {
    workers: Vec<Worker>,
    ops: u64,
}

impl Group {
    /// Starts a thread for each of `makes`.
    pub(crate) fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        label: &str,
        makes: Vec<Make<'env>>,
    ) -> Result<Self, Error> {
        let processors = sys::processors();
        let (mut workers, mut most) = (Vec::new(), 0);
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
        for worker in &workers {
            worker.order(None)?;
            most = worker.answer()?.ops.max(most);
        }
        Ok(Self { workers, ops: most })
    }

    /// Nanoseconds per operation of all of `count` threads; None if the window is not clean.
    pub(crate) fn window(&self, count: usize) -> Result<Option<f64>, Error> {
        let workers = &self.workers[..count.min(self.workers.len())];
        let ops = self.ops;
        for worker in workers {
            worker.order(Some((ops.min(WARM_OPS), None)))?;
        }
        for worker in workers {
            worker.answer()?;
        }
        let start = Instant::now() + LEAD;
        for worker in workers {
            worker.order(Some((ops, Some(start))))?;
        }
        let (mut last, mut clean) = (start, true);
        for worker in workers {
            let done = worker.answer()?;
            last = last.max(done.end);
            clean &= done.clean;
        }
        let all = ops * workers.len() as u64;
        Ok(clean.then(|| (last - start).as_nanos() as f64 / all as f64))
    }
}

impl Worker {
    fn order(&self, order: Order) -> Result<(), Error> {
        // A thread that could not be made has sent its error on the other channel.
        if self.orders.send(order).is_err() {
            return self.answer().map(drop);
        }
        Ok(())
    }

    fn answer(&self) -> Result<Done, Error> {
        let lost = |_| Error::Setup("a measuring thread ended".to_owned());
        self.answers.recv().map_err(lost)?
    }
}

fn work(
    label: &str,
    mut burst: Burst<'_>,
    orders: &Receiver<Order>,
    answers: &Sender<Result<Done, Error>>,
) {
    let mut run = |ops: u64, start: Instant| {
        while Instant::now() < start {
            std::hint::spin_loop();
        }
        let late = start.elapsed() > LATE;
        let (timed, wrong) = timed(|| burst(ops));
        let (end, clean) = (Instant::now(), timed.is_clean() && !late);
        all_right(wrong, label)?;
        Ok((timed.wall_ns, Done { ops, end, clean }))
    };
    for order in orders {
        let answer = match order {
            Some((ops, start)) => {
                run(ops, start.unwrap_or_else(Instant::now)).map(|(_, done)| done)
            }
            None => {
                let once = |ops| run(ops, Instant::now()).map(|(ns, _)| ns);
                let (end, clean) = (Instant::now(), true);
                fit(OPS_MIN, BURST_NS, once).map(|ops| Done { ops, end, clean })
            }
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::Ask;
    use crate::harness::Plan;
    use crate::row::Row;

    /// Threads that share nothing, with operations of this many turns each.
    fn group(turns: u64) -> Vec<Make<'static>> {
        let make = |seed: usize| {
            let mut x = seed as u64 | 1;
            ready(move |ops| {
                for _ in 0..ops * turns * 16 {
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                }
                u64::from(std::hint::black_box(x) == 0)
            })
        };
        (0..sys::processors().len()).map(make).collect()
    }

    #[test]
    fn every_group_runs_with_every_thread_count() {
        let (mut plan, counts) = (Plan::default(), counts());
        let once = plan.threads("once", group(1), &counts);
        let twice = plan.threads("twice", group(2), &counts);
        for (once, twice) in once.iter().zip(&twice) {
            plan.row(Row::growth, "twice", *twice, "once", *once);
        }
        let rows = plan.run(&Ask::rounds(3)).unwrap();
        assert_eq!(rows.len(), counts.len());
        assert!(rows[0].windows + rows[0].dropped > 0);
        if let Some(ratio) = rows[0].ratio {
            assert!(ratio > 1.5, "{ratio}");
        }
    }

    #[test]
    fn wrong_result_and_failed_make_end_run() {
        let run = |make: Make<'static>| {
            let mut plan = Plan::default();
            let id = plan.threads("group", vec![make], &[1])[0];
            plan.row(Row::faster, "row", id, "itself", id);
            plan.run(&Ask::rounds(3))
        };
        assert!(matches!(run(ready(|_| 1)), Err(Error::Wrong(_))));
        let refused = run(Box::new(|| Err(Error::Setup("refused".to_owned()))));
        assert!(matches!(refused, Err(Error::Setup(why)) if why == "refused"));
    }
}
