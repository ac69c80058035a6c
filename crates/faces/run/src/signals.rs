// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles the signals of the front (the process that the user started): it waits for children,
//! forwards signals, stops and dies as the command does. After the command has ended, the second
//! signal that asks to end is obeyed.
//!
//! # Kernel analogue
//! None; what a shell does for a job, seen from inside the job.

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Caught};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::signal as s;
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sent by the kernel, as by a terminal, to a whole process group.
const SI_KERNEL: i32 = 0x80;

/// Signals that are forwarded to the command if they were sent to the front alone.
const FORWARDED: &[i32] = &[
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

/// Signals that end the front once the command is gone, when they come again: the first one may
/// have ended the command.
const TERMINATING: &[i32] = &[s::SIGINT, s::SIGQUIT, s::SIGTERM];

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandExit {
    /// With this exit status.
    Exit(u8),
    /// By this signal.
    Signal(i32),
}

/// Signals for the front are blocked while this lives; earlier children receive theirs.
pub(crate) struct BlockedSignals(SigSet);

impl BlockedSignals {
    /// Blocks all signals that are forwarded or handled later.
    pub(crate) fn new() -> io::Result<BlockedSignals> {
        let named = FORWARDED
            .iter()
            .map(|signal| nix::sys::signal::Signal::try_from(*signal));
        let set = named.collect::<Result<SigSet, _>>()?;
        Ok(BlockedSignals(set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?))
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // The earlier mask is valid.
        let _set = self.0.thread_set_mask();
    }
}

/// Unblocks the signal of a child's end, which a caller may have blocked and for which the front
/// waits.
pub(crate) fn unblock_ends() -> io::Result<()> {
    let mut ends = SigSet::empty();
    ends.add(Caught::SIGCHLD);
    Ok(ends.thread_unblock()?)
}

/// The handlers of the front.
pub(crate) struct Signals {
    info: SignalsInfo<WithRawSiginfo>,
    stops: bool,
}

impl Signals {
    /// Installs the handlers. Children started before keep the dispositions of the front. `stops`
    /// says whether this process stops when the command does.
    pub(crate) fn install(stops: bool) -> io::Result<Signals> {
        let all = FORWARDED.iter().chain(&[s::SIGCHLD]);
        let info = SignalsInfo::new(all)?;
        Ok(Signals { info, stops })
    }

    /// Waits until `command` or `server` ends; returns which, and how.
    pub(crate) fn wait(&mut self, command: Pid, server: Pid) -> io::Result<(Pid, CommandExit)> {
        loop {
            if let Some(end) = self.reap(command, server)? {
                return Ok(end);
            }
            for info in self.info.wait() {
                // The kernel sends a hangup of the terminal to the session leader alone.
                let is_shared = info.si_code == SI_KERNEL && info.si_signo != s::SIGHUP;
                if !is_shared && FORWARDED.contains(&info.si_signo) {
                    forward(command, info.si_signo);
                }
            }
        }
    }

    /// Stops forwarding: the second signal that asks to end now ends the front.
    pub(crate) fn stop_forwarding(self) -> io::Result<()> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in TERMINATING {
            flag::register_conditional_default(*signal, Arc::clone(&asked))?;
            flag::register(*signal, Arc::clone(&asked))?;
        }
        Ok(())
    }

    /// Reaps children and handles stops.
    fn reap(&mut self, command: Pid, server: Pid) -> io::Result<Option<(Pid, CommandExit)>> {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        loop {
            match rustix::process::wait(options) {
                Ok(Some((pid, status))) => {
                    if let Some(end) = ended(status) {
                        // Orphans of the command need no further action.
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

    /// Stops as the command has stopped, and continues it when this process continues.
    fn stop(&mut self, command: Pid) -> io::Result<()> {
        signal_hook::low_level::emulate_default_handler(s::SIGSTOP)?;
        // A signal to the whole group has reached the command too, and a second one does nothing.
        forward(command, s::SIGCONT);
        Ok(())
    }
}

fn ended(status: WaitStatus) -> Option<CommandExit> {
    let code = status
        .exit_status()
        .and_then(|code| u8::try_from(code).ok());
    let signal = status.terminating_signal();
    code.map(CommandExit::Exit)
        .or(signal.map(CommandExit::Signal))
}

/// Sends a signal; the process may be gone.
fn forward(pid: Pid, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        rustix::process::kill_process(pid, signal).ok();
    }
}

/// Dies by the signal that killed the command; returns the exit status for a signal that does not
/// kill.
pub(crate) fn die(signal: i32) -> u8 {
    // One core file is enough, and the command's is the one.
    let none = Rlimit {
        current: Some(0),
        maximum: rustix::process::getrlimit(Resource::Core).maximum,
    };
    rustix::process::setrlimit(Resource::Core, none).ok();
    // It returns for unknown signals.
    signal_hook::low_level::emulate_default_handler(signal).ok();
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_sent_while_blocked_is_delivered_later() {
        let held = BlockedSignals::new().unwrap();
        // Sent to this thread; if it were not blocked it would kill the test.
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGUSR1).unwrap();
        let mut signals = Signals::install(true).unwrap();
        assert_eq!(signals.info.pending().count(), 0);
        drop(held);
        let came: Vec<_> = signals.info.pending().map(|info| info.si_signo).collect();
        assert_eq!(came, [s::SIGUSR1]);
    }
}
