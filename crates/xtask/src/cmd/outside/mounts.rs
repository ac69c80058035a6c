// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the three mounts that a suite of another project needs: the host's tmpfs, ours, and a
//! second tmpfs.

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
/// The interval between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// The mounts, and the process that serves ours.
pub(super) struct Mounts {
    what: String,
    folder: PathBuf,
    mounts: [PathBuf; 3],
    server: Child,
}

impl Mounts {
    /// Mounts all three.
    ///
    /// # Errors
    /// Those of the mounts and of the server.
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
                // A tmpfs has them too; the kernel's overlay refuses them.
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
        let mut mounts = Self {
            what,
            folder,
            mounts,
            server,
        };
        mounts.appear()?;
        succeed(Command::new("chmod").arg("1777").arg(mounts.ours()))?;
        Ok(mounts)
    }

    /// Waits until our mount appears.
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

    /// Unmounts ours; returns whether its server ended with success.
    ///
    /// # Errors
    /// The server does not end.
    pub(super) fn unmount(mut self) -> io::Result<bool> {
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

    /// What our mount shows.
    pub(super) fn what(&self) -> &str {
        &self.what
    }
    /// A folder for the files of a run.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
    /// The host's tmpfs.
    pub(super) fn host(&self) -> &Path {
        &self.mounts[0]
    }
    /// The second tmpfs.
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

/// Makes the first files of the stress, in the lower layer and on the host.
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
