// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the directory of named views, and the directories with the sockets of running servers, out
//! of reach of every command.
//!
//! # Rules
//! R1. A command that could write there would forge views, which a commit takes to the real tree,
//!     or answer in place of a server. So these directories are hidden in a view at every path, and
//!     cannot be made there.
//! R2. Rules of names do not hold in what passes (`--pass`), which is a mount of the host, nor in
//!     the kernel's overlays and what is written through beside them. There an empty read-only
//!     mount covers the directory.

use crate::detached;
use crate::engine::Engine;
use crate::plan::{Plan, TreeSource, Upper};
use crate::spec;
use openpath_commit::{PathBytes, Refusal};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The size of an empty directory that covers another one, in bytes, and its inodes.
const EMPTY: (u64, u64) = (4096, 1);

/// The directories that are kept out of reach, whether or not they exist.
pub(crate) fn own_dirs() -> Vec<PathBuf> {
    let all = openpath_commit::state_dir().into_iter();
    let all = all.chain(crate::live::own_dirs());
    let mut all: Vec<_> = all.map(|dir| resolve_existing(&dir)).collect();
    all.sort();
    all.dedup();
    all
}

/// The plan with these directories hidden or masked.
///
/// # Errors
/// One of them, or a part of one, would pass.
pub(crate) fn guard(plan: &Plan) -> Result<Plan, Refusal> {
    let mut plan = plan.clone();
    for dir in own_dirs() {
        for place in view_paths(&plan, &dir) {
            let inside = |pass: &&PathBytes| place.path().starts_with(pass.path());
            let by_kernel = plan.engine == Engine::Kernel;
            let pass = plan.host_places().find(inside);
            if let Some(pass) = pass {
                if *pass == place {
                    let (pass, dir) = (pass.path().display(), dir.display());
                    let text = format!(
                        "{pass} cannot pass: it is in {dir}, which openpath keeps to itself"
                    );
                    return Err(Refusal::usage(text));
                }
                make(&dir).map_err(|why| {
                    let (pass, dir) = (pass.path().display(), dir.display());
                    Refusal::usage(format!(
                        "{pass} cannot pass: {dir} in it, which openpath keeps to itself, cannot \
                         be made ({why}): make it, or let less pass"
                    ))
                })?;
                plan.masked.push(place);
            } else if by_kernel {
                // What a view in memory makes there reaches nobody.
                if matches!(plan.upper, Upper::Directory(_)) {
                    make(&dir).map_err(|why| {
                        let text = format!("{} cannot be kept out of reach", dir.display());
                        Refusal::step(&text, why)
                    })?;
                }
                plan.masked.push(place);
            } else {
                plan.own.push(place.clone());
                plan.hidden.push(place);
            }
        }
    }
    Ok(plan)
}

/// Makes a missing directory, with those above it. A directory that does not exist cannot be
/// covered, and the command could make it. If this user may not make it, the command cannot either.
pub(crate) fn make(dir: &Path) -> io::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.or_else(|why| match Errno::from_io_error(&why) {
        Some(Errno::ACCESS | Errno::ROFS) => Ok(()),
        _ => Err(why),
    })
}

/// Covers the guarded directories (R2). The view is the root of this process.
pub(crate) fn mask(plan: &Plan) -> Result<(), Refusal> {
    for place in &plan.masked {
        let inside = |pass: &&PathBytes| place.path().starts_with(pass.path());
        let top = plan.host_places().filter(inside);
        let done = match top.max_by_key(|pass| pass.bytes().len()) {
            Some(top) => pin(top.path(), place.path()),
            // The overlays have pins of their own, or rename no directory of the real tree.
            None => Ok(()),
        };
        let done = done.and_then(|()| cover(place.path()));
        done.map_err(|why| Refusal::step(&format!("cannot hide {}", place.path().display()), why))?;
    }
    Ok(())
}

/// Binds each directory between these two to itself; otherwise the command could rename it and make
/// the path anew.
fn pin(top: &Path, path: &Path) -> rustix::io::Result<()> {
    let between = path.ancestors().skip(1);
    let mut between: Vec<_> = between.take_while(|dir| *dir != top).collect();
    between.reverse();
    for path in between {
        let Some(dir) = directory(path)? else {
            return Ok(());
        };
        detached::attach(detached::copy_all(&dir)?, &dir)?;
    }
    Ok(())
}

/// Opens a directory; `None` if it does not exist or this user may not open it.
pub(crate) fn directory(path: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // A link would have the mount lie elsewhere.
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(None),
        dir => dir.map(Some),
    }
}

fn cover(path: &Path) -> rustix::io::Result<()> {
    // If it could not be made, the command cannot make it either.
    let Some(dir) = directory(path)? else {
        return Ok(());
    };
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    detached::attach(detached::tmpfs(EMPTY, attributes)?, &dir)
}

/// The path without links, as far as it exists.
fn resolve_existing(path: &Path) -> PathBuf {
    let mut ways = path.ancestors();
    let found = ways.find_map(|above| Some((above, above.canonicalize().ok()?)));
    match found {
        Some((above, real)) => match path.strip_prefix(above) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        },
        None => path.to_owned(),
    }
}

/// The paths in the view at which a directory of the host appears. Its own path is one, because
/// what is done there may later be committed for this user. The others lie in directories that are
/// changed on the disk, which may be other names of it or of a directory above it.
pub(crate) fn view_paths(plan: &Plan, dir: &Path) -> Vec<PathBytes> {
    let known = &KnownFiles::default();
    let same = plan.write_through.iter().chain(&plan.pass);
    let extra = plan.extra.iter().filter(|extra| !extra.read_only);
    let extra = extra.filter_map(|extra| match &extra.source {
        TreeSource::Host(source) => Some((source, &extra.place)),
        _ => None,
    });
    let all = same.map(|path| (path, path)).chain(extra);
    let found = all.filter_map(|(source, place)| match below(dir, source.path(), known) {
        Some(rest) => spec::absolute(place.path(), rest).ok(),
        None => below(source.path(), dir, known).map(|_| place.clone()),
    });
    std::iter::once(dir.into()).chain(found).collect()
}

/// The rest of `path` below `above`, if a directory on the way is the same as `above`.
fn below<'a>(path: &'a Path, above: &Path, known: &KnownFiles) -> Option<&'a Path> {
    let wanted = known.which(above);
    let is_it = |on_the_way: &&Path| {
        *on_the_way == above || wanted.is_some() && known.which(on_the_way) == wanted
    };
    path.strip_prefix(path.ancestors().find(is_it)?).ok()
}

/// Which files are at paths. Each is asked once.
#[derive(Default)]
struct KnownFiles(RefCell<BTreeMap<PathBuf, Option<FileId>>>);

/// The device and the inode number of a file.
type FileId = (u64, u64);

impl KnownFiles {
    /// The file at a path; `None` if there is none, or it cannot be looked at.
    fn which(&self, path: &Path) -> Option<FileId> {
        if let Some(known) = self.0.borrow().get(path) {
            return *known;
        }
        let stat = rustix::fs::stat(path).ok();
        let file = stat.map(|stat| (stat.st_dev, stat.st_ino));
        self.0.borrow_mut().insert(path.to_owned(), file);
        file
    }
}
