// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a tree of a directory of the host ([`HostFs`]), and implements the calls on the whole
//! tree: statfs(2), sync(2), trimming.

use crate::acl::AclTarget;
use crate::node::Node;
use crate::options::{Crossing, HostOptions, Ownership, Policy, Reach};
use crate::pool::HandleKind;
use crate::sys::{PathOpener, errno, has_openat2, is_pseudo, stat_at};
use crate::tree::Tree;
use crate::watches::Watches;
use openpath_abi::{Errno, StatFs};
use openpath_vfs::{Caching, Inode, SuperBlock, SuperBlockOps, SuperBlockOptions, WaitMode};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use std::path::Path;
use std::sync::Arc;

/// The fewest handles that a tree works with.
const HANDLES_MIN: usize = 16;
/// The share of the process's descriptors that a tree takes at most.
const LIMIT_DIVISOR: u64 = 4;

/// The file system type.
#[derive(Clone, Copy, Debug)]
pub struct HostFs;

impl HostFs {
    /// A tree of the directory at `path`, which is resolved once, now.
    ///
    /// # Errors
    /// Those of open(2) with `O_PATH | O_DIRECTORY`; `EMFILE`, `EAGAIN` (no thread for watches);
    /// `EXDEV` ([`Crossing::Stored`]).
    pub fn open(path: impl AsRef<Path>, options: HostOptions) -> Result<Arc<SuperBlock>, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = std::path::absolute(path.as_ref()).map_err(|_| Errno::ENOENT)?;
        let dir = rustix::fs::open(&path, flags, Mode::empty()).map_err(errno)?;
        let options = HostOptions {
            path: Some(path),
            ..options
        };
        Self::over(dir, options)
    }

    /// Waits until this tree shows all earlier changes by others, if it watches its directory
    /// ([`Policy::Notify`]); other trees show them at once.
    pub fn catch_up(tree: &SuperBlock) {
        if let Some(node) = Node::of(tree.root())
            && let Some(watches) = &node.tree.watches
        {
            watches.catch_up();
        }
    }

    /// A tree of the directory that `dir` is open at; `O_PATH` is enough.
    ///
    /// # Errors
    /// `ENOTDIR`, `EXDEV` ([`Crossing::Stored`]), those of the host.
    pub fn over(dir: OwnedFd, options: HostOptions) -> Result<Arc<SuperBlock>, Errno> {
        let stat = stat_at(&dir, b"", WaitMode::Wait)?;
        if !openpath_abi::mode::is_dir(stat.attr.mode) {
            return Err(Errno::ENOTDIR);
        }
        if options.crossing == Crossing::Stored && is_pseudo(&dir)? {
            return Err(Errno::EXDEV);
        }
        let mut options = options;
        options.handles_max = handle_limit(options.handles_max);
        let opener = PathOpener {
            openat2: options.reach == Reach::Best && has_openat2(&dir),
            no_xdev: options.crossing == Crossing::Stay,
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = match &options.descriptors {
            Some(proc) => Some(Arc::clone(proc)),
            None => {
                let proc = rustix::fs::open("/proc/self/fd", flags, Mode::empty());
                proc.ok().map(Arc::new)
            }
        };
        let watches = match options.policy {
            Policy::Notify => Some(Watches::new(options.watches_max, options.leaves_watches)?),
            _ => None,
        };
        let name_max = rustix::fs::fstatfs(&dir).map_err(errno)?.f_namelen;
        let core = SuperBlockOptions::default()
            .kind(options.kind)
            .name_max(usize::try_from(name_max).unwrap_or(255))
            .read_only(options.read_only)
            .caching(match options.policy {
                Policy::Exclusive | Policy::Notify => Caching::Keep,
                Policy::Revalidate | Policy::None => Caching::Confirm,
            })
            .tries(true)
            .blocking_io(true)
            .acls(!matches!(options.ownership, Ownership::Squash { .. }));
        let tree = Tree::new(options, (opener, proc), &stat, watches);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = match tree.stores_attr(&stat) {
            false => None,
            true => Some(opener.open(&dir, b".", flags, Mode::empty(), WaitMode::Wait)?),
        };
        let (shown, at) = match &open {
            None => (
                tree.apply_ownership(stat, None)?,
                AclTarget::Fd(dir.as_fd()),
            ),
            Some(open) => (
                tree.apply_stored_of(stat, open)?,
                AclTarget::Fd(open.as_fd()),
            ),
        };
        let root = tree.adopt(&shown, None, (0, false), || tree.acls(&shown, at));
        if let Some(node) = Node::of(&root) {
            node.install_handle(dir, HandleKind::Path, false)?;
        }
        let ops = Box::new(TreeOps {
            tree: Arc::clone(&tree),
            root: Arc::clone(&root),
        });
        let sb = SuperBlock::new(root, ops, core);
        if let Some(watches) = &tree.watches {
            watches.start(&tree, &sb)?;
        }
        Ok(sb)
    }
}

/// The requested number of handles, as far as the process can spare them.
fn handle_limit(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let share = limit.map_or(u64::MAX, |limit| limit / LIMIT_DIVISOR);
    let share = usize::try_from(share).unwrap_or(usize::MAX);
    wanted.min(share).max(HANDLES_MIN)
}

/// The operations of the whole tree.
struct TreeOps {
    tree: Arc<Tree>,
    root: Arc<Inode>,
}

impl SuperBlockOps for TreeOps {
    fn statfs(&self) -> Result<StatFs, Errno> {
        let node = Node::of(&self.root).ok_or(Errno::EIO)?;
        let handle = node.handle(HandleKind::Path, WaitMode::Wait)?;
        let s = rustix::fs::fstatfs(&*handle).map_err(errno)?;
        Ok(StatFs {
            kind: s.f_type,
            bsize: s.f_bsize,
            blocks: s.f_blocks,
            bfree: s.f_bfree,
            bavail: s.f_bavail,
            files: s.f_files,
            ffree: s.f_ffree,
            namelen: s.f_namelen,
            frsize: s.f_frsize,
            ..StatFs::default()
        })
    }

    fn sync(&self) -> Result<(), Errno> {
        let node = Node::of(&self.root).ok_or(Errno::EIO)?;
        let handle = node.handle(HandleKind::Read, WaitMode::Wait)?;
        rustix::fs::syncfs(&*handle).map_err(errno)
    }

    fn trim(&self) {
        self.tree.pool.shrink();
    }
}
