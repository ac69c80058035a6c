// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the table of nodes: the inodes of the mount that the kernel knows by number (`nodeid`),
//! because a reply of the server contained them.
//!
//! # States
//! Absent -> known, with a lookup for each reply that contained it -> absent, when the kernel has
//! given all lookups back (`FORGET`). The root is known while the mount is there.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | `path_fd` | `O_PATH` descriptor in the table that all tasks of the server share |
//! | `file` | mount and inode of the core: names of one inode are one node |
//! | `lookups` | replies that the kernel has not given back |
//! | `cached_size` | the size of a file in the kernel's cache, while nothing was written here: |
//! |   | only for regular files with the writeback cache, in trees that others change |
//! | `writable_opens` | how many open files of it can be mapped and written to |
//! | `given` | of a file made through the mount: whether programs set owner or mode since |
//!
//! # Rules
//! R1. A node's number is the file's inode number if that is free, so that the kernel finds it
//!     again after the node was dropped. The tree of the root keeps its numbers; other mounts have
//!     the number of the mount above bit 48. Any other number is allocated from a counter.
//! R2. A descriptor is closed by the caller that removed it, without a lock held.
//! R3. With the writeback cache the kernel trusts no size but its own. A file that others made
//!     shorter gets a new number at the next lookup ([`Nodes::retire`], [`Nodes::add_lookup`]), and
//!     so its size. Open files stay at the old number, which gets events as well, and those of
//!     changes by the other number too ([`Nodes::mark_written`]).
//! R4. Inodes with the same number are different nodes. A file system reuses a number once the file
//!     is gone, though it may still be open here; and an overlay shows a lower file with several
//!     names as one inode per name. stat(2) shows the inode number ([`Nodes::stat_ino`]), not the
//!     node's.
//! R5. The table of mounts is bounded by the nodes: beyond [`MOUNTS_KEPT`], a mount without nodes
//!     is replaced by the next one.

use crate::left_names::{HiddenAccess, Inherited, LeftNames};
use openpath_abi::{Errno, Statx};
use openpath_sync::Mutex;
use openpath_vfs::lock_order::FuseNodes;
use openpath_vfs::{Fd, Task};
use std::cmp::Ordering;
use std::collections::HashMap;

/// The number of the root (`FUSE_ROOT_ID`).
pub(crate) const ROOT: u64 = 1;
/// The bit of numbers that contain their mount's number.
const IN_MOUNT: u64 = 1 << 62;
/// The bit of allocated numbers.
const ALLOCATED: u64 = 1 << 63;
/// The bits of an inode number that leaves room for its mount's.
const INO_BITS: u32 = 48;
/// Mounts that have such numbers.
const MOUNT_NUMBERS: u64 = 1 << (62 - INO_BITS);

/// Mounts that are kept though they have no nodes.
const MOUNTS_KEPT: usize = 256;

/// A file, as the key of its node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct File {
    /// The number of its mount, never used again.
    pub(crate) mount: u64,
    /// The inode number.
    pub(crate) ino: u64,
    /// The inode itself ([`openpath_vfs::Task::inode_identity`]): the node's descriptor holds it.
    pub(crate) inode: usize,
}

impl File {
    /// The file of an `O_PATH` descriptor, which has these attributes.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn of(task: &Task, path_fd: Fd, attr: &Statx) -> Result<File, Errno> {
        Ok(File {
            mount: attr.mnt_id,
            ino: attr.ino,
            inode: task.inode_identity(path_fd)?,
        })
    }
}

#[derive(Clone, Copy)]
struct Node {
    path_fd: Fd,
    file: File,
    lookups: u64,
    /// `None` for other than regular files, and for a file that was written here.
    cached_size: Option<u64>,
    writable_opens: u32,
    given: Option<GivenAttrs>,
}

/// Whether programs set the owner and the mode of a file after they made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct GivenAttrs {
    pub(crate) owner: bool,
    pub(crate) mode: bool,
}

/// The table of nodes.
pub(crate) struct Nodes {
    state: Mutex<State, FuseNodes>,
    max: usize,
}

struct State {
    nodes: HashMap<u64, Node>,
    numbers: HashMap<File, u64>,
    /// Former numbers of files that have another one now.
    retired: HashMap<File, Vec<u64>>,
    /// Mounts in the order in which they were met, the root's first, with the number of their
    /// nodes.
    mounts: Vec<(u64, usize)>,
    allocated: u64,
    /// With so many nodes the kernel is asked to give some back.
    prune_at: usize,
    /// The number at which the next such request begins.
    prune_from: u64,
    left_names: LeftNames,
    inherited: HashMap<u64, Inherited>,
}

impl State {
    /// The number for an inode of this mount, if it has one (R1).
    fn number(&self, mount: u64, ino: u64) -> Option<u64> {
        let at = self.mounts.iter().position(|m| m.0 == mount)? as u64;
        if at == 0 {
            return (ino > ROOT && ino < IN_MOUNT).then_some(ino);
        }
        (at < MOUNT_NUMBERS && ino >> INO_BITS == 0).then_some(IN_MOUNT | at << INO_BITS | ino)
    }

    /// A mount has one more node (R5).
    fn enter_mount(&mut self, mount: u64) {
        let known = self.mounts.iter().position(|m| m.0 == mount);
        let full = self.mounts.len() >= MOUNTS_KEPT;
        let unused = || self.mounts.iter().skip(1).position(|m| m.1 == 0);
        let at = known.or_else(|| full.then(unused).flatten().map(|at| at + 1));
        match at {
            Some(at) => self.mounts[at] = (mount, self.mounts[at].1 + 1),
            None => self.mounts.push((mount, 1)),
        }
    }

    /// A mount has one node fewer.
    fn leave_mount(&mut self, mount: u64) {
        if let Some(known) = self.mounts.iter_mut().find(|m| m.0 == mount) {
            known.1 = known.1.saturating_sub(1);
        }
    }

    /// Gives the file of a node another number at the next lookup (R3).
    fn retire(&mut self, number: u64) {
        let node = self.nodes.get(&number).filter(|n| n.cached_size.is_some());
        if let Some(file) = node.map(|node| node.file)
            && self.numbers.get(&file) == Some(&number)
        {
            self.numbers.remove(&file);
            self.retired.entry(file).or_default().push(number);
        }
    }
}

/// The number of nodes from which on some are given back.
fn prune_threshold(max: usize) -> usize {
    max - max / 4
}

impl Nodes {
    /// A table with the root, at this descriptor.
    pub(crate) fn new(path_fd: Fd, file: File, max: usize) -> Self {
        let root = Node {
            path_fd,
            file,
            lookups: 1,
            cached_size: None,
            writable_opens: 0,
            given: None,
        };
        let state = State {
            nodes: HashMap::from([(ROOT, root)]),
            numbers: HashMap::from([(file, ROOT)]),
            retired: HashMap::new(),
            mounts: vec![(file.mount, 1)],
            allocated: 0,
            prune_at: prune_threshold(max),
            prune_from: 0,
            left_names: LeftNames::default(),
            inherited: HashMap::new(),
        };
        Self {
            state: Mutex::new(state),
            max,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().nodes.len()
    }

    /// The `O_PATH` descriptor of a node.
    ///
    /// # Errors
    /// `ESTALE`: the kernel names a node that it has given back.
    pub(crate) fn path_fd(&self, number: u64) -> Result<Fd, Errno> {
        let state = self.state.lock();
        state
            .nodes
            .get(&number)
            .map(|n| n.path_fd)
            .ok_or(Errno::ESTALE)
    }

    /// The mount that a node is in.
    pub(crate) fn mount(&self, number: u64) -> Option<u64> {
        self.state.lock().nodes.get(&number).map(|n| n.file.mount)
    }

    /// The nodes of an inode with this number, in whichever mount.
    pub(crate) fn of_inode(&self, inode: usize, ino: u64) -> Vec<u64> {
        let state = self.state.lock();
        let files = state
            .mounts
            .iter()
            .map(|&(mount, _)| File { mount, ino, inode });
        let numbers = files.flat_map(|file| {
            let retired = state.retired.get(&file).into_iter().flatten();
            retired.chain(state.numbers.get(&file))
        });
        numbers.copied().collect()
    }

    /// Whether the kernel is to give some nodes back; true once, until [`Nodes::prune_requested`].
    pub(crate) fn should_prune(&self) -> bool {
        let mut state = self.state.lock();
        if state.prune_at <= self.max {
            state.prune_at = state.prune_at.min(self.next_prune(&state));
        }
        let are = state.nodes.len() >= state.prune_at;
        if are {
            state.prune_at = usize::MAX;
        }
        are
    }

    /// The kernel was asked to give nodes back.
    pub(crate) fn prune_requested(&self) {
        let mut state = self.state.lock();
        state.prune_at = self.next_prune(&state);
    }

    /// The number of nodes with which the kernel is asked again, if it gives none back until then.
    fn next_prune(&self, state: &State) -> usize {
        let grown = state.nodes.len() + self.max / 16;
        // A threshold that cannot be reached would never trigger again.
        grown.clamp(prune_threshold(self.max), self.max)
    }

    /// The nodes that the kernel is to be asked for: the next quarter by number, or all of them if
    /// the table is nearly full. The kernel keeps those in use, so the same quarter would not do.
    pub(crate) fn prune_candidates(&self) -> Vec<u64> {
        let mut state = self.state.lock();
        let mut numbers: Vec<u64> = state.nodes.keys().copied().collect();
        let count = numbers.len().div_ceil(4);
        if numbers.len() + self.max / 16 >= self.max || count == numbers.len() {
            return numbers;
        }
        let from = state.prune_from;
        let (_, next, _) =
            numbers.select_nth_unstable_by_key(count, |number| number.wrapping_sub(from));
        state.prune_from = *next;
        numbers.truncate(count);
        numbers
    }

    /// All nodes.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.state.lock().nodes.keys().copied().collect()
    }

    /// The number of a file of this mount in a listing.
    pub(crate) fn listed_ino(&self, mount: u64, ino: u64) -> u64 {
        self.state.lock().number(mount, ino).unwrap_or(ino)
    }

    /// The inode number of a node for stat(2); its inode in this mount has the number `ino`.
    pub(crate) fn stat_ino(&self, number: u64, mount: u64, ino: u64) -> u64 {
        match number {
            ROOT => ino,
            _ => self.state.lock().number(mount, ino).unwrap_or(number),
        }
    }

    /// The number of the file of an `O_PATH` descriptor, which has these attributes.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn number_of(
        &self,
        task: &Task,
        path_fd: Fd,
        attr: &Statx,
    ) -> Result<Option<u64>, Errno> {
        let file = File::of(task, path_fd, attr)?;
        Ok(self.state.lock().numbers.get(&file).copied())
    }

    /// A file was made through the mount, with this name if it has one.
    pub(crate) fn file_made(&self, number: u64, name: Option<(u64, &[u8])>) {
        let mut state = self.state.lock();
        if let Some(node) = state.nodes.get_mut(&number) {
            node.given = Some(GivenAttrs::default());
        }
        if let Some(name) = name {
            state.left_names.fill(name, number);
        }
    }

    /// What programs gave to a file that was made through the mount.
    pub(crate) fn given(&self, number: u64) -> Option<GivenAttrs> {
        self.state.lock().nodes.get(&number)?.given
    }

    /// Programs gave something to a file; what they did in all, if it was made through the mount.
    pub(crate) fn give(&self, number: u64, gives: GivenAttrs) -> Option<GivenAttrs> {
        let mut state = self.state.lock();
        let given = state.nodes.get_mut(&number)?.given.as_mut()?;
        given.owner |= gives.owner;
        given.mode |= gives.mode;
        Some(*given)
    }

    /// A file that has this leaves a name.
    pub(crate) fn name_left(&self, name: (u64, &[u8]), was: HiddenAccess) {
        self.state.lock().left_names.add(name, was);
    }

    /// What the file had that left a name shortly before; it is told once.
    pub(crate) fn take_left_name(&self, name: (u64, &[u8])) -> Option<HiddenAccess> {
        self.state.lock().left_names.take(name)
    }

    /// The same, for the name that a new file was made with.
    pub(crate) fn left_behind(&self, number: u64) -> Option<HiddenAccess> {
        self.state.lock().left_names.filled_by(number).cloned()
    }

    /// A new file gets what a replaced one had; what is recorded from an earlier time stays.
    pub(crate) fn inherit(&self, number: u64, before: Inherited) {
        let mut state = self.state.lock();
        state.inherited.entry(number).or_insert(before);
    }

    /// Whether and how a file got what a replaced one had.
    pub(crate) fn inherited(&self, number: u64) -> Option<Inherited> {
        self.state.lock().inherited.get(&number).cloned()
    }

    /// A new file has nothing of a replaced one, and does not get it by the name that it has.
    pub(crate) fn disinherit(&self, number: u64) {
        let mut state = self.state.lock();
        state.inherited.remove(&number);
        state.left_names.forget(number);
    }

    /// One more, or one fewer, opening can be mapped and written to.
    pub(crate) fn count_writable_open(&self, number: u64, more: bool) {
        if let Some(node) = self.state.lock().nodes.get_mut(&number) {
            node.writable_opens = if more {
                node.writable_opens + 1
            } else {
                node.writable_opens.saturating_sub(1)
            };
        }
    }

    /// Whether it may be mapped and written to.
    pub(crate) fn may_be_mapped(&self, number: u64) -> bool {
        let state = self.state.lock();
        state
            .nodes
            .get(&number)
            .is_some_and(|node| node.writable_opens > 0)
    }

    /// A regular file was written to, or truncated, through the mount, so that its size is the
    /// kernel's. Returns its other numbers, which were not written to.
    pub(crate) fn mark_written(&self, number: u64) -> Vec<u64> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let Some(node) = state.nodes.get_mut(&number) else {
            return Vec::new();
        };
        node.cached_size = None;
        let node = *node;
        let Some(retired) = state.retired.get(&node.file) else {
            return Vec::new();
        };
        let all = retired.iter().chain(state.numbers.get(&node.file)).copied();
        all.filter(|other| *other != number).collect()
    }

    /// Whether a file of this size is longer than in the kernel's cache.
    pub(crate) fn has_grown(&self, number: u64, len: u64) -> bool {
        let state = self.state.lock();
        let cached_size = state.nodes.get(&number).and_then(|node| node.cached_size);
        cached_size.is_some_and(|cached_size| cached_size < len)
    }

    /// Others gave a file this size: compares it with the size in the kernel's cache, which becomes
    /// this size if it was less.
    pub(crate) fn compare_size(&self, number: u64, len: u64) -> Ordering {
        let mut state = self.state.lock();
        let node = state.nodes.get_mut(&number);
        let Some(cached_size) = node.and_then(|node| node.cached_size.as_mut()) else {
            return Ordering::Equal;
        };
        let how = len.cmp(cached_size);
        *cached_size = len.max(*cached_size);
        how
    }

    /// Gives a file a new number at its next lookup (R3), unless it was written here.
    pub(crate) fn retire(&self, number: u64) {
        self.state.lock().retire(number);
    }

    /// Counts a lookup of the file at `path_fd`; `cached_size` is its size if the kernel's cache of
    /// it is to be tracked (R3). Returns its number, and the descriptor if it is redundant, because
    /// the node has one already.
    ///
    /// # Errors
    /// `ENFILE`: there are as many nodes as may be; the descriptor stays the caller's.
    pub(crate) fn add_lookup(
        &self,
        path_fd: Fd,
        file: File,
        cached_size: Option<u64>,
    ) -> Result<(u64, Option<Fd>), Errno> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let known = state.numbers.get(&file).copied();
        let shrunk = known.is_some_and(|number| {
            let believed = state.nodes.get(&number).and_then(|node| node.cached_size);
            cached_size
                .zip(believed)
                .is_some_and(|(len, cached_size)| len < cached_size)
        });
        if let Some(number) = known.filter(|_| shrunk) {
            state.retire(number);
        } else if let Some(number) = known {
            if let Some(node) = state.nodes.get_mut(&number) {
                node.lookups += 1;
            }
            return Ok((number, Some(path_fd)));
        }
        if state.nodes.len() >= self.max {
            return Err(Errno::ENFILE);
        }
        state.enter_mount(file.mount);
        let free = |number: &u64| !state.nodes.contains_key(number);
        let wanted = state.number(file.mount, file.ino).filter(free);
        let number = wanted.unwrap_or_else(|| {
            state.allocated += 1;
            ALLOCATED | state.allocated
        });
        let node = Node {
            path_fd,
            file,
            lookups: 1,
            cached_size,
            writable_opens: 0,
            given: None,
        };
        state.nodes.insert(number, node);
        state.numbers.insert(file, number);
        Ok((number, None))
    }

    /// The kernel gives `lookups` back; returns the descriptor if none is left.
    pub(crate) fn forget(&self, number: u64, lookups: u64) -> Option<Fd> {
        if number == ROOT {
            return None;
        }
        let mut state = self.state.lock();
        let node = state.nodes.get_mut(&number)?;
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 {
            return None;
        }
        let Node { path_fd, file, .. } = *node;
        state.left_names.forget(number);
        state.inherited.remove(&number);
        state.nodes.remove(&number);
        state.leave_mount(file.mount);
        if state.numbers.get(&file) == Some(&number) {
            state.numbers.remove(&file);
        } else if let Some(retired) = state.retired.get_mut(&file) {
            retired.retain(|other| *other != number);
            if retired.is_empty() {
                state.retired.remove(&file);
            }
        }
        // R2
        Some(path_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: File = File {
        mount: 7,
        ino: 90,
        inode: 1,
    };

    fn table() -> Nodes {
        Nodes::new(0, FIRST, 4)
    }

    fn file(mount: u64, ino: u64) -> File {
        File {
            mount,
            ino,
            inode: usize::try_from(ino).unwrap_or(usize::MAX),
        }
    }

    #[test]
    fn a_node_lives_until_its_last_lookup_is_given_back() {
        let nodes = table();
        assert_eq!(nodes.add_lookup(3, file(7, 5), None), Ok((5, None)));
        assert_eq!(nodes.add_lookup(4, file(7, 5), None), Ok((5, Some(4))));
        assert_eq!(nodes.add_lookup(4, file(7, 5), None), Ok((5, Some(4))));
        assert_eq!(nodes.forget(5, 2), None);
        assert_eq!(nodes.path_fd(5), Ok(3));
        assert_eq!(nodes.forget(5, 1), Some(3));
        assert_eq!(nodes.path_fd(5), Err(Errno::ESTALE));
        assert_eq!(nodes.forget(ROOT, 1), None);
        assert_eq!(nodes.len(), 1);
    }

    #[test]
    fn node_numbers_are_inode_numbers_and_unique() {
        let nodes = Nodes::new(0, FIRST, 100);
        let number = |f| nodes.add_lookup(9, f, None).expect("room").0;
        let all = [
            number(file(7, 5)),
            number(file(7, 1)),
            number(FIRST),
            number(file(8, 5)),
            number(file(9, 5)),
            number(file(8, 1 << 50)),
            number(file(7, 1 << 63)),
        ];
        assert_eq!(all[0], 5);
        assert_eq!(all[2], ROOT);
        let mut apart = all.to_vec();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!(apart.len(), all.len());
        assert_eq!(nodes.listed_ino(8, 5), all[3]);
        assert_eq!(nodes.listed_ino(7, 6), 6);
    }

    #[test]
    fn nodes_are_bounded() {
        let nodes = table();
        for ino in 2..5 {
            assert!(nodes.add_lookup(3, file(7, ino), None).is_ok());
        }
        assert_eq!(nodes.add_lookup(3, file(7, 5), None), Err(Errno::ENFILE));
        assert_eq!(nodes.add_lookup(8, file(7, 4), None), Ok((4, Some(8))));
        assert_eq!(nodes.forget(4, 2), Some(3));
        assert_eq!(nodes.add_lookup(3, file(7, 5), None), Ok((5, None)));
    }

    #[test]
    fn a_full_table_requests_another_prune() {
        let nodes = table();
        for ino in 2..5 {
            assert!(nodes.add_lookup(3, file(7, ino), None).is_ok());
        }
        for _ in 0..2 {
            assert!(nodes.should_prune() && !nodes.should_prune());
            nodes.prune_requested();
        }
    }

    #[test]
    fn idle_nodes_are_given_back_before_the_table_is_full() {
        const MAX: u64 = 1 << 10;
        for used in [MAX / 4, MAX / 2, MAX * 3 / 4, MAX * 7 / 8] {
            let nodes = Nodes::new(0, FIRST, usize::try_from(MAX).expect("small"));
            for ino in 2..50 * MAX {
                let added = nodes.add_lookup(3, file(7, ino), None);
                assert!(added.is_ok(), "{used} in use, {ino}: {} nodes", nodes.len());
                if nodes.should_prune() {
                    for number in nodes.prune_candidates() {
                        // Programs use the oldest nodes all the time.
                        if number > used {
                            nodes.forget(number, 1);
                        }
                    }
                    nodes.prune_requested();
                }
            }
        }
    }

    #[test]
    fn a_file_that_others_shorten_gets_a_new_number_unless_written_here() {
        let nodes = Nodes::new(0, FIRST, 100);
        let add_lookup = |len| nodes.add_lookup(9, file(7, 5), Some(len)).expect("room").0;
        assert_eq!(add_lookup(10), 5);
        assert_eq!(nodes.compare_size(5, 12), Ordering::Greater);
        assert_eq!(nodes.compare_size(5, 12), Ordering::Equal);
        assert_eq!(nodes.compare_size(5, 3), Ordering::Less);
        nodes.retire(5);
        let second = add_lookup(3);
        assert_ne!(second, 5);
        assert_eq!(nodes.of_inode(5, 5), [5, second]);
        assert_eq!(
            (nodes.listed_ino(7, 5), nodes.stat_ino(second, 7, 5)),
            (5, 5)
        );
        assert_eq!(nodes.forget(5, 1), Some(9));
        assert_eq!(nodes.of_inode(5, 5), [second]);
        assert_eq!(nodes.mark_written(second), []);
        assert_eq!(nodes.compare_size(second, 1), Ordering::Equal);
        nodes.retire(second);
        assert_eq!(add_lookup(1), second);
        assert_eq!(nodes.forget(second, 2), Some(9));
        assert_eq!(add_lookup(1), 5);
    }

    #[test]
    fn a_lookup_notices_a_size_change_without_an_event() {
        let nodes = Nodes::new(0, FIRST, 100);
        let add_lookup = |len| nodes.add_lookup(9, file(7, 5), Some(len)).expect("room").0;
        assert_eq!((add_lookup(10), add_lookup(10)), (5, 5));
        assert!(!nodes.has_grown(5, 10) && nodes.has_grown(5, 11));
        assert_eq!(add_lookup(11), 5);
        let second = add_lookup(3);
        assert_ne!(second, 5);
        // A write by one number is reported to the other.
        assert_eq!(nodes.mark_written(5), [second]);
        assert!(!nodes.has_grown(5, 11));
        assert_eq!(nodes.compare_size(second, 11), Ordering::Greater);
        assert_eq!(nodes.mark_written(second), [5]);
        assert_eq!((add_lookup(1), add_lookup(20)), (second, second));
    }

    #[test]
    fn inodes_with_one_number_are_different_nodes_that_show_it() {
        let nodes = Nodes::new(0, FIRST, 100);
        let inode = |inode| File {
            inode,
            ..file(7, 5)
        };
        assert_eq!(nodes.add_lookup(3, inode(11), None), Ok((5, None)));
        let (second, needless) = nodes.add_lookup(4, inode(12), None).expect("room");
        assert!(second != 5 && needless.is_none());
        assert_eq!((nodes.path_fd(5), nodes.path_fd(second)), (Ok(3), Ok(4)));
        assert_eq!(
            (nodes.stat_ino(5, 7, 5), nodes.stat_ino(second, 7, 5)),
            (5, 5)
        );
        assert_eq!(nodes.add_lookup(8, inode(12), None), Ok((second, Some(8))));
        assert_eq!(nodes.of_inode(11, 5), [5]);
        assert_eq!(nodes.of_inode(12, 5), [second]);
        assert_eq!(nodes.mark_written(second), []);
        assert_eq!(nodes.forget(5, 1), Some(3));
        assert_eq!(nodes.of_inode(11, 5), []);
        assert_eq!(nodes.forget(second, 2), Some(4));
        assert_eq!(nodes.add_lookup(6, inode(13), None), Ok((5, None)));
    }

    #[test]
    fn mounts_without_nodes_are_replaced() {
        let nodes = Nodes::new(0, FIRST, 100);
        let (kept, _) = nodes.add_lookup(3, file(8, 5), None).expect("room");
        for mount in 10..10 + 4 * MOUNTS_KEPT as u64 {
            let (number, _) = nodes.add_lookup(4, file(mount, 5), None).expect("room");
            assert_ne!(number, kept);
            assert_eq!(nodes.forget(number, 1), Some(4));
        }
        assert_eq!(nodes.state.lock().mounts.len(), MOUNTS_KEPT);
        assert_eq!(nodes.of_inode(5, 5), [kept]);
    }
}
