// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thread against two, window by window.
//!
//! Both threads of a window spin until one common instant, so that two bursts which ran one
//! after the other cannot pass for two that ran together; a window in which a thread came late
//! or lost its processor is dropped. The second thread sleeps while the first runs alone.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::harness::{BURST_NS, Effort, Steal, Window, timed};
use crate::stats::Samples;
use crate::sys;

/// Time to wake the other thread before a window starts.
const LEAD: Duration = Duration::from_micros(300);
const LATE: Duration = Duration::from_micros(3);

/// Nanoseconds per operation of all threads together.
pub struct Scaling {
    /// With one thread.
    pub one: Samples,
    /// With two.
    pub two: Samples,
}

struct Order {
    start: Instant,
    ops: u64,
}

struct Done {
    window: Window,
    end: Instant,
    late: bool,
    wrong: u64,
}

/// Measures the first burst alone, and both at once.
///
/// # Errors
/// `Setup` with fewer than two processors; `Wrong` if an operation's result was.
pub fn scaling<F: FnMut(u64) -> u64 + Send>(
    effort: Effort,
    steal: &Steal,
    [mine, theirs]: [F; 2],
) -> Result<Scaling, Error> {
    let processors = sys::processors();
    let [first, second, ..] = processors[..] else {
        return Err(Error::Setup("two threads need two processors".to_owned()));
    };
    let (orders, to_do) = channel();
    let (done, answers) = channel();
    let out = thread::scope(|scope| {
        scope.spawn(move || {
            sys::pin(&[second]);
            helper(theirs, &to_do, &done);
        });
        sys::pin(&[first]);
        rounds(effort, steal, mine, orders, &answers)
    });
    sys::pin(&processors);
    out
}

fn helper(mut burst: impl FnMut(u64) -> u64, orders: &Receiver<Order>, done: &Sender<Done>) {
    for order in orders {
        if done.send(window(&mut burst, &order)).is_err() {
            return;
        }
    }
}

fn rounds(
    effort: Effort,
    steal: &Steal,
    mut burst: impl FnMut(u64) -> u64,
    orders: Sender<Order>,
    answers: &Receiver<Done>,
) -> Result<Scaling, Error> {
    let ops = size(&mut burst);
    let (mut one, mut two, mut dropped) = (Vec::new(), Vec::new(), [0, 0]);
    let begun = Instant::now();
    while one.len().min(two.len()) < effort.rounds && begun.elapsed() < effort.time {
        let stolen = steal.ticks();
        let alone = window(
            &mut burst,
            &Order {
                start: Instant::now(),
                ops,
            },
        );
        let start = Instant::now() + LEAD;
        orders.send(Order { start, ops }).map_err(|_| lost())?;
        let mine = window(&mut burst, &Order { start, ops });
        let theirs = answers.recv().map_err(|_| lost())?;
        if alone.wrong + mine.wrong + theirs.wrong != 0 {
            return Err(Error::Wrong("an operation under two threads".to_owned()));
        }
        let calm = steal.ticks() == stolen;
        keep(
            calm && alone.window.is_clean(),
            &mut one,
            &mut dropped[0],
            || alone.window.wall_ns as f64 / ops as f64,
        );
        let together = [&mine, &theirs]
            .iter()
            .all(|d| d.window.is_clean() && !d.late);
        keep(calm && together, &mut two, &mut dropped[1], || {
            (mine.end.max(theirs.end) - start).as_nanos() as f64 / (2 * ops) as f64
        });
    }
    Ok(Scaling {
        one: Samples::new(one, dropped[0]),
        two: Samples::new(two, dropped[1]),
    })
}

fn keep(clean: bool, windows: &mut Vec<f64>, dropped: &mut usize, value: impl Fn() -> f64) {
    if clean {
        windows.push(value());
    } else {
        *dropped += 1;
    }
}

fn lost() -> Error {
    Error::Setup("the second thread ended".to_owned())
}

fn window(burst: &mut impl FnMut(u64) -> u64, order: &Order) -> Done {
    let mut wrong = burst(order.ops.min(128));
    while Instant::now() < order.start {
        std::hint::spin_loop();
    }
    let late = order.start.elapsed() > LATE;
    let (window, missed) = timed(|| burst(order.ops));
    wrong += missed;
    Done {
        window,
        end: Instant::now(),
        late,
        wrong,
    }
}

/// Twice the usual burst: the two starts differ by a fraction of a microsecond.
fn size(burst: &mut impl FnMut(u64) -> u64) -> u64 {
    let mut ops = 64;
    loop {
        let wall_ns = timed(|| burst(ops)).0.wall_ns.max(1);
        if wall_ns >= BURST_NS / 2 {
            return (ops * 2 * BURST_NS / wall_ns).max(64);
        }
        ops *= 2;
    }
}

/// A burst that shares nothing.
#[cfg(test)]
pub(crate) fn private_burst(seed: usize) -> impl FnMut(u64) -> u64 {
    let mut x = seed as u64 | 1;
    move |ops| {
        for _ in 0..ops * 16 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        u64::from(std::hint::black_box(x) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_work_is_measured_on_both_threads() {
        let effort = Effort {
            rounds: 3,
            time: Duration::from_secs(10),
            tell: crate::harness::silent,
        };
        if sys::processors().len() < 2 {
            return;
        }
        let out = scaling(effort, &Steal::open(), [1, 2].map(private_burst)).unwrap();
        let clean = out.one.windows() + out.one.dropped();
        assert!(clean > 0 && out.two.windows() + out.two.dropped() == clean);
    }
}
