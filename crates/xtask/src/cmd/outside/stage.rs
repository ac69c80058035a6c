// SPDX-License-Identifier: MIT OR Apache-2.0
//! The three mounts that a suite is run on: the host's tmpfs, ours, and a second one beside.

use super::Options;
use crate::cmd::{proof, target};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a mount may take to appear, and its server to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);

/// What is mounted, and who serves it.
pub(super) struct Stage {
    what: String,
    folder: PathBuf,
    mounts: [PathBuf; 3],
    server: Child,
}

impl Stage {
    /// Mounts all three.
    ///
    /// # Errors
    /// Whatever stands in the way.
    pub(super) fn set(options: &Options) -> io::Result<Self> {
        let what = options.over.as_str();
        let program = proof::openpath()?;
        let folder = target("outside").join("stage");
        let mounts = ["host", "second", "ours"].map(|name| folder.join(name));
        for mount in &mounts {
            fs::create_dir_all(mount)?;
        }
        let [host, second, ours] = &mounts;
        for place in [host, second] {
            tmpfs(place)?;
        }
        let upper = match what {
            "overlay" => Some("memory".to_owned()),
            "overlay-dir" => {
                let upper = folder.join("upper");
                tmpfs(&upper)?;
                Some(upper.display().to_string())
            }
            _ => None,
        };
        let what = match upper {
            None => what.to_owned(),
            Some(upper) => {
                let lower = folder.join("lower");
                tmpfs(&lower)?;
                fill(&lower, host, options.processes, options.seed)?;
                // As a tmpfs, and unlike the kernel's overlay, which refuses them.
                let devices = "null-devices";
                format!("overlay:lower={},upper={upper},{devices}", lower.display())
            }
        };
        let mut serve = Command::new(program);
        serve.args(["mount", "--allow-other", "--trusted"]);
        if options.write_back {
            serve.arg("--write-back");
        }
        let server = serve.arg(&what).arg(ours).spawn()?;
        let mut stage = Self {
            what,
            folder,
            mounts,
            server,
        };
        stage.appear()?;
        succeed(Command::new("chmod").arg("1777").arg(stage.ours()))?;
        Ok(stage)
    }

    /// Waits until ours is there.
    fn appear(&mut self) -> io::Result<()> {
        let wanted = self.ours().to_string_lossy().into_owned();
        let by = Instant::now() + PATIENCE;
        loop {
            let mounts = fs::read_to_string("/proc/self/mounts")?;
            let mut places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
            if places.any(|place| place == wanted) {
                return Ok(());
            }
            if let Some(status) = self.server.try_wait()? {
                return Err(io::Error::other(format!(
                    "the server ended early: {status}"
                )));
            }
            if Instant::now() > by {
                return Err(io::Error::other("the mount does not appear"));
            }
            sleep(LOOK);
        }
    }

    /// Unmounts ours; whether its server ended well.
    ///
    /// # Errors
    /// It does not end.
    pub(super) fn strike(mut self) -> io::Result<bool> {
        succeed(Command::new("umount").arg(self.ours()))?;
        let by = Instant::now() + PATIENCE;
        while Instant::now() < by {
            if let Some(status) = self.server.try_wait()? {
                println!("the server ended: {status}");
                return Ok(status.success());
            }
            sleep(LOOK);
        }
        self.server.kill()?;
        Err(io::Error::other("the server does not end"))
    }

    /// What ours is of.
    pub(super) fn what(&self) -> &str {
        &self.what
    }
    /// Where files of a run may be left.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
    /// The host's tmpfs.
    pub(super) fn host(&self) -> &Path {
        &self.mounts[0]
    }
    /// Another one.
    pub(super) fn second(&self) -> &Path {
        &self.mounts[1]
    }
    /// Ours.
    pub(super) fn ours(&self) -> &Path {
        &self.mounts[2]
    }
}

/// Mounts a tmpfs at `place`.
fn tmpfs(place: &Path) -> io::Result<()> {
    fs::create_dir_all(place)?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "mode=1777", "none"]);
    succeed(mount.arg(place))
}

/// Makes what the stress begins with, below and on the host's side.
fn fill(lower: &Path, host: &Path, processes: u64, seed: u64) -> io::Result<()> {
    let mut args = vec![OsString::from("--fill"), lower.into()];
    for (name, value) in [("--processes", processes), ("--seed", seed)] {
        args.extend([OsString::from(name), value.to_string().into()]);
    }
    if proof::testkit("stress", &args)? != ExitCode::SUCCESS {
        return Err(io::Error::other("nothing to begin with"));
    }
    succeed(Command::new("cp").arg("-a").arg(lower.join(".")).arg(host))
}

/// Runs a program that must succeed.
fn succeed(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    let program = command.get_program().to_string_lossy().into_owned();
    Err(io::Error::other(format!("{program}: {status}")))
}
