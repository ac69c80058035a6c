// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the namespaces of the command, mounts in them what the plan passes or keeps from it, and
//! makes the view their root.
//!
//! Root gets a mount namespace. Other users also get a user namespace around it that maps one user
//! and one group to themselves. All other users are `nobody` there, and set-user-ID programs of
//! theirs gain nothing.
//!
//! Besides these the command has pid and IPC namespaces, unless the plan shares the host's, and a
//! network namespace if the plan asks for `--net none`.
//!
//! # Rules
//! R1. The process that makes the namespaces stays in the host's pid namespace and mounts FUSE from
//!     there, so that the kernel reports the host's process numbers to the server.
//! R2. What passes is opened, and mounted, by a path without links: a command of another run, or
//!     another user, may have made one since the path was resolved.

use crate::detached;
use crate::devices::{mount_own, raise_loopback};
use crate::engine::Engine;
use crate::init::Init;
use crate::kernel_overlay::{
    self,
    mounts::{LayerMount, UpperTree},
};
use crate::namespace_kind::NamespaceKind;
use crate::plan::{Part, Plan};
use crate::share::{Net, Share};
use openpath_commit::{PathBytes, Refusal, RefusalKind};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, MoveMountFlags, UnmountFlags};
use rustix::thread::UnshareFlags;
use std::path::{Path, PathBuf};

/// Where the view is mounted before it becomes the root: a directory that every Linux has, and from
/// which nothing of the real tree is taken afterwards.
const STAGE: &str = "/proc";

/// Mounted anew in a pid namespace.
const PROC: &str = "/proc";
/// The directory of devices.
const DEV: &str = "/dev";

/// The device of FUSE.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// The command's namespaces, ready for the mount of the view.
pub(crate) struct Namespaces {
    /// There is a user namespace.
    mapped: bool,
    /// The namespaces themselves, each with its kind.
    own: Vec<(NamespaceKind, OwnedFd)>,
    /// The first process of the pid namespace, if there is one.
    init: Option<Init>,
    /// Passed mounts, each with its path.
    passed: Vec<(OwnedFd, PathBytes)>,
    /// The mounts of a view that the kernel serves below its root, outer ones first.
    layers: Vec<LayerMount>,
    /// Mounts of control groups that the command must not write to.
    groups: Vec<PathBuf>,
}

impl Namespaces {
    /// Leaves the namespaces of the caller and copies the mounts that pass. `start` starts a
    /// process in all of them, before the view is mounted.
    pub(crate) fn make<T>(
        plan: &Plan,
        start: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<(Namespaces, T), Refusal> {
        let mapped = unshare()?;
        let kinds = leave_others(plan)?;
        // It works in parallel with this process.
        let has_pids = kinds.contains(&NamespaceKind::Pid);
        let init = has_pids
            .then(|| Init::start(plan.has_secrets))
            .transpose()?;
        let started = start()?;
        let own = [NamespaceKind::User, NamespaceKind::Mount]
            .into_iter()
            .chain(kinds);
        let own = own.filter(|kind| mapped || *kind != NamespaceKind::User);
        let own = own.map(|kind| Ok((kind, kind.open()?)));
        let own = own.collect::<Result<_, Refusal>>()?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)
            .map_err(|why| no_mount("the mounts cannot be made private", &why.into()))?;
        let mut passed = Vec::new();
        for pass in of_host(plan) {
            // R2
            let tree = crate::links::open(pass.path())
                .and_then(detached::copy_all)
                .map_err(|why| failed("pass", pass, why))?;
            passed.push((tree, pass.clone()));
        }
        if plan.net == Net::None {
            raise_loopback()
                .map_err(|why| Refusal::step("cannot bring up the loopback device", why))?;
        }
        // Before the view covers `/proc`.
        let groups = crate::host_cgroups::mounts(plan)?;
        let pids = crate::pid_limit::limit(plan);
        let made = Namespaces {
            mapped,
            own,
            init: init.map(|init| Init::begin(init, pids)).transpose()?,
            passed,
            layers: Vec::new(),
            groups,
        };
        Ok((made, started))
    }

    /// The first process of the pid namespace.
    pub(crate) fn init(&self) -> Option<&Init> {
        self.init.as_ref()
    }

    /// Whether there is a user namespace, in which users other than the caller are `nobody`.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// The namespaces as descriptors, by which other processes can enter them.
    pub(crate) fn own(&self) -> &[(NamespaceKind, OwnedFd)] {
        &self.own
    }

    /// Mounts the view; returns its descriptor of FUSE and its device.
    pub(crate) fn mount(&self) -> Result<(OwnedFd, String), Refusal> {
        // Before the mount, for a precise error.
        device()?;
        let fuse = openpath_fuse::attach(Path::new(STAGE), &options(self.mapped))
            .map_err(|why| no_mount("the view cannot be mounted", &why))?;
        Ok((fuse, staged_device()?))
    }

    /// Makes the kernel's overlay over the part of the view, to be attached in it.
    pub(crate) fn make_part(&mut self, part: &Part, upper: &UpperTree) -> Result<(), Refusal> {
        let made = kernel_overlay::mounts::make_part(part, upper)?;
        self.layers.push(made);
        Ok(())
    }

    /// Makes the kernel's overlays of the view and mounts the one at its root; returns that and its
    /// device.
    pub(crate) fn mount_overlays(
        &mut self,
        plan: &Plan,
        upper: &UpperTree,
    ) -> Result<(OwnedFd, String), Refusal> {
        if self.mapped {
            let text = "--engine kernel is for root alone, and a new mount namespace is refused \
                        here: leave it out";
            return Err(Refusal::new(RefusalKind::Unsupported, text));
        }
        crate::confine::raise_fd_limit();
        let (root, layers) = kernel_overlay::mounts::make(plan, upper)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&root, "", CWD, STAGE, flags)
            .map_err(|why| no_mount("the view cannot be mounted", &why.into()))?;
        self.layers = layers;
        Ok((root, staged_device()?))
    }

    /// The devices of the kernel's overlays but for the one at the root, in the order of the plan;
    /// none for a mount that is shown otherwise.
    pub(crate) fn layer_devices(&self) -> Vec<Option<String>> {
        self.layers.iter().map(LayerMount::device).collect()
    }

    /// Makes the view, which must be served, the root of this process and of its children. Returns
    /// the paths at which mount flags of the host could not be enforced, and why the view has no
    /// `/proc` of its own, if it should have one.
    pub(crate) fn enter(self, plan: &Plan) -> Result<(Vec<PathBytes>, Option<String>), Refusal> {
        pivot().map_err(|why| Refusal::step("cannot make the view the root", why))?;
        let mut unenforced = match plan.engine {
            Engine::Fuse | Engine::Auto => crate::mount_flags::enforce(plan)?,
            // Each overlay has the flags of its lower mount.
            Engine::Kernel => Vec::new(),
        };
        self.layers
            .iter()
            .try_for_each(|layer| layer.attach(plan))?;
        let (proc, no_proc) = match self.init.map(|init| init.proc) {
            Some(Ok(mount)) => (Some(mount), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        for (tree, path) in self.passed {
            let own = proc.as_ref().filter(|_| path.path() == Path::new(PROC));
            // R2
            let moved = crate::links::open(path.path())
                .and_then(|place| detached::attach(own.unwrap_or(&tree), place));
            moved.map_err(|why| failed("pass", &path, why))?;
            if path.path() == Path::new(DEV) {
                mount_own(plan)?;
            }
        }
        crate::host_cgroups::protect(&self.groups)?;
        unenforced.extend(crate::protection::apply(plan)?);
        if plan.engine == Engine::Kernel {
            let pinned = kernel_overlay::pins::attach(plan);
            pinned.map_err(|why| Refusal::step("cannot keep directories in place", why))?;
        }
        crate::guard::mask(plan)?;
        Ok((unenforced, no_proc))
    }
}

/// The paths of mounts of the host, in the order in which they are mounted.
fn of_host(plan: &Plan) -> Vec<&PathBytes> {
    let mut all: Vec<_> = plan.host_places().collect();
    // Outer ones first. What passes alone keeps the order of the options.
    if plan.engine == Engine::Kernel {
        all.sort();
    }
    all
}

/// The device of the mounted view, as `/proc/PID/mountinfo` writes it.
fn staged_device() -> Result<String, Refusal> {
    // FUSE is not served yet, so no request may be sent.
    let unasked = AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(CWD, STAGE, unasked, StatxFlags::empty());
    let stat = stat.map_err(|why| no_mount("the view is not to be seen", &why.into()))?;
    Ok(format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor))
}

fn failed(what: &str, path: &PathBytes, why: Errno) -> Refusal {
    Refusal::step(&format!("cannot {what} {}", path.path().display()), why)
}

/// Makes the staged mount the root, and detaches the old root.
fn pivot() -> rustix::io::Result<()> {
    rustix::process::chdir(STAGE)?;
    rustix::process::pivot_root(".", ".")?;
    // The old root now covers the new one.
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")
}

/// The options for mount and server, in a user namespace or without.
pub(crate) fn options(mapped: bool) -> openpath_fuse::Options {
    let only = || openpath_fuse::OnlyUser {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups(),
    };
    openpath_fuse::Options::default()
        .allow_other(true)
        .only_user(mapped.then(only))
        .root_mode(root_mode())
        // A user namespace still makes the set-user-ID bits of other users' files void.
        .trusted(true)
}

/// The bits of the root directory that are the same for all users, to read and search it.
fn root_mode() -> u16 {
    let mode = rustix::fs::stat("/").map_or(0, |stat| stat.st_mode);
    let all = mode >> 6 & mode >> 3 & mode & 0o5;
    (all << 6 | all << 3 | all) as u16
}

/// The supplementary groups of this process.
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

/// Leaves the caller's namespaces; returns whether that took a user namespace.
fn unshare() -> Result<bool, Refusal> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() && split(UnshareFlags::NEWNS).is_ok() {
        return Ok(false);
    }
    split(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(no_user_namespace)?;
    // The files below belong to root while this process is protected.
    crate::confine::unprotect()?;
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|why| Refusal::step(&format!("cannot write /proc/self/{file}"), why))
    };
    // An unprivileged process must give up changing groups before it maps one.
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))?;
    crate::confine::protect()?;
    Ok(true)
}

/// Leaves the namespaces of the caller that the plan does not share; returns which.
fn leave_others(plan: &Plan) -> Result<Vec<NamespaceKind>, Refusal> {
    let wanted = [
        (
            NamespaceKind::Pid,
            UnshareFlags::NEWPID,
            !plan.shares(Share::Pid),
        ),
        (
            NamespaceKind::Ipc,
            UnshareFlags::NEWIPC,
            !plan.shares(Share::Ipc),
        ),
        (
            NamespaceKind::Net,
            UnshareFlags::NEWNET,
            plan.net == Net::None,
        ),
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

/// The message for a refused mount.
fn no_mount(what: &str, why: &std::io::Error) -> Refusal {
    let setting = "kernel.apparmor_restrict_unprivileged_userns";
    let path = format!("/proc/sys/{}", setting.replace('.', "/"));
    let restricted = std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    Refusal::new(
        RefusalKind::Unsupported,
        if restricted {
            format!("{what} ({why}): as root, `sysctl {setting}=0`, or run as root")
        } else {
            format!("{what} ({why}): mounts are refused here, as containers do; or run as root")
        },
    )
}

/// The message for a refused namespace other than a user namespace.
fn no_namespace(kind: NamespaceKind, why: Errno) -> Refusal {
    let (name, setting, remedy) = match kind {
        NamespaceKind::Pid => (
            "pid",
            "max_pid_namespaces",
            "use the host's with `--share pid`",
        ),
        NamespaceKind::Ipc => (
            "IPC",
            "max_ipc_namespaces",
            "use the host's with `--share ipc`",
        ),
        _ => ("network", "max_net_namespaces", "leave out `--net none`"),
    };
    Refusal::new(
        RefusalKind::Unsupported,
        format!(
            "a new {name} namespace is refused ({why}): raise user.{setting} as root, or {remedy}"
        ),
    )
}

/// The message for a refused user namespace.
fn no_user_namespace(why: Errno) -> Refusal {
    let limit = "/proc/sys/user/max_user_namespaces";
    let none = std::fs::read_to_string(limit).is_ok_and(|text| text.trim() == "0");
    Refusal::new(
        RefusalKind::Unsupported,
        if none {
            "user namespaces are turned off (user.max_user_namespaces is 0): \
         as root, `sysctl user.max_user_namespaces=10000`, or run as root"
                .to_owned()
        } else {
            format!(
                "user namespaces are refused ({why}): as root, `sysctl \
             kernel.unprivileged_userns_clone=1` where there is such a setting; in a container \
             allow unshare(2) in its seccomp profile; or run as root"
            )
        },
    )
}

/// The message for a device that cannot be opened.
fn no_device(why: Errno) -> Refusal {
    Refusal::new(
        RefusalKind::Unsupported,
        match why {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => format!(
                "there is no {DEVICE} ({why}): as root, `modprobe fuse`; give it to a container \
                 with `--device {DEVICE}`"
            ),
            Errno::ACCESS | Errno::PERM => format!(
                "{DEVICE} may not be opened ({why}): as root, `chmod 666 {DEVICE}`, as \
                 distributions have it"
            ),
            other => format!("{DEVICE} cannot be opened: {other}"),
        },
    )
}
