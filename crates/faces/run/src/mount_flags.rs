// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enforces `nosuid`, `nodev` and `noexec` of the host's mounts at the paths where the view shows
//! them.
//!
//! The view is one mount of the kernel, with one set of flags. Where a mount of the host begins
//! that has other flags, the path in the view is bound to itself with the flags of that mount. The
//! front reads the host's mounts once, and the helper binds. The server enters no mount of the host
//! with a flag that is not enforced at its path ([`openpath_host::EnforcedFlags`]), not even one
//! that is mounted later.
//!
//! # Rules
//! R1. A path that cannot be bound is reported to the server before the command starts.
//! R2. No symbolic link is followed to such a path: an earlier run may have changed the view.
//! R3. A mount in memory has the flags of its path, and an overlay those of all its layers.
//! R4. A passed path is covered by the host's own mount, which keeps its flags. The server may
//!     enter a mount with any flag there, or the kernel would find nothing to mount on.

use crate::detached;
use crate::host_mounts::HostMounts;
use crate::links;
use crate::plan::{EnforcedPlace, Plan, TreeSource};
use openpath_abi::MountAttrFlags;
use openpath_commit::{PathBytes, Refusal};
use openpath_host::{EnforcedFlags, HELD};
use rustix::fd::OwnedFd;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The paths of a plan's view with other flags than those around them, outer ones first.
pub(crate) fn places_of(mounts: &HostMounts, plan: &Plan) -> Vec<EnforcedPlace> {
    let mut trees: BTreeMap<&Path, Vec<&Path>> = BTreeMap::from([(root(), vec![root()])]);
    for path in &plan.write_through {
        trees.insert(path.path(), vec![path.path()]);
    }
    for extra in &plan.extra {
        let place = extra.place.path();
        let sources = match &extra.source {
            TreeSource::Memory { .. } => vec![place],
            TreeSource::Host(path) => vec![path.path()],
            TreeSource::Overlay { lowers, .. } => lowers.iter().map(PathBytes::path).collect(),
        };
        trees.insert(place, sources);
    }
    let mut found = BTreeMap::new();
    for (place, sources) in &trees {
        let memory = plan.extra.iter().any(|extra| {
            extra.place.path() == *place && matches!(extra.source, TreeSource::Memory { .. })
        });
        let mut rests = BTreeSet::from([PathBuf::new()]);
        if !memory {
            let below = |source: &Path| {
                let below = mounts
                    .iter()
                    .filter_map(|(path, _)| path.strip_prefix(source).ok());
                below.map(Path::to_owned).collect::<Vec<_>>()
            };
            rests.extend(sources.iter().flat_map(|source| below(source)));
        }
        for rest in rests {
            let path = join(place, &rest);
            if tree_of(&trees, &path) != *place || passes(plan, &path) {
                continue;
            }
            let flags = sources
                .iter()
                .map(|source| mounts.flags_at(&join(source, &rest)));
            found.insert(path, flags.fold(0, |all, flags| all | flags));
        }
    }
    differing(found)
}

fn root() -> &'static Path {
    Path::new("/")
}

fn join(place: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        place.to_owned()
    } else {
        place.join(rest)
    }
}

/// The innermost tree of the view that contains `path`.
fn tree_of<'a>(trees: &BTreeMap<&'a Path, Vec<&Path>>, path: &Path) -> &'a Path {
    let inside = trees.keys().filter(|place| path.starts_with(place));
    let inner = inside.max_by_key(|place| place.as_os_str().len());
    inner.copied().unwrap_or(root())
}

/// Whether `path` is in one of the host's own mounts in the view, with the flags it has.
fn passes(plan: &Plan, path: &Path) -> bool {
    plan.pass.iter().any(|pass| path.starts_with(pass.path()))
}

/// Those that differ from what is around them, outer ones first.
fn differing(found: BTreeMap<PathBuf, u64>) -> Vec<EnforcedPlace> {
    let mut kept: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for (path, flags) in found {
        let mut above = path.ancestors().skip(1);
        let around = above.find_map(|path| kept.get(path)).copied();
        if flags != around.unwrap_or(0) {
            kept.insert(path, flags);
        }
    }
    let place = |(path, flags): (PathBuf, u64)| EnforcedPlace {
        place: path.as_path().into(),
        flags,
    };
    kept.into_iter().map(place).collect()
}

/// The enforced paths of a plan in the tree that is shown at `top`, relative to it.
pub(crate) fn enforced_in(plan: &Plan, top: &PathBytes) -> EnforcedFlags {
    let around = plan
        .enforced
        .iter()
        .filter(|held| top.path().starts_with(held.place.path()));
    let around = around.max_by_key(|held| held.place.bytes().len());
    let around = around.map(|held| (Vec::new(), held.flags));
    let held = plan.enforced.iter().map(|held| (&held.place, held.flags));
    // R4
    let passed = plan.pass.iter().map(|place| (place, HELD.bits()));
    let below = held.chain(passed).filter_map(|(place, flags)| {
        let rest = place.path().strip_prefix(top.path()).ok()?;
        let is_below = !rest.as_os_str().is_empty();
        is_below.then(|| (rest.as_os_str().as_bytes().to_vec(), flags))
    });
    let held = around.into_iter().chain(below);
    EnforcedFlags::new(held.map(|(path, flags)| (path, MountAttrFlags::from_bits_retain(flags))))
}

/// Enforces the flags; returns the paths that could not be bound.
///
/// # Errors
/// The root of the view cannot get the flags of the host's root.
pub(crate) fn enforce(plan: &Plan) -> Result<Vec<PathBytes>, Refusal> {
    if let Some(held) = plan
        .enforced
        .iter()
        .find(|held| held.place.path() == root())
    {
        let flags = MountFlags::BIND | mount_flags(held.flags);
        rustix::mount::mount_remount("/", flags, c"")
            .map_err(|why| Refusal::step("cannot set the mount flags of the view", why))?;
    }
    Ok(enforce_below(plan, root(), MountFlags::empty()))
}

/// As [`enforce`], for the paths below `top` alone, with `more` flags.
pub(crate) fn enforce_below(plan: &Plan, top: &Path, more: MountFlags) -> Vec<PathBytes> {
    let mut missed: Vec<PathBytes> = Vec::new();
    for held in &plan.enforced {
        let path = held.place.path();
        if path == top || !path.starts_with(top) {
            continue;
        }
        let flags = MountFlags::BIND | mount_flags(held.flags) | more;
        let is_missed = missed.iter().any(|above| path.starts_with(above.path()));
        if is_missed || bind(path, flags).is_err() {
            missed.push(held.place.clone());
        }
    }
    missed
}

/// The flags for mount(2).
pub(crate) fn mount_flags(flags: u64) -> MountFlags {
    MountFlags::from_bits_truncate(u32::try_from(flags & HELD.bits()).unwrap_or(0))
}

/// Binds a directory or file to itself, with these flags, and with what is mounted below.
fn bind(path: &Path, flags: MountFlags) -> rustix::io::Result<()> {
    // R2
    bind_at(&links::open(path)?, path, flags)
}

/// The same for a file that was opened by this path.
///
/// # Errors
/// `ELOOP`: the path of a file leads elsewhere by now, so the flags are not set.
pub(crate) fn bind_at(place: &OwnedFd, path: &Path, flags: MountFlags) -> rustix::io::Result<()> {
    let tree = detached::copy_all(place)?;
    detached::attach(&tree, place)?;
    remount(&tree, path, flags)
}

/// Sets the flags of a mount that is attached at this path.
///
/// # Errors
/// As [`bind_at`].
pub(crate) fn remount(tree: &OwnedFd, path: &Path, flags: MountFlags) -> rustix::io::Result<()> {
    let set = match rustix::process::fchdir(tree) {
        Ok(()) => rustix::mount::mount_remount(".", flags, c""),
        Err(Errno::NOTDIR) => rustix::mount::mount_remount(path, flags, c""),
        Err(why) => Err(why),
    };
    rustix::process::chdir("/")?;
    set?;
    let is_set = !flags.contains(MountFlags::RDONLY)
        || rustix::fs::fstatvfs(tree)?
            .f_flag
            .contains(StatVfsMountFlags::RDONLY);
    is_set.then_some(()).ok_or(Errno::LOOP)
}

/// The flags of the mount that contains a file, for a bind mount there.
pub(crate) fn flags_at(place: &OwnedFd) -> rustix::io::Result<MountFlags> {
    let flags = rustix::fs::fstatvfs(place)?.f_flag;
    let kept = StatVfsMountFlags::RDONLY.bits() | HELD.bits();
    let bits = u32::try_from(flags.bits() & kept).unwrap_or(0);
    Ok(MountFlags::from_bits_truncate(bits))
}

#[cfg(test)]
mod tests {
    use super::{EnforcedPlace, HELD, HostMounts, enforced_in, places_of};
    use crate::plan::{ExtraMount, Plan, TreeSource};
    use openpath_commit::PathBytes;
    use std::path::Path;

    /// A root, mounts in it, one that covers another, and one on a passed tree.
    const INFO: &[u8] = b"\
20 1 0:1 / / rw,relatime shared:1 - ext4 /dev/a rw
21 20 0:2 / /tmp rw,nosuid,nodev - tmpfs t rw
22 20 0:3 / /run rw,nosuid,nodev,noexec - tmpfs t rw
23 22 0:4 / /run/user/7 rw,nosuid,nodev - tmpfs t rw
24 20 0:5 / /proc rw,nosuid,nodev,noexec - proc p rw
25 20 0:6 / /data rw - ext4 /dev/b rw
26 25 0:7 / /data/a\\040b rw,noexec - ext4 /dev/c rw
27 20 0:8 / /old/x rw,nosuid - ext4 /dev/d rw
28 20 0:9 / /old rw,nodev - ext4 /dev/e rw
29 21 0:10 / /tmp rw,noexec - tmpfs t rw
30 21 0:11 / /tmp/below rw - tmpfs t rw
";

    fn held(plan: &Plan) -> Vec<(String, u64)> {
        let mounts = HostMounts::parse(INFO, 0).unwrap();
        let text = |held: EnforcedPlace| (held.place.path().display().to_string(), held.flags);
        places_of(&mounts, plan).into_iter().map(text).collect()
    }

    fn list(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter()
            .map(|(path, flags)| ((*path).to_owned(), *flags))
            .collect()
    }

    #[test]
    fn places_are_the_visible_mounts_with_other_flags_than_around_them() {
        let all = [
            ("/data/a b", 8),
            ("/old", 4),
            ("/run", 14),
            ("/run/user/7", 6),
            ("/tmp", 8),
        ];
        assert_eq!(held(&Plan::default()), list(&all));
    }

    #[test]
    fn passed_mount_is_entered_whatever_its_flags() {
        let plan = Plan {
            pass: vec![Path::new("/proc").into(), Path::new("/data/in").into()],
            ..Plan::default()
        };
        let root = enforced_in(&plan, &PathBytes::root());
        assert!(root.admits(b"proc", HELD) && root.admits(b"data/in", HELD));
        assert!(!root.admits(b"data", HELD) && !root.admits(b"sys", HELD));
        let data = enforced_in(&plan, &Path::new("/data").into());
        assert!(data.admits(b"in", HELD) && !data.admits(b"proc", HELD));
    }

    #[test]
    fn other_trees_have_the_flags_of_where_they_come_from() {
        let extra = |place: &str, source| ExtraMount {
            place: Path::new(place).into(),
            source,
            read_only: false,
        };
        let host = |path: &str| TreeSource::Host(Path::new(path).into());
        let plan = Plan {
            extra: vec![
                extra("/run", TreeSource::Memory { size: None }),
                extra("/a", host("/run/user")),
                extra("/b", host("/data")),
                extra("/old", host("/etc")),
                extra(
                    "/c",
                    TreeSource::Overlay {
                        lowers: vec![Path::new("/old").into(), Path::new("/tmp/x").into()],
                        upper: None,
                    },
                ),
            ],
            ..Plan::default()
        };
        let all = [
            ("/a", 14),
            ("/a/7", 6),
            ("/b/a b", 8),
            ("/c", 12),
            ("/data/a b", 8),
            ("/run", 14),
            ("/tmp", 8),
        ];
        assert_eq!(held(&plan), list(&all));
    }
}
