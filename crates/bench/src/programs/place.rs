// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a worker in each environment that is compared. The worker runs the loads (the programs
//! whose time is measured) there.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use super::Programs;
use super::scene::Scene;
use super::worker::Answer;
use crate::common::*;

/// What is between a load and the files of the machine, as `pages/run.md` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Disk,
    Tmpfs,
    Run,
    RunKernel,
    KernelOverlay,
    RunUser,
    UserOverlay,
    Bwrap,
    FuseOverlayfs,
    Proot,
}

impl Kind {
    /// All places, with their names in tables, and the command that runs a program in each.
    pub(super) const ALL: [(Self, &'static str, &'static str); 10] = [
        (Self::Disk, "native", ""),
        (Self::Tmpfs, "tmpfs", ""),
        (
            Self::Run,
            "openpath",
            "OPENPATH run -q --engine fuse --upper memory --",
        ),
        (
            Self::RunKernel,
            "engine kernel",
            "OPENPATH run -q --engine kernel --upper memory --",
        ),
        (Self::KernelOverlay, "kernel overlay", IN_OVERLAY),
        (
            Self::RunUser,
            "ordinary user",
            "AS_USER OPENPATH run -q --engine kernel --upper memory --",
        ),
        (
            Self::UserOverlay,
            "user overlay",
            "AS_USER unshare --map-root-user --mount --pid --fork --kill-child sh -ec SCRIPT SPARE",
        ),
        (
            Self::Bwrap,
            "bwrap",
            "bwrap --dev-bind / / --unshare-pid --unshare-ipc --proc /proc --die-with-parent",
        ),
        (Self::FuseOverlayfs, "fuse-overlayfs", IN_OVERLAY),
        (Self::Proot, "proot", "proot -r /"),
    ];

    pub(super) fn label(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether it is a tool with our purpose. The benchmark works without such a one.
    pub(super) fn is_rival(self) -> bool {
        matches!(
            self,
            Self::KernelOverlay | Self::FuseOverlayfs | Self::Proot
        )
    }

    /// A program in the environment, before its arguments.
    fn around(self, exe: &Path, programs: &Programs, scene: &Scene) -> Command {
        let script = match self {
            Self::UserOverlay => USER_OVERLAY.to_owned(),
            Self::KernelOverlay => OVERLAY.replace("MOUNT", KERNEL_OVERLAY),
            _ => OVERLAY.replace("MOUNT", FUSE_OVERLAY),
        };
        let as_user = format!("setpriv --reuid {USER} --regid {USER} --clear-groups");
        let words = Self::ALL[self as usize].2.replace("AS_USER", &as_user);
        let words = words.split_whitespace();
        let words = words.map(|word| match word {
            "OPENPATH" => programs.openpath.clone().into(),
            "SCRIPT" => script.clone().into(),
            "SPARE" => scene.spare.clone().into(),
            word => word.into(),
        });
        let mut words: Vec<OsString> = words.chain([exe.into()]).collect();
        let mut run = Command::new(words.remove(0));
        run.args(words).current_dir(scene.folder_of(self));
        run
    }
}

/// The ordinary user.
pub(super) const USER: u32 = 31_000;
/// The server of an overlay would stay; so it ends with the worker, the first of its processes.
const IN_OVERLAY: &str =
    "unshare --mount --pid --fork --kill-child --propagation private sh -ec SCRIPT SPARE";
/// Starts true(1) in a new environment; returns the nanoseconds until that has gone again.
pub(super) fn launch(kind: Kind, programs: &Programs, scene: &Scene) -> Result<f64, Error> {
    let mut start = kind.around(Path::new("/bin/true"), programs, scene);
    let begun = Instant::now();
    let status = start.stdin(Stdio::null()).status().setup(kind.label())?;
    let took = begun.elapsed().as_nanos() as f64;
    match status.success() {
        true => Ok(took),
        false => Err(status).setup(kind.label()),
    }
}

/// Mounts an overlay over the root, its changes kept on a tmpfs, and enters it; `$0` is an empty
/// folder.
const OVERLAY: &str = r#"
mount -t tmpfs none "$0"
mkdir "$0/up" "$0/work" "$0/all"
options="lowerdir=/,upperdir=$0/up,workdir=$0/work"
MOUNT
for folder in proc sys dev; do mount --rbind "/$folder" "$0/all/$folder"; done
exec chroot "$0/all" "$@"
"#;
/// As `openpath run --engine kernel` does.
const KERNEL_OVERLAY: &str =
    r#"mount -t overlay -o "$options,userxattr,xino=on,index=off,metacopy=off" none "$0/all""#;
const FUSE_OVERLAY: &str = r#"fuse-overlayfs -o "$options" "$0/all""#;

/// Mounts an overlay over the working directory, its changes kept on a tmpfs, in a user namespace.
const USER_OVERLAY: &str = r#"
mount -t tmpfs none "$0"
mkdir "$0/up" "$0/work"
options="lowerdir=.,upperdir=$0/up,workdir=$0/work"
mount -t overlay -o "$options,userxattr,xino=on,index=off,metacopy=off" none .
exec "$@"
"#;

/// A place with its worker.
pub(super) struct Environment {
    pub(super) kind: Kind,
    worker: Child,
    /// Where scripts go, and where answers come from.
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Environment {
    /// Makes the place, starts its worker and waits for its first answer.
    pub(super) fn enter(kind: Kind, programs: &Programs, scene: &Scene) -> Result<Self, Error> {
        let folder = scene.folder_of(kind);
        let mut start = kind.around(&programs.bench, programs, scene);
        start.arg("worker").arg(folder);
        start.arg(folder.join("out").join(kind.label().replace(' ', "-")));
        start.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut worker = start.spawn().setup(kind.label())?;
        let answers = worker.stdout.take().map(BufReader::new);
        let pipes = worker.stdin.take().zip(answers);
        let mut place = Self {
            kind,
            worker,
            pipes,
        };
        place.does("mkdir -p \"$OUT\"")?;
        Ok(place)
    }

    /// Runs a script; returns its nanoseconds and its output.
    pub(super) fn does(&mut self, script: &str) -> Result<(f64, String), Error> {
        let label = self.kind.label();
        let answer = self.ask(script).setup(label)?;
        match answer.failed {
            None => Ok((answer.ns, answer.out)),
            Some(why) => Err(why).setup(label),
        }
    }

    /// Sends a script to the worker, and waits for the answer.
    fn ask(&mut self, script: &str) -> io::Result<Answer> {
        let ended = || io::Error::other("its worker has ended");
        let (asks, answers) = self.pipes.as_mut().ok_or_else(ended)?;
        writeln!(asks, "{}", serde_json::to_string(script)?)?;
        let mut line = String::new();
        match answers.read_line(&mut line)? {
            0 => Err(ended()),
            _ => Ok(serde_json::from_str(&line)?),
        }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // The worker ends with its input, and the place with it.
        self.pipes = None;
        let _status = self.worker.wait();
    }
}
