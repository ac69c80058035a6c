// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the upper tree says that was changed.
//!
//! # Rules
//! R1. A file is modified if its data differs from that beneath: it has another length, or holds
//!     something else. No time says that it does not, for who writes can set it back. What was
//!     copied up and is the same is no change.
//! R2. A directory is renamed if it is found beneath by a redirect; a file, if it shows the number
//!     of one that is gone.
//! R3. What a deleted directory had is counted. What a directory had that another replaces is
//!     compared name by name, as if it were the same directory.

use crate::change_list::{ChangeKind, Changes, ROOT};
use crate::fs::Hit;
use crate::layer::list;
use crate::node::{Node, Origin};
use crate::superblock::OverlayFs;
use crate::whiteout::shown_mode;
use openpath_abi::{Errno, dirent, mode};
use openpath_vfs::{AclKind, Inode, Listed, Patience, SuperBlock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// How much of two files is compared at once.
const BUFFER: usize = 1 << 16;

/// What a name is in the lower trees.
struct Beneath {
    number: u64,
    lower: Arc<Inode>,
    /// If it is a directory.
    dir: Option<Arc<Inode>>,
    /// Where it is there.
    from: Vec<u8>,
    /// Something above it was deleted or replaced, so the view never shows it here.
    hidden: bool,
}

/// A name that has something beneath and does not show it.
struct Gone {
    at: usize,
    beneath: Beneath,
    /// What is below it is counted, and no change of its own.
    counts: bool,
}

/// A new file that shows the number of one beneath.
struct Moved {
    at: usize,
    number: u64,
    upper: Arc<Inode>,
}

/// A directory to look at.
struct Visit {
    dir: Arc<Inode>,
    at: usize,
    /// What the lower trees have at its path, if it is a directory that this one replaces.
    hidden: Option<Arc<Inode>>,
}

/// A name that is looked at.
struct Spot<'a> {
    name: &'a [u8],
    at: usize,
    hidden: Option<&'a Arc<Inode>>,
}

/// What was found so far.
struct Found {
    changes: Changes,
    gone: Vec<Gone>,
    moved: Vec<Moved>,
    /// Where directories that moved were beneath.
    left: HashSet<Vec<u8>>,
}

impl Found {
    fn note(&mut self, at: usize, kind: ChangeKind) -> Result<(), Errno> {
        self.changes.note(at, kind)
    }

    /// What a name has beneath does not show.
    fn lost(&mut self, at: usize, beneath: Option<Beneath>, counts: bool) -> Result<(), Errno> {
        let Some(beneath) = beneath else {
            return Ok(());
        };
        self.gone.push(Gone {
            at,
            beneath,
            counts,
        });
        self.note(at, ChangeKind::Deleted)
    }

    /// Notes a file that may be one from beneath.
    fn came(&mut self, at: usize, hit: &Hit, upper: &Arc<Inode>) {
        if let Some(number) = hit.number {
            self.moved.push(Moved {
                at,
                number,
                upper: Arc::clone(upper),
            });
        }
    }

    /// Joins what was renamed (R2), and counts what went with directories (R3).
    fn joined(mut self) -> Result<Changes, Errno> {
        let joins = |(_, gone): &(usize, &Gone)| !gone.beneath.hidden;
        let numbers: HashMap<u64, usize> = (self.gone.iter().enumerate().filter(joins))
            .map(|(at, gone)| (gone.beneath.number, at))
            .collect();
        for moved in &self.moved {
            if let Some(gone) = numbers.get(&moved.number) {
                let beneath = &self.gone[*gone].beneath;
                let is_changed = !same_data(&moved.upper, &beneath.lower)?;
                let kinds = self.changes.kinds(moved.at);
                kinds.retain(|kind| *kind == ChangeKind::Deleted);
                kinds.push(ChangeKind::Renamed(beneath.from.clone()));
                if is_changed {
                    kinds.push(ChangeKind::Modified);
                }
                self.left.insert(beneath.from.clone());
            }
        }
        for gone in &self.gone {
            if self.left.contains(&gone.beneath.from) {
                let kinds = self.changes.kinds(gone.at);
                kinds.retain(|kind| *kind != ChangeKind::Deleted);
            } else if let (true, Some(dir)) = (gone.counts, &gone.beneath.dir) {
                let below = count(dir, &gone.beneath.from, &self.left)?;
                self.changes.set_below(gone.at, below);
            }
        }
        self.replaced()?;
        self.changes.sort();
        Ok(self.changes)
    }

    /// Tells of a new file in the place of one that is gone as of one file that changed.
    fn replaced(&mut self) -> Result<(), Errno> {
        let places: HashMap<usize, &Gone> = self.gone.iter().map(|gone| (gone.at, gone)).collect();
        for moved in &self.moved {
            let Some(gone) = places.get(&moved.at) else {
                continue;
            };
            let kinds = self.changes.kinds(moved.at);
            if *kinds == [ChangeKind::Deleted, ChangeKind::Added] && gone.beneath.dir.is_none() {
                let same = same_data(&moved.upper, &gone.beneath.lower)?;
                *kinds = vec![if same {
                    ChangeKind::Attributes
                } else {
                    ChangeKind::Modified
                }];
            }
        }
        Ok(())
    }
}

impl OverlayFs {
    /// What is not as it is in the lower trees; what is below a new directory as well. It is asked
    /// for while nobody changes anything, or tells of some changes and not of others.
    ///
    /// # Errors
    /// `EINVAL`: `sb` is no overlay. `E2BIG`: more than `max` changes, or names of more than 128
    /// bytes for each of these together. What the layers meet.
    pub fn changes(sb: &SuperBlock, max: usize) -> Result<Changes, Errno> {
        if Node::of(sb.root()).is_none() {
            return Err(Errno::EINVAL);
        }
        let mut found = Found {
            changes: Changes::new(max),
            gone: Vec::new(),
            moved: Vec::new(),
            left: HashSet::new(),
        };
        let mut dirs = vec![Visit {
            dir: Arc::clone(sb.root()),
            at: ROOT,
            hidden: None,
        }];
        while let Some(visit) = dirs.pop() {
            let node = Node::of(&visit.dir).ok_or(Errno::EIO)?;
            let names = match node.upper() {
                Some(upper) => names_of(|each| list(upper, 0, &mut |entry| Ok(each(entry))))?,
                None => Vec::new(),
            };
            for name in &names {
                let at = found.changes.add(visit.at, name)?;
                let hidden = visit.hidden.as_ref();
                dirs.extend(node.compare(&Spot { name, at, hidden }, &mut found)?);
            }
            if let Some(hidden) = &visit.hidden {
                node.hides((hidden, &names), visit.at, &mut found, &mut dirs)?;
            }
        }
        found.joined()
    }
}

/// The names of a directory, in order.
fn names_of(
    list: impl FnOnce(&mut dyn FnMut(Listed<'_>) -> bool) -> Result<(), Errno>,
) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    list(&mut |entry| {
        names.push(entry.name.to_vec());
        true
    })?;
    names.sort_unstable();
    Ok(names)
}

/// How many names are below a directory of the lower trees, at this path there, without those that
/// moved elsewhere.
fn count(dir: &Arc<Inode>, from: &[u8], left: &HashSet<Vec<u8>>) -> Result<u64, Errno> {
    let mut count = 0;
    let mut dirs = vec![(Arc::clone(dir), from.to_vec())];
    while let Some((dir, from)) = dirs.pop() {
        let node = Node::of(&dir).ok_or(Errno::EIO)?;
        let mut below = Vec::new();
        let listed = node.list(0, &mut |entry| {
            match entry.kind {
                dirent::DT_DIR | dirent::DT_UNKNOWN => below.push(entry.name.to_vec()),
                _ => count += 1,
            }
            true
        });
        match listed {
            // Not for this user to list; that did not keep it from being deleted.
            Err(Errno::EACCES | Errno::EPERM) => continue,
            listed => listed?,
        }
        for name in below {
            let from = [&from[..], b"/", &name].concat();
            if left.contains(&from) {
                continue;
            }
            count += 1;
            if let Some(beneath) = node.search(&name, Patience::Wait)? {
                let inode = node.fs.adopt(beneath)?;
                if inode.is_dir() {
                    dirs.push((inode, from));
                }
            }
        }
    }
    Ok(count)
}

impl Node {
    /// Compares a name of the upper directory with what it is beneath; what is to be looked at
    /// next, if it is a directory.
    fn compare(&self, spot: &Spot<'_>, found: &mut Found) -> Result<Option<Visit>, Errno> {
        let (name, at) = (spot.name, spot.at);
        let beneath = self.beneath(name, spot.hidden)?;
        let Some(hit) = self.search(name, Patience::Wait)? else {
            return found.lost(at, beneath, true).map(|()| None);
        };
        let Some(upper) = hit.upper.clone() else {
            return Ok(None);
        };
        if !upper.is_dir() {
            self.compare_file((&hit, &upper), beneath, at, found)?;
            return Ok(None);
        }
        let mut hidden = beneath.as_ref().and_then(|beneath| beneath.dir.clone());
        let Some(lower) = hit.lowers.first() else {
            match beneath {
                // One directory in another that was replaced, as a copy of it has it.
                Some(beneath) if beneath.hidden && beneath.dir.is_some() => {
                    if !same_attributes(&upper, &beneath.lower, self)? {
                        found.note(at, ChangeKind::Attributes)?;
                    }
                }
                beneath => {
                    found.lost(at, beneath, hidden.is_none())?;
                    found.note(at, ChangeKind::Added)?;
                }
            }
            let dir = self.fs.adopt(hit)?;
            return Ok(Some(Visit { dir, at, hidden }));
        };
        let is_same = same_attributes(&upper, &lower.inode, self)?;
        let dir = self.fs.adopt(hit)?;
        let node = Self::of(&dir).ok_or(Errno::EIO)?;
        let from = [b"/", &node.lower_path()?[..]].concat();
        // A directory with nothing beneath has no place there to be compared with.
        if matches!(self.origin, Origin::None) || from != self.below(name)? {
            found.lost(at, beneath, hidden.is_none())?;
            found.note(at, ChangeKind::Renamed(from.clone()))?;
            found.left.insert(from);
        } else {
            hidden = match spot.hidden {
                Some(hidden) => Self::hidden_in(hidden, name)?.and_then(|beneath| beneath.dir),
                None => None,
            };
        }
        if !is_same {
            found.note(at, ChangeKind::Attributes)?;
        }
        Ok(Some(Visit { dir, at, hidden }))
    }

    fn compare_file(
        &self,
        (hit, upper): (&Hit, &Arc<Inode>),
        beneath: Option<Beneath>,
        at: usize,
        found: &mut Found,
    ) -> Result<(), Errno> {
        let Some(beneath) = beneath else {
            found.came(at, hit, upper);
            return found.note(at, ChangeKind::Added);
        };
        let is_other = hit.number.is_some_and(|own| own != beneath.number);
        if beneath.dir.is_some() || is_other && !beneath.hidden {
            // Another file came here, from where it had been beneath.
            found.lost(at, Some(beneath), true)?;
            found.came(at, hit, upper);
            return found.note(at, ChangeKind::Added);
        }
        if is_other {
            found.came(at, hit, upper);
        }
        let lower = &beneath.lower;
        if !same_data(upper, lower)? {
            return found.note(at, ChangeKind::Modified);
        }
        let touched = upper.attr().mtime != lower.attr().mtime;
        if beneath.hidden || touched || !same_attributes(upper, lower, self)? {
            found.note(at, ChangeKind::Attributes)?;
        }
        Ok(())
    }

    /// Finds what the lower trees have in a directory in whose place this one is (R3); `names` are
    /// those of the upper directory.
    fn hides(
        &self,
        (hidden, names): (&Arc<Inode>, &[Vec<u8>]),
        dir: usize,
        found: &mut Found,
        dirs: &mut Vec<Visit>,
    ) -> Result<(), Errno> {
        let node = Self::of(hidden).ok_or(Errno::EIO)?;
        let all = match names_of(|each| node.list(0, each)) {
            // Not for this user to list.
            Err(Errno::EACCES | Errno::EPERM) => return Ok(()),
            all => all?,
        };
        for name in all {
            if names.binary_search(&name).is_ok() {
                continue;
            }
            let Some(beneath) = Self::hidden_in(hidden, &name)? else {
                continue;
            };
            // A directory that moved here shows names of its own.
            let shown = match self.lowers().is_empty() {
                true => None,
                false => self.search(&name, Patience::Wait)?,
            };
            let at = found.changes.add(dir, &name)?;
            let Some(hit) = shown else {
                found.lost(at, Some(beneath), true)?;
                continue;
            };
            let dir = self.fs.adopt(hit)?;
            if let (true, Some(hidden)) = (dir.is_dir(), beneath.dir) {
                let hidden = Some(hidden);
                dirs.push(Visit { dir, at, hidden });
            }
        }
        Ok(())
    }

    /// Where a name of this directory would be in the lower layers, with a slash before it.
    fn below(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        Ok(match &self.origin {
            Origin::Root | Origin::None => [b"/", name].concat(),
            _ => [b"/", &self.lower_path()?[..], b"/", name].concat(),
        })
    }

    /// What a name of this directory is in the lower layers; without any, in the directory that
    /// this one replaces.
    fn beneath(&self, name: &[u8], hidden: Option<&Arc<Inode>>) -> Result<Option<Beneath>, Errno> {
        match (self.search_beneath(name)?, hidden) {
            (Some(hit), _) => self.found_beneath(name, hit, false).map(Some),
            (None, Some(hidden)) => Self::hidden_in(hidden, name),
            (None, None) => Ok(None),
        }
    }

    /// What a name is in a directory that something replaces.
    fn hidden_in(hidden: &Arc<Inode>, name: &[u8]) -> Result<Option<Beneath>, Errno> {
        let node = Self::of(hidden).ok_or(Errno::EIO)?;
        let hit = node.search(name, Patience::Wait)?;
        hit.map(|hit| node.found_beneath(name, hit, true))
            .transpose()
    }

    fn found_beneath(&self, name: &[u8], hit: Hit, hidden: bool) -> Result<Beneath, Errno> {
        let lower = hit.lowers.first().ok_or(Errno::EIO)?;
        let lower = Arc::clone(&lower.inode);
        Ok(Beneath {
            number: self.fs.number_of(&hit),
            dir: match lower.is_dir() {
                true => Some(self.fs.adopt(hit)?),
                false => None,
            },
            lower,
            from: self.below(name)?,
            hidden,
        })
    }
}

/// Whether two inodes have the same owner, mode and extended attributes, marks aside.
fn same_attributes(upper: &Inode, lower: &Inode, node: &Node) -> Result<bool, Errno> {
    let (a, b) = (upper.attr(), lower.attr());
    let shown = |inode: &Inode, mode| shown_mode(mode, inode.rdev());
    let modes = (shown(upper, a.mode), shown(lower, b.mode));
    let owners = ((a.uid, a.gid), (b.uid, b.gid));
    if modes.0 != modes.1 || owners.0 != owners.1 || upper.acls() != lower.acls() {
        return Ok(false);
    }
    let marks = node.fs.options.marks;
    let values = |inode: &Inode| -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
        let names = match inode.ops().listxattr(inode) {
            Err(Errno::EOPNOTSUPP) => return Ok(BTreeMap::new()),
            names => names?,
        };
        let mut all = BTreeMap::new();
        for name in names {
            // Not every tree lists the access control lists that its files have.
            if marks.shown(&name).is_some() && AclKind::of_name(&name).is_none() {
                let value = inode.ops().getxattr(inode, &name)?;
                all.insert(name, value);
            }
        }
        Ok(all)
    };
    Ok(values(upper)? == values(lower)?)
}

/// Whether two files are of one kind and hold the same (R1).
fn same_data(upper: &Inode, lower: &Inode) -> Result<bool, Errno> {
    if upper.kind() != lower.kind() || upper.rdev() != lower.rdev() {
        return Ok(false);
    }
    if mode::is_lnk(upper.mode()) {
        let body = |inode: &Inode| -> Result<Vec<u8>, Errno> {
            let body = inode.ops().readlink(inode, Patience::Wait)?;
            Ok(body.into_owned())
        };
        return Ok(body(upper)? == body(lower)?);
    }
    if !mode::is_reg(upper.mode()) {
        return Ok(true);
    }
    if upper.size() != lower.size() {
        return Ok(false);
    }
    let (mut a, mut b) = (vec![0; BUFFER], vec![0; BUFFER]);
    let mut at = 0;
    while at < upper.size() {
        let read = upper.ops().read_at(upper, &mut a, at)?;
        let other = read_whole(lower, &mut b[..read], at)?;
        if read == 0 || read != other || a[..read] != b[..read] {
            return Ok(false);
        }
        at += read as u64;
    }
    Ok(true)
}

/// Reads until the buffer is full or the file ends.
fn read_whole(inode: &Inode, buf: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buf.len() {
        match inode
            .ops()
            .read_at(inode, &mut buf[done..], at + done as u64)?
        {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}
