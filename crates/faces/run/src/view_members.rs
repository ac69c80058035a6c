// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends processes that entered a view other than by its command. If the front (the process that the
//! user started) is gone, which would have ended the others, this module ends all processes in the
//! view.
//!
//! A process is in the view if it is in one of the view's namespaces, has a mount of the view, or
//! executes a file of it. Where the view has a pid namespace, the end of its first process has
//! killed all members before. This module finds processes that share the host's pid namespace, and
//! those that came from outside by setns(2). One case is not found: with the host's processes
//! shared, a process that entered later, made namespaces, detached the view in them and executes a
//! file from elsewhere.
//!
//! # Rules
//! R1. The view's own namespaces are held meanwhile. A namespace disappears with its last process,
//!     and the kernel may give its number, or the device number of the mount, to another run.

use crate::left_processes::is_ending;
use crate::namespace_kind::NamespaceKind;
use crate::terminate::{ProcessSet, terminate_all};
use openpath_commit::Refusal;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at all processes.
const PAUSE: Duration = Duration::from_millis(20);

/// How processes in a view are recognised.
pub(crate) struct ViewMembers {
    /// The device of its mount, as `/proc/PID/mountinfo` writes it.
    device: String,
    /// Files in `/proc/PID/ns`, and their link targets for a process inside.
    links: Vec<(&'static str, PathBuf)>,
    /// The link target of the server's own mount namespace in `/proc/PID/ns`.
    outside: PathBuf,
}

impl ViewMembers {
    /// The members of a view with this device and these namespaces.
    pub(crate) fn new(
        device: String,
        namespaces: &[(NamespaceKind, OwnedFd)],
    ) -> Result<ViewMembers, Refusal> {
        let failed = |why| Refusal::step("cannot identify a namespace", why);
        let telling = |kind: &NamespaceKind| {
            matches!(
                kind,
                NamespaceKind::User | NamespaceKind::Pid | NamespaceKind::Mount
            )
        };
        let mut links = Vec::new();
        for (kind, namespace) in namespaces.iter().filter(|(kind, _)| telling(kind)) {
            let stat = rustix::fs::fstat(namespace).map_err(failed)?;
            let file = kind.file();
            links.push((file, format!("{file}:[{}]", stat.st_ino).into()));
        }
        let outside = std::fs::read_link("/proc/self/ns/mnt");
        let outside = outside.map_err(|why| Refusal::step("/proc/self/ns/mnt", why))?;
        Ok(ViewMembers {
            device,
            links,
            outside,
        })
    }

    /// Whether a process is in the view. A process with the host's mounts is not: it waits for a
    /// command in the view. Neither is one that has ended and has no mounts.
    pub(crate) fn has(&self, pid: Pid) -> bool {
        let dir = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        if std::fs::read_link(dir.join("ns/mnt")).is_ok_and(|mounts| mounts == self.outside) {
            return false;
        }
        let points = |file: &str| std::fs::read_link(dir.join("ns").join(file)).ok();
        let is_here = |(file, link): &(&str, PathBuf)| points(file).as_ref() == Some(link);
        let lives = points("mnt").is_some();
        (lives && self.links.iter().any(is_here)) || self.is_mounted(&dir) || self.is_executed(&dir)
    }

    fn is_executed(&self, process: &Path) -> bool {
        // The kernel knows the device without a request to this server.
        let unasked = AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(CWD, process.join("exe"), unasked, StatxFlags::empty());
        let device = |stat: Statx| format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor);
        stat.is_ok_and(|stat| device(stat) == self.device)
    }

    fn is_mounted(&self, process: &Path) -> bool {
        let mounts = std::fs::read(process.join("mountinfo")).unwrap_or_default();
        mounts
            .split(|byte| *byte == b'\n')
            .any(|line| line.split(|byte| *byte == b' ').nth(2) == Some(self.device.as_bytes()))
    }
}

impl ProcessSet for ViewMembers {
    type Process = OwnedFd;

    fn all(&self) -> Vec<(Pid, OwnedFd)> {
        let names = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Pid::from_raw)
            .filter(|pid| self.has(*pid))
            .filter_map(|pid| {
                let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
                self.has(pid).then_some((pid, process))
            })
            .collect()
    }

    fn is_exiting(&self, pid: Pid) -> bool {
        is_ending(pid)
    }

    fn signal(&self, process: &OwnedFd, signal: Signal) {
        rustix::process::pidfd_send_signal(process, signal).ok();
    }
}

/// Asks all members to end, kills them after a while, and returns how many there were. The caller
/// holds the namespaces of the view meanwhile (R1).
pub(crate) fn end(members: &ViewMembers) -> usize {
    terminate_all(members, PAUSE)
}
