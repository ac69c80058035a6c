// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the kinds of namespaces that a view has, and opens those of this process.

use openpath_commit::Refusal;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::thread::LinkNameSpaceType;
use serde::{Deserialize, Serialize};

/// The kind of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NamespaceKind {
    User,
    Pid,
    Ipc,
    Net,
    Mount,
}

impl NamespaceKind {
    /// As setns(2) names it.
    pub(crate) fn setns_type(self) -> LinkNameSpaceType {
        match self {
            NamespaceKind::User => LinkNameSpaceType::User,
            NamespaceKind::Pid => LinkNameSpaceType::ProcessID,
            NamespaceKind::Ipc => LinkNameSpaceType::InterProcessCommunication,
            NamespaceKind::Net => LinkNameSpaceType::Network,
            NamespaceKind::Mount => LinkNameSpaceType::Mount,
        }
    }

    /// The file in `/proc/PID/ns` of a process that is inside.
    pub(crate) fn file(self) -> &'static str {
        match self {
            NamespaceKind::User => "user",
            NamespaceKind::Pid => "pid",
            NamespaceKind::Ipc => "ipc",
            NamespaceKind::Net => "net",
            NamespaceKind::Mount => "mnt",
        }
    }

    /// That of this process; the pid namespace is that of its children.
    pub(crate) fn open(self) -> Result<OwnedFd, Refusal> {
        let file = match self {
            NamespaceKind::Pid => "pid_for_children",
            other => other.file(),
        };
        let path = format!("/proc/self/ns/{file}");
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|why| Refusal::step(&path, why))
    }
}
