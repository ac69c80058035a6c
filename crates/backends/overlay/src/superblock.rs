// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes an overlay of its layers ([`OverlayFs`]), and implements the calls on the whole tree, such
//! as statfs(2).

use crate::counts::CopyUpCounts;
use crate::fs::{Fs, Upper};
use crate::invalidation::Subscriber;
use crate::layer::{create, lookup, set_attr};
use crate::merged_lookup::{Lower, MergedLookup, Origin};
use crate::node::Node;
use crate::options::OverlayOptions;
use crate::whiteout::is_whiteout;
use openpath_abi::mount::OVERLAYFS_SUPER_MAGIC;
use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_vfs::{
    Acls, Attr, Caching, Inode, InvalidationListener, NewInode, SetAttr, SuperBlock, SuperBlockOps,
    SuperBlockOptions, WaitMode,
};
use std::sync::Arc;

/// The most lower layers.
const LAYERS_MAX: usize = 200;

/// The file system type.
#[derive(Clone, Copy, Debug)]
pub struct OverlayFs;

impl OverlayFs {
    /// A tree that merges the trees of `options`.
    ///
    /// Lower trees may serve other overlays and be mounted themselves. Changes that others make in
    /// them are seen as far as their backends report them.
    ///
    /// Linux: mount(2) of an overlay.
    ///
    /// # Errors
    /// `EINVAL` (no lower tree, or too many), `ENOTDIR` (something else has the name of the upper
    /// or the work directory), those of the upper tree.
    #[expect(
        clippy::new_ret_no_self,
        reason = "what is made is a tree, as the core knows it"
    )]
    pub fn new(options: OverlayOptions) -> Result<Arc<SuperBlock>, Errno> {
        if options.lowers.is_empty() || options.lowers.len() > LAYERS_MAX {
            return Err(Errno::EINVAL);
        }
        let now = options.clock.now();
        let upper = match &options.upper {
            Some(sb) => Some(Upper {
                root: upper_root(sb, &options, now)?,
                work: find_or_make_dir(
                    sb,
                    &options.work_dir,
                    (&private_attr(sb.root()), None),
                    now,
                )?,
                sb: Arc::clone(sb),
            }),
            None => None,
        };
        let core = core_options(&options);
        let fs = Fs::new(options, upper);
        fs.clear_work_dir(now)?;
        let root = root(&fs)?;
        let ops = TreeOps {
            fs: Arc::clone(&fs),
        };
        let sb = SuperBlock::new(root, Box::new(ops), core);
        fs.sb.set(Arc::downgrade(&sb));
        let subscriber: Arc<dyn InvalidationListener> = Arc::new(Subscriber(Arc::downgrade(&fs)));
        for layer in fs.lowers.iter().chain(fs.upper.as_ref().map(|u| &u.sb)) {
            layer.add_listener(&subscriber);
        }
        fs.subscriber.set(subscriber);
        Ok(sb)
    }

    /// The copy-ups since this overlay was made.
    ///
    /// # Errors
    /// `EINVAL`: it is no overlay.
    pub fn copied(sb: &SuperBlock) -> Result<CopyUpCounts, Errno> {
        Ok(fs_of(sb)?.counts.now())
    }

    /// Keeps out of the directory at this path of the upper tree from now on, because something
    /// else changes it: it shows no names and cannot be changed. The caller has found no name in it
    /// so far.
    ///
    /// # Errors
    /// `EINVAL` (it is no overlay), `EROFS` (it has no upper tree), `ENOENT`, `ENOTDIR`, `EBUSY`
    /// (it is the root, or one is lent already), those of the upper tree.
    pub fn lend(sb: &SuperBlock, path: &[u8]) -> Result<(), Errno> {
        fs_of(sb)?.lend(path)
    }

    /// Whether the upper tree has this path, from the root on and without following links: a change
    /// there needs no copy-up.
    ///
    /// # Errors
    /// `EINVAL` (it is no overlay), those of the upper tree.
    pub fn is_in_upper(sb: &SuperBlock, path: &[u8]) -> Result<bool, Errno> {
        let Some(upper) = &fs_of(sb)?.upper else {
            return Ok(false);
        };
        let mut at = Arc::clone(&upper.root);
        for name in path.split(|byte| *byte == b'/').filter(|n| !n.is_empty()) {
            if !at.is_dir() {
                return Ok(false);
            }
            match lookup(&at, name, WaitMode::Wait)? {
                Some(next) if !is_whiteout(&next) => at = next,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn fs_of(sb: &SuperBlock) -> Result<&Arc<Fs>, Errno> {
    let node = Node::of(sb.root()).ok_or(Errno::EINVAL)?;
    Ok(&node.fs)
}

/// The attributes of a directory for the overlay alone.
fn private_attr(root: &Inode) -> Attr {
    Attr {
        mode: mode::S_IFDIR | 0o700,
        ..root.attr()
    }
}

/// The root of the upper tree, made like that of the topmost lower one if it is missing.
fn upper_root(
    sb: &SuperBlock,
    options: &OverlayOptions,
    now: Timespec,
) -> Result<Arc<Inode>, Errno> {
    let name = &options.upper_dir;
    let is_new = options.records_taken && lookup(sb.root(), name, WaitMode::Wait)?.is_none();
    let below = options.lowers[0].root();
    let (attr, acls) = (below.attr(), below.acls());
    let dir = find_or_make_dir(sb, name, (&attr, Some(&acls)), now)?;
    if is_new {
        let values = crate::attrs::values(below, options.lower_marks())?;
        let source = (&attr, &acls, &values);
        crate::attrs::note(&dir, below, source, options.marks, now)?;
        set_attr(&dir, &times_of(&attr))?;
    }
    Ok(dir)
}

/// A directory in the root of the upper tree, made with `attr` if it is missing.
fn find_or_make_dir(
    sb: &SuperBlock,
    name: &[u8],
    (attr, acls): (&Attr, Option<&Acls>),
    now: Timespec,
) -> Result<Arc<Inode>, Errno> {
    let root = sb.root();
    if let Some(dir) = lookup(root, name, WaitMode::Wait)? {
        return if dir.is_dir() {
            Ok(dir)
        } else {
            Err(Errno::ENOTDIR)
        };
    }
    let new = NewInode {
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        rdev: 0,
        body: &[],
        now,
        tenant: None,
        acls,
    };
    let dir = create(root, name, &new)?;
    set_attr(&dir, &times_of(attr))?;
    Ok(dir)
}

fn times_of(attr: &Attr) -> SetAttr {
    SetAttr {
        atime: Some(attr.atime),
        mtime: Some(attr.mtime),
        ..SetAttr::default()
    }
}

fn core_options(options: &OverlayOptions) -> SuperBlockOptions {
    let layers: Vec<_> = options.lowers.iter().chain(&options.upper).collect();
    let any = |is: fn(&SuperBlockOptions) -> bool| layers.iter().any(|sb| is(sb.options()));
    let name_max = layers.iter().map(|sb| sb.options().name_max).min();
    SuperBlockOptions::default()
        .kind(options.kind)
        .name_max(name_max.unwrap_or(255))
        .read_only(options.read_only || options.upper.is_none())
        .caching(if any(|o| o.caching == Caching::Confirm) {
            Caching::Confirm
        } else {
            Caching::Keep
        })
        .tries(!any(|o| !o.tries))
        .blocking_io(any(|o| o.blocking_io))
        .acls(any(|o| o.acls))
}

fn root(fs: &Arc<Fs>) -> Result<Arc<Inode>, Errno> {
    let mut result = MergedLookup {
        upper: None,
        lowers: Vec::new(),
        origin: Origin::Root,
        number: None,
        impure: false,
    };
    let mut opaque = false;
    if let Some(upper) = &fs.upper {
        let marks = fs.options.marks.of_dir(&upper.root)?;
        opaque = marks.opaque;
        result.impure = marks.impure;
        result.upper = Some(Arc::clone(&upper.root));
    }
    for (layer, sb) in fs.lowers.iter().enumerate() {
        if opaque {
            break;
        }
        let inode = Arc::clone(sb.root());
        let is_last = layer + 1 == fs.lowers.len();
        opaque = !is_last && fs.options.marks.of_dir(&inode)?.opaque;
        result.lowers.push(Lower { layer, inode });
    }
    fs.adopt(result)
}

/// The operations of the whole tree.
struct TreeOps {
    fs: Arc<Fs>,
}

impl SuperBlockOps for TreeOps {
    fn statfs(&self) -> Result<StatFs, Errno> {
        let sb = match &self.fs.upper {
            Some(upper) => &upper.sb,
            None => &self.fs.lowers[0],
        };
        let figures = sb.ops().statfs()?;
        Ok(StatFs {
            kind: OVERLAYFS_SUPER_MAGIC,
            ..figures
        })
    }

    fn sync(&self) -> Result<(), Errno> {
        match &self.fs.upper {
            Some(upper) => upper.sb.ops().sync(),
            None => Ok(()),
        }
    }

    fn trim(&self) {
        if let Some(upper) = &self.fs.upper {
            upper.sb.ops().trim();
        }
    }
}
