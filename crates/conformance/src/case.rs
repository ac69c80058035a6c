// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a case: a tree, steps, and the right answer to each step.
//!
//! Cases are data: texts in `cases/*.case` with the words of [`crate::parse`], so that a host
//! written in another language can read them too.

use crate::errno::Errno;
use crate::host::{Knowledge, Need};
use crate::how::How;
use std::fmt;

/// One case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Its name, unique in a suite.
    pub id: String,
    /// What the man page or the kernel specifies.
    pub says: String,
    /// The steps, in order.
    pub steps: Vec<Line>,
}

/// A step, and its line in the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Number of the line in its text, from 1.
    pub number: usize,
    /// The line itself.
    pub text: String,
    /// The parsed step.
    pub step: Step,
}

/// The start of a path, before descriptors have numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum From {
    /// The directory of the case.
    Cwd,
    /// No open descriptor.
    Bad,
    /// The descriptor held under this name.
    Held(String),
}

/// An openat2(2), without `RESOLVE_CACHED`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Where it starts.
    pub from: From,
    /// The path, before `{here}`, `{name}` and `{text*count}` are expanded; `None` is null.
    pub path: Option<String>,
    /// The third argument.
    pub how: How,
}

/// The right answers to a call: any one of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expect(pub Vec<Answer>);

/// One answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A descriptor.
    Ok,
    /// A descriptor of a file with this content.
    Content(String),
    /// An error.
    Error(Errno),
    /// The answer for a name never asked for: `EAGAIN`, or `ENOENT` from a host with complete
    /// directories.
    Unknown,
    /// The answer for a name that was asked for and not found: `ENOENT`, or `EAGAIN` from a host
    /// without negative entries.
    Negative,
}

/// One step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// `dir PATH [MODE]`
    Dir(String, u32),
    /// `file PATH [MODE]`, which contains its path
    File(String, u32),
    /// `link PATH TARGET`, with an access time that following it need not write
    Link(String, String),
    /// `fifo PATH [MODE]`
    Fifo(String, u32),
    /// `remove PATH`
    Remove(String),
    /// `rename OLD NEW`
    Rename(String, String),
    /// `swap ONE OTHER`
    Swap(String, String),
    /// `chmod PATH MODE`
    Chmod(String, u32),
    /// `age PATH`: its next use has to write its access time
    Age(String),
    /// `mount PATH`
    Mount(String),
    /// `bind SOURCE TARGET`
    Bind(String, String),
    /// `umount PATH => ANSWER`
    Umount(String, Expect),
    /// `user UID`
    User(u32),
    /// `cold`
    Cold,
    /// `hold NAME CALL`: keeps a descriptor, opened without `RESOLVE_CACHED`
    Hold(String, Call),
    /// `release NAME`
    Release(String),
    /// `stat PATH => ANSWER`
    Stat(String, Expect),
    /// `open CALL => ANSWER`, without `RESOLVE_CACHED`
    Open(Call, Expect),
    /// `try CALL => ANSWER`, with it
    Try(Call, Expect),
    /// `row CALL => COLD OPEN WARM`: two tries that are not cached, an open, and a try
    Row(Call, [Expect; 3]),
    /// `tries COUNT CALL => ANSWER`
    Tries(u32, Call, Expect),
    /// `swapping ONE OTHER`
    Swapping(String, String),
    /// `settled`
    Settled,
    /// `nodes keep` and, if true, `nodes same`
    Nodes(bool),
}

impl Case {
    /// What it needs of a host; needs of cold rows are not included.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        let mut all: Vec<Need> = self
            .steps
            .iter()
            .flat_map(|line| line.step.needs())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether it has rows, which run cold and warm.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.steps
            .iter()
            .any(|line| matches!(line.step, Step::Row(..)))
    }
}

impl Step {
    fn needs(&self) -> Vec<Need> {
        match self {
            Step::Link(..) => vec![Need::Links],
            Step::Fifo(..) => vec![Need::Fifos],
            Step::Swap(..) => vec![Need::Exchange],
            Step::Age(_) => vec![Need::AccessTimes],
            Step::Mount(_) | Step::Umount(..) => vec![Need::Mounts],
            Step::Bind(..) => vec![Need::Binds],
            Step::User(_) => vec![Need::Users],
            Step::Cold => vec![Need::Cold],
            Step::Swapping(..) => vec![Need::Exchange, Need::Threads],
            Step::Nodes(_) => vec![Need::Nodes],
            Step::Hold(_, call)
            | Step::Open(call, _)
            | Step::Try(call, _)
            | Step::Row(call, _)
            | Step::Tries(_, call, _) => call.needs(),
            _ => Vec::new(),
        }
    }
}

impl Call {
    fn needs(&self) -> Vec<Need> {
        match self.path.as_deref() {
            None => vec![Need::NullPath],
            Some(path) if path.starts_with("/proc/") => vec![Need::Proc],
            Some(_) => Vec::new(),
        }
    }
}

impl Expect {
    /// Whether a host with this knowledge may answer with this error.
    #[must_use]
    pub fn allows(&self, errno: Errno, knows: Knowledge) -> bool {
        let absent = errno == Errno::ENOENT;
        let waits = errno == Errno::EAGAIN;
        let refused = knows.refusals && Errno::REFUSALS.contains(&errno);
        self.0.iter().any(|answer| match answer {
            Answer::Ok | Answer::Content(_) => false,
            Answer::Error(Errno::EAGAIN) => waits || refused,
            Answer::Error(wanted) => *wanted == errno,
            Answer::Unknown => waits || (absent && knows.directories),
            Answer::Negative if knows.negatives => absent,
            Answer::Negative => waits || (absent && knows.directories),
        })
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, answer) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("|")?;
            }
            match answer {
                Answer::Ok => f.write_str("ok")?,
                Answer::Content(text) => write!(f, "ok={text}")?,
                Answer::Error(errno) => write!(f, "{errno}")?,
                Answer::Unknown => f.write_str("unknown")?,
                Answer::Negative => f.write_str("negative")?,
            }
        }
        Ok(())
    }
}
