// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds where a group for a view can be made, or why not. Nothing is changed here.
//!
//! # Rules
//! R1. Each placement needs the controllers in the caller's own group, which must be writable.
//! R2. A group beside the caller's own escapes the limits of that group, so it is made only where
//!     the own group has no limits.
//! R3. Processes of others are never moved: the own group is cleared only if it contains no process
//!     but the caller.

use super::dir::Dir;
use crate::host_mounts::unescaped;
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Files that limit a group. Each begins with `max`, or is empty, if it sets no limit.
const LIMITING: [&str; 7] = [
    "memory.max",
    "memory.high",
    "memory.swap.max",
    "cpu.max",
    "pids.max",
    "cpuset.cpus",
    "io.max",
];

/// The caller's group and the one above it.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) own: Dir,
    /// None if the mount shows nothing above the own group.
    pub(super) parent: Option<Dir>,
}

/// Where a group for a view is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// In the caller's group.
    Within,
    /// In the caller's group, after the caller has moved into another group in it.
    Cleared,
    /// Beside the caller's group.
    Beside,
}

impl Site {
    /// The site of this process.
    pub(super) fn find() -> Result<Site, String> {
        let read = |file: &str| std::fs::read(file).map_err(|why| format!("{file}: {why}"));
        let mounts = read("/proc/self/mountinfo")?;
        let groups = read("/proc/self/cgroup")?;
        let own = own_path(&groups).ok_or("the kernel has no control groups of version 2")?;
        let places = places(&mounts, &own);
        let found = places.iter().find_map(|(mount, below)| {
            let own = Dir::open(&mount.join(below)).ok()?;
            own.is_cgroup2().then_some((own, below))
        });
        let (own, below) = found.ok_or_else(|| {
            let place = own.display();
            format!(
                "no mount of control groups version 2 shows this process's group {place}: as \
                 root, `mount -t cgroup2 cgroup2 /sys/fs/cgroup`"
            )
        })?;
        let parent = match below.as_os_str().is_empty() {
            true => None,
            false => own.dir("..").ok().filter(Dir::is_cgroup2),
        };
        Ok(Site { own, parent })
    }

    /// Where the process `me` can make a group with these controllers.
    pub(super) fn placement(&self, controllers: &[&str], me: u32) -> Result<Placement, String> {
        let failed = |why: Errno| format!("the group of this process cannot be read ({why})");
        let own = &self.own;
        // R1
        let there = own.read("cgroup.controllers").map_err(failed)?;
        if let Some(missing) = controllers.iter().find(|one| !has(&there, one)) {
            return Err(missing_controller(missing));
        }
        for file in [".", "cgroup.procs", "cgroup.subtree_control"] {
            own.may_write(file).map_err(|why| match why {
                Errno::ROFS => "control groups are read only here, as in a view or a container: \
                     give the limit to the outer run"
                    .to_owned(),
                _ => format!(
                    "the control group of this process is not delegated to its user: {}",
                    remedy()
                ),
            })?;
        }
        let enabled = own.read("cgroup.subtree_control").map_err(failed)?;
        let is_top = own.read("cgroup.type") == Err(Errno::NOENT);
        if is_top || controllers.iter().all(|one| has(&enabled, one)) {
            return Ok(Placement::Within);
        }
        // R3
        let members = own.read("cgroup.procs").map_err(failed)?;
        if members.split_whitespace().all(|pid| pid.parse() == Ok(me)) {
            return Ok(Placement::Cleared);
        }
        match &self.parent {
            Some(parent) if self.admits_beside(parent) => Ok(Placement::Beside),
            _ => Err(format!(
                "the control group of this process has other processes, so that it can have no \
                 groups with limits: {}",
                remedy()
            )),
        }
    }

    /// R2
    fn admits_beside(&self, parent: &Dir) -> bool {
        let me = rustix::process::geteuid().as_raw();
        let files = [".", "cgroup.procs"];
        self.own.owner() == Ok(me)
            && files.iter().all(|file| parent.may_write(file).is_ok())
            && LIMITING.iter().all(|file| match self.own.read(file) {
                Ok(text) => matches!(text.split_whitespace().next(), None | Some("max")),
                Err(why) => why == Errno::NOENT,
            })
    }
}

/// Whether a list on one line contains this word.
fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|other| other == word)
}

/// The message for a missing controller.
fn missing_controller(controller: &str) -> String {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if is_of_version_1(&groups, controller) {
        format!(
            "control groups of version 1 hold the controller {controller}: boot with \
             `systemd.unified_cgroup_hierarchy=1`"
        )
    } else {
        format!(
            "the controller {controller} is not delegated to the control group of this process: {}",
            remedy()
        )
    }
}

/// Whether a hierarchy of version 1 has the controller, according to `/proc/self/cgroup`.
fn is_of_version_1(groups: &str, controller: &str) -> bool {
    let lists = groups.lines().filter_map(|line| line.split(':').nth(1));
    lists
        .into_iter()
        .any(|list| list.split(',').any(|one| one == controller))
}

/// The command that starts a run in a group of its own.
fn remedy() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "`systemd-run --scope -p Delegate=yes openpath run ...`"
    } else {
        "`systemd-run --user --scope -p Delegate=yes openpath run ...`"
    }
}

/// The path of a process's group, from `/proc/PID/cgroup`.
fn own_path(groups: &[u8]) -> Option<PathBuf> {
    let mut lines = groups.split(|byte| *byte == b'\n');
    let path = lines.find_map(|line| line.strip_prefix(b"0::"))?;
    Some(OsString::from_vec(path.to_vec()).into())
}

/// Mounts that show this group, each with the path of the group below it.
fn places(mounts: &[u8], own: &Path) -> Vec<(PathBuf, PathBuf)> {
    let path = |word: &[u8]| PathBuf::from(OsString::from_vec(unescaped(word)));
    let lines = mounts.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ');
        let root = path(words.nth(3)?);
        let place = path(words.next()?);
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        let below = own.strip_prefix(root).ok()?;
        (kind == b"cgroup2").then(|| (place, below.to_owned()))
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::Fake;
    use super::{Placement, Site, is_of_version_1, own_path, places};
    use std::path::{Path, PathBuf};

    const MOUNTS: &[u8] = b"\
20 1 0:1 / / rw - ext4 /dev/a rw
22 21 0:3 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs rw
23 22 0:4 / /sys/fs/cgroup/unified rw shared:3 master:4 - cgroup2 cgroup2 rw
24 22 0:5 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
25 20 0:4 /a /groups\\040b rw - cgroup2 cgroup2 rw
26 20 0:4 /ab /other rw - cgroup2 cgroup2 rw
";

    /// A group of this user's with `members`, in one that has the controllers enabled.
    fn site(name: &str, members: &str) -> (Fake, Site) {
        let fake = Fake::new(name);
        for (file, text) in [
            ("cgroup.procs", ""),
            ("cgroup.subtree_control", "cpu memory\n"),
            ("own/cgroup.controllers", "cpu memory pids\n"),
            ("own/cgroup.procs", members),
            ("own/cgroup.subtree_control", "\n"),
            ("own/cgroup.type", "domain\n"),
            ("own/memory.max", "max\n"),
            ("own/cpu.max", "max 100000\n"),
            ("own/io.max", ""),
        ] {
            fake.write(file, text);
        }
        let parent = fake.dir();
        let own = parent.dir("own").unwrap();
        let parent = Some(parent);
        (fake, Site { own, parent })
    }

    #[test]
    fn group_is_found_below_each_mount_that_shows_it() {
        let own = own_path(b"4:memory:/x\n1:cpu:/\n0::/a/c\n").unwrap();
        assert_eq!(own, Path::new("/a/c"));
        let found = places(MOUNTS, &own);
        let want = [("/sys/fs/cgroup/unified", "a/c"), ("/groups b", "c")];
        let want = want.map(|(mount, below)| (PathBuf::from(mount), PathBuf::from(below)));
        assert_eq!(found, want);
        assert_eq!(own_path(b"4:memory:/x\n"), None);
    }

    #[test]
    fn controller_of_version_1_is_told_from_one_that_is_not_delegated() {
        let groups = "4:memory:/x\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n";
        assert!(is_of_version_1(groups, "memory") && is_of_version_1(groups, "cpu"));
        assert!(!is_of_version_1(groups, "pids") && !is_of_version_1("0::/\n", "cpu"));
    }

    #[test]
    fn own_group_takes_a_view_if_controllers_are_enabled_or_it_is_cleared() {
        let (fake, site) = site("within", "7\n");
        assert_eq!(site.placement(&["memory"], 7), Ok(Placement::Cleared));
        fake.write("own/cgroup.subtree_control", "memory\n");
        assert_eq!(site.placement(&["memory"], 7), Ok(Placement::Within));
        assert_eq!(
            site.placement(&["memory", "cpu"], 7),
            Ok(Placement::Cleared)
        );
        // The top of the tree alone has no type, and may have members.
        std::fs::remove_file(fake.path("own/cgroup.type")).unwrap();
        fake.write("own/cgroup.procs", "1\n7\n");
        assert_eq!(site.placement(&["memory", "cpu"], 7), Ok(Placement::Within));
    }

    #[test]
    fn group_with_other_processes_is_left_for_its_parent_unless_it_has_limits() {
        let (fake, mut site) = site("beside", "7\n8\n");
        assert_eq!(site.placement(&["memory"], 7), Ok(Placement::Beside));
        for (file, limited, free) in [
            ("own/memory.max", "1048576\n", "max\n"),
            ("own/cpu.max", "5000 100000\n", "max 100000\n"),
            ("own/io.max", "8:0 rbps=1\n", ""),
        ] {
            fake.write(file, limited);
            let why = site.placement(&["memory"], 7).unwrap_err();
            assert!(why.contains("has other processes"), "{why}");
            fake.write(file, free);
        }
        site.parent = None;
        let why = site.placement(&["memory"], 7).unwrap_err();
        assert!(why.contains("-p Delegate=yes openpath run"), "{why}");
    }

    #[test]
    fn missing_controller_is_named_with_the_remedy() {
        let (_fake, site) = site("missing", "7\n");
        let why = site.placement(&["cpu", "rdma"], 7).unwrap_err();
        assert!(why.contains("controller rdma is not delegated"), "{why}");
        assert!(why.contains("systemd-run"), "{why}");
    }
}
