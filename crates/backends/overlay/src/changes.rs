// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the upper tree says that was changed.
//!
//! # Rules
//! R1. A file is modified if its data differs from that beneath: it has another length, or holds
//!     something else. No time says that it does not, for who writes can set it back. What was
//!     copied up and is the same is no change.
//! R2. A directory is renamed if it is found beneath by a redirect; a file, if it shows the number
//!     of one that is gone.
//! R3. Attributes of a directory are changed if its copy has others than when it was made. What
//!     others changed beneath since is no change of the upper tree. Where nothing is noted, they
//!     are changed if they differ from those beneath.

use crate::attrs::{SidesByPath, values};
use crate::fs::Hit;
use crate::layer::{list, look};
use crate::node::{Node, Origin};
use crate::superblock::OverlayFs;
use crate::whiteout::shown_mode;
use openpath_abi::{Errno, mode};
use openpath_vfs::{Inode, Patience, SuperBlock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// How much of two files is compared at once.
const BUFFER: usize = 1 << 16;

/// What became of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It holds something else, or is another kind of file.
    Modified,
    /// Owner, mode, times or extended attributes are others.
    Attributes,
    /// It has this path in the lower trees; it may be changed besides, which is told apart.
    Renamed(Vec<u8>),
}

/// One name that is not as it is in the lower trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its path from the root, with a slash before it.
    pub path: Vec<u8>,
    /// What became of it.
    pub kind: ChangeKind,
}

/// A name that has something beneath and does not show it.
struct Gone {
    path: Vec<u8>,
    /// Where it was beneath.
    from: Vec<u8>,
    number: u64,
    lower: Arc<Inode>,
}

/// A new file that shows the number of one beneath.
struct Moved {
    path: Vec<u8>,
    number: u64,
    upper: Arc<Inode>,
}

/// Bytes of paths for each change that may be told. The paths of a deep tree are long together.
const PATH_MEAN: usize = 128;

/// What was found so far.
struct Found {
    all: BTreeMap<Vec<u8>, Vec<ChangeKind>>,
    count: usize,
    /// Of all paths together.
    bytes: usize,
    max: usize,
    gone: Vec<Gone>,
    moved: Vec<Moved>,
    /// Where directories that moved were beneath.
    left: HashSet<Vec<u8>>,
    /// Where attributes of directories changed, by path; those of which nothing is noted are not
    /// in it.
    sides: SidesByPath,
}

impl Found {
    fn note(&mut self, path: &[u8], kind: ChangeKind) -> Result<(), Errno> {
        self.count += 1;
        self.bytes += path.len();
        if self.count > self.max || self.bytes > self.max.saturating_mul(PATH_MEAN) {
            return Err(Errno::E2BIG);
        }
        self.all.entry(path.to_vec()).or_default().push(kind);
        Ok(())
    }

    /// Joins what was renamed (R2); all changes, by path.
    fn joined(mut self) -> Result<Vec<Change>, Errno> {
        let numbers: HashMap<u64, usize> = self
            .gone
            .iter()
            .enumerate()
            .map(|(at, gone)| (gone.number, at))
            .collect();
        for moved in &self.moved {
            let gone = numbers.get(&moved.number).map(|at| &self.gone[*at]);
            if let Some(gone) = gone
                && let Some(kinds) = self.all.get_mut(&moved.path)
            {
                kinds.retain(|kind| *kind != ChangeKind::Added);
                kinds.push(ChangeKind::Renamed(gone.from.clone()));
                if !same_data(&moved.upper, &gone.lower)? {
                    kinds.push(ChangeKind::Modified);
                }
                self.left.insert(gone.from.clone());
            }
        }
        for gone in &self.gone {
            if self.left.contains(&gone.from)
                && let Some(kinds) = self.all.get_mut(&gone.path)
            {
                kinds.retain(|kind| *kind != ChangeKind::Deleted);
            }
        }
        self.replaced()?;
        let all = self.all.into_iter().flat_map(|(path, kinds)| {
            let with = move |kind| Change {
                path: path.clone(),
                kind,
            };
            kinds.into_iter().map(with)
        });
        Ok(all.collect())
    }
}

impl Found {
    /// Tells of a new file in the place of one that is gone as of one file that changed.
    fn replaced(&mut self) -> Result<(), Errno> {
        let places: HashMap<&[u8], &Gone> = self
            .gone
            .iter()
            .map(|gone| (&gone.path[..], gone))
            .collect();
        for moved in &self.moved {
            let (Some(gone), Some(kinds)) =
                (places.get(&moved.path[..]), self.all.get_mut(&moved.path))
            else {
                continue;
            };
            if *kinds == [ChangeKind::Deleted, ChangeKind::Added] {
                let same = same_data(&moved.upper, &gone.lower)?;
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
    /// What is not as it is in the lower trees, by path; what is below a new directory as well. It
    /// is asked for while nobody changes anything, or tells of some changes and not of others.
    ///
    /// # Errors
    /// `EINVAL`: `sb` is no overlay. `E2BIG`: more than `max` changes, or paths of more than 128
    /// bytes for each of these together. What the layers meet.
    pub fn changes(sb: &SuperBlock, max: usize) -> Result<Vec<Change>, Errno> {
        Ok(Self::changes_and_sides(sb, max)?.0)
    }

    /// As [`OverlayFs::changes`]; and where the attributes of each directory changed that is in the
    /// upper tree and in a lower one, by path, the root's being empty. A directory of which nothing
    /// is noted is missing.
    ///
    /// # Errors
    /// As [`OverlayFs::changes`].
    pub fn changes_and_sides(
        sb: &SuperBlock,
        max: usize,
    ) -> Result<(Vec<Change>, SidesByPath), Errno> {
        let root = Node::of(sb.root()).ok_or(Errno::EINVAL)?;
        let mut found = Found {
            all: BTreeMap::new(),
            count: 0,
            bytes: 0,
            max,
            gone: Vec::new(),
            moved: Vec::new(),
            left: HashSet::new(),
            sides: SidesByPath::new(),
        };
        if let (Some(upper), Some(lower)) = (root.upper(), root.lowers().first()) {
            let sides = root.fs.sides(upper, &lower.inode)?;
            found.sides.extend(sides.map(|sides| (Vec::new(), sides)));
        }
        let mut dirs = vec![(Arc::clone(sb.root()), Vec::new())];
        while let Some((dir, path)) = dirs.pop() {
            let node = Node::of(&dir).ok_or(Errno::EIO)?;
            let Some(upper) = node.upper() else {
                continue;
            };
            let mut names = Vec::new();
            list(upper, 0, &mut |entry| {
                names.push(entry.name.to_vec());
                Ok(true)
            })?;
            for name in names {
                let path = [&path[..], b"/", &name].concat();
                if let Some(below) = node.compare(&name, &path, &mut found)? {
                    dirs.push((below, path));
                }
            }
        }
        let sides = std::mem::take(&mut found.sides);
        Ok((found.joined()?, sides))
    }
}

impl Node {
    /// Compares a name of the upper directory with what it is beneath; the directory, if it is one.
    fn compare(
        &self,
        name: &[u8],
        path: &[u8],
        found: &mut Found,
    ) -> Result<Option<Arc<Inode>>, Errno> {
        let beneath = self.beneath(name)?;
        let Some(hit) = self.search(name, Patience::Wait)? else {
            return self.lost(beneath, (name, path), found).map(|()| None);
        };
        let Some(upper) = hit.upper.clone() else {
            return Ok(None);
        };
        if !upper.is_dir() {
            self.compare_file(&hit, &upper, beneath, (name, path), found)?;
            return Ok(None);
        }
        match hit.lowers.first() {
            None => {
                self.lost(beneath, (name, path), found)?;
                found.note(path, ChangeKind::Added)?;
            }
            Some(lower) => {
                // R3
                let sides = self.fs.sides(&upper, &lower.inode)?;
                let is_same = sides.is_some_and(|sides| !sides.upper)
                    || same_attributes(&upper, &lower.inode, self)?;
                found
                    .sides
                    .extend(sides.map(|sides| (path.to_vec(), sides)));
                let inode = self.fs.adopt(hit)?;
                let node = Self::of(&inode).ok_or(Errno::EIO)?;
                let from = [b"/", &node.lower_path()?[..]].concat();
                if from != self.below(name)? {
                    self.lost(beneath, (name, path), found)?;
                    found.note(path, ChangeKind::Renamed(from.clone()))?;
                    found.left.insert(from);
                }
                if !is_same {
                    found.note(path, ChangeKind::Attributes)?;
                }
                return Ok(Some(inode));
            }
        }
        self.fs.adopt(hit).map(Some)
    }

    fn compare_file(
        &self,
        hit: &Hit,
        upper: &Arc<Inode>,
        beneath: Option<(u64, Arc<Inode>)>,
        (name, path): (&[u8], &[u8]),
        found: &mut Found,
    ) -> Result<(), Errno> {
        let Some((number, lower)) = beneath else {
            Self::came(hit, upper, path, found);
            return found.note(path, ChangeKind::Added);
        };
        if hit.number.is_some_and(|own| own != number) {
            // Another file came here, from where it had been beneath.
            self.lost(Some((number, lower)), (name, path), found)?;
            Self::came(hit, upper, path, found);
            return found.note(path, ChangeKind::Added);
        }
        if !same_data(upper, &lower)? {
            return found.note(path, ChangeKind::Modified);
        }
        let touched = upper.attr().mtime != lower.attr().mtime;
        if touched || !same_attributes(upper, &lower, self)? {
            found.note(path, ChangeKind::Attributes)?;
        }
        Ok(())
    }

    /// What a name has beneath does not show.
    fn lost(
        &self,
        beneath: Option<(u64, Arc<Inode>)>,
        (name, path): (&[u8], &[u8]),
        found: &mut Found,
    ) -> Result<(), Errno> {
        let Some((number, lower)) = beneath else {
            return Ok(());
        };
        found.gone.push(Gone {
            path: path.to_vec(),
            from: self.below(name)?,
            number,
            lower,
        });
        found.note(path, ChangeKind::Deleted)
    }

    /// A file that may be one from beneath.
    fn came(hit: &Hit, upper: &Arc<Inode>, path: &[u8], found: &mut Found) {
        if let Some(number) = hit.number {
            found.moved.push(Moved {
                path: path.to_vec(),
                number,
                upper: Arc::clone(upper),
            });
        }
    }

    /// Where a name of this directory would be in the lower layers, with a slash before it.
    fn below(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        Ok(match &self.origin {
            Origin::Root | Origin::None => [b"/", name].concat(),
            _ => [b"/", &self.lower_path()?[..], b"/", name].concat(),
        })
    }

    /// What a name is in the lower layers, and the number it shows.
    fn beneath(&self, name: &[u8]) -> Result<Option<(u64, Arc<Inode>)>, Errno> {
        for lower in self.lowers() {
            if let Some(found) = look(&lower.inode, name, Patience::Wait)? {
                let number = self.fs.number(Some(lower.layer), found.ino());
                let shows = !self.fs.is_lower_whiteout(&found);
                return Ok(shows.then_some((number, found)));
            }
        }
        Ok(None)
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
    Ok(values(upper, marks)? == values(lower, marks)?)
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
