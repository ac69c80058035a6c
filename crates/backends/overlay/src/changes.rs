// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds what an overlay changed, by comparing its upper tree with the lower trees: new, deleted,
//! modified and renamed files.
//!
//! # Rules
//! R1. A file is modified if its data differs from the lower file's, in length or content. An equal
//!     time proves nothing, because a writer can set it back. A file that was copied up with equal
//!     content is no change.
//! R2. A directory was renamed if a redirect leads to its lower directory; a file, if its lower
//!     file is hidden (`moved`).
//! R3. The attributes of a directory are changed if its copy has others than when it was made. A
//!     later change by others to the lower directory is no change of the upper tree. Without a
//!     record they are changed if they differ from the lower directory's.
//! R4. The names below a deleted directory are counted. Those of a directory that another one
//!     replaces are compared name by name, as if it were the same directory.

use crate::attrs::{SidesByPath, values};
use crate::change_list::{ChangeKind, Changes, ROOT};
use crate::copy_up::next_data;
use crate::layer::{list_dir, lookup};
use crate::marks::ORIGIN;
use crate::merged_lookup::{MergedLookup, Origin};
use crate::moved::{Device, HiddenByNumber, NewFile, Source};
use crate::node::Node;
use crate::superblock::OverlayFs;
use crate::whiteout::{is_whiteout, shown_mode};
use openpath_abi::{Errno, dirent, mode};
use openpath_vfs::{Inode, ListedEntry, SuperBlock, WaitMode};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How much of two files is compared at once.
const BUFFER: usize = 1 << 16;

/// What a name is in the lower trees.
struct LowerEntry {
    number: u64,
    lower: Arc<Inode>,
    /// If it is a directory.
    dir: Option<Arc<Inode>>,
    /// Its path in the lower trees.
    from: Vec<u8>,
    /// A directory above it was deleted or replaced, so the view never shows it here.
    in_replaced: bool,
}

/// A lower file that its name does not show any more.
struct HiddenLower {
    at: usize,
    entry: LowerEntry,
    /// The names below it are counted, and no changes of their own.
    counts: bool,
}

/// A directory to compare.
struct Visit {
    dir: Arc<Inode>,
    at: usize,
    /// The lower directory at its path that it replaces.
    replaced: Option<Arc<Inode>>,
    /// Of the directory above.
    device: Option<Device>,
}

/// A name to compare.
struct NameToCompare<'a> {
    name: &'a [u8],
    at: usize,
    replaced: Option<&'a Arc<Inode>>,
    /// Of its directory.
    device: Option<Device>,
}

/// The results so far.
struct Comparison {
    changes: Changes,
    hidden: Vec<HiddenLower>,
    moved: Vec<NewFile>,
    /// Lower paths of directories and files that moved.
    moved_from: HashSet<Vec<u8>>,
}

impl Comparison {
    fn add(&mut self, at: usize, kind: ChangeKind) -> Result<(), Errno> {
        self.changes.add(at, kind)
    }

    /// Adds a lower file that its name does not show.
    fn add_deleted(
        &mut self,
        at: usize,
        entry: Option<LowerEntry>,
        counts: bool,
    ) -> Result<(), Errno> {
        let Some(entry) = entry else {
            return Ok(());
        };
        self.hidden.push(HiddenLower { at, entry, counts });
        self.add(at, ChangeKind::Deleted)
    }

    /// Adds a file that may be a moved lower one.
    fn add_new_file(&mut self, at: usize, source: Option<Source>, upper: &Arc<Inode>) {
        self.moved.extend(source.map(|source| NewFile {
            at,
            source,
            upper: Arc::clone(upper),
        }));
    }

    /// Joins the parts of renames (R2), and counts names below deleted directories (R4).
    fn finish(mut self) -> Result<Changes, Errno> {
        let can_move = |(_, hidden): &(usize, &HiddenLower)| !hidden.entry.in_replaced;
        let hidden = self.hidden.iter().enumerate().filter(can_move);
        let hidden = hidden.map(|(at, hidden)| (at, hidden.entry.number));
        let hidden = HiddenByNumber::new(hidden, &self.moved);
        for moved in &self.moved {
            let source = hidden.source(moved, |at| &self.hidden[at].entry.lower)?;
            if let Some(source) = source {
                let entry = &self.hidden[source].entry;
                let is_changed = !if_readable(same_data(&moved.upper, &entry.lower))?;
                let kinds = self.changes.kinds(moved.at);
                kinds.retain(|kind| *kind == ChangeKind::Deleted);
                kinds.push(ChangeKind::Renamed(entry.from.clone()));
                if is_changed {
                    kinds.push(ChangeKind::Modified);
                }
                self.moved_from.insert(entry.from.clone());
            }
        }
        for hidden in &self.hidden {
            if self.moved_from.contains(&hidden.entry.from) {
                let kinds = self.changes.kinds(hidden.at);
                kinds.retain(|kind| *kind != ChangeKind::Deleted);
            } else if let (true, Some(dir)) = (hidden.counts, &hidden.entry.dir) {
                let below = count_below(dir, &hidden.entry.from, &self.moved_from)?;
                self.changes.set_below(hidden.at, below);
            }
        }
        self.merge_replaced()?;
        self.changes.sort();
        Ok(self.changes)
    }

    /// Reports a new file in place of a hidden one as one changed file.
    fn merge_replaced(&mut self) -> Result<(), Errno> {
        let by_name: HashMap<usize, &HiddenLower> = self
            .hidden
            .iter()
            .map(|hidden| (hidden.at, hidden))
            .collect();
        for moved in &self.moved {
            let Some(hidden) = by_name.get(&moved.at) else {
                continue;
            };
            let kinds = self.changes.kinds(moved.at);
            if *kinds == [ChangeKind::Deleted, ChangeKind::Added] && hidden.entry.dir.is_none() {
                let same = same_data(&moved.upper, &hidden.entry.lower)?;
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
    /// All differences from the lower trees, including everything below a new directory. If
    /// something changes meanwhile, only some of those changes are reported.
    ///
    /// # Errors
    /// `EINVAL`: `sb` is no overlay. `E2BIG`: more than `max` changes, or names of more than 128
    /// bytes for each of these together. Those of the layers.
    pub fn changes(sb: &SuperBlock, max: usize) -> Result<Changes, Errno> {
        Self::compare_all(sb, max, &mut || {})
    }

    /// Calls `compared` for each name of the upper tree.
    fn compare_all(
        sb: &SuperBlock,
        max: usize,
        compared: &mut dyn FnMut(),
    ) -> Result<Changes, Errno> {
        let root = Node::of(sb.root()).ok_or(Errno::EINVAL)?;
        let mut comparison = Comparison {
            changes: Changes::new(max),
            hidden: Vec::new(),
            moved: Vec::new(),
            moved_from: HashSet::new(),
        };
        if let (Some(upper), Some(lower)) = (root.upper(), root.lowers().first()) {
            let sides = root.fs.sides(upper, &lower.inode)?;
            comparison.changes.set_sides(ROOT, sides);
        }
        let mut dirs = vec![Visit {
            dir: Arc::clone(sb.root()),
            at: ROOT,
            replaced: None,
            device: None,
        }];
        while let Some(visit) = dirs.pop() {
            let node = Node::of(&visit.dir).ok_or(Errno::EIO)?;
            let names = match node.upper() {
                Some(upper) => {
                    sorted_names(|each| list_dir(upper, 0, &mut |entry| Ok(each(entry))))?
                }
                None => Vec::new(),
            };
            let device = node.lower_device(visit.device);
            for name in &names {
                compared();
                let at = comparison.changes.add_name(visit.at, name)?;
                let replaced = visit.replaced.as_ref();
                let spot = NameToCompare {
                    name,
                    at,
                    replaced,
                    device,
                };
                dirs.extend(node.compare(&spot, &mut comparison)?);
            }
            if let Some(replaced) = &visit.replaced {
                node.compare_replaced((replaced, &names), visit.at, &mut comparison, &mut dirs)?;
            }
        }
        comparison.finish()
    }

    /// As [`OverlayFs::changes`]; and where the attributes of each directory changed that is in the
    /// upper tree and in a lower one, by path, the root's being empty. A directory without a record
    /// is missing. `compared` is called for each name of the upper tree.
    ///
    /// # Errors
    /// As [`OverlayFs::changes`].
    pub fn changes_and_sides(
        sb: &SuperBlock,
        max: usize,
        compared: &mut dyn FnMut(),
    ) -> Result<(Changes, SidesByPath), Errno> {
        let changes = Self::compare_all(sb, max, compared)?;
        let sides = changes.sides();
        Ok((changes, sides))
    }
}

/// The names of a directory, sorted.
fn sorted_names(
    list: impl FnOnce(&mut dyn FnMut(ListedEntry<'_>) -> bool) -> Result<(), Errno>,
) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    list(&mut |entry| {
        names.push(entry.name.to_vec());
        true
    })?;
    names.sort_unstable();
    Ok(names)
}

/// The number of names below a lower directory, at this path there, except for those that moved.
fn count_below(dir: &Arc<Inode>, from: &[u8], moved_from: &HashSet<Vec<u8>>) -> Result<u64, Errno> {
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
            // This user may not list it, but could delete it.
            Err(Errno::EACCES | Errno::EPERM) => continue,
            listed => listed?,
        }
        for name in below {
            let from = [&from[..], b"/", &name].concat();
            if moved_from.contains(&from) {
                continue;
            }
            count += 1;
            if let Some(result) = node.find_layers(&name, WaitMode::Wait)? {
                let inode = node.fs.adopt(result)?;
                if inode.is_dir() {
                    dirs.push((inode, from));
                }
            }
        }
    }
    Ok(count)
}

impl Node {
    /// Compares a name of the upper directory with the lower layers; returns it if it is a
    /// directory.
    fn compare(
        &self,
        spot: &NameToCompare<'_>,
        comparison: &mut Comparison,
    ) -> Result<Option<Visit>, Errno> {
        let (name, at) = (spot.name, spot.at);
        let entry = match self.lower_entry(name, spot.replaced) {
            Err(Errno::EACCES | Errno::EPERM) => return self.add_unreadable(spot, comparison),
            entry => entry?,
        };
        let Some(result) = self.find_layers(name, WaitMode::Wait)? else {
            return comparison.add_deleted(at, entry, true).map(|()| None);
        };
        let Some(upper) = result.upper.clone() else {
            return Ok(None);
        };
        if !upper.is_dir() {
            let source = self.source_of(&result, &upper, spot.device)?;
            self.compare_file((source, &upper), entry, at, comparison)?;
            return Ok(None);
        }
        let mut replaced = entry.as_ref().and_then(|entry| entry.dir.clone());
        let Some(lower) = result.lowers.first() else {
            match entry {
                // A directory in a replaced one, as a copy of that has it.
                Some(entry) if entry.in_replaced && entry.dir.is_some() => {
                    if !if_readable(same_attributes(&upper, &entry.lower, self))? {
                        comparison.add(at, ChangeKind::Attributes)?;
                    }
                }
                entry => {
                    comparison.add_deleted(at, entry, replaced.is_none())?;
                    comparison.add(at, ChangeKind::Added)?;
                }
            }
            let dir = self.fs.adopt(result)?;
            let device = spot.device;
            return Ok(Some(Visit {
                dir,
                at,
                replaced,
                device,
            }));
        };
        // R3
        let sides = match self.fs.sides(&upper, &lower.inode) {
            Err(Errno::EACCES | Errno::EPERM) => None,
            sides => sides?,
        };
        let is_same = sides.is_some_and(|sides| !sides.upper)
            || if_readable(same_attributes(&upper, &lower.inode, self))?;
        comparison.changes.set_sides(at, sides);
        let dir = self.fs.adopt(result)?;
        let node = Self::of(&dir).ok_or(Errno::EIO)?;
        let from = [b"/", &node.lower_path()?[..]].concat();
        // A directory without lower ones has no lower path to compare with.
        if matches!(self.origin, Origin::None) || from != self.lower_path_of(name)? {
            comparison.add_deleted(at, entry, replaced.is_none())?;
            comparison.add(at, ChangeKind::Renamed(from.clone()))?;
            comparison.moved_from.insert(from);
        } else {
            replaced = match spot.replaced {
                Some(dir) => Self::entry_in_replaced(dir, name)?.and_then(|entry| entry.dir),
                None => None,
            };
        }
        if !is_same {
            comparison.add(at, ChangeKind::Attributes)?;
        }
        let device = spot.device;
        Ok(Some(Visit {
            dir,
            at,
            replaced,
            device,
        }))
    }

    /// Adds a name of which this user may not look at the lower file, as changed.
    fn add_unreadable(
        &self,
        spot: &NameToCompare<'_>,
        comparison: &mut Comparison,
    ) -> Result<Option<Visit>, Errno> {
        let upper = self.upper().ok_or(Errno::EIO)?;
        let found = lookup(upper, spot.name, WaitMode::Wait)?;
        let kind = match found.as_deref().is_none_or(is_whiteout) {
            true => ChangeKind::Deleted,
            false => ChangeKind::Modified,
        };
        comparison.add(spot.at, kind)?;
        Ok(None)
    }

    fn compare_file(
        &self,
        (source, upper): (Option<Source>, &Arc<Inode>),
        entry: Option<LowerEntry>,
        at: usize,
        comparison: &mut Comparison,
    ) -> Result<(), Errno> {
        let Some(entry) = entry else {
            comparison.add_new_file(at, source, upper);
            return comparison.add(at, ChangeKind::Added);
        };
        let is_other = source.is_some_and(|source| source.number() != entry.number);
        if let (true, None, false) = (is_other, &entry.dir, entry.in_replaced)
            && matches!(source, Some(Source::Handle(_)))
            && self.is_equal(upper, &entry.lower)?
        {
            // Others may have replaced the file that was copied.
            return Ok(());
        }
        if entry.dir.is_some() || is_other && !entry.in_replaced {
            // Another file came here, from another lower path.
            comparison.add_deleted(at, Some(entry), true)?;
            comparison.add_new_file(at, source, upper);
            return comparison.add(at, ChangeKind::Added);
        }
        if is_other {
            comparison.add_new_file(at, source, upper);
        }
        let lower = &entry.lower;
        if !if_readable(same_data(upper, lower))? {
            return comparison.add(at, ChangeKind::Modified);
        }
        let touched = upper.attr().mtime != lower.attr().mtime;
        if entry.in_replaced || touched || !if_readable(same_attributes(upper, lower, self))? {
            comparison.add(at, ChangeKind::Attributes)?;
        }
        Ok(())
    }

    /// Whether two files have equal data, times and attributes.
    fn is_equal(&self, upper: &Inode, lower: &Inode) -> Result<bool, Errno> {
        Ok(upper.attr().mtime == lower.attr().mtime
            && if_readable(same_attributes(upper, lower, self))?
            && if_readable(same_data(upper, lower))?)
    }

    /// Adds the lower names of a directory that this one replaces (R4); `names` are those of the
    /// upper directory.
    fn compare_replaced(
        &self,
        (replaced, names): (&Arc<Inode>, &[Vec<u8>]),
        dir: usize,
        comparison: &mut Comparison,
        dirs: &mut Vec<Visit>,
    ) -> Result<(), Errno> {
        let node = Self::of(replaced).ok_or(Errno::EIO)?;
        let all = match sorted_names(|each| node.list(0, each)) {
            // This user may not list it.
            Err(Errno::EACCES | Errno::EPERM) => return Ok(()),
            all => all?,
        };
        for name in all {
            if names.binary_search(&name).is_ok() {
                continue;
            }
            let Some(entry) = Self::entry_in_replaced(replaced, &name)? else {
                continue;
            };
            // A directory that moved here shows lower names of its own.
            let shown = match self.lowers().is_empty() {
                true => None,
                false => self.find_layers(&name, WaitMode::Wait)?,
            };
            let at = comparison.changes.add_name(dir, &name)?;
            let Some(result) = shown else {
                comparison.add_deleted(at, Some(entry), true)?;
                continue;
            };
            let dir = self.fs.adopt(result)?;
            if let (true, Some(replaced)) = (dir.is_dir(), entry.dir) {
                dirs.push(Visit {
                    dir,
                    at,
                    replaced: Some(replaced),
                    device: None,
                });
            }
        }
        Ok(())
    }

    /// The path that a name of this directory has in the lower layers, with a leading slash.
    fn lower_path_of(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        Ok(match &self.origin {
            Origin::Root | Origin::None => [b"/", name].concat(),
            _ => [b"/", &self.lower_path()?[..], b"/", name].concat(),
        })
    }

    /// What a name is in the lower layers, or else in the directory that this one replaces.
    fn lower_entry(
        &self,
        name: &[u8],
        replaced: Option<&Arc<Inode>>,
    ) -> Result<Option<LowerEntry>, Errno> {
        match (self.find_in_lowers(name)?, replaced) {
            (Some(result), _) => self.entry_of(name, result, false).map(Some),
            (None, Some(replaced)) => Self::entry_in_replaced(replaced, name),
            (None, None) => Ok(None),
        }
    }

    /// What a name is in a directory that another one replaces.
    fn entry_in_replaced(replaced: &Arc<Inode>, name: &[u8]) -> Result<Option<LowerEntry>, Errno> {
        let node = Self::of(replaced).ok_or(Errno::EIO)?;
        let result = node.find_layers(name, WaitMode::Wait)?;
        result
            .map(|result| node.entry_of(name, result, true))
            .transpose()
    }

    fn entry_of(
        &self,
        name: &[u8],
        result: MergedLookup,
        in_replaced: bool,
    ) -> Result<LowerEntry, Errno> {
        let lower = result.lowers.first().ok_or(Errno::EIO)?;
        let lower = Arc::clone(&lower.inode);
        Ok(LowerEntry {
            number: self.fs.number_of(&result),
            dir: match lower.is_dir() {
                true => Some(self.fs.adopt(result)?),
                false => None,
            },
            lower,
            from: self.lower_path_of(name)?,
            in_replaced,
        })
    }
}

/// A file that this user may not read counts as another one.
fn if_readable(same: Result<bool, Errno>) -> Result<bool, Errno> {
    match same {
        Err(Errno::EACCES | Errno::EPERM) => Ok(false),
        same => same,
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
    let of_lower = match marks.get(upper, ORIGIN)? {
        Some(_) => Some(marks),
        None => node.fs.lower_marks(),
    };
    Ok(values(upper, Some(marks))? == values(lower, of_lower)?)
}

/// Whether two files have the same type and content (R1).
fn same_data(upper: &Inode, lower: &Inode) -> Result<bool, Errno> {
    if upper.kind() != lower.kind() || upper.rdev() != lower.rdev() {
        return Ok(false);
    }
    if mode::is_lnk(upper.mode()) {
        let body = |inode: &Inode| -> Result<Vec<u8>, Errno> {
            let body = inode.ops().readlink(inode, WaitMode::Wait)?;
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
        // A file may be nothing but a hole of exabytes.
        if a[..read].iter().all(|byte| *byte == 0) {
            let data_of = |inode| next_data(inode, at, upper.size()).map(|(begin, _)| begin);
            at = data_of(upper)?.min(data_of(lower)?);
        }
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
