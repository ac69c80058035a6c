// SPDX-License-Identifier: MIT OR Apache-2.0
//! What changed: the upper tree beside the tree beneath.
//!
//! # Rules
//! R1. A name is looked at if the upper tree has it. A whiteout is a deletion; what the tree
//!     beneath has not is an addition; what both have is compared.
//! R2. What was copied up and is as it was is no change; nor are the times of a directory.
//! R3. A directory that the upper tree says is somewhere else beneath was renamed; so was what is
//!     new and has the number of what is gone.

use crate::Refusal;
use crate::change::{Change, Kind, What};
use crate::plan::PathBytes;
use openpath_abi::fcntl::{O_DIRECTORY, O_NOATIME, O_NOFOLLOW, O_RDONLY};
use openpath_abi::{Errno, Stat, mode};
use openpath_vfs::{Cred, Fd, SuperBlock, Task, Vfs};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are compared at a time.
const BLOCK: usize = 1 << 16;
/// Bytes of a listing at a time.
const LISTING: usize = 1 << 16;

/// The mark of a directory that hides what is beneath.
const OPAQUE: &[u8] = b"user.overlay.opaque";
/// The mark of a directory that is somewhere else beneath.
const REDIRECT: &[u8] = b"user.overlay.redirect";

/// The trees that are compared.
pub(crate) struct Compare {
    /// The shown directory of the upper tree is its `/upper`.
    upper: Task,
    lower: Task,
    view: Task,
    found: Vec<Change>,
    /// Numbers of what is new, by where it is found.
    new: BTreeMap<u64, usize>,
    /// Numbers of what is gone.
    gone: BTreeMap<u64, usize>,
    /// Directories beneath that are somewhere else now.
    moved: BTreeSet<Vec<u8>>,
}

/// A directory that both trees may have.
struct Dir {
    /// In the view, without a slash at the end.
    path: Vec<u8>,
    /// Beneath, if it is there.
    beneath: Option<Vec<u8>>,
}

impl Compare {
    /// Compares an overlay's upper and lower tree, and looks at `view`, which shows both.
    pub(crate) fn new(
        upper: &Arc<SuperBlock>,
        lower: &Arc<SuperBlock>,
        view: &Task,
    ) -> Result<Compare, Refusal> {
        let task = |tree: &Arc<SuperBlock>| {
            let vfs = Vfs::builder().build(Arc::clone(tree));
            vfs.and_then(|vfs| vfs.task(Cred::root())).map_err(failed)
        };
        Ok(Compare {
            upper: task(upper)?,
            lower: task(lower)?,
            view: view.fork().map_err(failed)?,
            found: Vec::new(),
            new: BTreeMap::new(),
            gone: BTreeMap::new(),
            moved: BTreeSet::new(),
        })
    }

    /// All changes, by path.
    pub(crate) fn all(mut self) -> Result<Vec<Change>, Refusal> {
        let mut waiting = vec![Dir {
            path: Vec::new(),
            beneath: Some(Vec::new()),
        }];
        while let Some(dir) = waiting.pop() {
            self.dir(&dir, &mut waiting).map_err(failed)?;
        }
        self.join_renames();
        self.found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(self.found)
    }

    /// Looks at all names of a directory of the upper tree.
    fn dir(&mut self, dir: &Dir, waiting: &mut Vec<Dir>) -> Result<(), Errno> {
        let here = [b"/upper", &dir.path[..]].concat();
        let names = match list(&self.upper, &here) {
            // What is in a directory that came or went by a rename shows with it.
            Err(Errno::ENOENT) => Vec::new(),
            names => names?,
        };
        for name in &names {
            let path = [&dir.path[..], b"/", name].concat();
            let upper = self.upper.lstat(&[b"/upper", &path[..]].concat())?;
            let beneath = dir.beneath.as_ref().map(|beneath| join(beneath, name));
            self.name(path, &upper, beneath, waiting)?;
        }
        let opaque = self.mark(&here, OPAQUE)?.is_some();
        if let Some(beneath) = dir.beneath.as_ref().filter(|_| opaque) {
            for name in list(&self.lower, beneath).unwrap_or_default() {
                if !names.contains(&name) {
                    self.deleted(join(&dir.path, &name), &join(beneath, &name))?;
                }
            }
        }
        Ok(())
    }

    /// Looks at a name of the upper tree.
    fn name(
        &mut self,
        path: Vec<u8>,
        upper: &Stat,
        beneath: Option<Vec<u8>>,
        waiting: &mut Vec<Dir>,
    ) -> Result<(), Errno> {
        if mode::is_chr(upper.mode) && upper.rdev == 0 {
            return match beneath {
                Some(beneath) => self.deleted(path, &beneath),
                None => Ok(()),
            };
        }
        let mut from = None;
        let mut beneath = beneath;
        if mode::is_dir(upper.mode) {
            let here = [b"/upper", &path[..]].concat();
            if let Some(place) = self.mark(&here, REDIRECT)? {
                let place = match (place.first(), &beneath) {
                    (Some(b'/'), _) | (_, None) => place,
                    (_, Some(beside)) => join(parent(beside), &place),
                };
                self.moved.insert(place.clone());
                from = Some(place.clone());
                beneath = Some(place);
            }
        }
        let before = match &beneath {
            Some(beneath) => there(self.lower.lstat(beneath))?,
            None => None,
        };
        let dirs = mode::is_dir(upper.mode) && before.is_some_and(|b| mode::is_dir(b.mode));
        let kind = match (&from, before) {
            (Some(from), _) => Some(Kind::Renamed {
                from: path_of(from),
            }),
            (None, None) => Some(Kind::Added),
            (None, Some(before)) => self.compare(&path, upper, &before, beneath.as_deref())?,
        };
        if let Some(kind) = kind {
            let added = kind == Kind::Added;
            let number = self.view.lstat(&path).map_or(0, |stat| stat.ino);
            self.push(path.clone(), kind, Some(upper), before.as_ref());
            if added && number != 0 && !mode::is_dir(upper.mode) {
                self.new.insert(number, self.found.len() - 1);
            }
        }
        if mode::is_dir(upper.mode) {
            waiting.push(Dir {
                path,
                beneath: beneath.filter(|_| dirs),
            });
        }
        Ok(())
    }

    /// What became of what both trees have.
    fn compare(
        &self,
        path: &[u8],
        now: &Stat,
        before: &Stat,
        beneath: Option<&[u8]>,
    ) -> Result<Option<Kind>, Errno> {
        let same_type = now.mode & mode::S_IFMT == before.mode & mode::S_IFMT;
        let upper = [b"/upper", path].concat();
        let beneath = beneath.unwrap_or_default();
        let same_data = same_type
            && match now.mode & mode::S_IFMT {
                mode::S_IFREG => {
                    let same_size = now.size == before.size;
                    same_size && (now.mtime == before.mtime || self.same(&upper, beneath)?)
                }
                mode::S_IFLNK => self.upper.readlink(&upper)? == self.lower.readlink(beneath)?,
                _ => now.rdev == before.rdev,
            };
        let owned = |stat: &Stat| (stat.mode, stat.uid, stat.gid);
        let times = mode::is_reg(now.mode) && now.mtime != before.mtime;
        Ok(if !same_data {
            Some(Kind::Modified)
        } else if owned(now) != owned(before) || times {
            Some(Kind::Attributes)
        } else {
            None
        })
    }

    /// Have two files of one size the same data?
    fn same(&self, upper: &[u8], beneath: &[u8]) -> Result<bool, Errno> {
        let above = Reader::open(&self.upper, upper)?;
        let below = Reader::open(&self.lower, beneath)?;
        let (mut a, mut b) = (vec![0; BLOCK], vec![0; BLOCK]);
        let mut at = 0;
        loop {
            let (got, other) = (above.fill(&mut a, at)?, below.fill(&mut b, at)?);
            if a[..got] != b[..other] {
                return Ok(false);
            }
            if got == 0 {
                return Ok(true);
            }
            at += i64::try_from(got).map_err(|_| Errno::EOVERFLOW)?;
        }
    }

    fn deleted(&mut self, path: Vec<u8>, beneath: &[u8]) -> Result<(), Errno> {
        if let Some(before) = there(self.lower.lstat(beneath))? {
            self.push(path, Kind::Deleted, None, Some(&before));
            self.gone.insert(before.ino, self.found.len() - 1);
        }
        Ok(())
    }

    fn push(&mut self, path: Vec<u8>, kind: Kind, now: Option<&Stat>, before: Option<&Stat>) {
        let size = |stat: Option<&Stat>| {
            let file = stat.filter(|stat| mode::is_reg(stat.mode));
            file.map_or(0, |stat| u64::try_from(stat.size).unwrap_or(0))
        };
        let bits = |stat: Option<&Stat>| stat.map_or(0, |stat| stat.mode & 0o7777);
        let is = now.or(before).map_or(0, |stat| stat.mode & mode::S_IFMT);
        self.found.push(Change {
            path: path_of(&path),
            kind,
            what: match is {
                mode::S_IFREG => What::File,
                mode::S_IFDIR => What::Directory,
                mode::S_IFLNK => What::Link,
                _ => What::Other,
            },
            size: size(now),
            size_before: size(before),
            mode: bits(now.or(before)),
            mode_before: bits(before),
        });
    }

    /// An addition and a deletion of one file are a rename (R3).
    fn join_renames(&mut self) {
        let mut done = BTreeSet::new();
        for (number, at) in &self.new {
            let Some(old) = self.gone.get(number) else {
                continue;
            };
            let before = self.found[*old].clone();
            let change = &mut self.found[*at];
            if change.what == before.what {
                change.kind = Kind::Renamed { from: before.path };
                change.size_before = before.size_before;
                change.mode_before = before.mode_before;
                done.insert(*old);
            }
        }
        let mut at = 0;
        self.found.retain(|change| {
            let moved = change.kind == Kind::Deleted && self.moved.contains(change.path.bytes());
            let kept = !done.contains(&at) && !moved;
            at += 1;
            kept
        });
    }

    fn mark(&self, path: &[u8], name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        match self.upper.lgetxattr(path, name) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
            Err(why) => Err(why),
        }
    }
}

/// A file that is open to be read.
pub(crate) struct Reader<'a> {
    task: &'a Task,
    fd: Fd,
}

impl<'a> Reader<'a> {
    pub(crate) fn open(task: &'a Task, path: &[u8]) -> Result<Reader<'a>, Errno> {
        let fd = task.open(path, O_RDONLY | O_NOFOLLOW | O_NOATIME, 0)?;
        Ok(Reader { task, fd })
    }

    /// Reads until `buf` is full or the file ends.
    pub(crate) fn fill(&self, buf: &mut [u8], mut at: i64) -> Result<usize, Errno> {
        let mut filled = 0;
        while filled < buf.len() {
            let got = self.task.pread(self.fd, &mut buf[filled..], at)?;
            if got == 0 {
                break;
            }
            filled += got;
            at += i64::try_from(got).map_err(|_| Errno::EOVERFLOW)?;
        }
        Ok(filled)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.task.close(self.fd).ok();
    }
}

/// The names in a directory, without itself and the one above.
pub(crate) fn list(task: &Task, path: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    let path = if path.is_empty() { b"/" } else { path };
    let fd = task.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)?;
    let mut names = Vec::new();
    let listed = loop {
        match task.getdents64(fd, LISTING) {
            Ok(entries) if entries.is_empty() => break Ok(names),
            Ok(entries) => names.extend(entries.into_iter().map(|entry| entry.name)),
            Err(why) => break Err(why),
        }
    };
    task.close(fd).ok();
    let mut names = listed?;
    names.retain(|name| name != b"." && name != b"..");
    Ok(names)
}

fn there(found: Result<Stat, Errno>) -> Result<Option<Stat>, Errno> {
    match found {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(why) => Err(why),
    }
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    [dir, b"/", name].concat()
}

fn parent(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &path[..end]
}

fn path_of(path: &[u8]) -> PathBytes {
    Path::new(OsStr::from_bytes(path)).into()
}

fn failed(why: Errno) -> Refusal {
    Refusal::step("the changes cannot be read", why)
}
