// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the same random changes in a folder of the mount and in a trusted one, and compares each
//! answer and both trees.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, RenameFlags, XattrFlags};

use crate::rng::Rng;

/// Possible names on each of two levels.
const NAMES: [&str; 12] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "long-name-of-some-length",
    ".hidden",
    "i",
    "j",
];
/// The most files held open, named or unnamed.
const OPEN_MAX: usize = 8;
/// How many changes are tried to fill a folder.
const FILL: usize = 600;
/// Offsets are below this, lengths below a sixteenth of it.
const SIZE: usize = 1 << 18;

/// A change, on either side.
#[derive(Clone, Debug)]
enum Act {
    Make(PathBuf, u32),
    Folder(PathBuf, u32),
    Link(PathBuf, PathBuf),
    Symlink(String, PathBuf),
    Rename(PathBuf, PathBuf, u32),
    Unlink(PathBuf),
    RemoveFolder(PathBuf),
    Stat(PathBuf),
    List(PathBuf),
    ReadLink(PathBuf),
    Mode(PathBuf, u32),
    Length(PathBuf, u64),
    Set(PathBuf, u8, u8),
    Get(PathBuf, u8),
    Unset(PathBuf, u8),
    Hold(PathBuf, bool),
    Drop(usize),
    Held(usize, With),
}

/// A change of a file that is held open.
#[derive(Clone, Debug)]
enum With {
    Write(u64, usize, u8),
    Read(u64, usize),
    Punch(u64, u64),
    Cut(u64),
    Stat,
    Sync,
}

/// One folder, and its files that are held open.
struct Side {
    top: PathBuf,
    open: Vec<File>,
}

/// The two folders.
pub(super) struct TwoFolders {
    sides: [Side; 2],
}

/// A checksum (FNV-1a).
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &b| {
        (sum ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The attributes of a file that must agree.
fn shown(meta: &fs::Metadata) -> String {
    let kind = meta.file_type();
    // A directory of an overlay has one link, whatever its contents.
    let (size, links) = if kind.is_dir() {
        (0, 0)
    } else {
        (meta.len(), meta.nlink())
    };
    let char = kind.is_char_device();
    format!(
        "mode {:o} links {links} owner {}:{} size {size} char {char}",
        meta.mode(),
        meta.uid(),
        meta.gid()
    )
}

impl Side {
    fn new(top: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&top)?;
        Ok(Self {
            top,
            open: Vec::new(),
        })
    }

    /// Makes a change; returns its result, without what differs between any two file systems.
    fn does(&mut self, act: &Act) -> io::Result<String> {
        let at = |path: &Path| self.top.join(path);
        let name = |n: u8| format!("user.x{n}");
        match act {
            Act::Make(path, mode) => {
                let mut how = OpenOptions::new();
                how.write(true)
                    .create_new(true)
                    .mode(*mode)
                    .open(at(path))?;
            }
            Act::Folder(path, mode) => fs::DirBuilder::new().mode(*mode).create(at(path))?,
            Act::Link(from, to) => fs::hard_link(at(from), at(to))?,
            Act::Symlink(body, path) => symlink(body, at(path))?,
            Act::Rename(from, to, flags) => {
                let flags = RenameFlags::from_bits_retain(*flags);
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    at(from),
                    rustix::fs::CWD,
                    at(to),
                    flags,
                )?;
            }
            Act::Unlink(path) => fs::remove_file(at(path))?,
            Act::RemoveFolder(path) => fs::remove_dir(at(path))?,
            Act::Stat(path) => return Ok(shown(&fs::symlink_metadata(at(path))?)),
            Act::List(path) => return list(&at(path)),
            Act::ReadLink(path) => return Ok(format!("{:?}", fs::read_link(at(path))?)),
            Act::Mode(path, mode) => {
                fs::set_permissions(at(path), fs::Permissions::from_mode(*mode))?;
            }
            Act::Length(path, len) => {
                OpenOptions::new()
                    .write(true)
                    .open(at(path))?
                    .set_len(*len)?;
            }
            Act::Set(path, n, value) => {
                let value = vec![*value; usize::from(*value)];
                rustix::fs::lsetxattr(at(path), name(*n), &value, XattrFlags::empty())?;
            }
            Act::Get(path, n) => {
                let mut value = [0; 256];
                let len = rustix::fs::lgetxattr(at(path), name(*n), &mut value)?;
                return Ok(format!("{len} bytes, {:x}", sum(&value[..len])));
            }
            Act::Unset(path, n) => rustix::fs::lremovexattr(at(path), name(*n))?,
            Act::Hold(path, append) => {
                let mut how = OpenOptions::new();
                let file = how.read(true).write(true).append(*append).open(at(path))?;
                if self.open.len() == OPEN_MAX {
                    self.open.remove(0);
                }
                self.open.push(file);
            }
            Act::Held(n, what) => {
                let file = self.open.get(*n).ok_or(io::ErrorKind::NotFound)?;
                return with(file, what);
            }
            Act::Drop(n) => {
                if *n >= self.open.len() {
                    return Err(io::ErrorKind::NotFound.into());
                }
                self.open.remove(*n);
            }
        }
        Ok(String::new())
    }
}

/// Makes a change of an open file; returns its result.
fn with(file: &File, what: &With) -> io::Result<String> {
    match what {
        With::Write(offset, len, byte) => {
            let wrote = file.write_at(&vec![*byte; *len], *offset)?;
            return Ok(format!("{wrote} bytes"));
        }
        With::Read(offset, len) => {
            let mut buf = vec![0; *len];
            let got = file.read_at(&mut buf, *offset)?;
            return Ok(format!("{got} bytes, {:x}", sum(&buf[..got])));
        }
        With::Punch(offset, len) => {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, how, *offset, *len)?;
        }
        With::Cut(len) => file.set_len(*len)?,
        With::Stat => return Ok(shown(&file.metadata()?)),
        With::Sync => file.sync_all()?,
    }
    Ok(String::new())
}

/// The sorted names in a folder.
fn list(path: &Path) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        names.push(format!("{:?} {:?}", entry.file_name(), entry.file_type()?));
    }
    names.sort();
    Ok(names.join(", "))
}

/// A whole tree: the type and attributes of each name.
fn tree(top: &Path) -> io::Result<BTreeMap<PathBuf, String>> {
    let (mut all, mut left) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let meta = fs::symlink_metadata(&path)?;
            let mut says = shown(&meta);
            if meta.is_dir() {
                left.push(path.clone());
            } else if meta.is_file() {
                says.push_str(&format!(" data {:x}", sum(&fs::read(&path)?)));
            } else if meta.is_symlink() {
                says.push_str(&format!(" to {:?}", fs::read_link(&path)?));
            }
            all.insert(path.strip_prefix(top).unwrap_or(&path).to_owned(), says);
        }
    }
    Ok(all)
}

/// An answer in comparable form: errors by their number.
fn answer(done: io::Result<String>) -> String {
    done.unwrap_or_else(|why| match why.raw_os_error() {
        Some(errno) => format!("errno {errno}"),
        None => format!("{:?}", why.kind()),
    })
}

impl TwoFolders {
    pub(super) fn new(on: PathBuf, beside: PathBuf) -> io::Result<Self> {
        Ok(Self {
            sides: [Side::new(on)?, Side::new(beside)?],
        })
    }

    /// Fills a folder with objects of all types, without hard links.
    pub(super) fn fill(top: PathBuf, rng: &mut Rng) -> io::Result<()> {
        let mut side = Side::new(top)?;
        for _ in 0..FILL {
            let act = act(rng);
            if !matches!(act, Act::Link(..)) {
                // A change that is impossible at this point is skipped.
                side.does(&act).ok();
            }
        }
        Ok(())
    }

    /// Makes one random change on both sides.
    pub(super) fn step(&mut self, rng: &mut Rng, wrong: &mut Vec<String>) {
        let act = act(rng);
        let [ours, theirs] = &mut self.sides;
        let (mine, host) = (answer(ours.does(&act)), answer(theirs.does(&act)));
        if mine != host {
            wrong.push(format!(
                "{act:?}: {mine} on the mount, {host} on the trusted folder"
            ));
        }
    }

    /// Compares the whole trees.
    pub(super) fn compare(&mut self, wrong: &mut Vec<String>) {
        let [mine, host] = [0, 1].map(|n| tree(&self.sides[n].top));
        match (mine, host) {
            (Ok(mine), Ok(host)) if mine == host => {}
            (Ok(mine), Ok(host)) => {
                for path in mine.keys().chain(host.keys()) {
                    let (m, h) = (mine.get(path), host.get(path));
                    if m != h {
                        wrong.push(format!(
                            "{}: {m:?} on the mount, {h:?} on the trusted folder",
                            path.display()
                        ));
                        return;
                    }
                }
            }
            (mine, host) => wrong.push(format!(
                "the trees cannot be read: {:?}, {:?}",
                mine.err(),
                host.err()
            )),
        }
    }

    /// Removes both folders.
    pub(super) fn end(self, wrong: &mut Vec<String>) {
        for side in self.sides {
            drop(side.open);
            if let Err(why) = fs::remove_dir_all(&side.top) {
                wrong.push(format!("{} cannot be removed: {why}", side.top.display()));
            }
        }
    }
}

/// A path of one or two names.
fn path(rng: &mut Rng) -> PathBuf {
    let mut path = PathBuf::from(rng.pick(&NAMES));
    if rng.one_in(2) {
        path.push(rng.pick(&NAMES));
    }
    path
}

/// A random change.
fn act(rng: &mut Rng) -> Act {
    let n = rng.below(OPEN_MAX);
    let at = rng.below(SIZE) as u64;
    let byte = 1 + rng.below(200) as u8;
    match rng.below(32) {
        0..=2 => Act::Make(path(rng), *rng.pick(&[0o644, 0o600, 0o755, 0o4755])),
        3..=4 => Act::Folder(path(rng), *rng.pick(&[0o755, 0o700, 0o2775])),
        5 => Act::Link(path(rng), path(rng)),
        6 => Act::Symlink((*rng.pick(&NAMES)).to_owned(), path(rng)),
        7..=8 => Act::Rename(path(rng), path(rng), *rng.pick(&[0, 0, 0, 1, 2])),
        9 => Act::Unlink(path(rng)),
        10 => Act::RemoveFolder(path(rng)),
        11..=12 => Act::Stat(path(rng)),
        13 => Act::List(path(rng)),
        14 => Act::ReadLink(path(rng)),
        15 => Act::Mode(path(rng), *rng.pick(&[0o644, 0o755, 0o600, 0o2755])),
        16 => Act::Length(path(rng), at),
        17 => Act::Set(path(rng), n as u8 % 3, byte),
        18 => Act::Get(path(rng), n as u8 % 3),
        19 => Act::Unset(path(rng), n as u8 % 3),
        20..=21 => Act::Hold(path(rng), rng.one_in(8)),
        22 => Act::Drop(n),
        _ => Act::Held(n, what(rng)),
    }
}

/// A random change of an open file.
fn what(rng: &mut Rng) -> With {
    let at = rng.below(SIZE) as u64;
    let len = rng.below(SIZE / 16);
    match rng.below(10) {
        0..=3 => With::Write(at, len, 1 + rng.below(200) as u8),
        4..=5 => With::Read(at, len),
        6 => With::Punch(at, 1 + len as u64),
        7 => With::Cut(at),
        8 => With::Sync,
        _ => With::Stat,
    }
}
