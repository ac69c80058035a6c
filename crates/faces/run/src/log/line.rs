// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of the log.

use openpath_abi::Errno;
use openpath_commit::text_of;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why an open was refused, or where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reason {
    /// A path that is not there in the view (`--hide`).
    Hidden,
    /// A pattern says that there is no such name (`--absent`).
    Absent,
    /// Nothing is written below a place (`--ro`).
    ReadOnly,
    /// Mode, owner and capabilities do not allow it.
    Permission,
    /// The tree says no.
    Failed,
    /// It went to what takes the changes.
    Upper,
    /// It went through to the disk (`--rw`).
    Disk,
    /// It went to a tree that is mounted in the view (`--mount`).
    Tree,
}

impl Reason {
    fn word(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Absent => "absent",
            Self::ReadOnly => "read-only",
            Self::Permission => "permission",
            Self::Failed => "failed",
            Self::Upper => "upper",
            Self::Disk => "disk",
            Self::Tree => "tree",
        }
    }
}

/// A line of the log.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    /// Seconds since 1970.
    pub(super) time: f64,
    pub(super) pid: u32,
    pub(super) program: String,
    /// What was wanted: `read`, `write`, `create`, `execute`..
    pub(super) wants: String,
    /// Where the engine met it.
    pub(super) path: String,
    /// What the program seems to have asked for, if that is another path. It is read in memory that
    /// the program can write meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claimed: Option<String>,
    /// `ok`, or the name of an errno.
    pub(super) answer: &'static str,
    pub(super) reason: Reason,
    /// Which name or place decided it, and how.
    pub(super) because: String,
}

impl Line {
    pub(super) fn now() -> f64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or(Duration::ZERO);
        // Whole milliseconds, so that it is written with three digits at most.
        now.as_millis() as f64 / 1000.0
    }

    /// Its text, with the end of a line.
    pub(super) fn text(&self, json: bool) -> Vec<u8> {
        let mut text = if json {
            // Nothing in it is without a form in JSON.
            serde_json::to_vec(self).unwrap_or_default()
        } else {
            let Line {
                time,
                pid,
                program,
                wants,
                path,
                claimed,
                answer,
                because,
                ..
            } = self;
            let reason = self.reason.word();
            let program = text_of(program.as_bytes());
            let claimed = claimed.as_ref();
            let claimed = claimed.map_or_else(String::new, |path| format!(" (claimed: {path})"));
            let met = format!("{wants} {path}: {answer}, {reason}: {because}{claimed}");
            format!("{time:.3} {pid} {program} {met}").into_bytes()
        };
        text.push(b'\n');
        text
    }
}

/// What a call was answered with.
pub(super) fn answer(result: Result<(), Errno>) -> &'static str {
    result.map_or_else(Errno::name, |()| "ok")
}
