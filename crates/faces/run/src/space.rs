// SPDX-License-Identifier: MIT OR Apache-2.0
//! The namespaces of a view, by kind.

use openpath_commit::Refusal;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::thread::LinkNameSpaceType;
use serde::{Deserialize, Serialize};

/// The kind of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Space {
    User,
    Pid,
    Ipc,
    Net,
    Mount,
}

impl Space {
    /// As setns(2) names it.
    pub(crate) fn link(self) -> LinkNameSpaceType {
        match self {
            Space::User => LinkNameSpaceType::User,
            Space::Pid => LinkNameSpaceType::ProcessID,
            Space::Ipc => LinkNameSpaceType::InterProcessCommunication,
            Space::Net => LinkNameSpaceType::Network,
            Space::Mount => LinkNameSpaceType::Mount,
        }
    }

    /// The file in `/proc/PID/ns` of a process that is inside.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Space::User => "user",
            Space::Pid => "pid",
            Space::Ipc => "ipc",
            Space::Net => "net",
            Space::Mount => "mnt",
        }
    }

    /// That of this process; the pid namespace is that of its children.
    pub(crate) fn open(self) -> Result<OwnedFd, Refusal> {
        let file = match self {
            Space::Pid => "pid_for_children",
            other => other.file(),
        };
        let path = format!("/proc/self/ns/{file}");
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|why| Refusal::step(&path, why))
    }
}
