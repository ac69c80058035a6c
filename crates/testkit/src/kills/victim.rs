// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kills the chosen processes of an `openpath run`, and finds the processes that are left.

use rustix::process::{Pid, Signal};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How long a killed process may take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// The interval between two checks.
const LOOK: Duration = Duration::from_millis(5);
/// The process name of the server.
const SERVER: &[u8] = b"run-serve";
/// The exit status of the front when the server is gone.
const FAILED: i32 = 125;

/// The processes to kill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Victim {
    Server,
    Front,
    Command,
    /// All of them, one directly after the other.
    All,
}

impl Victim {
    pub(super) const ALL: [Victim; 4] = [Self::Server, Self::Front, Self::Command, Self::All];

    /// Kills the processes if they exist; `front` is the front's pid.
    pub(super) fn kill(self, front: u32) {
        let (servers, commands): (Vec<_>, Vec<_>) =
            children(front).into_iter().partition(|pid| is_server(*pid));
        let front = i32::try_from(front).ok().into_iter();
        let pids: Vec<i32> = match self {
            Self::Server => servers,
            Self::Front => front.collect(),
            Self::Command => commands,
            Self::All => servers.into_iter().chain(commands).chain(front).collect(),
        };
        for pid in pids.into_iter().filter_map(Pid::from_raw) {
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
    }

    /// What is wrong with the exit status of the front.
    pub(super) fn fault(self, status: ExitStatus) -> Option<String> {
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        let failed = status.code() == Some(FAILED);
        let well = match self {
            // Before the mount there is no view that could be gone, and no command to kill.
            Self::Server => failed,
            // The front is killed last, and may have noticed before that the server is gone.
            Self::Command | Self::All => killed || failed,
            Self::Front => killed,
        };
        // The load may have ended just before.
        let ended = status.code() == Some(0);
        (!well && !ended).then(|| format!("unexpected exit status of the front: {status}"))
    }
}

fn children(pid: u32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn is_server(pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|word| word == SERVER)
}

/// Waits for a process to end; `None` if it does not.
pub(super) fn ended(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let by = Instant::now() + PATIENCE;
    loop {
        match child.try_wait()? {
            None if Instant::now() < by => std::thread::sleep(LOOK),
            None => {
                child.kill()?;
                return Ok(None);
            }
            ended => return Ok(ended),
        }
    }
}

/// The processes with `mark` in their environment, after they had time to end.
pub(super) fn left(mark: &str) -> Vec<String> {
    let by = Instant::now() + PATIENCE;
    loop {
        let left = marked(mark);
        if left.is_empty() || Instant::now() > by {
            return left;
        }
        std::thread::sleep(LOOK);
    }
}

fn marked(mark: &str) -> Vec<String> {
    let Ok(all) = fs::read_dir("/proc") else {
        return vec!["/proc cannot be read".to_owned()];
    };
    let names = all
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let numbers = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    // Nothing can be read of a zombie.
    let ours = numbers.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        words
            .split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    });
    ours.map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or(pid))
        .collect()
}
