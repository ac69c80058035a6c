// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a command of root's in another user's view, on a terminal of its own.
//!
//! Processes in the view can take over whatever its commands hold. With a terminal of root's they
//! could read what is typed later. So the command gets a session, and a pseudoterminal in place of
//! each standard stream that is a terminal. This process relays input and output. Of root's
//! environment and open files the command gets a few variables and the standard streams.
//!
//! # Kernel analogue
//! pty(7), as ssh and su(1) `--pty` use it.
//!
//! # States
//! Raw (root's terminal, if standard input is one) -> the command has ended -> its remaining output
//! is relayed -> restored. SIGKILL to this process leaves the terminal raw.
//!
//! # Rules
//! R1. The inner terminal turns control characters into signals: Ctrl-C interrupts the command
//!     there. A command without a shell above it does not stop by Ctrl-Z, because its process group
//!     is orphaned in its session.
//! R2. SIGHUP, SIGINT, SIGQUIT and SIGTERM to this process are forwarded to the command.
//! R3. Input is not read while the command reads nothing, so it takes no memory.
//! R4. Once the command has ended, no more is relayed than the kernel can have buffered of its
//!     output: other processes of the view may write to its terminal for ever.

use crate::signals::die;
use openpath_commit::Refusal;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, Uid, WaitOptions, WaitStatus};
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, OutputModes, Termios};
use signal_hook::consts::signal as s;
use signal_hook::iterator::SignalsInfo;
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// How much is relayed at once.
const PIECE: usize = 4096;
/// How much is relayed after the end, in bytes: a pseudoterminal buffers less (R4).
const LAST: usize = 256 << 10;
/// Variables that the command gets, besides those that begin with [`LOCALE`].
const VARIABLES: [&str; 4] = ["TERM", "LANG", "LANGUAGE", "PATH"];
const LOCALE: &[u8] = b"LC_";
/// R2
const FORWARDED: [i32; 4] = [s::SIGHUP, s::SIGINT, s::SIGQUIT, s::SIGTERM];

/// Runs this program with the arguments `words`, in a session of its own, and ends as it ends. Its
/// terminal belongs to `owner`.
///
/// # Errors
/// No terminal or process can be made.
pub(crate) fn run(words: &[OsString], owner: Uid) -> Result<u8, Refusal> {
    let failed = |why: io::Error| Refusal::step("cannot relay the terminal", why);
    let mut relay = Relay::open(owner).map_err(failed)?;
    let child = relay.start(words).map_err(failed)?;
    let status = relay.run_until_exit(child);
    relay.restore();
    let status = status.map_err(failed)?;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Ok(die(signal)),
        (None, None) => Err(Refusal::system("the command ended in an unknown way")),
    }
}

/// Begins the session of the relayed process. If a standard stream is a terminal, it becomes the
/// terminal of the session. All other descriptors are closed.
///
/// # Errors
/// It leads a process group already; the open descriptors cannot be read.
pub(crate) fn begin_session() -> Result<(), Refusal> {
    crate::inherited::close_others()?;
    let failed = |why| Refusal::step("cannot begin a session", why);
    rustix::process::setsid().map_err(failed)?;
    let streams = standard();
    match streams
        .into_iter()
        .find(|stream| rustix::termios::isatty(stream))
    {
        Some(terminal) => rustix::process::ioctl_tiocsctty(terminal).map_err(failed),
        None => Ok(()),
    }
}

fn standard() -> [BorrowedFd<'static>; 3] {
    [
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    ]
}

/// The two terminals, if there are any.
struct Relay {
    signals: SignalsInfo,
    /// Written by the handler of each signal.
    woken: UnixStream,
    pty: Option<Pty>,
}

struct Pty {
    master: OwnedFd,
    /// For the child.
    slave: Option<OwnedFd>,
    /// The user's terminal.
    outer: BorrowedFd<'static>,
    /// Where the command's output goes.
    output: BorrowedFd<'static>,
    /// The earlier state of the outer terminal, if standard input is a terminal.
    before: Option<Termios>,
    /// The outer terminal is gone.
    hung_up: bool,
    /// Input that the command has not read yet.
    typed: Vec<u8>,
}

impl Relay {
    fn open(owner: Uid) -> io::Result<Relay> {
        let (woken, wakes) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let others = [s::SIGCHLD, s::SIGWINCH, s::SIGCONT];
        let all = FORWARDED.iter().chain(&others);
        let signals = SignalsInfo::new(all.clone())?;
        for signal in all {
            signal_hook::low_level::pipe::register(*signal, wakes.try_clone()?)?;
        }
        let pty = Pty::open(owner)?;
        Ok(Relay {
            signals,
            woken,
            pty,
        })
    }

    fn start(&mut self, words: &[OsString]) -> io::Result<Pid> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("openpath").args(words);
        command.env_clear().envs(variables());
        if let Some(pty) = &mut self.pty {
            pty.attach(&mut command)?;
        }
        let child = command.spawn()?;
        // It owns the child's end of the terminal.
        drop(command);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(pty) = &self.pty {
            pty.make_raw();
        }
        pid.ok_or_else(|| io::Error::other("a process without a number"))
    }

    /// Relays until the child has ended, and then its remaining output.
    fn run_until_exit(&mut self, child: Pid) -> io::Result<WaitStatus> {
        loop {
            if let Some(status) = self.handle_signals(child)? {
                if let Some(pty) = &self.pty {
                    drain_output(|| pty.copy_output())?;
                }
                return Ok(status);
            }
            match &mut self.pty {
                Some(pty) => pty.poll_once(&self.woken)?,
                None => wait_for(&mut [PollFd::new(&self.woken, PollFlags::IN)])?,
            }
        }
    }

    /// Handles signals; returns the status of the child, if it has ended.
    fn handle_signals(&mut self, child: Pid) -> io::Result<Option<WaitStatus>> {
        let mut word = [0; 64];
        while matches!(io::Read::read(&mut &self.woken, &mut word), Ok(1..)) {}
        for signal in self.signals.pending() {
            match (signal, &self.pty) {
                (s::SIGCONT, Some(pty)) => pty.make_raw(),
                (s::SIGWINCH, Some(pty)) => pty.resize(),
                (signal, _) if FORWARDED.contains(&signal) => {
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        // It may be gone.
                        rustix::process::kill_process(child, signal).ok();
                    }
                }
                _ => {}
            }
        }
        let status = rustix::process::waitpid(Some(child), WaitOptions::NOHANG)?;
        Ok(status.map(|(_, status)| status))
    }

    fn restore(&self) {
        if let Some(Pty {
            outer,
            before: Some(before),
            ..
        }) = &self.pty
        {
            rustix::termios::tcsetattr(outer, OptionalActions::Drain, before).ok();
        }
    }
}

impl Pty {
    /// A pseudoterminal, if a standard stream is a terminal.
    fn open(owner: Uid) -> io::Result<Option<Pty>> {
        let [stdin, stdout, stderr] = standard();
        let is_terminal = |stream: &BorrowedFd<'_>| rustix::termios::isatty(stream);
        let outer = [stdin, stdout, stderr].into_iter().find(is_terminal);
        let output = [stdout, stderr, stdin].into_iter().find(is_terminal);
        let (Some(outer), Some(output)) = (outer, output) else {
            return Ok(None);
        };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&master)?;
        rustix::pty::unlockpt(&master)?;
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        // So that the command can open it by name, as after login(1).
        rustix::fs::fchown(&slave, Some(owner), None)?;
        let mut modes = rustix::termios::tcgetattr(outer)?;
        let before = is_terminal(&stdin).then(|| modes.clone());
        if before.is_none() {
            // The outer terminal processes output.
            modes.output_modes.remove(OutputModes::OPOST);
        }
        rustix::termios::tcsetattr(&slave, OptionalActions::Now, &modes)?;
        rustix::fs::fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
        let pty = Pty {
            master,
            slave: Some(slave),
            outer,
            output,
            before,
            hung_up: false,
            typed: Vec::new(),
        };
        pty.resize();
        Ok(Some(pty))
    }

    /// Gives the command the inner terminal for each stream that is a terminal.
    fn attach(&mut self, command: &mut Command) -> io::Result<()> {
        let Some(slave) = self.slave.take() else {
            return Ok(());
        };
        let set = [Command::stdin, Command::stdout, Command::stderr];
        for (stream, set) in standard().iter().zip(set) {
            if rustix::termios::isatty(stream) {
                set(command, Stdio::from(slave.try_clone()?));
            }
        }
        Ok(())
    }

    /// Makes the outer terminal raw, again after a shell has used it.
    fn make_raw(&self) {
        if let Some(before) = &self.before {
            let mut raw = before.clone();
            raw.make_raw();
            rustix::termios::tcsetattr(self.outer, OptionalActions::Drain, &raw).ok();
        }
        self.resize();
    }

    fn resize(&self) {
        // A terminal without a size has none inside either.
        if let Ok(size) = rustix::termios::tcgetwinsize(self.outer) {
            rustix::termios::tcsetwinsize(&self.master, size).ok();
        }
    }

    /// Waits for data or a signal, and relays the data.
    fn poll_once(&mut self, woken: &UnixStream) -> io::Result<()> {
        let mut asks = PollFlags::IN;
        if !self.typed.is_empty() {
            asks |= PollFlags::OUT;
        }
        let mut fds = vec![
            PollFd::new(woken, PollFlags::IN),
            PollFd::new(&self.master, asks),
        ];
        // R3
        if self.before.is_some() && self.typed.is_empty() && !self.hung_up {
            fds.push(PollFd::from_borrowed_fd(self.outer, PollFlags::IN));
        }
        wait_for(&mut fds)?;
        let came: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        if came[1].intersects(PollFlags::IN | PollFlags::HUP) && self.copy_output()? == 0 {
            // No process inside has the terminal open: wait for the child or a signal.
            wait_for(&mut [PollFd::new(woken, PollFlags::IN)])?;
        }
        if came.get(2).is_some_and(|came| !came.is_empty()) {
            let mut piece = [0; PIECE];
            match rustix::io::read(self.outer, &mut piece) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Ok(got @ 1..) => self.typed.extend_from_slice(&piece[..got]),
                _ => self.hung_up = true,
            }
        }
        if !self.typed.is_empty() {
            match rustix::io::write(&self.master, &self.typed) {
                Ok(taken) => drop(self.typed.drain(..taken)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    /// Relays output of the command; returns how many bytes.
    fn copy_output(&self) -> io::Result<usize> {
        let mut piece = [0; PIECE];
        let read = || rustix::io::read(&self.master, &mut piece[..]);
        let got = match rustix::io::retry_on_intr(read) {
            // `EIO`: no process has the inner terminal open.
            Err(Errno::AGAIN | Errno::IO) => return Ok(0),
            got => got?,
        };
        let mut rest = &piece[..got];
        while !rest.is_empty() {
            match rustix::io::write(self.output, rest) {
                Ok(written) => rest = &rest[written..],
                // Another process has set it to non-blocking.
                Err(Errno::AGAIN) => {
                    wait_for(&mut [PollFd::from_borrowed_fd(self.output, PollFlags::OUT)])?;
                }
                Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(got)
    }
}

/// Relays the remaining output of a command that has ended (R4); `show` relays some and returns how
/// many bytes.
fn drain_output(mut show: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
    let mut shown = 0;
    while shown < LAST {
        match show()? {
            0 => break,
            some => shown += some,
        }
    }
    Ok(())
}

/// The variables of this process's environment that the command gets.
fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| {
        let name = name.as_encoded_bytes();
        let known = VARIABLES.iter().any(|known| known.as_bytes() == name);
        known || name.starts_with(LOCALE)
    })
}

fn wait_for(fds: &mut [PollFd<'_>]) -> io::Result<()> {
    match rustix::event::poll(fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{LAST, PIECE, drain_output};

    #[test]
    fn drain_stops_after_what_a_terminal_buffers() {
        // A process that has not ended writes faster than this one reads.
        let mut pieces = 0;
        let flood = || {
            pieces += 1;
            assert!(pieces <= LAST / PIECE);
            Ok(PIECE)
        };
        drain_output(flood).unwrap();
        let mut left = vec![100, PIECE];
        drain_output(|| Ok(left.pop().unwrap_or(0))).unwrap();
        assert!(left.is_empty());
    }
}
