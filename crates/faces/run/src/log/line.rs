// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a line of the log of opens (the call, its path, and why it was refused or where it
//! went), and formats it as text or JSON.

use openpath_abi::Errno;
use openpath_commit::printable;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why an open was refused, or where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reason {
    /// The path is hidden (`--hide`).
    Hidden,
    /// A pattern hides the name (`--absent`).
    Absent,
    /// The path is read only (`--ro`).
    ReadOnly,
    /// Mode, owner and capabilities do not allow it.
    Permission,
    /// The tree refused it.
    Failed,
    /// It went to the upper tree.
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
    /// What was requested: `read`, `write`, `create`, `execute`..
    pub(super) wants: String,
    /// The path that the engine found.
    pub(super) path: String,
    /// The path that the program seems to have passed, if it differs. It is read from memory that
    /// the program can write meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claimed: Option<String>,
    /// `ok`, or the name of an errno.
    pub(super) answer: &'static str,
    pub(super) reason: Reason,
    /// The name or path that decided it, and how.
    pub(super) because: String,
}

impl Line {
    pub(super) fn now() -> f64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or(Duration::ZERO);
        // Whole milliseconds give three digits at most.
        now.as_millis() as f64 / 1000.0
    }

    /// Its text, with a newline.
    pub(super) fn text(&self, json: bool) -> Vec<u8> {
        let mut text = if json {
            // Every field has a form in JSON.
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
            let program = printable(program.as_bytes());
            let claimed = claimed.as_ref();
            let claimed = claimed.map_or_else(String::new, |path| format!(" (claimed: {path})"));
            let met = format!("{wants} {path}: {answer}, {reason}: {because}{claimed}");
            format!("{time:.3} {pid} {program} {met}").into_bytes()
        };
        text.push(b'\n');
        text
    }
}

/// The answer to a call, as text.
pub(super) fn answer(result: Result<(), Errno>) -> &'static str {
    result.map_or_else(Errno::name, |()| "ok")
}
