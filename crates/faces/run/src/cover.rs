// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read-only parts of a command's view, as mounts of the kernel over it.
//!
//! # Rules
//! R1. Outer paths come first, so that an inner mount lies upon the outer one and the innermost
//!     rule wins.
//! R2. A mount brings along what is mounted below its path: what passes there stays as it is. The
//!     places of mount flags are the view's own, and bound once more.
//! R3. A path that may be missing and is gets no mount; the server refuses to make it
//!     ([`Absent::forbid`](crate::absent::Absent::forbid)).
//! R4. No symbolic link is followed to a path: an earlier command of the view may have put it
//!     there.

use crate::links;
use crate::mount_flags::{bind_at, enforce_below, flags_at};
use crate::plan::{Cover, Plan};
use openpath_commit::{PathBytes, Refusal};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

/// Mounts what the plan protects, and what can be changed in it. The view is the root. Gives the
/// places at which mount flags of the host could not be enforced.
pub(crate) fn apply(plan: &Plan) -> Result<Vec<PathBytes>, Refusal> {
    let root = PathBytes::root();
    let mut unheld = Vec::new();
    for (path, cover) in plan.covers() {
        let (word, more) = match cover {
            Cover::ReadOnly => ("protect", MountFlags::RDONLY),
            Cover::Writable => ("open", MountFlags::empty()),
        };
        let failed = |why| {
            let path = path.path().display();
            Refusal::step(&format!("cannot {word} {path}"), why)
        };
        let place = match links::open(path.path()) {
            // R3
            Err(Errno::NOENT) if plan.read_only_if_any.contains(&path) => continue,
            place => place.map_err(failed)?,
        };
        let held = flags_at(&place).map_err(failed)? - MountFlags::RDONLY;
        let flags = MountFlags::BIND | held | more;
        // The view's own mount: one upon it would not be seen by a task that has it as its root.
        let done = if path == root {
            mount_remount("/", flags, c"")
        } else {
            bind_at(&place, path.path(), flags)
        };
        done.map_err(failed)?;
        unheld.extend(enforce_below(plan, path.path(), more));
    }
    Ok(unheld)
}
