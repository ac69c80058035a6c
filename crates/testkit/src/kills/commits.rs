// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kills commits, undos and discards at random moments, some of them on a full disk.
//!
//! # Round
//! A tree, a view that changes it in every way, and a command that is killed. An interrupted commit
//! is continued or aborted, and that may be killed as well.
//!
//! # Rules
//! R1. After a kill every name has its old content, or all of the view's. A name that both states
//!     have is never gone.
//! R2. `--continue` ends at the view's state, and `--abort` at the old state. Nothing else is left
//!     in the tree.
//! R3. A discard changes nothing in the tree. A view whose discard was killed is whole or refused:
//!     half a view is never committed.
//! R4. Afterwards the view can be committed and undone, or is gone.

use super::scene::{MARK, USER, said};
use super::states::States;
use super::victim;
use super::{Plan, Report};
use crate::rng::Rng;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

/// The command that is killed first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Commit,
    Undo,
    Discard,
}

/// The choices of a round.
#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    verb: Verb,
    /// An ordinary user runs the command.
    ordinary: bool,
    /// The view is on another file system than the tree.
    across: bool,
    /// A filler takes the free space of the tree's file system meanwhile.
    full: bool,
    /// How many commands are killed at most.
    kills: usize,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.ordinary { "a user" } else { "root" };
        let on = if self.across { "another" } else { "the same" };
        let disk = if self.full { ", a full disk" } else { "" };
        write!(
            f,
            "round {}: {:?} by {user}, view on {on} file system{disk}, {} kills",
            self.number, self.verb, self.kills
        )
    }
}

/// Makes the tree, in an empty directory.
const MAKE: &str = "for d in 0 1 2 3 4; do mkdir d$d; for f in $(seq 30); do \
    seq $((d * f)) $((d * f * 40 + 9)) > d$d/f$f; done; done; ln d0/f1 linked; ln -s d0 way; \
    mkdir d4/deep && echo deep > d4/deep/x; mkdir -p ro/in; echo x > ro/x; \
    chmod 555 ro; head -c 3000000 /dev/zero | tr '\\0' a > big";
/// Changes the tree, in the view.
const CHANGE: &str = "for f in $(seq 30); do seq $f > d0/f$f; done; rm -r d1/f1* d3; mkdir d3; \
    echo new > d3/f1; mv d2 moved; echo more >> moved/f3; mkdir -p new/deep; \
    for f in $(seq 40); do seq $f 99 > new/deep/n$f; done; rm d1/f2; mkdir d1/f2; \
    echo in > d1/f2/in; chmod 600 d1/f3; ln -sf d1 way; mv d4 d1/f2/d4; \
    head -c 3000000 /dev/zero | tr '\\0' b > big; mkfifo pipe; \
    chmod u+w ro; echo more >> ro/x; echo y > ro/y; chmod 555 ro ro/in; mkdir -p shut/in; \
    echo z > shut/in/z; chmod 555 shut/in shut";
/// Prints the state: a line for each name, without hidden names and the filler.
const TELL: &str = "find . -name '.openpath-*' -prune -o -name filler -o -printf '%P %y %m %U %l ' \
    \\( -type f -exec sh -c 'cksum < \"$0\"' {} \\; -o -printf '\\n' \\) | sort";
/// A command that was killed may have left the device behind.
const AS_USER: &str = "rm -f \"$0\" && mknod -m 666 \"$0\" c 10 229 && \
    mount --bind \"$0\" /dev/fuse && rm \"$0\" && \
    exec setpriv --reuid \"$1\" --regid \"$1\" --clear-groups -- \"${@:2}\"";
/// Room for the tree twice, but not for the trees of many rounds.
const DISK: &str = "size=24m";

/// Runs all rounds, and stops at the tenth fault. `tell` receives each round.
///
/// # Errors
/// Those of setting a round up, which needs root.
pub fn commits(plan: &Plan, tell: impl Fn(&str)) -> io::Result<Report> {
    let mut rng = Rng::new(plan.seed);
    let mut report = Report::default();
    for number in 0..plan.rounds {
        let full = rng.one_in(4);
        let round = Round {
            number,
            verb: *rng.pick(&[Verb::Commit, Verb::Commit, Verb::Undo, Verb::Discard]),
            ordinary: rng.one_in(2),
            across: full || rng.one_in(2),
            full,
            kills: 1 + rng.below(3),
        };
        tell(&round.to_string());
        let scene = Scene::set(plan, round)?;
        let wrong = scene.play(plan, &mut rng, &mut report);
        let remove = scene.remove();
        let wrong = wrong?.into_iter().map(|said| format!("{round}: {said}"));
        report.wrong.extend(wrong);
        remove?;
        report.rounds += 1;
        if report.wrong.len() >= 10 {
            break;
        }
    }
    Ok(report)
}

/// The tree and the view of a round.
struct Scene {
    round: Round,
    openpath: PathBuf,
    folder: PathBuf,
    /// The directory of the views.
    state: PathBuf,
}

impl Scene {
    fn set(plan: &Plan, round: Round) -> io::Result<Scene> {
        let name = format!(
            "openpath-kills-commit-{}-{}",
            std::process::id(),
            round.number
        );
        let folder = plan.folder.join(&name);
        let state = match round.across {
            true => Path::new("/dev/shm").join(&name),
            false => folder.join("state"),
        };
        let scene = Scene {
            round,
            openpath: plan.openpath.clone(),
            folder,
            state,
        };
        fs::create_dir_all(scene.tree())?;
        fs::create_dir_all(&scene.state)?;
        if round.full {
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]);
            succeed(mount.arg(scene.tree()))?;
        }
        fs::set_permissions(&scene.folder, PermissionsExt::from_mode(0o755))?;
        if round.ordinary {
            for dir in [&scene.folder, &scene.tree(), &scene.state] {
                chown(dir, Some(USER), Some(USER))?;
            }
        }
        let mut make = scene.as_user("sh");
        succeed(make.args(["-c", MAKE]))?;
        Ok(scene)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The string by which the processes of the round are found.
    fn mark(&self) -> String {
        format!("{MARK}={}", self.folder.display())
    }

    /// A program run by the round's user, in the tree.
    fn as_user(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        if self.round.ordinary {
            command = Command::new("unshare");
            command.args(["--mount", "bash", "-c", AS_USER]);
            command
                .arg(self.folder.join("device"))
                .arg(USER.to_string());
            command.arg(program.as_ref());
        }
        command.current_dir(self.tree()).stdin(Stdio::null());
        command
            .env(MARK, &self.folder)
            .env("XDG_STATE_HOME", &self.state);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    }

    fn openpath(&self, args: &[&str]) -> io::Result<Output> {
        self.as_user(&self.openpath).args(args).output()
    }

    fn told(&self) -> io::Result<String> {
        let output = self.as_user("sh").args(["-c", TELL]).output()?;
        expect(&output, "reading the tree")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Hidden names that are left in the tree.
    fn leftovers(&self) -> io::Result<String> {
        let mut find = Command::new("find");
        let output = find
            .arg(self.tree())
            .args(["-name", ".openpath-*"])
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a command and kills it at a random moment: some time after its start or, so that a fast
    /// machine is interrupted as well, after it changed the view's directory. Returns its output if
    /// it ended before.
    fn killed(&self, args: &[&str], plan: &Plan, rng: &mut Rng) -> io::Result<Option<Output>> {
        let before = self.stamp();
        let mut command = self.as_user(&self.openpath);
        command.args(args).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let pid = i32::try_from(child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        // Short and long delays are equally likely, because the duration of the command is unknown.
        let mut halvings = rng.below(6);
        if !rng.one_in(3) {
            while self.stamp() == before && child.try_wait()?.is_none() {
                std::thread::sleep(Duration::from_micros(50));
            }
            halvings += 6;
        }
        let longest = plan.longest / (1 << halvings);
        let longest = usize::try_from(longest.as_micros()).unwrap_or(usize::MAX);
        std::thread::sleep(Duration::from_micros(rng.below(longest) as u64));
        if let Some(pid) = pid {
            rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).ok();
        }
        let output = child.wait_with_output()?;
        Ok(output.status.code().is_some().then_some(output))
    }

    /// When the view's directory and its commit were last changed.
    fn stamp(&self) -> [Option<SystemTime>; 2] {
        let view = self.state.join("openpath/views/view");
        let changed = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
        [changed(&view), changed(&view.join("commit"))]
    }

    fn play(&self, plan: &Plan, rng: &mut Rng, report: &mut Report) -> io::Result<Vec<String>> {
        let run = |line| self.openpath(&["run", "-q", "--name", "view", "--", "sh", "-c", line]);
        expect(&run(CHANGE)?, "the run")?;
        let both = States {
            before: self.told()?,
            shown: String::from_utf8_lossy(&run(TELL)?.stdout).into_owned(),
        };
        if both.before == both.shown {
            return Err(io::Error::other("the view changed nothing"));
        }
        let filler = self
            .round
            .full
            .then(|| Filler::new(self.tree().join("filler")));
        let mut wrong = Vec::new();
        let done = match self.round.verb {
            Verb::Discard => self.discard(plan, rng, &both, report),
            verb => self.interrupt(plan, rng, (verb, &both), filler, report),
        };
        if let Err(why) = done {
            wrong.push(why.to_string());
        }
        let left = victim::left(&self.mark());
        wrong.extend(left.iter().map(|left| format!("process left: {left}")));
        Ok(wrong)
    }

    /// Kills a commit or its undo (R1, R2, R4).
    fn interrupt(
        &self,
        plan: &Plan,
        rng: &mut Rng,
        (verb, both): (Verb, &States),
        mut filler: Option<Filler>,
        report: &mut Report,
    ) -> io::Result<()> {
        let mut args = vec!["commit", "view"];
        if verb == Verb::Undo {
            expect(&self.openpath(&args)?, "commit")?;
            args.push("--undo");
        }
        // The state at which each of both commands ends.
        let (mut forth, mut back) = (verb == Verb::Commit, false);
        for kill in 0..=self.round.kills {
            let fills = filler.as_mut().filter(|_| kill < self.round.kills);
            fills.map(Filler::fill);
            let ended = if kill < self.round.kills {
                self.killed(&args, plan, rng)?
            } else {
                filler = None;
                Some(self.openpath(&args)?)
            };
            filler.as_mut().map(Filler::empty);
            report.late += u64::from(kill == 0 && ended.is_some());
            let now = self.told()?;
            if let Some(why) = both.fault(&now) {
                return Err(io::Error::other(format!("after {args:?}: {why}")));
            }
            let asked = self.openpath(&["diff", "view", "--stat"])?;
            if !said(&asked).contains("--continue") {
                if !asked.status.success() {
                    return Err(io::Error::other(format!("diff: {}", said(&asked))));
                }
                break;
            }
            if kill == self.round.kills {
                let said = ended.as_ref().map(said);
                return Err(io::Error::other(format!("{args:?} did not end: {said:?}")));
            }
            report.kept += 1;
            let goes_on = rng.one_in(2);
            args = vec![
                "commit",
                "view",
                if goes_on { "--continue" } else { "--abort" },
            ];
            if !goes_on {
                back = true;
            } else if !back {
                forth = verb == Verb::Commit;
            }
        }
        let now = self.told()?;
        let ends: &[&String] = match (verb, args.last().copied()) {
            (Verb::Commit, Some("--continue")) if !back && forth => &[&both.shown],
            (Verb::Commit, Some("--abort")) | (Verb::Undo, Some("--continue" | "--abort")) => {
                &[&both.before]
            }
            // It ended before it began, or after it was done.
            _ => &[&both.before, &both.shown],
        };
        if !ends.contains(&&now) {
            return Err(io::Error::other(format!("{args:?} ended at:\n{now}")));
        }
        self.ends_well(both, &now)
    }

    /// R2, R4
    fn ends_well(&self, both: &States, now: &str) -> io::Result<()> {
        let leftovers = self.leftovers()?;
        if !leftovers.is_empty() {
            return Err(io::Error::other(format!("left in the tree: {leftovers}")));
        }
        let steps = [("commit", &both.shown), ("--undo", &both.before)];
        for (what, wanted) in steps.into_iter().skip(usize::from(now == both.shown)) {
            let args = ["commit", "view", what];
            let args = if what == "commit" { &args[..2] } else { &args };
            expect(&self.openpath(args)?, what)?;
            if self.told()? != *wanted {
                return Err(io::Error::other(format!(
                    "a later {what} gave a wrong tree"
                )));
            }
        }
        expect(&self.openpath(&["discard", "view"])?, "discard")?;
        if self.told()? != both.before {
            return Err(io::Error::other("a discard changed the tree"));
        }
        Ok(())
    }

    /// R3
    fn discard(
        &self,
        plan: &Plan,
        rng: &mut Rng,
        both: &States,
        report: &mut Report,
    ) -> io::Result<()> {
        let ended = self.killed(&["discard", "view"], plan, rng)?;
        report.late += u64::from(ended.is_some());
        report.kept += u64::from(ended.is_none());
        let unchanged = || -> io::Result<()> {
            match self.told()? == both.before {
                true => Ok(()),
                false => Err(io::Error::other("a discard changed the tree")),
            }
        };
        unchanged()?;
        if rng.one_in(2) {
            // A run uses a whole view, or begins with an empty one.
            let run = ["run", "-q", "--name", "view", "--", "sh", "-c", TELL];
            let seen = self.openpath(&run)?;
            let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
            if ![&both.before, &both.shown, &String::new()].contains(&&seen) {
                return Err(io::Error::other(format!("half a view was run:\n{seen}")));
            }
            unchanged()?;
        }
        let committed = self.openpath(&["commit", "view"])?;
        let now = self.told()?;
        if now != both.before && now != both.shown {
            let said = said(&committed);
            return Err(io::Error::other(format!(
                "half a view was committed: {said}\n{now}"
            )));
        }
        if now == both.shown {
            return self.ends_well(both, &now);
        }
        // The view may be gone already.
        self.openpath(&["discard", "view"])?;
        let listed = self.openpath(&["list"])?;
        // Root's list also has the runs of others.
        let text = String::from_utf8_lossy(&listed.stdout);
        if text.lines().any(|line| line.starts_with("view ")) {
            return Err(io::Error::other(format!("still listed: {}", said(&listed))));
        }
        Ok(())
    }

    fn remove(self) -> io::Result<()> {
        if self.round.full {
            succeed(Command::new("umount").arg(self.tree()))?;
        }
        fs::remove_dir_all(&self.folder)?;
        if self.round.across {
            fs::remove_dir_all(&self.state)?;
        }
        Ok(())
    }
}

/// A file that takes all free space of a disk.
struct Filler {
    path: PathBuf,
    filling: Option<std::thread::JoinHandle<()>>,
}

impl Filler {
    fn new(path: PathBuf) -> Filler {
        Filler {
            path,
            filling: None,
        }
    }

    /// Begins to fill the disk.
    fn fill(&mut self) {
        let path = self.path.clone();
        self.filling = Some(std::thread::spawn(move || {
            let Ok(mut file) = File::create(path) else {
                return;
            };
            // Slow enough that a command can begin with free space and end without.
            while file.write_all(&[0; 1 << 16]).is_ok() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }));
    }

    /// Frees the space.
    fn empty(&mut self) {
        if let Some(filling) = self.filling.take() {
            filling.join().ok();
        }
        fs::remove_file(&self.path).ok();
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.empty();
    }
}

fn expect(output: &Output, what: &str) -> io::Result<()> {
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{what}: {}", said(output)))),
    }
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    expect(&output, &format!("{:?}", command.get_program()))
}
