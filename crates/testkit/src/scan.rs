// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directory scans: two right file systems may order entries as they like, but neither may lose
//! or double an entry that was there all the time.
//!
//! # Rules
//! * An entry counts as stable from the start of a scan until an operation uses its name.
//! * At the end of a scan every stable entry was seen exactly once.
//! * Only a descriptor that shares its position with no other is followed: one that was duplicated
//!   is not until it is opened again, and none is once there is a second task.

use std::collections::{BTreeMap, BTreeSet};

use openpath_abi::Errno;
use openpath_abi::fcntl::{F_DUPFD, F_DUPFD_CLOEXEC};

use crate::op::{Cmd, Fd, Keep, Op, Path};
use crate::outcome::Outcome;

/// Bytes that a directory is read with for a picture.
pub const LIST: usize = 16384;
/// The longest record.
pub const LONGEST: usize = 280;

/// One record of getdents64(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Inode number.
    pub ino: u64,
    /// Cookie of the next record.
    pub off: i64,
    /// `DT_*`.
    pub kind: u8,
    /// Name.
    pub name: Vec<u8>,
}

/// Takes the records of getdents64(2) apart.
///
/// # Errors
/// A text that says how a record is broken.
pub fn records(mut b: &[u8]) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    while !b.is_empty() {
        let head = b.get(..19).ok_or("a short record")?;
        let word = |at: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(w)
        };
        let len = usize::from(u16::from_le_bytes([head[16], head[17]]));
        let body = b.get(19..len).ok_or("a record longer than the buffer")?;
        let end = body
            .iter()
            .position(|&c| c == 0)
            .ok_or("a name without its NUL")?;
        if len != openpath_abi::dirent::record_len(end) {
            return Err(format!("a record of {len} bytes for a name of {end}"));
        }
        all.push(Entry {
            ino: word(0),
            off: word(8).cast_signed(),
            kind: head[18],
            name: body[..end].to_vec(),
        });
        b = &b[len..];
    }
    Ok(all)
}

/// A scan in progress.
#[derive(Debug, Default)]
pub struct Scan {
    stable: BTreeSet<Vec<u8>>,
    seen: Vec<Vec<u8>>,
    started: bool,
    ended: bool,
}

impl Scan {
    /// Does the next read start a scan, so that a list of the stable entries is wanted?
    #[must_use]
    pub fn starts(&self) -> bool {
        !self.started
    }

    /// A scan starts; these entries are there.
    pub fn start(&mut self, there: Vec<Entry>) {
        *self = Scan {
            stable: there.into_iter().map(|e| e.name).collect(),
            seen: Vec::new(),
            started: true,
            ended: false,
        };
    }

    /// The position went back to the start.
    pub fn rewind(&mut self) {
        *self = Scan::default();
    }

    /// One read gave these entries; none means that the scan is over.
    pub fn feed(&mut self, got: Vec<Entry>) -> Outcome {
        if self.ended || !self.started {
            return Outcome::Ok;
        }
        if got.is_empty() {
            self.ended = true;
            return self.verdict();
        }
        self.seen.extend(got.into_iter().map(|e| e.name));
        Outcome::Ok
    }

    /// Is it worth reading on to the end?
    #[must_use]
    pub fn open(&self) -> bool {
        self.started && !self.ended
    }

    /// An operation used these names.
    pub fn touch(&mut self, op: &Op) {
        if self.open() {
            for name in touched(op) {
                self.stable.remove(name);
            }
        }
    }

    fn verdict(&self) -> Outcome {
        for name in &self.stable {
            match self.seen.iter().filter(|s| *s == name).count() {
                1 => {}
                n => {
                    return Outcome::Bad(format!("{} seen {n} times", name.escape_ascii()));
                }
            }
        }
        Outcome::Ok
    }
}

/// The scans of a case, by descriptor.
#[derive(Debug, Default)]
pub struct Scans {
    scans: BTreeMap<i32, Scan>,
    shared: BTreeSet<i32>,
    blind: bool,
}

impl Scans {
    /// Does the next read start a scan, so that a list of the stable entries is wanted?
    #[must_use]
    pub fn starts(&self, fd: Fd) -> bool {
        // Opening `AT_FDCWD` to list it would be an event of its own.
        let known = fd.0 >= 0 && !self.blind && !self.shared.contains(&fd.0);
        known && self.scans.get(&fd.0).is_none_or(Scan::starts)
    }

    /// A scan starts; these entries are there.
    pub fn start(&mut self, fd: Fd, there: Vec<Entry>) {
        self.scans.entry(fd.0).or_default().start(there);
    }

    /// One read gave these entries; none means that the scan is over.
    pub fn feed(&mut self, fd: Fd, got: Vec<Entry>) -> Outcome {
        match self.scans.get_mut(&fd.0) {
            Some(scan) => scan.feed(got),
            None => Outcome::Ok,
        }
    }

    /// The position of this descriptor is not where it was.
    pub fn rewind(&mut self, fd: Fd) {
        self.scans.remove(&fd.0);
    }

    /// There are more tasks than one.
    pub fn blind(&mut self) {
        self.blind = true;
        self.scans.clear();
    }

    /// Is this scan worth reading on to the end?
    #[must_use]
    pub fn is_open(&self, fd: Fd) -> bool {
        self.scans.get(&fd.0).is_some_and(Scan::open)
    }

    /// The scans that are worth reading on to the end.
    #[must_use]
    pub fn open(&self) -> Vec<Fd> {
        let open = self.scans.iter().filter(|(_, s)| s.open());
        open.map(|(fd, _)| Fd(*fd)).collect()
    }

    /// An operation uses names.
    pub fn touch(&mut self, op: &Op) {
        for scan in self.scans.values_mut() {
            scan.touch(op);
        }
    }

    /// An operation was done: which descriptors it made, moved or doubled.
    pub fn learn(&mut self, op: &Op, outcome: &Outcome) {
        if !outcome.is_ok() {
            return;
        }
        let made = match outcome {
            Outcome::Num(n) => i32::try_from(*n).unwrap_or(-1),
            _ => return self.ended(op),
        };
        match op {
            Op::Open { keep, .. }
            | Op::Openat2 { keep, .. }
            | Op::OpenTree { keep, .. }
            | Op::Fsmount { keep, .. } => match keep {
                Keep::Open => self.fresh(made),
                Keep::At(n) => self.fresh(*n),
                Keep::Look => {}
            },
            Op::Dup { fd }
            | Op::Dup2 { fd, .. }
            | Op::Dup3 { fd, .. }
            | Op::Fcntl {
                fd,
                cmd: Cmd(F_DUPFD | F_DUPFD_CLOEXEC),
                ..
            } if made != fd.0 => {
                for n in [fd.0, made] {
                    self.fresh(n);
                    self.shared.insert(n);
                }
            }
            _ => self.ended(op),
        }
    }

    fn fresh(&mut self, n: i32) {
        self.scans.remove(&n);
        self.shared.remove(&n);
    }

    /// Forgets the scans that an operation may have ended.
    fn ended(&mut self, op: &Op) {
        match op {
            Op::Close { fd } | Op::Rewind { fd } | Op::Cookies { fd } | Op::Lseek { fd, .. } => {
                self.rewind(*fd)
            }
            Op::CloseRange { .. } | Op::Exec {} => {
                // Which ones it closed shows when a number is opened again.
                self.shared.extend(self.scans.keys());
                self.scans.clear();
            }
            _ => {}
        }
    }
}

/// The names that an operation may add, remove or replace.
fn touched(op: &Op) -> Vec<&[u8]> {
    let paths: Vec<&Path> = match op {
        Op::Unlink { path, .. }
        | Op::Mkdir { path, .. }
        | Op::Mknod { path, .. }
        | Op::Symlink { path, .. }
        | Op::Open { path, .. }
        | Op::Openat2 { path, .. } => vec![path],
        Op::Rename { old, new, .. } | Op::Link { old, new, .. } => vec![old, new],
        Op::Tmplink { new, .. } => vec![new],
        _ => Vec::new(),
    };
    paths.into_iter().map(last_component).collect()
}

/// The last component of a path, slashes after it left out.
fn last_component(path: &Path) -> &[u8] {
    let end = path.0.iter().rposition(|&b| b != b'/').map_or(0, |i| i + 1);
    let from = path.0[..end]
        .iter()
        .rposition(|&b| b == b'/')
        .map_or(0, |i| i + 1);
    &path.0[from..end]
}

/// Something that can be read as a directory.
#[expect(
    clippy::missing_errors_doc,
    reason = "each answers with the error of its call"
)]
pub trait Readable {
    /// lseek(2) to a cookie.
    fn seek(&mut self, off: i64) -> Result<(), Errno>;
    /// getdents64(2) with a buffer of this size.
    fn entries(&mut self, max: usize) -> Result<Vec<Entry>, Errno>;
}

/// Reads to the end.
///
/// # Errors
/// That of the call that failed.
pub fn all(dir: &mut dyn Readable, buffer: usize) -> Result<Vec<Entry>, Errno> {
    let mut all = Vec::new();
    loop {
        let got = dir.entries(buffer)?;
        if got.is_empty() || all.len() > 10_000 {
            return Ok(all);
        }
        all.extend(got);
    }
}

/// Reads a directory, then again from every cookie; leaves the position at the start.
pub fn cookies(dir: &mut dyn Readable) -> Outcome {
    let work = |dir: &mut dyn Readable| -> Result<Outcome, Errno> {
        dir.seek(0)?;
        let whole = all(dir, 300)?;
        for (i, entry) in whole.iter().enumerate() {
            dir.seek(entry.off)?;
            let rest = all(dir, 4096)?;
            if rest != whole[i + 1..] {
                let text = format!("after {}: other entries", entry.name.escape_ascii());
                return Ok(Outcome::Bad(text));
            }
        }
        dir.seek(0)?;
        Ok(Outcome::Num(i64::try_from(whole.len()).unwrap_or(0)))
    };
    work(dir).unwrap_or_else(Outcome::Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry {
            ino: 1,
            off: 1,
            kind: 8,
            name: name.as_bytes().to_vec(),
        }
    }

    #[test]
    fn a_stable_entry_is_seen_once() {
        let mut scan = Scan::default();
        scan.start(vec![entry("a"), entry("b"), entry("c")]);
        scan.touch(&"unlink cwd d/b/ 0".parse().expect("a line"));
        assert_eq!(
            scan.feed(vec![entry("a"), entry("c"), entry("new")]),
            Outcome::Ok
        );
        assert_eq!(scan.feed(Vec::new()), Outcome::Ok);
        scan.start(vec![entry("a"), entry("b")]);
        scan.feed(vec![entry("a")]);
        assert!(matches!(scan.feed(Vec::new()), Outcome::Bad(_)));
        scan.start(vec![entry("a")]);
        scan.feed(vec![entry("a"), entry("a")]);
        assert!(matches!(scan.feed(Vec::new()), Outcome::Bad(_)));
    }
}
