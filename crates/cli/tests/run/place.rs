// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives each test of `openpath run` a scratch directory ([`Place`]), in which root or an ordinary
//! user runs lines with and without a view, and a wait for a condition ([`until`]).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// An ordinary user, with or without an account on the machine.
const USER: u32 = 1000;
/// Another group of the user.
pub(crate) const GROUP: u32 = 2000;

/// The command under test.
pub(crate) const OPENPATH: &str = env!("CARGO_BIN_EXE_openpath");

/// What has not happened after this time never does, even on a machine with much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The user that runs the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// The user that runs the tests.
    Caller,
    /// An ordinary user, in a mount namespace where `/dev/fuse` is as distributions have it.
    Ordinary,
    /// The caller; commands inside become those of an ordinary user before they do anything.
    Lowered,
}

/// Starts the rest as an ordinary user, with the capabilities of root dropped.
const LOWER: &str = "exec setpriv --reuid \"$0\" --regid \"$0\" --groups \"$1\" --inh-caps=-all \
    -- sh -c \"$2\"";

/// Starts the rest as an ordinary user.
const AS_USER: &str = "mknod -m 666 \"$0\" c 10 229 && mount --bind \"$0\" /dev/fuse && rm \"$0\" \
    && { [ -z \"$TOOLS\" ] || mount --bind \"$TOOLS\" \"${0%/*}/tools\"; } \
    && exec setpriv --reuid \"$1\" --regid \"$1\" --groups \"$2\" -- \"${@:3}\"";

/// The environment variable with the engine of root's runs, for a test of a whole suite with it.
const ENGINE: &str = "OPENPATH_TEST_ENGINE";
/// The options that another engine than `fuse` refuses.
const NOT_KERNEL: [&str; 9] = [
    "--hide",
    "--hide-try",
    "--absent",
    "--ro-try",
    "--mount",
    "--log",
    "--locks",
    "--write-back",
    "--no-rings",
];

/// A directory that is removed when the value is dropped.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    who: Who,
    /// The directory to show as `tools`, if the user cannot enter it.
    tools: Option<PathBuf>,
    /// Its runs have the engine fuse.
    needs_fuse: bool,
}

/// How many places were made.
static PLACES: AtomicUsize = AtomicUsize::new(0);

impl Place {
    /// A directory that belongs to `who`; `None`, with a printed line, if that user cannot run
    /// anything.
    pub(crate) fn new(name: &str, who: Who) -> Option<Place> {
        if !can(who) {
            eprintln!("skipped for {who:?}: a run is not possible here, see `openpath doctor`");
            return None;
        }
        // Tests of one name run side by side.
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let dir = format!(
            "openpath-run-{name}-{who:?}-{}-{number}",
            std::process::id()
        );
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir(&dir).unwrap();
        let place = Place {
            dir,
            who,
            tools: None,
            needs_fuse: false,
        };
        place.own(".");
        Some(place)
    }

    /// A place for each user that can run something here.
    pub(crate) fn all(name: &str) -> impl Iterator<Item = Place> {
        let all = [Who::Caller, Who::Ordinary];
        all.into_iter().filter_map(move |who| Place::new(name, who))
    }

    /// The place, for a test of what this program does and the kernel's overlay does otherwise.
    pub(crate) fn needs_fuse(mut self) -> Place {
        self.needs_fuse = true;
        self
    }

    /// The user that runs the command, if it is not the caller.
    pub(crate) fn user(&self) -> Option<u32> {
        (self.who == Who::Ordinary).then_some(USER)
    }

    /// Gives a path to the user of this place.
    pub(crate) fn own(&self, path: &str) {
        if self.who != Who::Caller {
            let path = self.dir.join(path);
            std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
        }
    }

    /// Shows `dir`, which may belong to another user, as `tools`.
    pub(crate) fn show(&mut self, dir: &Path) {
        if self.who != Who::Ordinary {
            std::os::unix::fs::symlink(dir, self.dir.join("tools")).unwrap();
        } else {
            std::fs::create_dir(self.dir.join("tools")).unwrap();
            self.tools = Some(dir.to_owned());
        }
    }

    /// Writes a file that belongs to the user of the command.
    pub(crate) fn write(&self, path: &str, data: impl AsRef<[u8]>) {
        std::fs::write(self.dir.join(path), data).unwrap();
        self.own(path);
    }

    /// Reads a file of the real tree; empty if there is none.
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.dir.join(path)).unwrap_or_default()
    }

    pub(crate) fn path(&self, path: &str) -> String {
        self.dir.join(path).display().to_string()
    }

    /// `openpath` with these arguments, in this directory. Root's runs have the engine that
    /// [`ENGINE`] names, if the arguments name none and no file that could.
    pub(crate) fn openpath<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.start(OPENPATH);
        let mut args: Vec<_> = args
            .into_iter()
            .map(|arg| arg.as_ref().to_owned())
            .collect();
        let by_name = |arg: &OsString| NOT_KERNEL.iter().any(|rule| arg == *rule);
        let engine = match self.needs_fuse {
            true => Some(OsString::from("fuse")),
            false => std::env::var_os(ENGINE).filter(|_| !args.iter().any(by_name)),
        };
        if let Some(engine) = engine
            && args.first().is_some_and(|verb| verb == "run")
            && self.who != Who::Ordinary
            && !args
                .iter()
                .any(|arg| arg == "--engine" || arg == "--config")
        {
            args.splice(1..1, [OsString::from("--engine"), engine]);
        }
        command.args(args).current_dir(&self.dir);
        command.env("XDG_STATE_HOME", self.dir.join("state"));
        command
    }

    fn start(&self, program: &str) -> Command {
        let mut command = as_who(self.who, program.as_ref(), &self.dir);
        command.env("TOOLS", self.tools.as_deref().unwrap_or(Path::new("")));
        command
    }

    /// A shell's line, without a run.
    pub(crate) fn plain(&self, line: &str) -> Output {
        let mut command = self.start("sh");
        command.args(["-c", line]).current_dir(&self.dir);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// A run of a shell's line.
    pub(crate) fn run(&self, options: &[&str], line: &str) -> Output {
        let (user, group) = (USER.to_string(), GROUP.to_string());
        let rest: &[&str] = match self.who {
            Who::Lowered => &["--", "sh", "-c", LOWER, &user, &group, line],
            _ => &["--", "sh", "-c", line],
        };
        let args = ["run"].iter().chain(options).chain(rest);
        self.openpath(args).stdin(Stdio::null()).output().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

fn as_who(who: Who, program: &OsStr, scratch: &Path) -> Command {
    if who != Who::Ordinary {
        return Command::new(program);
    }
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let device = scratch.join(format!("fuse-{number}"));
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", AS_USER]);
    command
        .arg(device)
        .arg(USER.to_string())
        .arg(GROUP.to_string());
    command.arg(program);
    command
}

/// Whether `openpath doctor` finds a run possible; checked once for each user.
fn can(who: Who) -> bool {
    static ANSWERS: [OnceLock<bool>; 3] = [const { OnceLock::new() }; 3];
    *ANSWERS[who as usize].get_or_init(|| {
        let scratch = std::env::temp_dir();
        let doctor = as_who(who, OPENPATH.as_ref(), &scratch)
            .arg("doctor")
            .output();
        let able = doctor.is_ok_and(|output| output.status.success());
        able && (who != Who::Lowered || rustix::process::geteuid().is_root())
    })
}

/// Standard output as text.
pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
