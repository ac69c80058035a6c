// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends all processes of a set: asks them to end, and kills those that have not ended after a
//! while.
//!
//! # States
//! Asked (`SIGTERM`, and `SIGCONT` for a stopped one) -> killed after [`GRACE`], again at each look
//! -> given up after the same time again, because a process may wait for a server that does not
//! answer.

use rustix::process::{Pid, Signal};
use std::time::{Duration, Instant};

/// How long processes have to end by themselves.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A set of processes to end.
pub(crate) trait ProcessSet {
    /// One of them. It may hold the process, so that its number is not reused meanwhile.
    type Process;

    /// The remaining processes: reaps what it can, and looks again at each call.
    fn all(&self) -> Vec<(Pid, Self::Process)>;

    /// Whether a process is already exiting and only needs to be waited for.
    fn is_exiting(&self, _pid: Pid) -> bool {
        false
    }

    /// Sends a signal; errors are ignored, for the process may be gone or not permitted.
    fn signal(&self, process: &Self::Process, signal: Signal);
}

/// Ends all of them, with a look each `pause`; returns how many there were.
pub(crate) fn terminate_all(processes: &impl ProcessSet, pause: Duration) -> usize {
    let mut asked: Vec<Pid> = Vec::new();
    let begun = Instant::now();
    loop {
        let all = processes.all();
        if all.is_empty() || begun.elapsed() > 2 * GRACE {
            return asked.len();
        }
        let late = begun.elapsed() > GRACE;
        for (pid, process) in all {
            if processes.is_exiting(pid) {
                continue;
            }
            let known = asked.contains(&pid);
            if !known {
                asked.push(pid);
            }
            if late {
                processes.signal(&process, Signal::KILL);
            } else if !known {
                processes.signal(&process, Signal::TERM);
                processes.signal(&process, Signal::CONT);
            }
        }
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::{GRACE, ProcessSet, terminate_all};
    use rustix::process::{Pid, Signal};
    use std::cell::RefCell;
    use std::time::{Duration, Instant};

    /// Two processes: the first ends by `SIGCONT`, the second by `SIGKILL`.
    #[derive(Default)]
    struct TwoProcesses(RefCell<Vec<(i32, Signal)>>);

    impl ProcessSet for TwoProcesses {
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

        fn signal(&self, process: &i32, signal: Signal) {
            self.0.borrow_mut().push((*process, signal));
        }
    }

    #[test]
    fn processes_are_asked_once_and_killed_after_a_while() {
        let two = TwoProcesses::default();
        let begun = Instant::now();
        assert_eq!(terminate_all(&two, Duration::from_millis(5)), 2);
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
