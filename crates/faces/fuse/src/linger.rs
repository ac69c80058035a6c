// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a thread that has answered looks for the next request before it waits for one.
//!
//! A program that does many things to files asks again a moment after it was answered. A server
//! that waits has to be woken for it, on a processor that has fallen asleep meanwhile: that takes
//! longer than the answer, and on a virtual machine many times as long.
//!
//! # States
//! The thread waits at once -> when most waits were so short that they were little but waking, it
//! looks for `SHORT` and then waits -> when most looks found nothing, it waits at once again.
//!
//! # Rules
//! R1. Between two looks whoever else is ready to run on its processor does.
//! R2. Looks for nothing are few: each is weighed as `DEAREST` that were right. They cost a program
//!     that computes between its requests, as a compiler does, more than they save it: the
//!     processor beside its own is not idle then, and may be half of the same core.

use std::thread;
use std::time::{Duration, Instant};

/// How long it looks.
const SHORT: Duration = Duration::from_micros(50);
/// A wait that was shorter need not have been: most of it was waking who asks, and who answers.
const WAKING: Duration = Duration::from_micros(80);
/// What a look for nothing costs, in short pauses.
const DEAREST: i32 = 4;
/// How much the last pauses can weigh.
const MOST: i32 = 16;

/// What a thread knows of the pauses between requests.
#[derive(Default)]
pub(crate) struct Linger {
    /// Above 0: they are short.
    weight: i32,
}

impl Linger {
    /// There was nothing: looks by `came` for as long as it is worth, and then waits by `wait`.
    pub(crate) fn pause<E>(
        &mut self,
        came: impl Fn() -> bool,
        wait: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let begun = Instant::now();
        let looks = self.weight > 0;
        if looks {
            while begun.elapsed() < SHORT {
                thread::yield_now();
                if came() {
                    self.weigh(1);
                    return Ok(());
                }
            }
        }
        wait()?;
        let needless = !looks && begun.elapsed() < WAKING;
        self.weigh(if needless { 1 } else { -DEAREST });
        Ok(())
    }

    fn weigh(&mut self, by: i32) {
        self.weight = (self.weight + by).clamp(-MOST, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A pause in which the request comes with the first look, or after so long a wait.
    fn pause(linger: &mut Linger, after: Option<Duration>) -> (bool, bool) {
        let (looked, waited) = (Cell::new(false), Cell::new(false));
        let came = || {
            looked.set(true);
            after.is_none()
        };
        let wait = || {
            waited.set(true);
            thread::sleep(after.unwrap_or_default());
            Ok::<(), ()>(())
        };
        assert_eq!(linger.pause(came, wait), Ok(()));
        (looked.get(), waited.get())
    }

    #[test]
    fn it_looks_while_requests_come_soon_and_waits_while_they_do_not() {
        let (mut linger, long) = (Linger::default(), Some(Duration::from_millis(1)));
        assert_eq!(pause(&mut linger, long), (false, true));
        linger.weight = 1;
        for _ in 0..2 * MOST {
            assert_eq!(pause(&mut linger, None), (true, false));
        }
        let looks = (0..MOST).filter(|_| pause(&mut linger, long).0).count();
        assert_eq!(looks as i32, MOST / DEAREST);
        assert!(linger.weight < 0);
        // A look in vain was one, however soon the request came after it.
        linger.weight = 1;
        assert_eq!(pause(&mut linger, Some(Duration::ZERO)), (true, true));
        assert_eq!(linger.weight, 1 - DEAREST);
        linger.weight = 0;
        // A wait that was short is learned from, however long the clock says that this one was.
        linger.weigh(1);
        assert_eq!(pause(&mut linger, None), (true, false));
    }

    #[test]
    fn what_keeps_it_from_waiting_is_said() {
        assert_eq!(Linger::default().pause(|| false, || Err(7)), Err(7));
    }
}
