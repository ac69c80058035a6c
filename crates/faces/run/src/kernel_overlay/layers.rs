// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides on the layers of a view that the kernel serves: an overlay over the root, and one over
//! each mount of the host that the view shows. Mounts that it shows as they are (`--pass`, `--rw`)
//! get none.
//!
//! A mount that cannot be in an overlay is shown as it is, and read only. One that leads to other
//! mount or pid namespaces, or that does not answer, is not shown at all.

use crate::engine::Engine;
use crate::host_mounts::HostMounts;
use crate::kernel_overlay::parts::{ServedByKernel, no_part};
use crate::plan::{Layer, LayerShown, Plan, Upper};
use crate::share::Share;
use openpath_commit::{PathBytes, Refusal, RefusalKind};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use std::path::{Path, PathBuf};

/// File systems with a clock elsewhere, besides those of FUSE. A commit compares times of this
/// machine (R2 of `kernel_overlay`).
const FOREIGN_CLOCKS: [&str; 9] = [
    "nfs", "nfs4", "smb3", "cifs", "9p", "ceph", "afs", "ocfs2", "virtiofs",
];

/// File systems whose links and files lead out of the view, and one that mounts what others have
/// named.
const LEADS_OUT: [&str; 3] = ["proc", "nsfs", "autofs"];

/// What the user has to do without the kernel's overlay.
const REMEDY: &str = "leave out --engine kernel";

/// The layers of a plan, outer ones first; none for a view that this program serves.
///
/// # Errors
/// The host's root cannot be in an overlay.
pub(crate) fn layers(plan: &Plan, mounts: &HostMounts) -> Result<Vec<Layer>, Refusal> {
    if plan.engine != Engine::Kernel {
        return Ok(Vec::new());
    }
    let mut layers = Vec::new();
    let cwd = std::env::current_dir().ok().filter(|_| plan.falls_back);
    let of_cwd = cwd.and_then(|cwd| mounts.mount_of(&cwd).map(|(place, _)| place));
    for (path, mount) in mounts.iter() {
        if is_of_host(plan, path) {
            continue;
        }
        let shown = shown(path, &mount.kind);
        if shown != LayerShown::Overlay && path == Path::new("/") {
            let text = format!("the kernel's overlay cannot lie over / here: {REMEDY}");
            return Err(Refusal::new(RefusalKind::Unsupported, text));
        }
        layers.push(Layer {
            place: path.into(),
            flags: mount.flags,
            shown,
            is_needed: of_cwd == Some(path),
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

/// Whether the command sees the host's own file at a path.
fn is_of_host(plan: &Plan, path: &Path) -> bool {
    let mut places = plan.host_places();
    places.any(|above| path.starts_with(above.path()))
}

/// What the view shows at a mount with a file system of this type.
pub(crate) fn shown(path: &Path, kind: &str) -> LayerShown {
    if LEADS_OUT.contains(&kind) {
        return LayerShown::Below;
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at = rustix::fs::openat(CWD, path, flags, Mode::empty());
    // No server is asked that may not answer.
    let unasked = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = at.and_then(|at| rustix::fs::statx(at, "", unasked, StatxFlags::TYPE));
    let is_dir =
        stat.map(|stat| FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory);
    let is_fuse = kind == "fuseblk" || kind == "fuse" || kind.starts_with("fuse.");
    match is_dir {
        Err(_) => LayerShown::Below,
        Ok(true) if !is_fuse && !FOREIGN_CLOCKS.contains(&kind) => LayerShown::Overlay,
        Ok(_) => LayerShown::ReadOnly,
    }
}

impl Plan {
    /// Why [`Engine::Auto`] means the engine fuse for this plan, as far as that is known before the
    /// run; none if the kernel is to serve the view.
    #[must_use]
    pub fn reason_for_fuse(&self, has_log: bool) -> Option<String> {
        let log = has_log.then(|| needs_fuse("--log"));
        let why = self.kernel_lacks().map(|(why, _)| why);
        // A commit refuses the view then.
        let unmounted = "the command could unmount what makes a path of --ro read only";
        let read_only = (!self.read_only.is_empty()).then(|| unmounted.to_owned());
        why.or(log)
            .or(read_only)
            .or_else(|| self.read_only_working_directory())
    }

    /// Why the command could not write where it starts: in a mount that no overlay covers.
    fn read_only_working_directory(&self) -> Option<String> {
        let cwd = std::env::current_dir().ok()?;
        let mounts = HostMounts::read().ok()?;
        let (place, mount) = mounts.mount_of(&cwd)?;
        if is_of_host(self, &cwd) || shown(place, &mount.kind) == LayerShown::Overlay {
            return None;
        }
        let (place, kind) = (place.display(), &mount.kind);
        let why = "no overlay of the kernel's can show writable";
        Some(format!(
            "the working directory is in {place} ({kind}), which {why}"
        ))
    }

    /// Refuses rules that the kernel's overlay cannot hold.
    ///
    /// # Errors
    /// There is such a rule, or no directory for a part.
    pub(crate) fn check_engine(&self) -> Result<(), Refusal> {
        match self.kernel_lacks() {
            _ if self.engine != Engine::Kernel => Ok(()),
            Some((why, remedy)) => Err(Refusal::usage(format!("{why}: {remedy}"))),
            None => match self.served_by_kernel()? {
                ServedByKernel::Nothing => Err(no_part()),
                ServedByKernel::Whole | ServedByKernel::Part(_) => Ok(()),
            },
        }
    }

    /// Whether there are rules that hold only in what this program serves, beside a part.
    pub(crate) fn has_rules_beside_part(&self) -> bool {
        let is_missing = |path: &PathBytes| path.path().symlink_metadata().is_err();
        !self.hidden.is_empty()
            || !self.absent.is_empty()
            || !self.extra.is_empty()
            || self.read_only_if_any.iter().any(is_missing)
    }

    /// What the kernel's overlay cannot do for this plan, and the remedy.
    fn kernel_lacks(&self) -> Option<(String, String)> {
        let rules = [
            ("--live", self.live),
            ("--locks", self.locks),
            ("--write-back", self.write_back),
            ("--no-rings", self.no_rings),
        ];
        if let Some((rule, _)) = rules.iter().find(|(_, is_set)| *is_set) {
            return Some((needs_fuse(rule), format!("{REMEDY}, or {rule}")));
        }
        if self.engine == Engine::Auto {
            if !rustix::process::geteuid().is_root() {
                let why = "the kernel can serve only a part of an ordinary user's view";
                return Some((why.to_owned(), REMEDY.to_owned()));
            }
            if self.has_rules_beside_part() {
                let why = "the kernel can serve only a part of a view with rules of names";
                return Some((why.to_owned(), REMEDY.to_owned()));
            }
        }
        let is_through = |path: &&PathBytes| {
            let mut through = self.write_through.iter();
            through.any(|above| path.path().starts_with(above.path()))
        };
        if let Some(path) = self.read_only.iter().find(is_through) {
            let path = path.path().display();
            let why = format!(
                "--ro {path} in a directory of --rw needs the engine fuse, because the command \
                 could unmount what makes it read only"
            );
            return Some((why, format!("{REMEDY}, or --ro {path}")));
        }
        if self.shares(Share::Pid) {
            let why = "--share pid needs the engine fuse, because a process that outlives its run \
                       would go on changing the view";
            return Some((why.to_owned(), format!("{REMEDY}, or --share pid")));
        }
        if self.upper == (Upper::Memory { size: Some(0) }) {
            let why = needs_fuse("memory:0");
            return Some((why, format!("{REMEDY}, or give it room")));
        }
        None
    }
}

fn needs_fuse(what: &str) -> String {
    format!("{what} needs the engine fuse")
}
