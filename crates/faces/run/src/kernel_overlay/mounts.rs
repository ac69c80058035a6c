// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the overlays of a view and attaches them, in the mount namespace of the view.
//!
//! # Rules
//! R1. Each layer is opened here, without links, and given to the kernel as a descriptor: the
//!     kernel refuses layers from another mount namespace, except a tree that is attached nowhere.
//! R2. All overlays are made before the first one is attached, so that none has another one as its
//!     lower tree.
//! R3. The root's overlay alone makes and follows redirects, if its marks are trusted ones: their
//!     paths are relative to a layer, and the upper tree is that of the whole view.

use crate::detached;
use crate::links;
use crate::mount_flags::{bind_at, flags_at, mount_flags, remount};
use crate::plan::{Layer, LayerShown, Part, Plan, Protection, Upper};
use openpath_commit::{KERNEL_WORK, PathBytes, Refusal, RefusalKind};
use openpath_host::HELD;
use openpath_overlay::Marks;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags};
use std::path::{Path, PathBuf};

/// Bytes of a tree in memory for each inode that it may have.
const BYTES_PER_INODE: u64 = 1024;

/// A tree to make the overlays from.
pub(crate) struct UpperTree {
    pub(crate) tree: OwnedFd,
    /// The prefix of its marks.
    pub(crate) marks: Marks,
}

/// Errors by which no mount is shown otherwise than it should be.
const SHORTAGES: [Errno; 5] = [
    Errno::NOMEM,
    Errno::MFILE,
    Errno::NFILE,
    Errno::NOSPC,
    Errno::DQUOT,
];

/// A mount that is to be attached, and its path in the view.
pub(crate) struct LayerMount {
    place: PathBytes,
    tree: LayerTree,
    /// Its place must be there.
    is_needed: bool,
}

/// What is attached.
enum LayerTree {
    Overlay(OwnedFd),
    /// A mount of the host, with the flags to set once it is attached.
    ReadOnly(OwnedFd, MountFlags),
    /// Nothing: what lies there is made read only.
    Below,
}

/// Makes the overlays of a plan, the one over the root and those over its mounts, outer ones first.
/// Their changes go to the tree at `upper`. A mount over which the kernel refuses an overlay is
/// shown read only.
///
/// # Errors
/// The kernel refuses the overlay over the root; [`SHORTAGES`].
pub(crate) fn make(plan: &Plan, upper: &UpperTree) -> Result<(OwnedFd, Vec<LayerMount>), Refusal> {
    let mut layers = plan.layers.iter().enumerate();
    let overlay = |(at, layer): (usize, &Layer)| {
        let place = layer.place.path();
        let mut attributes = MountAttrFlags::from_bits_truncate(
            u32::try_from(layer.flags & HELD.bits()).unwrap_or(0),
        );
        if let Some((_, Protection::ReadOnly)) = plan.protection_at(place) {
            attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
        }
        mount((upper, at), place, attributes)
    };
    let root = layers.next();
    let root = root.ok_or_else(|| Refusal::system("the view has no root"))?;
    let root = overlay(root).map_err(|why| {
        if let Some(small) = too_small(plan).filter(|_| why == Errno::NOSPC) {
            return small;
        }
        let text = format!(
            "the kernel refuses an overlay over / ({why}; its log says why): leave out --engine \
             kernel"
        );
        Refusal::new(RefusalKind::Unsupported, text)
    })?;
    let below = layers.map(|(at, layer)| {
        let tree = match layer.shown {
            LayerShown::Overlay => match overlay((at, layer)) {
                Err(why) if layer.is_needed || SHORTAGES.contains(&why) => Err(why),
                made => made.map(LayerTree::Overlay).or_else(|_| read_only(layer)),
            },
            LayerShown::ReadOnly => read_only(layer),
            LayerShown::Below => Ok(LayerTree::Below),
        };
        Ok(LayerMount {
            place: layer.place.clone(),
            is_needed: false,
            tree: tree.map_err(|why| failed(plan, layer.place.path(), why))?,
        })
    });
    let below = below.collect::<Result<_, Refusal>>()?;
    Ok((root, below))
}

/// Makes the overlay over the part of a view, whose changes go to the tree at `upper`.
///
/// # Errors
/// The kernel refuses it; others have replaced the directory.
pub(crate) fn make_part(part: &Part, upper: &UpperTree) -> Result<LayerMount, Refusal> {
    let bits = u32::try_from(part.flags & HELD.bits()).unwrap_or(0);
    let attributes = MountAttrFlags::from_bits_truncate(bits);
    let refused = |why| {
        let text = format!(
            "the kernel refuses an overlay over {} ({why}): leave out --engine kernel",
            part.path().display()
        );
        Refusal::new(RefusalKind::Unsupported, text)
    };
    let lower = links::open(part.path()).map_err(refused)?;
    part.check(&rustix::fs::fstat(&lower).map_err(refused)?)?;
    let tree = mount_over((upper, 0), (&lower, part.path()), attributes).map_err(refused)?;
    Ok(LayerMount {
        place: part.place.clone(),
        tree: LayerTree::Overlay(tree),
        is_needed: true,
    })
}

/// A mount of the host, to be shown read only. One that has gone, whose server has gone, or that
/// refuses root is not shown.
///
/// # Errors
/// [`SHORTAGES`]: they say nothing of the mount.
fn read_only(layer: &Layer) -> rustix::io::Result<LayerTree> {
    let tree = links::open(layer.place.path()).and_then(|at| {
        // Another user's FUSE refuses the first. A server that has gone fails the second alone.
        rustix::fs::fstat(&at)?;
        rustix::fs::fstatvfs(&at)?;
        detached::copy(at)
    });
    let flags = MountFlags::BIND | MountFlags::RDONLY | mount_flags(layer.flags);
    match tree {
        Err(why) if SHORTAGES.contains(&why) => Err(why),
        Err(_) => Ok(LayerTree::Below),
        Ok(tree) => Ok(LayerTree::ReadOnly(tree, flags)),
    }
}

/// Makes an overlay over the root as a view of root has it, and drops it.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn probe() -> Result<(), Refusal> {
    let made = || {
        let tree = memory(1 << 20)?;
        for dir in [Path::new("upper"), Path::new(KERNEL_WORK), &work_path(0)] {
            rustix::fs::mkdirat(&tree, dir, Mode::RWXU)?;
        }
        let path = format!("/proc/self/fd/{}", tree.as_raw_fd());
        // Without attributes overlayfs goes on, and loses what is removed.
        let marks = if openpath_commit::set_trusted(&path).is_ok() {
            Marks::Trusted
        } else {
            let mark = "user.overlay.opaque";
            rustix::fs::setxattr(format!("{path}/upper"), mark, b"y", XattrFlags::CREATE)?;
            Marks::User
        };
        mount(
            (&UpperTree { tree, marks }, 0),
            Path::new("/"),
            MountAttrFlags::empty(),
        )
    };
    let text = "--engine kernel is not possible here";
    made().map(drop).map_err(|why| Refusal::step(text, why))
}

/// Makes an overlay as an ordinary user's view has it, and drops it.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn probe_part() -> Result<(), Refusal> {
    let made = || {
        let tree = memory(1 << 20)?;
        let lower = Path::new("lower");
        for dir in [
            Path::new("upper"),
            Path::new(KERNEL_WORK),
            &work_path(0),
            lower,
        ] {
            rustix::fs::mkdirat(&tree, dir, Mode::RWXU)?;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lower = rustix::fs::openat(&tree, lower, flags, Mode::empty())?;
        let marks = Marks::User;
        let upper = UpperTree { tree, marks };
        mount_over(
            (&upper, 0),
            (&lower, Path::new("/")),
            MountAttrFlags::empty(),
        )
    };
    let text = "--engine kernel is not possible here";
    made().map(drop).map_err(|why| Refusal::step(text, why))
}

/// A tree for changes in memory, of so many bytes.
pub(crate) fn memory(bytes: u64) -> rustix::io::Result<OwnedFd> {
    let inodes = (bytes / BYTES_PER_INODE).max(16);
    detached::tmpfs((bytes, inodes), MountAttrFlags::empty())
}

/// The changes of a plan have no room for what a view needs, if the user gave their size.
pub(crate) fn too_small(plan: &Plan) -> Option<Refusal> {
    let Upper::Memory { size: Some(size) } = &plan.upper else {
        return None;
    };
    let text =
        format!("--upper memory:{size} is too small for a view with --engine kernel: give it more");
    Some(Refusal::new(RefusalKind::NoSpace, text))
}

/// The work directory of an overlay.
pub(crate) fn work_path(at: usize) -> PathBuf {
    Path::new(KERNEL_WORK).join(at.to_string())
}

/// The path of a directory of the view in the directory that holds the upper tree.
pub(crate) fn upper_path(place: &Path) -> PathBuf {
    Path::new("upper").join(place.strip_prefix("/").unwrap_or(place))
}

fn mount(
    upper: (&UpperTree, usize),
    place: &Path,
    attributes: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    // R1
    mount_over(upper, (&links::open(place)?, place), attributes)
}

/// The same over an open directory.
fn mount_over(
    (upper, at): (&UpperTree, usize),
    (lower, place): (&OwnedFd, &Path),
    attributes: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    let below = |path: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        rustix::fs::openat2(&upper.tree, path, flags, Mode::empty(), inside)
    };
    let changes = below(&upper_path(place))?;
    let work = below(&work_path(at))?;
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, layer) in [
        ("lowerdir", lower),
        ("upperdir", &changes),
        ("workdir", &work),
    ] {
        let path = format!("/proc/self/fd/{}", layer.as_raw_fd());
        rustix::mount::fsconfig_set_string(&context, key, path)?;
    }
    // R3
    match upper.marks {
        Marks::User => rustix::mount::fsconfig_set_flag(&context, "userxattr")?,
        Marks::Trusted => {
            let redirects = if place == Path::new("/") {
                "on"
            } else {
                "nofollow"
            };
            rustix::mount::fsconfig_set_string(&context, "redirect_dir", redirects)?;
        }
    }
    for (key, value) in [("xino", "on"), ("index", "off"), ("metacopy", "off")] {
        rustix::mount::fsconfig_set_string(&context, key, value)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn failed(plan: &Plan, place: &Path, why: Errno) -> Refusal {
    let small = too_small(plan).filter(|_| why == Errno::NOSPC);
    small.unwrap_or_else(|| Refusal::step(&format!("cannot mount {}", place.display()), why))
}

/// Makes what lies at a place read only, beneath a mount that is not shown.
fn show_below(place: &OwnedFd, path: &Path) -> rustix::io::Result<()> {
    let flags = flags_at(place)?;
    bind_at(place, path, flags | MountFlags::BIND | MountFlags::RDONLY)
}

impl LayerMount {
    /// The device of an overlay, as `/proc/PID/mountinfo` writes it.
    pub(crate) fn device(&self) -> Option<String> {
        let LayerTree::Overlay(tree) = &self.tree else {
            return None;
        };
        let device = rustix::fs::fstat(tree).ok()?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Some(format!("{major}:{minor}"))
    }

    /// Attaches it in the view, which is the root of this process.
    ///
    /// # Errors
    /// There is a link on the way; those of move_mount(2) and mount(2).
    pub(crate) fn attach(&self, plan: &Plan) -> Result<(), Refusal> {
        let path = self.place.path();
        let failed = |why| failed(plan, path, why);
        let place = match links::open(path) {
            // It lies in a mount that is not shown, or that has gone meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTCONN | Errno::CONNABORTED)
                if !self.is_needed =>
            {
                return Ok(());
            }
            place => place.map_err(failed)?,
        };
        let attached = match &self.tree {
            LayerTree::Overlay(tree) => detached::attach(tree, place),
            LayerTree::ReadOnly(tree, flags) => {
                detached::attach(tree, &place).and_then(|()| match remount(tree, path, *flags) {
                    // Its server has gone since it was opened.
                    Err(Errno::NOTCONN | Errno::CONNABORTED) => {
                        rustix::mount::unmount(path, UnmountFlags::DETACH)?;
                        show_below(&place, path)
                    }
                    done => done,
                })
            }
            LayerTree::Below => show_below(&place, path),
        };
        attached.map_err(failed)
    }
}
