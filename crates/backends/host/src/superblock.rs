// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making a tree of a directory, and what the core asks of the whole.

use crate::acl::At;
use crate::node::Node;
use crate::options::{Crossing, HostOptions, Ownership, Policy, Reach};
use crate::pool::Use;
use crate::sys::{Way, errno, has_openat2, is_made_up, look};
use crate::tree::Tree;
use crate::watches::Watches;
use openpath_abi::{Errno, StatFs};
use openpath_vfs::{Caching, Inode, Patience, SuperBlock, SuperBlockOps, SuperBlockOptions};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use std::path::Path;
use std::sync::Arc;

/// The fewest handles that a tree gets on with.
const HANDLES_MIN: usize = 16;
/// What part of the process's descriptors a tree takes at most.
const SHARE: u64 = 4;

/// The file system type.
#[derive(Clone, Copy, Debug)]
pub struct HostFs;

impl HostFs {
    /// A tree that shows the directory at `path`, whose name is followed once, now.
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

    /// Waits until everything that others changed before is seen in this tree, if it is one of a
    /// directory that is watched ([`Policy::Notify`]); of others it is at once.
    pub fn catch_up(tree: &SuperBlock) {
        if let Some(node) = Node::of(tree.root())
            && let Some(watches) = &node.tree.watches
        {
            watches.catch_up();
        }
    }

    /// A tree that shows the directory that `dir` is open at; `O_PATH` is enough.
    ///
    /// # Errors
    /// `ENOTDIR`, `EXDEV` ([`Crossing::Stored`]), those of the host.
    pub fn over(dir: OwnedFd, options: HostOptions) -> Result<Arc<SuperBlock>, Errno> {
        let facts = look(&dir, b"", Patience::Wait)?;
        if !openpath_abi::mode::is_dir(facts.attr.mode) {
            return Err(Errno::ENOTDIR);
        }
        if options.crossing == Crossing::Stored && is_made_up(&dir)? {
            return Err(Errno::EXDEV);
        }
        let mut options = options;
        options.handles_max = handles(options.handles_max);
        let way = Way {
            whole: options.reach == Reach::Best && has_openat2(&dir),
            stay: options.crossing == Crossing::Stay,
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
            Policy::Notify => Some(Watches::new(options.watches_max)?),
            _ => None,
        };
        let name_max = rustix::fs::fstatfs(&dir).map_err(errno)?.f_namelen;
        let core = SuperBlockOptions {
            kind: options.kind,
            name_max: usize::try_from(name_max).unwrap_or(255),
            read_only: options.read_only,
            caching: match options.policy {
                Policy::Exclusive | Policy::Notify => Caching::Keep,
                Policy::Revalidate | Policy::None => Caching::Confirm,
            },
            tries: true,
            blocking_io: true,
            acls: !matches!(options.ownership, Ownership::Squash { .. }),
            ..SuperBlockOptions::default()
        };
        let tree = Tree::new(options, (way, proc), &facts, watches);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = match tree.is_kept_by_attribute(&facts) {
            false => None,
            true => Some(way.open(&dir, b".", flags, Mode::empty(), Patience::Wait)?),
        };
        let (shown, at) = match &open {
            None => (tree.shown(facts, None)?, At::Fd(dir.as_fd())),
            Some(open) => (tree.shown_by(facts, open)?, At::Fd(open.as_fd())),
        };
        let root = tree.adopt(&shown, None, 0, || tree.acls(&shown, at));
        if let Some(node) = Node::of(&root) {
            node.keep(dir, Use::Path, false)?;
        }
        let ops = Box::new(Whole {
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

/// As many handles as were asked for and the process can spare.
fn handles(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let share = limit.map_or(u64::MAX, |limit| limit / SHARE);
    let share = usize::try_from(share).unwrap_or(usize::MAX);
    wanted.min(share).max(HANDLES_MIN)
}

/// What the core asks of the whole tree.
struct Whole {
    tree: Arc<Tree>,
    root: Arc<Inode>,
}

impl SuperBlockOps for Whole {
    fn statfs(&self) -> Result<StatFs, Errno> {
        let node = Node::of(&self.root).ok_or(Errno::EIO)?;
        let handle = node.handle(Use::Path, Patience::Wait)?;
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
        let handle = node.handle(Use::Read, Patience::Wait)?;
        rustix::fs::syncfs(&*handle).map_err(errno)
    }

    fn trim(&self) {
        self.tree.pool.relieve();
    }
}
