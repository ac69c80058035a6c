// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes parts of the command's view read only, by mounts of the kernel over it.
//!
//! # Rules
//! R1. Outer paths come first, so that inner mounts lie on top and the innermost rule wins.
//! R2. A bind mount brings along the mounts below its path, so what passes there stays as it is.
//!     The places with mount flags of their own are bound again.
//! R3. A path that may be missing, and is, gets no mount; the server refuses to make it
//!     ([`Absent::forbid`](crate::absent::Absent::forbid)). The kernel's overlay would not, so
//!     there the run is refused.
//! R4. No symbolic link is followed to a path: an earlier command of the view may have made it.

use crate::engine::Engine;
use crate::links;
use crate::mount_flags::{bind_at, enforce_below, flags_at};
use crate::plan::{Plan, Protection};
use openpath_commit::{PathBytes, Refusal, RefusalKind};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

/// Makes the parts of the view read only or writable as the plan says. The view is the root.
/// Returns the places at which mount flags of the host could not be enforced.
pub(crate) fn apply(plan: &Plan) -> Result<Vec<PathBytes>, Refusal> {
    let root = PathBytes::root();
    let mut unenforced = Vec::new();
    for (path, protection) in plan.protections() {
        let (word, more) = match protection {
            Protection::ReadOnly => ("protect", MountFlags::RDONLY),
            Protection::Writable => ("open", MountFlags::empty()),
        };
        let failed = |why| {
            let path = path.path().display();
            Refusal::step(&format!("cannot {word} {path}"), why)
        };
        let place = match links::open(path.path()) {
            // R3
            Err(Errno::NOENT) if plan.read_only_if_any.contains(&path) => {
                if plan.engine != Engine::Kernel {
                    continue;
                }
                let text = format!(
                    "--ro-try {} needs the engine fuse, because the view has no such path: leave \
                     out --engine kernel",
                    path.path().display()
                );
                return Err(Refusal::new(RefusalKind::Unsupported, text));
            }
            place => place.map_err(failed)?,
        };
        let held = flags_at(&place).map_err(failed)? - MountFlags::RDONLY;
        let flags = MountFlags::BIND | held | more;
        // The root of the view is remounted: a task with it as its root would not see a mount on
        // top.
        let done = if path == root {
            mount_remount("/", flags, c"")
        } else {
            bind_at(&place, path.path(), flags)
        };
        done.map_err(failed)?;
        unenforced.extend(enforce_below(plan, path.path(), more));
    }
    Ok(unenforced)
}
