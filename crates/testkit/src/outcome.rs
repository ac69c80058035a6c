// SPDX-License-Identifier: MIT OR Apache-2.0
//! Represents the outcome of an operation in a form in which openpath's can be compared with the
//! host kernel's.
//!
//! # Rules
//! * Numbers that may differ between two correct file systems become relations: an inode number
//!   becomes the place where the inode was first seen, a time the operation that set it.
//! * Everything else is compared as it is.

use std::collections::HashMap;
use std::fmt;

use openpath_abi::{Errno, Stat, StatFs, StatxMask, Timespec};

use crate::scan::Entry;
use crate::sys::{RawStatMount, RawStatx};

/// When a time was set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// At the time when the file system was made, or shortly before.
    Begin,
    /// During the operation of this number, by the kernel.
    Op(usize),
    /// To this value, by utimensat(2) or before the case.
    At(Timespec),
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stamp::Begin => f.write_str("begin"),
            Stamp::Op(i) => write!(f, "op{i}"),
            Stamp::At(t) => write!(f, "{}.{:09}", t.sec, t.nsec),
        }
    }
}

/// The start times of a case and its operations, by a side's own clock.
#[derive(Debug, Default)]
pub struct Stamps {
    starts: Vec<Timespec>,
    /// Whether the case continues over an overlay.
    pub stacked: bool,
}

impl Stamps {
    /// How many seconds after the last start a time may be and still be the clock's.
    const SLACK: i64 = 100_000;
    /// A time between this one and the case is that of a file system older than the case; no
    /// operation sets one.
    const RECENT: i64 = 1_700_000_000;

    /// Starts the case, or its next operation.
    pub fn start(&mut self, now: Timespec) {
        self.starts.push(now);
    }

    /// The start of the current operation.
    #[must_use]
    pub fn last(&self) -> Timespec {
        self.starts.last().copied().unwrap_or_default()
    }

    /// Which operation set this time.
    #[must_use]
    pub fn of(&self, t: Timespec) -> Stamp {
        let ended = self
            .starts
            .last()
            .is_none_or(|last| t.sec > last.sec + Self::SLACK);
        match self.starts.partition_point(|s| *s <= t) {
            0 if t.sec >= Self::RECENT => Stamp::Begin,
            0 => Stamp::At(t),
            _ if ended => Stamp::At(t),
            1 => Stamp::Begin,
            n => Stamp::Op(n - 2),
        }
    }
}

/// Names for inodes and devices: numbers in the order of first appearance.
#[derive(Debug, Default)]
pub struct Ids {
    inodes: HashMap<(u64, u64), (u32, u32)>,
    devices: HashMap<u64, (u32, u32)>,
    next: u32,
    next_device: u32,
    round: u32,
}

impl Ids {
    /// Begins a new walk over the tree.
    pub fn begin(&mut self) {
        self.round += 1;
    }

    /// Names an inode found on a walk.
    pub fn meet(&mut self, dev: u64, ino: u64) -> u32 {
        self.meet_device(dev);
        let round = self.round;
        let entry = self.inodes.entry((dev, ino)).or_insert_with(|| {
            self.next += 1;
            (self.next, round)
        });
        entry.1 = round;
        entry.0
    }

    /// Ends the walk: an inode or device that it did not find is gone, and its number may be used
    /// again.
    pub fn end(&mut self) {
        let round = self.round;
        self.inodes.retain(|_, v| v.1 == round);
        self.devices.retain(|_, v| v.1 == round);
    }

    /// The name of an inode that the last walk found.
    #[must_use]
    pub fn known(&self, dev: u64, ino: u64) -> Option<u32> {
        self.inodes.get(&(dev, ino)).map(|v| v.0)
    }

    /// Names a device found on a walk.
    fn meet_device(&mut self, dev: u64) {
        let round = self.round;
        let entry = self.devices.entry(dev).or_insert_with(|| {
            self.next_device += 1;
            (self.next_device, round)
        });
        entry.1 = round;
    }

    /// The name of a device; none if the last walk did not find it.
    #[must_use]
    pub fn device(&self, dev: u64) -> Option<u32> {
        self.devices.get(&dev).map(|v| v.0)
    }
}

/// stat(2) in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of struct stat")]
pub struct StatView {
    pub inode: Option<u32>,
    pub dev: Option<u32>,
    pub mode: u32,
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: i64,
    pub blksize: i64,
    pub blocks: i64,
    pub atime: Stamp,
    pub mtime: Stamp,
    pub ctime: Stamp,
}

impl StatView {
    /// Makes a side's answer comparable.
    #[must_use]
    pub fn new(s: &Stat, ids: &Ids, stamps: &Stamps) -> StatView {
        // An object in no file system is as old as the machine.
        let real = openpath_abi::mode::file_type(s.mode) != 0;
        let stamp = |t| if real { stamps.of(t) } else { Stamp::Begin };
        // Not compared for an overlay's directories and links (L47, L48).
        let odd = stamps.stacked && !openpath_abi::mode::is_reg(s.mode);
        StatView {
            inode: ids.known(s.dev, s.ino),
            dev: ids.device(s.dev),
            mode: s.mode,
            nlink: match s.nlink {
                _ if odd => 0,
                // The kernel shows one link for a removed lower file (L48).
                0 if stamps.stacked => 1,
                links => links,
            },
            uid: s.uid,
            gid: s.gid,
            rdev: s.rdev,
            size: s.size,
            blksize: s.blksize,
            blocks: s.blocks,
            atime: if odd { Stamp::Begin } else { stamp(s.atime) },
            mtime: stamp(s.mtime),
            ctime: stamp(s.ctime),
        }
    }
}

/// statx(2) in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of struct statx")]
pub struct StatxView {
    pub mask: u32,
    pub attributes: u64,
    pub attributes_mask: u64,
    pub btime: Option<Stamp>,
    pub stat: StatView,
}

impl StatxView {
    /// Makes a side's answer comparable; fields outside the mask are ignored.
    #[must_use]
    pub fn new(s: &RawStatx, ids: &Ids, stamps: &Stamps) -> StatxView {
        use openpath_abi::statx as x;
        let mut stat = StatView::new(&s.stat, ids, stamps);
        let has = |bit: StatxMask| s.mask & bit.bits() != 0;
        let none = Stamp::At(Timespec::EPOCH);
        if !has(x::STATX_ATIME) {
            stat.atime = none;
        }
        if !has(x::STATX_INO) {
            stat.inode = None;
        }
        let real = openpath_abi::mode::file_type(s.stat.mode) != 0;
        // An overlay shows the birth time of either the copy or its source (L49).
        let born = real && has(x::STATX_BTIME) && !stamps.stacked;
        StatxView {
            mask: if real { s.mask } else { 0 },
            attributes: if real { s.attributes } else { 0 },
            attributes_mask: if real { s.attributes_mask } else { 0 },
            btime: born.then(|| stamps.of(s.btime)),
            stat,
        }
    }
}

/// statmount(2) in comparable form; the mount tables show how mounts and groups are related.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of struct statmount")]
pub struct MountView {
    pub mask: u64,
    pub sb_flags: u32,
    pub top: bool,
    pub attr: u64,
    pub propagation: u64,
    pub groups: [bool; 3],
    pub root: Vec<u8>,
    pub point: Vec<u8>,
}

impl MountView {
    /// Makes a side's answer comparable.
    #[must_use]
    pub fn new(s: &RawStatMount) -> MountView {
        MountView {
            mask: s.mask,
            sb_flags: s.sb_flags,
            top: s.id == s.parent,
            attr: s.attr,
            propagation: s.propagation,
            groups: [s.peers, s.master, s.from].map(|g| g != 0),
            root: s.root.clone(),
            point: s.point.clone(),
        }
    }
}

/// A descriptor as a side sees it.
#[derive(Clone, Debug)]
pub struct RawDesc {
    /// Its number.
    pub fd: i32,
    /// Whether it is closed on exec.
    pub cloexec: bool,
    /// `F_GETFL`.
    pub flags: i64,
    /// The position; for a directory only whether it is at the start.
    pub pos: Result<i64, Errno>,
    /// Attributes of the open file; none for an object in no file system.
    pub stat: Option<Stat>,
}

/// A descriptor in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the raw one")]
pub struct Desc {
    pub fd: i32,
    pub cloexec: bool,
    pub flags: i64,
    pub pos: Result<i64, Errno>,
    pub stat: Option<StatView>,
}

impl Desc {
    /// Makes a side's descriptor comparable.
    #[must_use]
    pub fn new(raw: &RawDesc, ids: &Ids, stamps: &Stamps) -> Desc {
        Desc {
            fd: raw.fd,
            cloexec: raw.cloexec,
            flags: raw.flags,
            pos: raw.pos,
            stat: raw.stat.map(|s| StatView::new(&s, ids, stamps)),
        }
    }
}

/// An event of inotify(7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEvent {
    /// Its watch.
    pub wd: i32,
    /// What happened.
    pub mask: u32,
    /// Links the two halves of a move.
    pub cookie: u32,
    /// The name of the entry, without its padding.
    pub name: Vec<u8>,
}

/// Parses the records that an inotify descriptor returns.
///
/// # Errors
/// A message about a broken record.
pub fn raw_events(mut b: &[u8]) -> Result<Vec<RawEvent>, String> {
    let mut all = Vec::new();
    while !b.is_empty() {
        let head = b.get(..16).ok_or("a short event")?;
        let word = |at: usize| {
            let mut w = [0; 4];
            w.copy_from_slice(&head[at..at + 4]);
            u32::from_le_bytes(w)
        };
        let end = 16 + usize::try_from(word(12)).unwrap_or(usize::MAX);
        let name = b.get(16..end).ok_or("a name longer than the buffer")?;
        if name.len() % 16 != 0 {
            return Err(format!("a name padded to {}", name.len()));
        }
        let used = name.iter().position(|c| *c == 0).unwrap_or(name.len());
        all.push(RawEvent {
            wd: word(0).cast_signed(),
            mask: word(4),
            cookie: word(8),
            name: name[..used].to_vec(),
        });
        b = &b[end..];
    }
    Ok(all)
}

/// Names for cookies: numbers in the order of first appearance, 0 for none.
#[derive(Debug, Default)]
pub struct Names(Vec<u32>);

impl Names {
    /// Makes events comparable.
    pub fn events(&mut self, all: Vec<RawEvent>) -> Vec<RawEvent> {
        let name = |mut e: RawEvent| {
            if e.cookie != 0 {
                let known = self.0.iter().position(|c| *c == e.cookie);
                let at = known.unwrap_or_else(|| {
                    self.0.push(e.cookie);
                    self.0.len() - 1
                });
                e.cookie = u32::try_from(at + 1).unwrap_or(u32::MAX);
            }
            e
        };
        all.into_iter().map(name).collect()
    }
}

/// The outcome of an operation.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It failed.
    Err(Errno),
    /// It succeeded without a value.
    Ok,
    /// It succeeded with a number.
    Num(i64),
    /// It succeeded with several numbers.
    Nums(Vec<i64>),
    /// It succeeded with events, which have names for their cookies.
    Events(Vec<RawEvent>),
    /// It succeeded with bytes.
    Bytes(Vec<u8>),
    /// It succeeded with names, sorted, with a number each.
    Names(Vec<(Vec<u8>, u8)>),
    /// stat(2).
    Stat(Box<StatView>),
    /// statx(2).
    Statx(Box<StatxView>),
    /// statmount(2).
    Mount(Box<MountView>),
    /// statfs(2): type, block size, longest name, flags; blocks, inodes, and the used ones of both.
    StatFs([i64; 8]),
    /// The side found a fault by itself.
    Bad(String),
    /// It was skipped, for the reason with this name.
    Skip(&'static str),
}

impl Outcome {
    /// The comparable part of statfs(2).
    #[must_use]
    pub fn statfs(s: &StatFs) -> Outcome {
        let used = |all: u64, free: u64| all.wrapping_sub(free).cast_signed();
        Outcome::StatFs([
            s.kind,
            s.bsize,
            s.namelen,
            s.flags.cast_signed(),
            s.blocks.cast_signed(),
            s.files.cast_signed(),
            used(s.blocks, s.bfree),
            used(s.files, s.ffree),
        ])
    }

    /// A list of attribute names, each with its NUL, sorted.
    #[must_use]
    pub fn xattrs(list: &[u8]) -> Outcome {
        let names = list.split(|&b| b == 0).filter(|n| !n.is_empty());
        let mut names: Vec<(Vec<u8>, u8)> = names.map(|n| (n.to_vec(), 0)).collect();
        names.sort();
        Outcome::Names(names)
    }

    /// The places of mounts, sorted: no call tells which of two copies was made first.
    #[must_use]
    pub fn places(mut all: Vec<(Vec<u8>, u8)>) -> Outcome {
        all.sort();
        Outcome::Names(all)
    }

    /// The names and types of directory entries, sorted.
    #[must_use]
    pub fn entries(entries: Vec<Entry>) -> Outcome {
        let mut names: Vec<(Vec<u8>, u8)> = entries.into_iter().map(|e| (e.name, e.kind)).collect();
        names.sort();
        Outcome::Names(names)
    }

    /// Whether the operation succeeded.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        !matches!(self, Outcome::Err(_) | Outcome::Bad(_) | Outcome::Skip(_))
    }
}

impl<T: Into<Outcome>> From<Result<T, Errno>> for Outcome {
    fn from(r: Result<T, Errno>) -> Outcome {
        match r {
            Ok(v) => v.into(),
            Err(e) => Outcome::Err(e),
        }
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Outcome {
        Outcome::Ok
    }
}

impl From<i64> for Outcome {
    fn from(n: i64) -> Outcome {
        Outcome::Num(n)
    }
}

impl From<Vec<u8>> for Outcome {
    fn from(b: Vec<u8>) -> Outcome {
        Outcome::Bytes(b)
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Err(e) => write!(f, "{e}"),
            Outcome::Ok => f.write_str("ok"),
            Outcome::Num(n) => write!(f, "ok {n} ({n:#o})"),
            Outcome::Nums(all) => write!(f, "ok {all:?}"),
            Outcome::Events(all) => {
                f.write_str("ok")?;
                all.iter().try_for_each(|e| {
                    let name = e.name.escape_ascii();
                    write!(f, " {}:{:#x}:{}:{name}", e.wd, e.mask, e.cookie)
                })
            }
            Outcome::Bytes(b) => write!(f, "ok \"{}\"", b.escape_ascii()),
            Outcome::Names(all) => {
                f.write_str("ok")?;
                all.iter()
                    .try_for_each(|(n, k)| write!(f, " {}:{k}", n.escape_ascii()))
            }
            Outcome::Stat(s) => write!(f, "ok {s:?}"),
            Outcome::Statx(s) => write!(f, "ok {s:?}"),
            Outcome::Mount(s) => write!(f, "ok {s:?}"),
            Outcome::StatFs(s) => write!(f, "ok {s:x?}"),
            Outcome::Bad(text) => write!(f, "WRONG {text}"),
            Outcome::Skip(name) => write!(f, "skipped {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_named_by_their_operation() {
        let mut stamps = Stamps::default();
        for sec in [900, 1000, 1001, 1002] {
            stamps.start(Timespec::new(sec, 5));
        }
        let old = Timespec::new(899, 0);
        assert_eq!(stamps.of(old), Stamp::At(old));
        assert_eq!(stamps.of(Timespec::new(999, 0)), Stamp::Begin);
        assert_eq!(stamps.of(Timespec::new(1000, 5)), Stamp::Op(0));
        assert_eq!(stamps.of(Timespec::new(1002, 4)), Stamp::Op(1));
        assert_eq!(stamps.of(Timespec::new(1003, 0)), Stamp::Op(2));
        assert!(matches!(
            stamps.of(Timespec::new(4_000_000_000, 0)),
            Stamp::At(_)
        ));
    }

    #[test]
    fn gone_inode_loses_its_name() {
        let mut ids = Ids::default();
        ids.begin();
        let first = ids.meet(1, 7);
        ids.end();
        assert_eq!(ids.known(1, 7), Some(first));
        ids.begin();
        ids.end();
        assert_eq!(ids.known(1, 7), None);
        ids.begin();
        assert_ne!(ids.meet(1, 7), first);
    }
}
