// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is killed, and who is left.

use rustix::process::{Pid, Signal};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How long what was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// How the server is called.
const SERVER: &[u8] = b"run-serve";
/// What the front says with when the server is gone.
const FAILED: i32 = 125;

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Victim {
    Server,
    Front,
    Command,
    /// One after the other, at once.
    All,
}

impl Victim {
    pub(super) const ALL: [Victim; 4] = [Self::Server, Self::Front, Self::Command, Self::All];

    /// Kills it, if it is there; `front` is.
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

    /// What is wrong about how the front ended.
    pub(super) fn amiss(self, status: ExitStatus) -> Option<String> {
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        let failed = status.code() == Some(FAILED);
        let well = match self {
            // Before it was mounted there is no view to be gone from, and no command to be killed.
            Self::Server => failed,
            // Of all it is the last, and may have seen before that the server is gone.
            Self::Command | Self::All => killed || failed,
            Self::Front => killed,
        };
        // The load may have ended in the moment before.
        let ended = status.code() == Some(0);
        (!well && !ended).then(|| format!("the front ended: {status}"))
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

/// How a process ended; `None` if it does not.
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

/// The processes with `mark` in their environment, once they had time to go.
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
    // Of who has ended and waits to be waited for nothing can be read.
    let ours = numbers.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        words
            .split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    });
    ours.map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or(pid))
        .collect()
}
