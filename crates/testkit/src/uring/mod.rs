// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares openpath's ring with the kernel's `io_uring`: both get the same entries, and their
//! completions must agree.
//!
//! A scene is a few submissions to a fresh ring over a fresh directory. Both sides begin with a
//! FIFO `fifo`, open for reading and writing as descriptor 0, directories `k0` to `k3` with a file
//! `f` of ten bytes each, open as descriptors 1 to 4, and four empty slots.
//!
//! # Rules
//! R1. Compared are the completions of each entry, their order where it is defined (within a chain,
//!     and around a drain), descriptors, and the files afterwards.
//! R2. Entries without a defined order use different files, so that both sides can answer in one
//!     way only.
//! R3. A scene ends by itself: an entry that waits is fed, cancelled or timed out in it.
//! R4. Where the two differ deliberately, the difference has an id and is counted.

mod compare;
mod kernel;
mod named;
mod ours;
mod random;
mod sys;

use openpath_abi::Errno;
use openpath_ring::{Cancel, Destination, File};
use std::collections::BTreeMap;
use std::time::Duration;

pub use named::{Named, named, soft};
pub use random::scene;

/// The request of an entry. Paths are relative to the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the operation of its name")]
pub enum Act {
    Nop,
    /// openat(2): flags, mode.
    Open(String, u32, u32, Destination),
    /// openat2(2): flags, `RESOLVE_*`.
    Open2(String, u64, u64, Destination),
    Close(File),
    Read(File, u32, i64),
    Readv(File, Vec<u32>, i64),
    /// This many bytes of one value.
    Write(File, u8, u32, i64),
    Writev(File, Vec<(u8, u32)>, i64),
    Sync(File, bool),
    Truncate(File, i64),
    Allocate(File, u32, i64, i64),
    Statx(String, u32),
    Unlink(String, u32),
    Rename(String, String, u32),
    Mkdir(String, u32),
    Symlink(String, String),
    Link(String, String, u32),
    /// After milliseconds, or this many completions.
    Timeout(u64, u32),
    /// Repeated this many times.
    Ticks(u64, u32),
    /// A time-out that breaks no chain when it expires.
    Pause(u64),
    LinkTimeout(u64),
    TimeoutRemove(u64),
    TimeoutUpdate(u64, u64),
    Cancel(Cancel),
    CancelAll(Cancel),
    Install(u32, bool),
    Keep(i32, Destination),
}

impl Act {
    /// Whether the kernel does not count a failure of this entry as one: its chain continues, and a
    /// silent entry stays silent. L23
    #[must_use]
    pub fn fails_softly(&self) -> bool {
        matches!(
            self,
            Act::Sync(..)
                | Act::Truncate(..)
                | Act::Allocate(..)
                | Act::Statx(..)
                | Act::Unlink(..)
                | Act::Rename(..)
                | Act::Mkdir(..)
                | Act::Symlink(..)
                | Act::Link(..)
        )
    }
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its request.
    pub act: Act,
    /// Its number in the scene, from 1, which its completion carries.
    pub data: u64,
    /// `IOSQE_*`.
    pub flags: u8,
}

/// Flags of entries.
#[expect(missing_docs, reason = "the names are those of IOSQE_*")]
pub mod flag {
    pub const DRAIN: u8 = 1 << 1;
    pub const LINK: u8 = 1 << 2;
    pub const HARDLINK: u8 = 1 << 3;
    pub const ASYNC: u8 = 1 << 4;
    pub const SKIP: u8 = 1 << 6;
}

/// A part of a scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Submit these entries together.
    Submit(Vec<Entry>),
    /// Write this many bytes into the FIFO, by a call.
    Feed(usize),
    /// Wait until this many completions have come in all.
    Await(usize),
}

/// The steps that both sides run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scene(pub Vec<Step>);

impl Scene {
    /// All entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flat_map(|step| match step {
            Step::Submit(entries) => &entries[..],
            _ => &[],
        })
    }
}

impl std::fmt::Display for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for step in &self.0 {
            let Step::Submit(entries) = step else {
                writeln!(f, "{step:?}")?;
                continue;
            };
            writeln!(f, "Submit")?;
            for entry in entries {
                let flags = FLAG_NAMES.iter().filter(|(bit, _)| entry.flags & bit != 0);
                let flags: Vec<&str> = flags.map(|(_, name)| *name).collect();
                writeln!(f, "  {} {:?} {}", entry.data, entry.act, flags.join("|"))?;
            }
        }
        Ok(())
    }
}

const FLAG_NAMES: [(u8, &str); 5] = [
    (flag::DRAIN, "DRAIN"),
    (flag::LINK, "LINK"),
    (flag::HARDLINK, "HARDLINK"),
    (flag::ASYNC, "ASYNC"),
    (flag::SKIP, "SKIP"),
];

/// A completion in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number of its entry.
    pub data: u64,
    /// Its result.
    pub result: Result<u64, Errno>,
    /// Whether more completions follow.
    pub more: bool,
    /// The bytes read, or the mode, links and size of a file.
    pub seen: Vec<u64>,
}

/// A descriptor: close-on-exec, `F_GETFL`, position, mode, size.
pub type Desc = (i64, i64, Result<i64, Errno>, u32, i64);

/// A file: mode, links, size, and its bytes or its link body.
pub type Leaf = (u32, u64, i64, Vec<u8>);

/// The results of a side.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Completions in the order in which they came.
    pub answers: Vec<Answer>,
    /// Descriptors afterwards.
    pub table: BTreeMap<i32, Desc>,
    /// Files afterwards.
    pub files: BTreeMap<String, Leaf>,
}

/// What is compared with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// A tree in memory.
    Mem,
    /// A directory of the host.
    Host,
}

const SLOTS: u32 = 4;
const ENTRIES: u32 = 64;
const DIRS: usize = 4;
/// Names that a scene uses in a directory.
const NAMES: [&str; 4] = ["f", "a", "b", "d"];
/// How many descriptors are compared.
const FDS: i32 = 24;
/// How long to wait for an expected completion.
const PATIENCE: Duration = Duration::from_secs(60);

/// All paths that a scene may make.
fn paths() -> impl Iterator<Item = String> {
    (0..DIRS).flat_map(|k| NAMES.map(|name| format!("k{k}/{name}")))
}

/// Whether the kernel gives this process a ring, or why not.
///
/// # Errors
/// The kernel's.
pub fn available() -> std::io::Result<()> {
    sys::KernelRing::new(ENTRIES, SLOTS).map(drop)
}

/// Runs a scene on both sides; returns the ids of the deliberate differences.
///
/// # Errors
/// The difference as text.
pub fn check(scene: &Scene, back: Back) -> Result<Vec<&'static str>, String> {
    check_within(scene, back, PATIENCE)
}

/// The same, where the kernel has so long for each completion.
///
/// # Errors
/// The difference as text.
pub fn check_within(
    scene: &Scene,
    back: Back,
    patience: Duration,
) -> Result<Vec<&'static str>, String> {
    let ours = ours::run(scene, back)?;
    let theirs = kernel::run(scene, ours.answers.len(), patience)?;
    compare::compare(scene, &theirs, &ours)
}
