// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of file locks Python processes ([`Agent`]) that open and lock files of a directory
//! on command, and tells whether a command waits in its call.

use libc::{SYS_fcntl, SYS_flock};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long a command that waits is left to wait on.
const WAIT_TIMEOUT: Duration = Duration::from_millis(50);
/// A command without an answer by then hangs.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(120);

const SCRIPT: &str = include_str!("agent.py");

/// A process in a directory.
pub(crate) struct Agent {
    child: Child,
    tell: ChildStdin,
    said: Receiver<String>,
}

impl Agent {
    pub(crate) fn new(dir: &Path) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let tell = child.stdin.take().expect("a pipe");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, said) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let agent = Self { child, tell, said };
        assert_eq!(agent.answer(), "ready");
        agent
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends a command that may wait.
    pub(crate) fn begin(&mut self, what: &str) {
        writeln!(self.tell, "{what}").expect("told");
    }

    /// The answer.
    pub(crate) fn answer(&self) -> String {
        self.said.recv_timeout(HANG_TIMEOUT).expect("an answer")
    }

    /// The answer, unless the command waits.
    pub(crate) fn now(&self) -> Option<String> {
        match self.said.recv_timeout(WAIT_TIMEOUT) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("it is gone"),
        }
    }

    /// Runs a command that does not wait.
    pub(crate) fn does(&mut self, what: &str) -> String {
        self.begin(what);
        self.answer()
    }

    /// Ends the wait of a command.
    pub(crate) fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::ALARM).expect("a signal");
    }

    /// Whether the process, or its child, sleeps in fcntl(2) or flock(2).
    pub(crate) fn sleeps_in_call(&self) -> bool {
        let pid = self.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let pid = children.split(' ').next().filter(|pid| !pid.is_empty());
        let pid = pid.map_or_else(|| self.pid().to_string(), str::to_owned);
        // The number of the call; a process that runs has none.
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let number = call
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok());
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        state.starts_with('S') && number.is_some_and(|n| [SYS_fcntl, SYS_flock].contains(&n))
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}
