// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that are asked to end, and killed if they have not after a while.
//!
//! # States
//! Asked (`SIGTERM`, and `SIGCONT` for one that is stopped) -> killed after [`GRACE`], again at
//! each look -> given up after the same time again: one of them may wait for a server that does not
//! answer.

use rustix::process::{Pid, Signal};
use std::time::{Duration, Instant};

/// How long processes have to end by themselves.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// What is known of processes that are to end.
pub(crate) trait Ending {
    /// One of them; it may hold the process, so that its number is not another's meanwhile.
    type Process;

    /// Those that are there: reaps what it can, and looks again at each call.
    fn all(&self) -> Vec<(Pid, Self::Process)>;

    /// Whether one ends by itself, and is only waited for.
    fn ends(&self, _pid: Pid) -> bool {
        false
    }

    /// Sends a signal. One that is gone, or may not be told, needs none.
    fn tell(&self, process: &Self::Process, signal: Signal);
}

/// Ends all of them, looking each `pause`; how many there were.
pub(crate) fn end_all(these: &impl Ending, pause: Duration) -> usize {
    let mut asked: Vec<Pid> = Vec::new();
    let begun = Instant::now();
    loop {
        let all = these.all();
        if all.is_empty() || begun.elapsed() > 2 * GRACE {
            return asked.len();
        }
        let late = begun.elapsed() > GRACE;
        for (pid, process) in all {
            if these.ends(pid) {
                continue;
            }
            let known = asked.contains(&pid);
            if !known {
                asked.push(pid);
            }
            if late {
                these.tell(&process, Signal::KILL);
            } else if !known {
                these.tell(&process, Signal::TERM);
                these.tell(&process, Signal::CONT);
            }
        }
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, GRACE, end_all};
    use rustix::process::{Pid, Signal};
    use std::cell::RefCell;
    use std::time::{Duration, Instant};

    /// Two processes: the first ends by `SIGCONT`, the second by `SIGKILL`.
    #[derive(Default)]
    struct Two(RefCell<Vec<(i32, Signal)>>);

    impl Ending for Two {
        type Process = i32;

        fn all(&self) -> Vec<(Pid, i32)> {
            let told = self.0.borrow();
            let gone = [
                told.contains(&(2, Signal::CONT)),
                told.contains(&(3, Signal::KILL)),
            ];
            let left = [2, 3].into_iter().zip(gone).filter(|(_, gone)| !gone);
            left.filter_map(|(pid, _)| Some((Pid::from_raw(pid)?, pid)))
                .collect()
        }

        fn tell(&self, process: &i32, signal: Signal) {
            self.0.borrow_mut().push((*process, signal));
        }
    }

    #[test]
    fn processes_are_asked_once_and_killed_after_a_while() {
        let two = Two::default();
        let begun = Instant::now();
        assert_eq!(end_all(&two, Duration::from_millis(5)), 2);
        assert!(begun.elapsed() >= GRACE);
        let (term, cont) = (Signal::TERM, Signal::CONT);
        let told = [
            (2, term),
            (2, cont),
            (3, term),
            (3, cont),
            (3, Signal::KILL),
        ];
        assert_eq!(two.0.into_inner(), told);
    }
}
