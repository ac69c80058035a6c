// SPDX-License-Identifier: MIT OR Apache-2.0
//! Namespaces of the command, and the view as its root.
//!
//! Root has a mount namespace. Others have a user namespace around it in which they are who they
//! are: one user and one group are mapped, to themselves; all else is nobody's there, and to be
//! set-user-ID to it gains nothing.
//!
//! Beside these the command has pid and IPC namespaces, unless the plan shares the host's, and a
//! network namespace if the plan asks for none of the host's network.
//!
//! # Rules
//! R1. The process that makes the namespaces stays in the host's pid namespace, and mounts FUSE
//!     from there: numbers of processes that the kernel tells the server are the host's.
//! R2. What passes is opened by a path without links: a command of another run may have put one
//!     there since the path was looked at.

use crate::devices::{mount_own, raise_loopback};
use crate::init::Init;
use crate::plan::Plan;
use crate::share::{Net, Share};
use crate::space::Space;
use openpath_commit::{PathBytes, Refusal};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::thread::UnshareFlags;
use std::path::{Path, PathBuf};

/// Where the view is mounted before it becomes the root: a directory that every Linux has, and that
/// nothing of the real tree is taken from afterwards.
const STAGE: &str = "/proc";

/// What is mounted anew in a pid namespace.
const PROC: &str = "/proc";
/// Where devices of the host are.
const DEV: &str = "/dev";

/// Device of FUSE.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// The command's namespaces, made: the view can be mounted.
pub(crate) struct Namespaces {
    /// In a user namespace.
    mapped: bool,
    /// The namespaces themselves, each with its kind.
    own: Vec<(Space, OwnedFd)>,
    /// The first process of the pid namespace, if there is one.
    init: Option<Init>,
    /// What passes through, each with its place.
    passed: Vec<(OwnedFd, PathBytes)>,
    /// Mounts of control groups that the command must not write to.
    groups: Vec<PathBuf>,
}

impl Namespaces {
    /// Leaves the namespaces of the caller and takes copies of what is to pass. `start` starts a
    /// process in all of them, before the view is mounted.
    pub(crate) fn make<T>(
        plan: &Plan,
        start: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<(Namespaces, T), Refusal> {
        let mapped = unshare()?;
        let kinds = leave_others(plan)?;
        // It does its work while this process does its own.
        let has_pids = kinds.contains(&Space::Pid);
        let init = has_pids.then(Init::start).transpose()?;
        let started = start()?;
        let own = [Space::User, Space::Mount].into_iter().chain(kinds);
        let own = own.filter(|kind| mapped || *kind != Space::User);
        let own = own.map(|kind| Ok((kind, kind.open()?)));
        let own = own.collect::<Result<_, Refusal>>()?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)
            .map_err(|why| no_mount("the mounts cannot be made private", &why.into()))?;
        let mut passed = Vec::new();
        for pass in &plan.pass {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_EMPTY_PATH
                | OpenTreeFlags::AT_RECURSIVE;
            // R2
            let tree = crate::links::open(pass.path())
                .and_then(|place| rustix::mount::open_tree(&place, "", flags))
                .map_err(|why| failed("pass", pass, why))?;
            passed.push((tree, pass.clone()));
        }
        if plan.net == Net::None {
            raise_loopback()
                .map_err(|why| Refusal::step("cannot bring up the loopback device", why))?;
        }
        // Before the view covers `/proc`.
        let groups = crate::groups::mounts(plan)?;
        let pids = crate::numbers::limit(plan);
        let made = Namespaces {
            mapped,
            own,
            init: init.map(|init| Init::of(init, pids)).transpose()?,
            passed,
            groups,
        };
        Ok((made, started))
    }

    /// The first process of the pid namespace.
    pub(crate) fn init(&self) -> Option<&Init> {
        self.init.as_ref()
    }

    /// Is there a user namespace, and so are others than the caller nobody?
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// By which others can enter them.
    pub(crate) fn own(&self) -> &[(Space, OwnedFd)] {
        &self.own
    }

    /// Mounts the view, and gives the descriptor by which it is answered for, and its device.
    pub(crate) fn mount(&self) -> Result<(OwnedFd, String), Refusal> {
        // Apart from the mount, so that what is refused is known.
        device()?;
        let fuse = openpath_fuse::attach(Path::new(STAGE), &options(self.mapped))
            .map_err(|why| no_mount("the view cannot be mounted", &why))?;
        // Nobody answers yet, so nothing is to be asked.
        let unasked = AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(CWD, STAGE, unasked, StatxFlags::empty());
        let stat = stat.map_err(|why| no_mount("the view is not to be seen", &why.into()))?;
        let device = format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor);
        Ok((fuse, device))
    }

    /// Makes the view, which must be answered for, the root of this process and of those that it
    /// has started. Gives the places at which mount flags of the host could not be enforced, and
    /// why there is no `/proc` of the view's own, if there should be one.
    pub(crate) fn enter(self, plan: &Plan) -> Result<(Vec<PathBytes>, Option<String>), Refusal> {
        pivot().map_err(|why| Refusal::step("cannot make the view the root", why))?;
        let mut unheld = crate::mount_flags::enforce(plan)?;
        let (proc, no_proc) = match self.init.map(|init| init.proc) {
            Some(Ok(mount)) => (Some(mount), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        for (tree, path) in self.passed {
            let own = proc.as_ref().filter(|_| path.path() == Path::new(PROC));
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            let moved =
                rustix::mount::move_mount(own.unwrap_or(&tree), "", CWD, path.path(), flags);
            moved.map_err(|why| failed("pass", &path, why))?;
            if path.path() == Path::new(DEV) {
                mount_own(plan)?;
            }
        }
        crate::groups::protect(&self.groups)?;
        unheld.extend(crate::cover::apply(plan)?);
        crate::guard::mask(plan)?;
        Ok((unheld, no_proc))
    }
}

fn failed(what: &str, path: &PathBytes, why: Errno) -> Refusal {
    Refusal::step(&format!("cannot {what} {}", path.path().display()), why)
}

/// The stage becomes the root, and the old root goes.
fn pivot() -> rustix::io::Result<()> {
    rustix::process::chdir(STAGE)?;
    rustix::process::pivot_root(".", ".")?;
    // The old root lies upon the new one now, at the same place.
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")
}

/// How the view is mounted and served, in a user namespace or without.
pub(crate) fn options(mapped: bool) -> openpath_fuse::Options {
    let only = || openpath_fuse::OnlyUser {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups(),
    };
    openpath_fuse::Options::default()
        .allow_other(true)
        .only_user(mapped.then(only))
        // A user namespace takes the meaning from what others own all the same.
        .trusted(true)
}

/// The further groups of this process.
fn groups() -> Vec<u32> {
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .collect()
}

/// Opens the device of FUSE; for a mount this must be done within the namespaces.
pub(crate) fn device() -> Result<OwnedFd, Refusal> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(no_device)
}

/// Leaves the caller's namespaces; says whether that took a user namespace.
fn unshare() -> Result<bool, Refusal> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() && split(UnshareFlags::NEWNS).is_ok() {
        return Ok(false);
    }
    split(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(no_user_namespace)?;
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|why| Refusal::step(&format!("cannot write /proc/self/{file}"), why))
    };
    // Whoever maps a group without being privileged must give up changing groups first.
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))?;
    Ok(true)
}

/// Leaves the namespaces of the caller that the plan does not share; says which.
fn leave_others(plan: &Plan) -> Result<Vec<Space>, Refusal> {
    let wanted = [
        (Space::Pid, UnshareFlags::NEWPID, !plan.shares(Share::Pid)),
        (Space::Ipc, UnshareFlags::NEWIPC, !plan.shares(Share::Ipc)),
        (Space::Net, UnshareFlags::NEWNET, plan.net == Net::None),
    ];
    let mut left = Vec::new();
    for (kind, flag, is_wanted) in wanted {
        if is_wanted {
            split(flag).map_err(|why| no_namespace(kind, why))?;
            left.push(kind);
        }
    }
    Ok(left)
}

#[expect(
    deprecated,
    reason = "deprecated for CLONE_FILES, which is not asked for here; the other form is unsafe"
)]
fn split(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

/// The sentence for a mount that is refused.
fn no_mount(what: &str, why: &std::io::Error) -> Refusal {
    let setting = "kernel.apparmor_restrict_unprivileged_userns";
    let path = format!("/proc/sys/{}", setting.replace('.', "/"));
    let restricted = std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    Refusal::new(if restricted {
        format!("{what} ({why}): as root, `sysctl {setting}=0`, or run as root")
    } else {
        format!("{what} ({why}): mounts are refused here, as containers do; or run as root")
    })
}

/// The sentence for another namespace that is refused.
fn no_namespace(kind: Space, why: Errno) -> Refusal {
    let (name, setting, remedy) = match kind {
        Space::Pid => (
            "pid",
            "max_pid_namespaces",
            "use the host's with `--share pid`",
        ),
        Space::Ipc => (
            "IPC",
            "max_ipc_namespaces",
            "use the host's with `--share ipc`",
        ),
        _ => ("network", "max_net_namespaces", "leave out `--net none`"),
    };
    Refusal::new(format!(
        "a new {name} namespace is refused ({why}): raise user.{setting} as root, or {remedy}"
    ))
}

/// The sentence for a user namespace that is refused.
fn no_user_namespace(why: Errno) -> Refusal {
    let limit = "/proc/sys/user/max_user_namespaces";
    let none = std::fs::read_to_string(limit).is_ok_and(|text| text.trim() == "0");
    Refusal::new(if none {
        "user namespaces are turned off (user.max_user_namespaces is 0): \
         as root, `sysctl user.max_user_namespaces=10000`, or run as root"
            .to_owned()
    } else {
        format!(
            "user namespaces are refused ({why}): as root, `sysctl \
             kernel.unprivileged_userns_clone=1` where there is such a setting; in a container \
             allow unshare(2) in its seccomp profile; or run as root"
        )
    })
}

/// The sentence for a device that cannot be opened.
fn no_device(why: Errno) -> Refusal {
    Refusal::new(match why {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => format!(
            "there is no {DEVICE} ({why}): as root, `modprobe fuse`; give it to a container with \
             `--device {DEVICE}`"
        ),
        Errno::ACCESS | Errno::PERM => format!(
            "{DEVICE} may not be opened ({why}): as root, `chmod 666 {DEVICE}`, as distributions \
             have it"
        ),
        other => format!("{DEVICE} cannot be opened: {other}"),
    })
}
