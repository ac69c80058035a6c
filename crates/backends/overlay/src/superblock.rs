// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making an overlay, and what the core asks of the whole.

use crate::fs::{Fs, Hit, Upper};
use crate::layer::{look, make, set};
use crate::node::{Lower, Origin};
use crate::options::OverlayOptions;
use crate::told::Ear;
use openpath_abi::mount::OVERLAYFS_SUPER_MAGIC;
use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_vfs::{
    Above, Acls, Attr, Caching, Inode, NewInode, Patience, SetAttr, SuperBlock, SuperBlockOps,
    SuperBlockOptions,
};
use std::sync::Arc;

/// The most lower layers.
const LAYERS_MAX: usize = 200;

/// The file system type.
#[derive(Clone, Copy, Debug)]
pub struct OverlayFs;

impl OverlayFs {
    /// A tree that shows the trees of `options` as one.
    ///
    /// The lower ones may serve other overlays and be mounted themselves. What others change in
    /// them is seen as far as their backends tell it.
    ///
    /// Linux: mount(2) of an overlay.
    ///
    /// # Errors
    /// `EINVAL` (no lower tree, or too many), `ENOTDIR` (something else has the name of the upper
    /// or the work directory), what the upper tree meets.
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
                work: dir_of(sb, &options.work_dir, (&private(sb.root()), None), now)?,
                sb: Arc::clone(sb),
            }),
            None => None,
        };
        let core = core_options(&options);
        let fs = Fs::new(options, upper);
        fs.sweep(now)?;
        let root = root(&fs)?;
        let whole = Whole {
            fs: Arc::clone(&fs),
        };
        let sb = SuperBlock::new(root, Box::new(whole), core);
        fs.home.set(Arc::downgrade(&sb));
        let ear: Arc<dyn Above> = Arc::new(Ear(Arc::downgrade(&fs)));
        for layer in fs.lowers.iter().chain(fs.upper.as_ref().map(|u| &u.sb)) {
            layer.tell(&ear);
        }
        fs.ear.set(ear);
        Ok(sb)
    }
}

/// What a directory for the overlay alone is made with.
fn private(root: &Inode) -> Attr {
    Attr {
        mode: mode::S_IFDIR | 0o700,
        ..root.attr()
    }
}

/// The root of the upper tree, made like that of the topmost lower one if there is none.
fn upper_root(
    sb: &SuperBlock,
    options: &OverlayOptions,
    now: Timespec,
) -> Result<Arc<Inode>, Errno> {
    let name = &options.upper_dir;
    let is_new = options.notes_taken && look(sb.root(), name, Patience::Wait)?.is_none();
    let below = options.lowers[0].root();
    let (attr, acls) = (below.attr(), below.acls());
    let dir = dir_of(sb, name, (&attr, Some(&acls)), now)?;
    if is_new {
        let values = crate::attrs::values(below, options.marks)?;
        let source = (&attr, &acls, &values);
        crate::attrs::note(&dir, source, options.marks, now)?;
        set(&dir, &times_of(&attr))?;
    }
    Ok(dir)
}

/// A directory in the root of the upper tree, made like `attr` if there is none.
fn dir_of(
    sb: &SuperBlock,
    name: &[u8],
    (attr, acls): (&Attr, Option<&Acls>),
    now: Timespec,
) -> Result<Arc<Inode>, Errno> {
    let root = sb.root();
    if let Some(dir) = look(root, name, Patience::Wait)? {
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
    let dir = make(root, name, &new)?;
    set(&dir, &times_of(attr))?;
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
    SuperBlockOptions {
        kind: options.kind,
        name_max: name_max.unwrap_or(255),
        read_only: options.read_only || options.upper.is_none(),
        caching: if any(|o| o.caching == Caching::Confirm) {
            Caching::Confirm
        } else {
            Caching::Keep
        },
        tries: !any(|o| !o.tries),
        blocking_io: any(|o| o.blocking_io),
        acls: any(|o| o.acls),
        ..SuperBlockOptions::default()
    }
}

fn root(fs: &Arc<Fs>) -> Result<Arc<Inode>, Errno> {
    let mut hit = Hit {
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
        hit.impure = marks.impure;
        hit.upper = Some(Arc::clone(&upper.root));
    }
    for (layer, sb) in fs.lowers.iter().enumerate() {
        if opaque {
            break;
        }
        let inode = Arc::clone(sb.root());
        let is_last = layer + 1 == fs.lowers.len();
        opaque = !is_last && fs.options.marks.of_dir(&inode)?.opaque;
        hit.lowers.push(Lower { layer, inode });
    }
    fs.adopt(hit)
}

/// What the core asks of the whole tree.
struct Whole {
    fs: Arc<Fs>,
}

impl SuperBlockOps for Whole {
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
