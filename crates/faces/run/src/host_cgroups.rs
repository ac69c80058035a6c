// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the host's control groups read only for a command.
//!
//! `/sys` passes with the mounts in it, and the groups of a user's session belong to the user. By
//! `cgroup.kill`, `cgroup.freeze` and `cgroup.procs` a command could end and stop processes outside
//! its view, and leave a group that limits it.
//!
//! # Rules
//! R1. Each mount of control groups below `/sys` is read only in the view, and so is the tmpfs that
//!     holds those of version 1. A mount namespace made inside cannot change that.
//! R2. A mount that is passed itself (`--pass /sys/fs/cgroup`) stays as it is.

use crate::host_mounts::mountinfo;
use crate::host_mounts::unescaped;
use crate::mount_flags::{flags_at, remount};
use crate::plan::Plan;
use openpath_commit::Refusal;
use rustix::io::Errno;
use rustix::mount::MountFlags;
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
    Ok(listed(plan, &mountinfo()?))
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
        if is_of_sys(plan, &place) {
            found.push((place, kind));
        }
    }
    let is_group = |kind: Option<&[u8]>| matches!(kind, Some(b"cgroup" | b"cgroup2"));
    let groups = found.iter().filter(|(_, kind)| is_group(*kind));
    let groups: Vec<_> = groups.map(|(place, _)| place.clone()).collect();
    let holds_groups = |place: &Path| groups.iter().any(|group| group.starts_with(place));
    found.retain(|(place, kind)| match *kind {
        Some(b"tmpfs") => place != Path::new(SYS) && holds_groups(place),
        kind => is_group(kind),
    });
    found.into_iter().map(|(place, _)| place).collect()
}

/// Whether a path passes with `/sys`, and not by a `--pass` of its own.
fn is_of_sys(plan: &Plan, place: &Path) -> bool {
    let above = plan.pass.iter();
    let above = above.filter(|pass| place.starts_with(pass.path()));
    let pass = above.max_by_key(|pass| pass.bytes().len());
    pass.is_some_and(|pass| pass.path() == Path::new(SYS))
}

/// Makes these mounts read only. The view is the root of this process.
///
/// # Errors
/// The kernel refuses it.
pub(crate) fn protect(mounts: &[PathBuf]) -> Result<(), Refusal> {
    for place in mounts {
        let done = crate::links::open(place).and_then(|at| {
            let flags = MountFlags::BIND | MountFlags::RDONLY | flags_at(&at)?;
            remount(&at, place, flags)
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
        let (top, unified) = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified");
        let old = Path::new("/sys/fs/cgroup/a b");
        let [top, unified] = [top, unified].map(Path::new);
        assert_eq!(listed(&plan, LIST), [top, unified, old]);
        plan.pass.push(unified.into());
        plan.pass.push(Path::new("/groups").into());
        assert_eq!(listed(&plan, LIST), [top, old]);
        plan.pass.push(top.into());
        assert!(listed(&plan, LIST).is_empty());
    }

    #[test]
    fn tmpfs_below_sys_without_control_groups_is_not_found() {
        let list = b"\
21 20 0:2 / /sys rw - tmpfs tmpfs rw
22 21 0:3 / /sys/other rw - tmpfs tmpfs rw
23 22 0:4 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
";
        let found = listed(&Plan::default(), list);
        assert_eq!(found, [Path::new("/sys/fs/cgroup")]);
    }
}
