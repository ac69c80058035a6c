// SPDX-License-Identifier: MIT OR Apache-2.0
//! The changes that the upper tree holds.
//!
//! # Rules
//! R1. A file is modified if its data differs from the lower file's, in length or content. An equal
//!     time proves nothing, because a writer can set it back. A file that was copied up with equal
//!     content is no change.
//! R2. A directory was renamed if a redirect leads to its lower directory; a file, if it shows the
//!     number of a lower file that is hidden.
//! R3. The attributes of a directory are changed if its copy has others than when it was made. A
//!     later change by others to the lower directory is no change of the upper tree. Without a
//!     record they are changed if they differ from the lower directory's.

use crate::attrs::{SidesByPath, values};
use crate::layer::{list_dir, lookup};
use crate::lookup_result::{LookupResult, Origin};
use crate::node::Node;
use crate::superblock::OverlayFs;
use crate::whiteout::shown_mode;
use openpath_abi::{Errno, mode};
use openpath_vfs::{Inode, Patience, SuperBlock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// How much of two files is compared at once.
const BUFFER: usize = 1 << 16;

/// How a name changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It was removed.
    Deleted,
    /// It has other content, or another type.
    Modified,
    /// Owner, mode, times or extended attributes differ.
    Attributes,
    /// It has this path in the lower trees; other changes of it are reported apart.
    Renamed(Vec<u8>),
}

/// One name that differs from the lower trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its path from the root, with a leading slash.
    pub path: Vec<u8>,
    /// How it changed.
    pub kind: ChangeKind,
}

/// A lower file that its name does not show any more.
struct HiddenLower {
    path: Vec<u8>,
    /// Its path in the lower trees.
    from: Vec<u8>,
    number: u64,
    lower: Arc<Inode>,
}

/// A new file that shows the number of a lower one.
struct NewFile {
    path: Vec<u8>,
    number: u64,
    upper: Arc<Inode>,
}

/// Bytes of paths for each reported change. Paths in a deep tree add up.
const PATH_MEAN: usize = 128;

/// The results so far.
struct Comparison {
    all: BTreeMap<Vec<u8>, Vec<ChangeKind>>,
    count: usize,
    /// Of all paths together.
    bytes: usize,
    max: usize,
    hidden: Vec<HiddenLower>,
    moved: Vec<NewFile>,
    /// Lower paths of directories that moved.
    moved_dirs: HashSet<Vec<u8>>,
    /// Where attributes of directories changed, by path; directories without a record are missing.
    sides: SidesByPath,
}

impl Comparison {
    fn add(&mut self, path: &[u8], kind: ChangeKind) -> Result<(), Errno> {
        self.count += 1;
        self.bytes += path.len();
        if self.count > self.max || self.bytes > self.max.saturating_mul(PATH_MEAN) {
            return Err(Errno::E2BIG);
        }
        self.all.entry(path.to_vec()).or_default().push(kind);
        Ok(())
    }

    /// Joins the parts of renames (R2); all changes, by path.
    fn finish(mut self) -> Result<Vec<Change>, Errno> {
        let numbers: HashMap<u64, usize> = self
            .hidden
            .iter()
            .enumerate()
            .map(|(at, hidden)| (hidden.number, at))
            .collect();
        for moved in &self.moved {
            let hidden = numbers.get(&moved.number).map(|at| &self.hidden[*at]);
            if let Some(hidden) = hidden
                && let Some(kinds) = self.all.get_mut(&moved.path)
            {
                kinds.retain(|kind| *kind != ChangeKind::Added);
                kinds.push(ChangeKind::Renamed(hidden.from.clone()));
                if !same_data(&moved.upper, &hidden.lower)? {
                    kinds.push(ChangeKind::Modified);
                }
                self.moved_dirs.insert(hidden.from.clone());
            }
        }
        for hidden in &self.hidden {
            if self.moved_dirs.contains(&hidden.from)
                && let Some(kinds) = self.all.get_mut(&hidden.path)
            {
                kinds.retain(|kind| *kind != ChangeKind::Deleted);
            }
        }
        self.merge_replaced()?;
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

impl Comparison {
    /// Reports a new file in place of a hidden one as one changed file.
    fn merge_replaced(&mut self) -> Result<(), Errno> {
        let by_path: HashMap<&[u8], &HiddenLower> = self
            .hidden
            .iter()
            .map(|hidden| (&hidden.path[..], hidden))
            .collect();
        for moved in &self.moved {
            let (Some(hidden), Some(kinds)) =
                (by_path.get(&moved.path[..]), self.all.get_mut(&moved.path))
            else {
                continue;
            };
            if *kinds == [ChangeKind::Deleted, ChangeKind::Added] {
                let same = same_data(&moved.upper, &hidden.lower)?;
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
    /// All differences from the lower trees, by path, including everything below a new directory.
    /// If something changes meanwhile, only some of those changes are reported.
    ///
    /// # Errors
    /// `EINVAL`: `sb` is no overlay. `E2BIG`: more than `max` changes, or paths of more than 128
    /// bytes for each of these together. Those of the layers.
    pub fn changes(sb: &SuperBlock, max: usize) -> Result<Vec<Change>, Errno> {
        Ok(Self::changes_and_sides(sb, max)?.0)
    }

    /// As [`OverlayFs::changes`]; and where the attributes of each directory changed that is in the
    /// upper tree and in a lower one, by path, the root's being empty. A directory without a record
    /// is missing.
    ///
    /// # Errors
    /// As [`OverlayFs::changes`].
    pub fn changes_and_sides(
        sb: &SuperBlock,
        max: usize,
    ) -> Result<(Vec<Change>, SidesByPath), Errno> {
        let root = Node::of(sb.root()).ok_or(Errno::EINVAL)?;
        let mut comparison = Comparison {
            all: BTreeMap::new(),
            count: 0,
            bytes: 0,
            max,
            hidden: Vec::new(),
            moved: Vec::new(),
            moved_dirs: HashSet::new(),
            sides: SidesByPath::new(),
        };
        if let (Some(upper), Some(lower)) = (root.upper(), root.lowers().first()) {
            let sides = root.fs.sides(upper, &lower.inode)?;
            let sides = sides.map(|sides| (Vec::new(), sides));
            comparison.sides.extend(sides);
        }
        let mut dirs = vec![(Arc::clone(sb.root()), Vec::new())];
        while let Some((dir, path)) = dirs.pop() {
            let node = Node::of(&dir).ok_or(Errno::EIO)?;
            let Some(upper) = node.upper() else {
                continue;
            };
            let mut names = Vec::new();
            list_dir(upper, 0, &mut |entry| {
                names.push(entry.name.to_vec());
                Ok(true)
            })?;
            for name in names {
                let path = [&path[..], b"/", &name].concat();
                if let Some(below) = node.compare(&name, &path, &mut comparison)? {
                    dirs.push((below, path));
                }
            }
        }
        let sides = std::mem::take(&mut comparison.sides);
        Ok((comparison.finish()?, sides))
    }
}

impl Node {
    /// Compares a name of the upper directory with the lower layers; returns it if it is a
    /// directory.
    fn compare(
        &self,
        name: &[u8],
        path: &[u8],
        comparison: &mut Comparison,
    ) -> Result<Option<Arc<Inode>>, Errno> {
        let beneath = self.lower_entry(name)?;
        let Some(result) = self.find_layers(name, Patience::Wait)? else {
            return self
                .add_deleted(beneath, (name, path), comparison)
                .map(|()| None);
        };
        let Some(upper) = result.upper.clone() else {
            return Ok(None);
        };
        if !upper.is_dir() {
            self.compare_file(&result, &upper, beneath, (name, path), comparison)?;
            return Ok(None);
        }
        match result.lowers.first() {
            None => {
                self.add_deleted(beneath, (name, path), comparison)?;
                comparison.add(path, ChangeKind::Added)?;
            }
            Some(lower) => {
                // R3
                let sides = self.fs.sides(&upper, &lower.inode)?;
                let is_same = sides.is_some_and(|sides| !sides.upper)
                    || same_attributes(&upper, &lower.inode, self)?;
                comparison
                    .sides
                    .extend(sides.map(|sides| (path.to_vec(), sides)));
                let inode = self.fs.adopt(result)?;
                let node = Self::of(&inode).ok_or(Errno::EIO)?;
                let from = [b"/", &node.lower_path()?[..]].concat();
                if from != self.lower_path_of(name)? {
                    self.add_deleted(beneath, (name, path), comparison)?;
                    comparison.add(path, ChangeKind::Renamed(from.clone()))?;
                    comparison.moved_dirs.insert(from);
                }
                if !is_same {
                    comparison.add(path, ChangeKind::Attributes)?;
                }
                return Ok(Some(inode));
            }
        }
        self.fs.adopt(result).map(Some)
    }

    fn compare_file(
        &self,
        result: &LookupResult,
        upper: &Arc<Inode>,
        beneath: Option<(u64, Arc<Inode>)>,
        (name, path): (&[u8], &[u8]),
        comparison: &mut Comparison,
    ) -> Result<(), Errno> {
        let Some((number, lower)) = beneath else {
            Self::add_new_file(result, upper, path, comparison);
            return comparison.add(path, ChangeKind::Added);
        };
        if result.number.is_some_and(|own| own != number) {
            // Another file came here, from another lower path.
            self.add_deleted(Some((number, lower)), (name, path), comparison)?;
            Self::add_new_file(result, upper, path, comparison);
            return comparison.add(path, ChangeKind::Added);
        }
        if !same_data(upper, &lower)? {
            return comparison.add(path, ChangeKind::Modified);
        }
        let touched = upper.attr().mtime != lower.attr().mtime;
        if touched || !same_attributes(upper, &lower, self)? {
            comparison.add(path, ChangeKind::Attributes)?;
        }
        Ok(())
    }

    /// Adds a lower file that its name does not show.
    fn add_deleted(
        &self,
        beneath: Option<(u64, Arc<Inode>)>,
        (name, path): (&[u8], &[u8]),
        comparison: &mut Comparison,
    ) -> Result<(), Errno> {
        let Some((number, lower)) = beneath else {
            return Ok(());
        };
        comparison.hidden.push(HiddenLower {
            path: path.to_vec(),
            from: self.lower_path_of(name)?,
            number,
            lower,
        });
        comparison.add(path, ChangeKind::Deleted)
    }

    /// Adds a file that may be a moved lower one.
    fn add_new_file(
        result: &LookupResult,
        upper: &Arc<Inode>,
        path: &[u8],
        comparison: &mut Comparison,
    ) {
        if let Some(number) = result.number {
            comparison.moved.push(NewFile {
                path: path.to_vec(),
                number,
                upper: Arc::clone(upper),
            });
        }
    }

    /// The path that a name of this directory has in the lower layers, with a leading slash.
    fn lower_path_of(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        Ok(match &self.origin {
            Origin::Root | Origin::None => [b"/", name].concat(),
            _ => [b"/", &self.lower_path()?[..], b"/", name].concat(),
        })
    }

    /// The inode of a name in the lower layers, and the number it shows.
    fn lower_entry(&self, name: &[u8]) -> Result<Option<(u64, Arc<Inode>)>, Errno> {
        for lower in self.lowers() {
            if let Some(found) = lookup(&lower.inode, name, Patience::Wait)? {
                let number = self.fs.number(Some(lower.layer), found.ino());
                let shows = !self.fs.is_lower_whiteout(&found);
                return Ok(shows.then_some((number, found)));
            }
        }
        Ok(None)
    }
}

/// Whether two inodes have equal owner, mode and extended attributes, except for marks.
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

/// Whether two files have the same type and content (R1).
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
