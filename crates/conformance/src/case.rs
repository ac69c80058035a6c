// SPDX-License-Identifier: MIT OR Apache-2.0
//! A case: a tree, steps, and what each step must answer.
//!
//! Cases are data: texts in `cases/*.case`, whose words [`crate::parse`] describes, so that a host
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
    /// What the man page or the kernel says.
    pub says: String,
    /// What to do, in order.
    pub steps: Vec<Line>,
}

/// A step, and where it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Number of the line in its text, from 1.
    pub number: usize,
    /// The line itself.
    pub text: String,
    /// What it means.
    pub step: Step,
}

/// Where a path starts, before descriptors have numbers.
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
    /// The path, with `{here}`, `{name}` and `{text*count}` not yet filled in; `None` is null.
    pub path: Option<String>,
    /// The rest.
    pub how: How,
}

/// What a call may answer: one of these.
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
    /// That of a name never asked for: `EAGAIN`, or `ENOENT` from who knows whole directories.
    Unknown,
    /// That of a name that was asked for and not found: `ENOENT`, or `EAGAIN` from who keeps none.
    Negative,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// `dir PATH [MODE]`
    Dir(String, u32),
    /// `file PATH [MODE]`, which contains its path
    File(String, u32),
    /// `link PATH TARGET`, which nobody has to write when it is followed
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
    /// `age PATH`: its access time is to be written when it is next used
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
    /// `row CALL => COLD OPEN WARM`: twice a try of what is not cached, an open, and a try
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
    /// What it needs of a host; what only cold rows need is not among it.
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

    /// Has it rows, which are run cold and warm?
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
    /// May a host that knows this much answer with this error?
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
