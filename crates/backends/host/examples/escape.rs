// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tries to get out of a directory of the host. Some threads change it from outside, with links to
//! a secret, renames, moves out and back in, and mounts; others walk, read and write in it as
//! guests.
//!
//! Run: `cargo run --release -p openpath-host --example escape -- --seconds 600`. The exit status
//! is 1, with a line for each escape, if there was one.

use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY};
use openpath_host::{HostFs, HostOptions, Policy, Reach};
use openpath_vfs::{Cred, Task, Vfs};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags, ResolveFlags};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Data that no guest may read.
const SECRET: &[u8] = b"the secret outside";
/// Data that guests write into each file that they can open.
const MARK: &[u8] = b"a guest was here";

/// The results of a storm.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Calls of guests.
    pub(crate) calls: u64,
    /// Calls that succeeded.
    pub(crate) worked: u64,
    /// Changes from outside.
    pub(crate) changes: u64,
    /// Escapes.
    pub(crate) escapes: Vec<String>,
}

/// Random numbers, good enough for choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let at = self.roll(of.len() as u64);
        of.get(usize::try_from(at).unwrap_or(0))
            .copied()
            .unwrap_or("a")
    }
}

/// One change in so many removes a name with all below it, so that the tree stays small.
const PRUNE: u64 = 64;

/// Names that all threads use.
const NAMES: [&str; 6] = ["a", "b", "c", "link", "secret", "f"];

/// A directory with an inside and an outside.
struct Stage {
    place: PathBuf,
    inner: OwnedFd,
    outer: OwnedFd,
}

impl Stage {
    fn new(name: &str) -> std::io::Result<Self> {
        let place =
            std::env::temp_dir().join(format!("openpath-escape-{}-{name}", std::process::id()));
        let (inside, outside) = (place.join("in"), place.join("out"));
        std::fs::create_dir_all(inside.join("a/b/c"))?;
        std::fs::create_dir_all(outside.join("b/c"))?;
        for dir in ["", "b", "b/c"] {
            std::fs::write(outside.join(dir).join("secret"), SECRET)?;
            std::fs::write(outside.join(dir).join("f"), SECRET)?;
        }
        std::fs::write(inside.join("a/f"), b"inside")?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok(Self {
            inner: fs::open(&inside, flags, Mode::empty())?,
            outer: fs::open(&outside, flags, Mode::empty())?,
            place,
        })
    }

    fn inside(&self) -> PathBuf {
        self.place.join("in")
    }

    fn outside(&self) -> PathBuf {
        self.place.join("out")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let at = self.inside().join("mounted");
        let _if_it_is_one = Command::new("umount").arg("-l").arg(at).output();
        let _goes_if_it_can = std::fs::remove_dir_all(&self.place);
    }
}

/// A directory inside, reached through no link, because a link could lead outside.
fn dir(stage: &Stage, dice: &mut Dice) -> Option<OwnedFd> {
    let path = dice.pick(&[".", "a", "a/b", "b", "a/b/c"]);
    let scope = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    fs::openat2(&stage.inner, path, flags, Mode::empty(), scope).ok()
}

/// One change from outside; a change that fails met another thread's.
fn change(stage: &Stage, dice: &mut Dice, seed: u64, mounts: bool) -> Option<()> {
    let outer = &stage.outer;
    let (one, other) = (dir(stage, dice)?, dir(stage, dice)?);
    let (name, second) = (dice.pick(&NAMES), dice.pick(&NAMES));
    let here = AtFlags::empty();
    let all = Mode::RWXU;
    if dice.roll(PRUNE) == 0 {
        let away = format!("pruned-{seed}");
        fs::renameat(&one, name, outer, &away).ok()?;
        let away = stage.outside().join(away);
        return match std::fs::remove_file(&away) {
            Ok(()) => Some(()),
            Err(_) => std::fs::remove_dir_all(&away).ok(),
        };
    }
    match dice.roll(if mounts { 9 } else { 8 }) {
        0 | 1 => {
            let away = format!("parked-{seed}");
            fs::renameat(&one, name, outer, &away).ok()?;
            let _a_link_meanwhile = fs::symlinkat(stage.outside(), &one, name);
            let _no_link = fs::unlinkat(&one, name, here);
            fs::renameat(outer, &away, &one, name).ok()
        }
        2 => {
            let _replaced = fs::unlinkat(&one, name, here);
            let to = ["../../out", "../../../out/b", "..", "../../.."];
            fs::symlinkat(dice.pick(&to), &one, name).ok()
        }
        3 => {
            let _replaced = fs::unlinkat(&one, name, here);
            fs::symlinkat(stage.outside().join("secret"), &one, name).ok()
        }
        4 => fs::renameat(&one, name, &other, second).ok(),
        5 => fs::mkdirat(&one, name, all).ok(),
        6 => {
            // Out of the tree, where `..` would lead to the secret, and back.
            let away = format!("b/moved-{seed}");
            fs::renameat(&one, name, outer, &away).ok()?;
            std::thread::yield_now();
            fs::renameat(outer, &away, &one, name).ok()
        }
        7 => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW;
            let file = fs::openat(&one, name, flags, all).ok()?;
            rustix::io::write(&file, b"inside").ok().map(drop)
        }
        _ => {
            // A bind mount of the inside on itself: part of the tree, and no way out of it.
            let at = stage.inside().join("mounted");
            let from = stage.inside().join("a");
            let _made = std::fs::create_dir(&at);
            let _mounted = Command::new("mount")
                .arg("--bind")
                .arg(from)
                .arg(&at)
                .output();
            let _unmounted = Command::new("umount").arg("-l").arg(&at).output();
            Some(())
        }
    }
}

/// A path that a guest tries.
fn path(dice: &mut Dice) -> String {
    let mut path = String::new();
    for _ in 0..=dice.roll(6) {
        path.push('/');
        path.push_str(if dice.roll(3) == 0 {
            ".."
        } else {
            dice.pick(&NAMES)
        });
    }
    path
}

/// One call of a guest; whether it succeeded, or the escape.
fn attack(task: &Task, dice: &mut Dice) -> Result<bool, String> {
    let to = path(dice);
    let name = to.as_bytes();
    match dice.roll(6) {
        0 => {
            let Ok(fd) = task.open(name, O_RDONLY | O_DIRECTORY, 0) else {
                return Ok(false);
            };
            let _stood = task.fchdir(fd);
            let up = task.openat(fd, b"../secret", O_RDONLY, 0);
            let got = up.map(|fd| holds(task, fd));
            let _closed = task.close(fd);
            match got {
                Ok(true) => Err(format!("{to}/../secret was read")),
                Ok(false) => Ok(true),
                Err(_) => Ok(false),
            }
        }
        1 => {
            let Ok(fd) = task.open(name, O_WRONLY | O_CREAT, 0o600) else {
                return Ok(false);
            };
            let _written = task.write(fd, MARK);
            let _closed = task.close(fd);
            Ok(true)
        }
        2 => Ok(task.rename(name, path(dice).as_bytes()).is_ok()),
        3 => Ok(task.mkdir(name, 0o700).is_ok()),
        4 => Ok(task.symlink(b"../../out/secret", name).is_ok()),
        _ => match task.open(name, O_RDONLY, 0) {
            Ok(fd) if holds(task, fd) => Err(format!("{to} was read")),
            opened => Ok(opened.is_ok()),
        },
    }
}

/// Whether the file holds the secret; closes the descriptor.
fn holds(task: &Task, fd: i32) -> bool {
    let mut buf = [0; SECRET.len()];
    let read = task.read(fd, &mut buf);
    let _closed = task.close(fd);
    read == Ok(SECRET.len()) && buf == SECRET
}

/// What changed outside: the files, and names that only a guest can have made.
fn touched(stage: &Stage) -> Option<String> {
    let outside = stage.outside();
    for dir in ["", "b", "b/c"] {
        for name in ["secret", "f"] {
            let file = outside.join(dir).join(name);
            if std::fs::read(&file).is_ok_and(|data| data != SECRET) {
                return Some(format!("{} was written", file.display()));
            }
        }
    }
    let above = Path::new("/");
    let around = [
        (outside.join(""), &["b", "secret", "f"][..]),
        (outside.join("b"), &["c", "secret", "f"]),
        (outside.join("b/c"), &["secret", "f"]),
        (stage.place.clone(), &[]),
        (above.to_owned(), &[]),
    ];
    let made = around.iter().find_map(|(dir, own)| {
        let strange = NAMES.iter().filter(|name| !own.contains(name));
        let mut paths = strange.map(|name| dir.join(name));
        paths.find(|path| path.symlink_metadata().is_ok())
    });
    made.map(|path| format!("{} was made", path.display()))
}

/// A storm of so many seconds against a tree with these options.
///
/// # Panics
/// If the directory cannot be set up.
#[must_use]
pub(crate) fn storm(name: &str, options: HostOptions, seconds: f64, mounts: bool) -> Report {
    let stage = Stage::new(name).expect("a stage");
    let tree = HostFs::open(stage.inside(), options).expect("a tree");
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let report = Mutex::new(Report::default());
    let add = |part: Report| {
        let mut all = report.lock().expect("nobody panics");
        all.calls += part.calls;
        all.worked += part.worked;
        all.changes += part.changes;
        all.escapes.extend(part.escapes);
    };
    std::thread::scope(|scope| {
        for seed in 1..=2 {
            let (stage, add) = (&stage, &add);
            scope.spawn(move || {
                let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
                let mut part = Report::default();
                while Instant::now() < end {
                    let _done = change(stage, &mut dice, seed, mounts && part.changes % 64 == 0);
                    part.changes += 1;
                }
                add(part);
            });
        }
        for seed in 3..=5 {
            let (vfs, add) = (&vfs, &add);
            scope.spawn(move || {
                let task = vfs.task(Cred::root()).expect("a task");
                let mut dice = Dice(0xd134_2543_de82_ef95_u64.wrapping_mul(seed));
                let mut part = Report::default();
                while Instant::now() < end {
                    part.calls += 1;
                    match attack(&task, &mut dice) {
                        Ok(worked) => part.worked += u64::from(worked),
                        Err(way) => part.escapes.push(way),
                    }
                }
                add(part);
            });
        }
    });
    let mut report = report.into_inner().expect("nobody panicked");
    report.escapes.extend(touched(&stage));
    report
}

/// All the trees that are tested, by name.
#[must_use]
pub(crate) fn trees() -> Vec<(String, HostOptions)> {
    let mut all = Vec::new();
    for policy in [
        Policy::Exclusive,
        Policy::Notify,
        Policy::Revalidate,
        Policy::None,
    ] {
        for reach in [Reach::Best, Reach::Steps] {
            let options = HostOptions::default()
                .policy(policy)
                .reach(reach)
                .handles_max(32);
            all.push((format!("{policy:?}-{reach:?}"), options));
        }
    }
    all
}

#[allow(dead_code, reason = "a test has no use for it")]
fn main() -> std::process::ExitCode {
    let mut args = std::env::args()
        .skip_while(|arg| arg != "--seconds")
        .skip(1);
    let seconds: f64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(60.0);
    let trees = trees();
    let each = seconds / trees.len() as f64;
    let mut good = true;
    for (name, options) in trees {
        let report = storm(&name, options, each, true);
        println!(
            "{name}: {} calls, {} worked, {} changes from outside, {} escapes",
            report.calls,
            report.worked,
            report.changes,
            report.escapes.len()
        );
        for way in &report.escapes {
            println!("ESCAPE {way}");
        }
        good &= report.escapes.is_empty();
    }
    if good {
        std::process::ExitCode::SUCCESS
    } else {
        std::process::ExitCode::FAILURE
    }
}
