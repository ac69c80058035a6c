// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the host's control groups read only for a command.
//!
//! `/sys` passes with the mounts in it, and the groups of a user's session belong to the user. By
//! `cgroup.kill`, `cgroup.freeze` and `cgroup.procs` a command could end and stop processes outside
//! its view, and leave a group that limits it.
//!
//! # Rules
//! R1. Each mount of control groups below `/sys` is read only in the view. A mount namespace made
//!     inside cannot change that.
//! R2. A mount that is passed itself (`--pass /sys/fs/cgroup`) stays as it is.

use crate::mount_flags::{flags_at, unescaped};
use crate::plan::Plan;
use openpath_commit::Refusal;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The passed directory that contains control groups.
const SYS: &str = "/sys";

/// The mounts of control groups to make read only in the view of this plan.
///
/// # Errors
/// The mounts of this process cannot be read.
pub(crate) fn mounts(plan: &Plan) -> Result<Vec<PathBuf>, Refusal> {
    let list = std::fs::read("/proc/self/mountinfo");
    let list = list.map_err(|why| Refusal::step("/proc/self/mountinfo", why))?;
    Ok(listed(plan, &list))
}

fn listed(plan: &Plan, list: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in list.split(|byte| *byte == b'\n') {
        let mut words = line.split(|byte| *byte == b' ');
        let Some(place) = words.nth(4) else {
            continue;
        };
        let kind = words.skip_while(|word| *word != b"-").nth(1);
        let place = PathBuf::from(OsString::from_vec(unescaped(place)));
        let above = plan
            .pass
            .iter()
            .filter(|pass| place.starts_with(pass.path()));
        let pass = above.max_by_key(|pass| pass.bytes().len());
        let with_sys = pass.is_some_and(|pass| pass.path() == Path::new(SYS));
        if with_sys && matches!(kind, Some(b"cgroup" | b"cgroup2")) {
            found.push(place);
        }
    }
    found
}

/// Makes these mounts read only. The view is the root of this process.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn protect(mounts: &[PathBuf]) -> Result<(), Refusal> {
    for place in mounts {
        let opened = crate::links::open(place);
        let done = opened.and_then(|at| flags_at(&at)).and_then(|held| {
            let flags = MountFlags::BIND | MountFlags::RDONLY | held;
            mount_remount(place, flags, c"")
        });
        match done {
            // A mount covers a directory above it.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::INVAL) => {}
            Err(why) => {
                let text = format!(
                    "cannot protect the control groups at {} from the command",
                    place.display()
                );
                return Err(Refusal::step(&text, why));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::listed;
    use crate::plan::Plan;
    use std::path::Path;

    const LIST: &[u8] = b"\
20 1 0:1 / / rw - ext4 /dev/a rw
21 20 0:2 / /sys rw - sysfs sysfs rw
22 21 0:3 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs rw
23 22 0:4 / /sys/fs/cgroup/unified rw shared:3 master:4 - cgroup2 cgroup2 rw
24 22 0:5 / /sys/fs/cgroup/a\\040b rw - cgroup cgroup rw,pids
25 20 0:6 / /groups rw - cgroup2 cgroup2 rw
";

    #[test]
    fn mounts_of_control_groups_below_sys_are_found_unless_they_are_passed() {
        let mut plan = Plan::default();
        let (unified, old) = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/a b");
        assert_eq!(listed(&plan, LIST), [Path::new(unified), Path::new(old)]);
        plan.pass.push(Path::new(unified).into());
        plan.pass.push(Path::new("/groups").into());
        assert_eq!(listed(&plan, LIST), [Path::new(old)]);
        plan.pass.push(Path::new("/sys/fs/cgroup").into());
        assert!(listed(&plan, LIST).is_empty());
    }
}
