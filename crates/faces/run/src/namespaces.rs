// SPDX-License-Identifier: MIT OR Apache-2.0
//! Namespaces of the command, and the view as its root.
//!
//! Root has a mount namespace. Others have a user namespace around it in which they are who they
//! are: one user and one group are mapped, to themselves; all else is nobody's there, and to be
//! set-user-ID to it gains nothing.

use crate::Refusal;
use crate::plan::{PathBytes, Plan};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use rustix::thread::UnshareFlags;
use std::path::Path;

/// Where the view is mounted before it becomes the root: a directory that every Linux has, and that
/// nothing of the real tree is taken from afterwards.
const STAGE: &str = "/proc";

/// Device of FUSE.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// The command's namespaces, made: the view can be mounted.
pub(crate) struct Namespaces {
    /// In a user namespace.
    mapped: bool,
    /// The namespaces themselves, the user namespace first.
    own: Vec<OwnedFd>,
    /// What passes through, each with its place.
    passed: Vec<(OwnedFd, PathBytes)>,
}

impl Namespaces {
    /// Leaves the namespaces of the caller and takes copies of what is to pass.
    pub(crate) fn make(plan: &Plan) -> Result<Namespaces, Refusal> {
        let mapped = unshare()?;
        let names = if mapped {
            &["user", "mnt"][..]
        } else {
            &["mnt"]
        };
        let own = names.iter().map(|name| namespace(name));
        let own = own.collect::<Result<_, _>>()?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private)
            .map_err(|why| no_mount("the mounts cannot be made private", &why.into()))?;
        let mut passed = Vec::new();
        for pass in &plan.pass {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            let tree = rustix::mount::open_tree(CWD, pass.path(), flags)
                .map_err(|why| failed("pass", pass, why))?;
            passed.push((tree, pass.clone()));
        }
        Ok(Namespaces {
            mapped,
            own,
            passed,
        })
    }

    /// Is there a user namespace, and so are others than the caller nobody?
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// By which others can enter them.
    pub(crate) fn own(&self) -> &[OwnedFd] {
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

    /// Makes the view, which must be answered for, the root, and goes to `cwd`; the places at which
    /// mount flags of the host could not be enforced.
    pub(crate) fn enter(self, plan: &Plan, cwd: &Path) -> Result<Vec<PathBytes>, Refusal> {
        pivot().map_err(|why| Refusal::step("cannot make the view the root", why))?;
        let mut unheld = crate::mount_flags::enforce(plan)?;
        for (tree, path) in self.passed {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            let moved = rustix::mount::move_mount(&tree, "", CWD, path.path(), flags);
            moved.map_err(|why| failed("pass", &path, why))?;
        }
        // Outer ones first, for an inner one is mounted upon them.
        for path in plan.protected() {
            protect(path.path()).map_err(|why| failed("protect", &path, why))?;
            // What was bound below it is covered now.
            let again = crate::mount_flags::enforce_below(plan, path.path(), MountFlags::RDONLY);
            unheld.extend(again);
        }
        crate::guard::mask(plan)?;
        rustix::process::chdir(cwd).map_err(|why| {
            let text = format!("the view has no directory {}", cwd.display());
            Refusal::step(&text, why)
        })?;
        Ok(unheld)
    }
}

/// Makes a path read only; what else its mount refuses it goes on to refuse.
fn protect(path: &Path) -> rustix::io::Result<()> {
    let flags = crate::mount_flags::flags_at(path)? | MountFlags::BIND | MountFlags::RDONLY;
    rustix::mount::mount_bind(path, path)?;
    rustix::mount::mount_remount(path, flags, c"")
}

/// A namespace that this process is in.
fn namespace(name: &str) -> Result<OwnedFd, Refusal> {
    let path = format!("/proc/self/ns/{name}");
    rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|why| Refusal::step(&path, why))
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
    openpath_fuse::Options {
        allow_other: true,
        only_user: mapped.then(only),
        // A user namespace takes the meaning from what others own all the same.
        trusted: true,
        ..openpath_fuse::Options::default()
    }
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
