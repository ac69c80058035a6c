// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals of the front: waits for children, passes on, stops and dies as the command does; after
//! it ended, the second that asks to end is obeyed.
//!
//! # Kernel analogue
//! None; what a shell does for a job, seen from inside the job.

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::signal as s;
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sent by the kernel, by a terminal that is, to all of a process group.
const SI_KERNEL: i32 = 0x80;

/// What is passed on to the command if it was sent to the front alone.
const PASSED: &[i32] = &[
    s::SIGHUP,
    s::SIGINT,
    s::SIGQUIT,
    s::SIGTERM,
    s::SIGUSR1,
    s::SIGUSR2,
    s::SIGALRM,
    s::SIGWINCH,
    s::SIGCONT,
    s::SIGTSTP,
    s::SIGTTIN,
    s::SIGTTOU,
    s::SIGURG,
    s::SIGIO,
    s::SIGVTALRM,
    s::SIGPROF,
    s::SIGXCPU,
    s::SIGSYS,
];

/// What ends the front once the command is gone, when it comes again: the first may have been what
/// the command ended by.
const ENDING: &[i32] = &[s::SIGINT, s::SIGQUIT, s::SIGTERM];

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit status.
    Exit(u8),
    /// By this signal.
    Signal(i32),
}

/// Signals for the front wait while this lives; children that it has already are told of theirs.
pub(crate) struct Held(SigSet);

impl Held {
    /// Holds back all that is passed on or answered later.
    pub(crate) fn new() -> io::Result<Held> {
        let named = PASSED
            .iter()
            .map(|signal| nix::sys::signal::Signal::try_from(*signal));
        let set = named.collect::<Result<SigSet, _>>()?;
        Ok(Held(set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What was a mask is one.
        let _set = self.0.thread_set_mask();
    }
}

/// The signals of the front, from when it is made.
pub(crate) struct Signals {
    info: SignalsInfo<WithRawSiginfo>,
    stops: bool,
}

impl Signals {
    /// Takes the signals over. Children started before keep what the front was started with.
    /// `stops` says whether this process stops when the command does.
    pub(crate) fn take(stops: bool) -> io::Result<Signals> {
        let all = PASSED.iter().chain(&[s::SIGCHLD]);
        let info = SignalsInfo::new(all)?;
        Ok(Signals { info, stops })
    }

    /// Waits until `command` or `server` ends, and says which and how.
    pub(crate) fn wait(&mut self, command: Pid, server: Pid) -> io::Result<(Pid, End)> {
        loop {
            if let Some(end) = self.reap(command, server)? {
                return Ok(end);
            }
            for info in self.info.wait() {
                // A hangup of the terminal is sent to the leader of the session alone.
                let is_shared = info.si_code == SI_KERNEL && info.si_signo != s::SIGHUP;
                if !is_shared && PASSED.contains(&info.si_signo) {
                    pass(command, info.si_signo);
                }
            }
        }
    }

    /// There is nobody any more to pass signals on to: the second that asks to end ends the front.
    pub(crate) fn let_go(self) -> io::Result<()> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in ENDING {
            flag::register_conditional_default(*signal, Arc::clone(&asked))?;
            flag::register(*signal, Arc::clone(&asked))?;
        }
        Ok(())
    }

    /// Takes in what children have to tell.
    fn reap(&mut self, command: Pid, server: Pid) -> io::Result<Option<(Pid, End)>> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        loop {
            match rustix::process::wait(options) {
                Ok(Some((pid, status))) => {
                    if let Some(end) = ended(status) {
                        // What the command left behind, and ended later, is nobody's else.
                        if pid == command || pid == server {
                            return Ok(Some((pid, end)));
                        }
                    } else if pid == command && self.stops {
                        self.stop(command)?;
                    }
                }
                Ok(None) => return Ok(None),
                Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// Stops as the command has stopped, and lets it go on when told to go on.
    fn stop(&mut self, command: Pid) -> io::Result<()> {
        signal_hook::low_level::emulate_default_handler(s::SIGSTOP)?;
        // Who told the whole group has told the command, to whom once more does nothing.
        pass(command, s::SIGCONT);
        Ok(())
    }
}

fn ended(status: WaitStatus) -> Option<End> {
    let code = status
        .exit_status()
        .and_then(|code| u8::try_from(code).ok());
    let signal = status.terminating_signal();
    code.map(End::Exit).or(signal.map(End::Signal))
}

/// Sends a signal; a process that is gone needs none.
fn pass(pid: Pid, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        rustix::process::kill_process(pid, signal).ok();
    }
}

/// Dies as the command died; returns the exit status for a signal that cannot be died of.
pub(crate) fn die(signal: i32) -> u8 {
    // One core is enough, and it is the command's.
    let none = Rlimit {
        current: Some(0),
        maximum: rustix::process::getrlimit(Resource::Core).maximum,
    };
    rustix::process::setrlimit(Resource::Core, none).ok();
    // It returns for signals that it does not know.
    signal_hook::low_level::emulate_default_handler(signal).ok();
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_while_signals_are_held_is_answered_and_ends_nobody() {
        let held = Held::new().unwrap();
        // Comes to this thread; if it were not held the test would die of it.
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGUSR1).unwrap();
        let mut signals = Signals::take(true).unwrap();
        assert_eq!(signals.info.pending().count(), 0);
        drop(held);
        let came: Vec<_> = signals.info.pending().map(|info| info.si_signo).collect();
        assert_eq!(came, [s::SIGUSR1]);
    }
}
