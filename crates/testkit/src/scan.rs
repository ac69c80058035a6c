// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks directory scans: two correct file systems may order entries freely, but neither may lose
//! or double an entry that existed all the time.
//!
//! # Rules
//! * An entry counts as stable from the start of a scan until an operation uses its name.
//! * At the end of a scan every stable entry was seen exactly once.
//! * A descriptor is followed only if it shares its position with no other: a duplicated one is not
//!   until it is opened again, and none is after a second task exists.

use std::collections::{BTreeMap, BTreeSet};

use openpath_abi::Errno;
use openpath_abi::fcntl::{F_DUPFD, F_DUPFD_CLOEXEC};

use crate::op::{Cmd, Fd, Keep, Op, Path};
use crate::outcome::Outcome;

/// Buffer size for reading a directory for a snapshot.
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

/// Parses the records of getdents64(2).
///
/// # Errors
/// A message about a broken record.
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
    /// Whether the next read starts a scan, which needs the stable entries.
    #[must_use]
    pub fn starts(&self) -> bool {
        !self.started
    }

    /// Starts a scan with the existing entries.
    pub fn start(&mut self, there: Vec<Entry>) {
        *self = Scan {
            stable: there.into_iter().map(|e| e.name).collect(),
            seen: Vec::new(),
            started: true,
            ended: false,
        };
    }

    /// Moves the position back to the start.
    pub fn rewind(&mut self) {
        *self = Scan::default();
    }

    /// Takes the entries of one read; none means that the scan is over.
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

    /// Whether reading on to the end can show a fault.
    #[must_use]
    pub fn open(&self) -> bool {
        self.started && !self.ended
    }

    /// Removes the names that an operation uses from the stable entries.
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
    stopped: bool,
}

impl Scans {
    /// Whether the next read starts a scan, which needs the stable entries.
    #[must_use]
    pub fn starts(&self, fd: Fd) -> bool {
        // Opening `AT_FDCWD` to list it would be an event of its own.
        let known = fd.0 >= 0 && !self.stopped && !self.shared.contains(&fd.0);
        known && self.scans.get(&fd.0).is_none_or(Scan::starts)
    }

    /// Starts a scan with the existing entries.
    pub fn start(&mut self, fd: Fd, there: Vec<Entry>) {
        self.scans.entry(fd.0).or_default().start(there);
    }

    /// Takes the entries of one read; none means that the scan is over.
    pub fn feed(&mut self, fd: Fd, got: Vec<Entry>) -> Outcome {
        match self.scans.get_mut(&fd.0) {
            Some(scan) => scan.feed(got),
            None => Outcome::Ok,
        }
    }

    /// Records that the position of this descriptor changed.
    pub fn rewind(&mut self, fd: Fd) {
        self.scans.remove(&fd.0);
    }

    /// Records that there is more than one task, and stops following.
    pub fn stop_following(&mut self) {
        self.stopped = true;
        self.scans.clear();
    }

    /// Whether reading this scan to the end can show a fault.
    #[must_use]
    pub fn is_open(&self, fd: Fd) -> bool {
        self.scans.get(&fd.0).is_some_and(Scan::open)
    }

    /// The scans that should be read to the end.
    #[must_use]
    pub fn open(&self) -> Vec<Fd> {
        let open = self.scans.iter().filter(|(_, s)| s.open());
        open.map(|(fd, _)| Fd(*fd)).collect()
    }

    /// Removes the names that an operation uses from the stable entries.
    pub fn touch(&mut self, op: &Op) {
        for scan in self.scans.values_mut() {
            scan.touch(op);
        }
    }

    /// Records which descriptors an operation made, moved or duplicated.
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

    /// Drops the scans that an operation may have ended.
    fn ended(&mut self, op: &Op) {
        match op {
            Op::Close { fd } | Op::Rewind { fd } | Op::Cookies { fd } | Op::Lseek { fd, .. } => {
                self.rewind(*fd)
            }
            Op::CloseRange { .. } | Op::Exec {} => {
                // It is unknown which numbers it closed; each is followed again after the next
                // open.
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

/// The last component of a path, without slashes after it.
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
    fn stable_entry_is_seen_once() {
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
