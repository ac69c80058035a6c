// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layers of a view that the kernel serves: an overlay over the root, and one over each mount
//! of the host that the view shows and that neither passes nor is written through.
//!
//! A mount that cannot be in an overlay is shown as it is, and read only.

use crate::engine::Engine;
use crate::mount_flags;
use crate::plan::{Layer, Plan, Protection, Upper};
use crate::share::Share;
use openpath_commit::{PathBytes, Refusal, RefusalKind};
use rustix::fs::{CWD, FsWord, Mode, OFlags};
use std::path::{Path, PathBuf};

/// Magic numbers of file systems with a clock elsewhere (statfs(2)): FUSE, NFS, SMB, CIFS, 9P,
/// Ceph, AFS and OCFS2. A commit compares times of this machine (R2 of `kernel_overlay`).
const FOREIGN_CLOCKS: [FsWord; 8] = [
    0x6573_5546,
    0x6969,
    0xfe53_4d42,
    0xff53_4d42,
    0x0102_1997,
    0x00c3_6400,
    0x5346_414f,
    0x7461_636f,
];

/// The environment variable that permits what is not finished.
const EXPERIMENTAL: &str = "OPENPATH_EXPERIMENTAL";
/// What the user has to do without the kernel's overlay.
const REMEDY: &str = "leave out --engine kernel";

/// The layers of a plan, outer ones first; none for a view that this program serves.
///
/// # Errors
/// The host's mounts cannot be read; its root cannot be in an overlay.
pub(crate) fn layers(plan: &Plan) -> Result<Vec<Layer>, Refusal> {
    if plan.engine != Engine::Kernel {
        return Ok(Vec::new());
    }
    let mut layers = Vec::new();
    for (path, flags) in mount_flags::visible()? {
        if is_of_host(plan, &path) {
            check_protected(plan, &path)?;
            continue;
        }
        let overlay = can_be_lower(&path);
        if !overlay && path == Path::new("/") {
            let text = format!("the kernel's overlay cannot lie over / here: {REMEDY}");
            return Err(Refusal::new(RefusalKind::Unsupported, text));
        }
        let place = path.as_path().into();
        layers.push(Layer {
            place,
            flags,
            overlay,
        });
    }
    Ok(layers)
}

/// The directories in which a command changes most: its working directory and its home. A commit
/// must know the directories above a change.
pub(crate) fn recorded(plan: &Plan) -> Vec<PathBytes> {
    if plan.engine != Engine::Kernel {
        return Vec::new();
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let all = std::env::current_dir().ok().into_iter().chain(home);
    let all = all.filter_map(|dir| dir.canonicalize().ok());
    let of_view = all.filter(|dir| !is_of_host(plan, dir));
    of_view.map(|dir| dir.as_path().into()).collect()
}

/// Refuses a mount of the host below a read-only path in what is written through: the path is made
/// read only, and not the mounts below it.
fn check_protected(plan: &Plan, mount: &Path) -> Result<(), Refusal> {
    match plan.protection_at(mount) {
        Some((path, Protection::ReadOnly)) if path.path() != mount => Err(Refusal::usage(format!(
            "--ro {} cannot hold for the mount at {}: name that with --ro too, or {REMEDY}",
            path.path().display(),
            mount.display()
        ))),
        _ => Ok(()),
    }
}

/// Whether the command sees the host's own file at a path.
fn is_of_host(plan: &Plan, path: &Path) -> bool {
    let mut places = plan.host_places();
    places.any(|above| path.starts_with(above.path()))
}

/// Whether a mount can be the lower tree of an overlay: it is a directory, and its times are those
/// of this machine's clock.
fn can_be_lower(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, path, flags, Mode::empty());
    let fs = dir.and_then(rustix::fs::fstatfs);
    fs.is_ok_and(|fs| !FOREIGN_CLOCKS.contains(&fs.f_type))
}

impl Plan {
    /// Refuses rules that the kernel's overlay cannot hold.
    ///
    /// # Errors
    /// There is such a rule; the user is not root.
    pub(crate) fn check_engine(&self) -> Result<(), Refusal> {
        if self.engine != Engine::Kernel {
            return Ok(());
        }
        let rules = [
            ("--hide", !self.hidden.is_empty()),
            ("--absent", !self.absent.is_empty()),
            ("--ro-try", !self.read_only_if_any.is_empty()),
            ("--mount", !self.extra.is_empty()),
            ("--locks", self.locks),
            ("--write-back", self.write_back),
            ("--no-rings", self.no_rings),
        ];
        if let Some((rule, _)) = rules.iter().find(|(_, is_set)| *is_set) {
            let text = format!("{rule} needs the engine fuse: {REMEDY}, or {rule}");
            return Err(Refusal::usage(text));
        }
        if std::env::var_os(EXPERIMENTAL).is_none_or(|what| what != "kernel-engine") {
            let text = format!(
                "--engine kernel is an experiment with known holes (docs/status/run.md): {REMEDY}, \
                 or set {EXPERIMENTAL}=kernel-engine on a machine without other users"
            );
            return Err(Refusal::usage(text));
        }
        if self.shares(Share::Pid) {
            let text = "--share pid needs the engine fuse: a process that outlives its run would \
                        go on changing the view";
            return Err(Refusal::usage(format!("{text}: {REMEDY}, or --share pid")));
        }
        if self.upper == (Upper::Memory { size: Some(0) }) {
            let text = format!("memory:0 needs the engine fuse: {REMEDY}, or give it room");
            return Err(Refusal::usage(text));
        }
        if !rustix::process::geteuid().is_root() {
            let text = format!("--engine kernel is for root alone: {REMEDY}, or run as root");
            return Err(Refusal::usage(text));
        }
        Ok(())
    }
}
