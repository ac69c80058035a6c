// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control groups that hold `--limit memory` and `--limit cpu`, and `--limit pids` where the pid
//! namespace of the view cannot.
//!
//! # Layout
//! | group | is | has |
//! |---|---|---|
//! | `openpath-PID-view` | one for each run with such a limit | the limits |
//! | `openpath-PID-view/command` | the only group in it | the command and all that it starts |
//! | `openpath-PID-self` | only where the caller's group had to be cleared | the other processes |
//!
//! PID is that of the front. The front, the server and the init stay outside the limits, so that a
//! command cannot starve them.
//!
//! # States
//! Made (the limits are set and nobody is in it) -> the command is in it, before it starts ->
//! ended (what is left is killed, and the groups are removed).
//!
//! # Rules
//! R1. The limits are in the group above the command's. A command that mounts control groups anew,
//!     in user and cgroup namespaces of its own, sees its own group at most.
//! R2. Controllers that were enabled stay so: another run may hold its limits by them.
//! R3. Groups that killed runs left are removed if they are named so, empty, and their PID is gone.

mod dir;
mod site;

use crate::limit::{Limit, Limits};
use crate::plan::Plan;
use crate::signals::End;
use dir::Dir;
use openpath_commit::Refusal;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::Pid;
use site::{Site, Way};
use std::time::{Duration, Instant};

/// The period that `cpu.max` counts in, in microseconds.
const PERIOD: u64 = 100_000;
/// How long the end of what was killed is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// How deep groups of the command's own are removed.
const DEPTH: u32 = 8;
/// The group of the command, in the one with the limits.
const COMMAND: &str = "command";

/// The groups of a view.
#[derive(Debug)]
pub(crate) struct Group {
    parent: Dir,
    name: String,
    /// It has the limits.
    dir: Dir,
    /// It has the command.
    command: Entry,
}

/// The group that commands of a view are put into.
#[derive(Debug)]
pub(crate) struct Entry(Dir);

/// Whether a group with this limit can be made here; changes nothing.
///
/// # Errors
/// It cannot, for this reason, with the remedy.
pub(crate) fn check(limit: Limit) -> Result<(), String> {
    let me = std::process::id();
    let controllers = controller(&limit).into_iter().collect::<Vec<_>>();
    Site::find()?.way(&controllers, me).map(drop)
}

/// The controller that holds this limit.
fn controller(limit: &Limit) -> Option<&'static str> {
    match limit {
        Limit::Memory(_) => Some("memory"),
        Limit::Cpu(_) => Some("cpu"),
        Limit::Pids(_) => Some("pids"),
        Limit::Time(_) => None,
    }
}

/// The limits of a view that its group holds.
fn held(plan: &Plan) -> Vec<Limit> {
    let by_namespace = crate::numbers::limit(plan).map(Limit::Pids);
    let all = plan.limits.all().iter().copied();
    all.filter(|one| controller(one).is_some() && Some(*one) != by_namespace)
        .collect()
}

impl Group {
    /// One with those of the view's limits that a group holds; none if there are none.
    ///
    /// # Errors
    /// Such a group cannot be made, with the remedy.
    pub(crate) fn make(plan: &Plan) -> Result<Option<Group>, Refusal> {
        let held = held(plan);
        if held.is_empty() {
            return Ok(None);
        }
        let made = Self::attempt(&held);
        made.map(Some).map_err(|why| {
            let words: Vec<_> = held.iter().map(Limit::to_string).collect();
            let words = words.join(",");
            Refusal::new(format!("--limit {words} cannot hold: {why}"))
        })
    }

    fn attempt(held: &[Limit]) -> Result<Group, String> {
        let me = std::process::id();
        let controllers: Vec<_> = held.iter().filter_map(controller).collect();
        let site = Site::find()?;
        let way = site.way(&controllers, me)?;
        let Site { own, parent } = site;
        let done = match way {
            Way::Within => enable(&own, &controllers),
            Way::Cleared => clear(&own, &controllers, me),
            Way::Beside => Ok(()),
        };
        done.map_err(|why| {
            format!("the control group of this process cannot have groups with limits ({why})")
        })?;
        let parent = parent.filter(|_| way == Way::Beside).unwrap_or(own);
        sweep(&parent, me);
        Self::in_parent(parent, held, me)
    }

    fn in_parent(parent: Dir, held: &[Limit], me: u32) -> Result<Group, String> {
        let name = format!("openpath-{me}-view");
        let failed = |why: Errno| format!("a control group for the command cannot be made ({why})");
        parent.make(&name).map_err(failed)?;
        let made = furnish(&parent, &name, held).map_err(failed);
        match made {
            Ok((dir, command)) => Ok(Group {
                parent,
                name,
                dir,
                command,
            }),
            Err(why) => {
                remove(&parent, &name, DEPTH).ok();
                Err(why)
            }
        }
    }

    /// The group for commands.
    pub(crate) fn entry(&self) -> &Entry {
        &self.command
    }

    /// The limit that the kernel ended a command by that ended so.
    pub(crate) fn reached(&self, limits: &Limits, end: End) -> Option<Limit> {
        let killed = end == End::Signal(rustix::process::Signal::KILL.as_raw());
        let mut all = limits.all().iter();
        let memory = all.find(|limit| matches!(limit, Limit::Memory(_)));
        memory
            .copied()
            .filter(|_| killed && has_killed(&self.dir) == Ok(true))
    }

    fn is_populated(&self) -> bool {
        // A group that cannot be asked is gone.
        let events = self.dir.read("cgroup.events").unwrap_or_default();
        value(&events, "populated") == Some(1)
    }
}

impl Drop for Group {
    /// Ends what is left in it, and removes it. Without cgroup.kill, before Linux 5.14, what is
    /// left there keeps its limits.
    fn drop(&mut self) {
        if self.is_populated() {
            self.dir.write("cgroup.kill", "1").ok();
        }
        let begun = Instant::now();
        while remove(&self.parent, &self.name, DEPTH) == Err(Errno::BUSY)
            && begun.elapsed() < PATIENCE
        {
            std::thread::sleep(PAUSE);
        }
    }
}

impl Entry {
    /// That of a view, which another process of its run has sent; none if it is no such group.
    pub(crate) fn over(fd: OwnedFd) -> Option<Entry> {
        let dir = Dir::over(fd);
        dir.is_cgroup2().then_some(Entry(dir))
    }

    /// Puts a process into the group, before it starts anything.
    ///
    /// # Errors
    /// The kernel does not let this process.
    pub(crate) fn admit(&self, pid: Pid) -> Result<(), Refusal> {
        let number = pid.as_raw_nonzero().to_string();
        let done = self.0.write("cgroup.procs", &number);
        done.map_err(|why| {
            Refusal::new(format!(
                "the command cannot be put into the control group that holds the view's limits \
                 ({why}): start it from a group of the same session as the view's run"
            ))
        })
    }
}

impl AsFd for Entry {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sets the limits, before anybody is in the group.
fn furnish(parent: &Dir, name: &str, held: &[Limit]) -> rustix::io::Result<(Dir, Entry)> {
    let dir = parent.dir(name)?;
    set(&dir, held)?;
    dir.make(COMMAND)?;
    let command = Entry(dir.dir(COMMAND)?);
    Ok((dir, command))
}

fn set(dir: &Dir, held: &[Limit]) -> rustix::io::Result<()> {
    for limit in held {
        match limit {
            Limit::Memory(size) => {
                dir.write("memory.max", &size.to_string())?;
                match dir.write("memory.swap.max", "0") {
                    // The kernel counts no swap.
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(why) => return Err(why),
                }
                // A view without some of its processes is of no use.
                dir.write("memory.oom.group", "1")?;
            }
            Limit::Cpu(cores) => {
                let quota = u64::from(*cores) * PERIOD / 1000;
                dir.write("cpu.max", &format!("{quota} {PERIOD}"))?;
            }
            Limit::Pids(count) => dir.write("pids.max", &count.to_string())?,
            Limit::Time(_) => {}
        }
    }
    Ok(())
}

/// Lets groups in `own` have these controllers.
fn enable(own: &Dir, controllers: &[&str]) -> rustix::io::Result<()> {
    let enabled = own.read("cgroup.subtree_control")?;
    let is_on = |one: &&str| enabled.split_whitespace().any(|on| on == *one);
    if controllers.iter().all(is_on) {
        return Ok(());
    }
    let words: Vec<_> = controllers.iter().map(|one| format!("+{one}")).collect();
    own.write("cgroup.subtree_control", &words.join(" "))
}

/// The same for a group that has this process alone, which goes into a group of its own.
fn clear(own: &Dir, controllers: &[&str], me: u32) -> rustix::io::Result<()> {
    let leaf = format!("openpath-{me}-self");
    match own.make(&leaf) {
        // One that had this number left it.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(why) => return Err(why),
    }
    let number = me.to_string();
    let done = own.dir(&leaf).and_then(|leaf| {
        leaf.write("cgroup.procs", &number)?;
        enable(own, controllers)
    });
    if done.is_err() {
        own.write("cgroup.procs", &number).ok();
        own.remove(&leaf).ok();
    }
    done
}

/// R3
fn sweep(parent: &Dir, me: u32) {
    for name in parent.groups().unwrap_or_default() {
        let words = name.strip_prefix("openpath-");
        let words = words.and_then(|rest| rest.split_once('-'));
        let Some((number, "view" | "self")) = words else {
            continue;
        };
        let Some(pid) = number.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        // This process has made none yet, but may be in the second.
        let is_mine = pid.as_raw_nonzero().get().cast_unsigned() == me;
        if is_mine || rustix::process::test_kill_process(pid) == Err(Errno::SRCH) {
            // The kernel keeps those with processes.
            parent.remove(&format!("{name}/{COMMAND}")).ok();
            parent.remove(&name).ok();
        }
    }
}

/// Removes a group with those in it.
fn remove(parent: &Dir, name: &str, depth: u32) -> rustix::io::Result<()> {
    match parent.remove(name) {
        Err(Errno::BUSY) if depth > 0 => {
            let dir = parent.dir(name)?;
            for below in dir.groups()? {
                remove(&dir, &below, depth - 1)?;
            }
            parent.remove(name)
        }
        done => done,
    }
}

/// Whether the kernel has killed a process of the group for its memory.
fn has_killed(dir: &Dir) -> rustix::io::Result<bool> {
    let events = dir.read("memory.events")?;
    Ok(value(&events, "oom_kill").is_some_and(|count| count > 0))
}

/// The number after a word, in a file of such lines.
fn value(text: &str, word: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, number) = lines.find(|(key, _)| *key == word)?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Dir, Group, Site, clear, enable, has_killed, held, remove, set, sweep};
    use crate::limit::Limit;
    use crate::plan::Plan;
    use crate::share::Share;
    use rustix::process::Pid;
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::Duration;

    /// A plain directory with the files of control groups.
    pub(super) struct Fake(PathBuf);

    impl Fake {
        pub(super) fn new(name: &str) -> Fake {
            let dir = format!("openpath-cgroup-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(dir);
            std::fs::create_dir_all(&dir).unwrap();
            Fake(dir)
        }

        pub(super) fn path(&self, file: &str) -> PathBuf {
            self.0.join(file)
        }

        pub(super) fn write(&self, file: &str, text: &str) {
            let path = self.path(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn read(&self, file: &str) -> String {
            std::fs::read_to_string(self.path(file)).unwrap()
        }

        pub(super) fn dir(&self) -> Dir {
            Dir::open(&self.0).unwrap()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let fake = Fake::new("set");
        for file in ["memory.max", "memory.oom.group", "cpu.max", "pids.max"] {
            fake.write(file, "");
        }
        let limits = [Limit::Memory(64 << 20), Limit::Cpu(10)];
        // There need not be a limit on swap.
        set(&fake.dir(), &limits).unwrap();
        assert_eq!(fake.read("memory.max"), "67108864");
        assert_eq!(fake.read("memory.oom.group"), "1");
        assert_eq!(fake.read("cpu.max"), "1000 100000");
        fake.write("memory.swap.max", "");
        set(&fake.dir(), &[limits[0], Limit::Cpu(1500)]).unwrap();
        assert_eq!(fake.read("memory.swap.max"), "0");
        assert_eq!(fake.read("cpu.max"), "150000 100000");
        set(&fake.dir(), &[Limit::Pids(40)]).unwrap();
        assert_eq!(fake.read("pids.max"), "40");
        std::fs::remove_file(fake.path("memory.max")).unwrap();
        assert!(set(&fake.dir(), &limits).is_err());
    }

    #[test]
    fn group_holds_what_the_pid_namespace_cannot() {
        let mut plan = Plan::default();
        let all = [Limit::Pids(40), Limit::Cpu(500), Limit::Time(Duration::MAX)];
        plan.limits.add(&all);
        let by_namespace = crate::numbers::check(&plan).is_ok();
        assert_eq!(held(&plan).contains(&all[0]), !by_namespace);
        plan.share.push(Share::Pid);
        let held = held(&plan);
        assert!(held.len() == 2 && held.contains(&all[0]) && held.contains(&all[1]));
    }

    #[test]
    fn controllers_are_enabled_together_and_only_if_they_are_not() {
        let fake = Fake::new("enable");
        fake.write("cgroup.subtree_control", "cpu memory pids");
        enable(&fake.dir(), &["memory", "cpu"]).unwrap();
        assert_eq!(fake.read("cgroup.subtree_control"), "cpu memory pids");
        fake.write("cgroup.subtree_control", "");
        enable(&fake.dir(), &["memory", "cpu"]).unwrap();
        assert_eq!(fake.read("cgroup.subtree_control"), "+memory +cpu");
    }

    #[test]
    fn group_that_cannot_be_cleared_stays_as_it_was() {
        let fake = Fake::new("clear");
        fake.write("cgroup.procs", "7\n");
        // There is no cgroup.procs in a plain directory.
        assert!(clear(&fake.dir(), &["cpu"], 7).is_err());
        assert!(!fake.path("openpath-7-self").exists());
        fake.write("openpath-7-self/cgroup.procs", "");
        fake.write("cgroup.subtree_control", "");
        clear(&fake.dir(), &["cpu"], 7).unwrap();
        assert_eq!(fake.read("openpath-7-self/cgroup.procs"), "7");
        assert_eq!(fake.read("cgroup.subtree_control"), "+cpu");
    }

    #[test]
    fn empty_groups_of_runs_that_are_gone_are_removed_and_no_others() {
        let fake = Fake::new("sweep");
        let me = std::process::id();
        let parent = std::os::unix::process::parent_id();
        let gone = i32::MAX;
        let lives = format!("openpath-{parent}-view");
        let kept = [
            &lives,
            "openpath-x-view",
            "openpath-0-view",
            "other",
            "openpath-7",
        ];
        for name in kept {
            std::fs::create_dir(fake.path(name)).unwrap();
        }
        let used = format!("openpath-{gone}-self");
        fake.write(&format!("{used}/cgroup.procs"), "1\n");
        let removed = [
            format!("openpath-{gone}-view"),
            format!("openpath-{me}-view"),
        ];
        for name in &removed {
            std::fs::create_dir_all(fake.path(name).join("command")).unwrap();
        }
        sweep(&fake.dir(), me);
        for name in kept.into_iter().chain([&*used]) {
            assert!(fake.path(name).exists(), "{name}");
        }
        for name in removed {
            assert!(!fake.path(&name).exists(), "{name}");
        }
    }

    /// On the kernel's own groups, where this process may make some; the limits need no controller
    /// here, since there are none.
    #[test]
    fn group_of_the_kernel_takes_a_process_and_ends_it_with_its_own_groups() {
        let Ok(Site { own, .. }) = Site::find() else {
            return eprintln!("skipped: no control groups of version 2");
        };
        if own.may_write(".").is_err() || own.may_write("cgroup.procs").is_err() {
            return eprintln!("skipped: no control group can be made here");
        }
        let me = std::process::id();
        let group = Group::in_parent(own, &[], me).unwrap();
        assert!(!group.is_populated());
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        group.entry().admit(pid).unwrap();
        assert!(group.is_populated());
        let found = std::fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        let name = format!("openpath-{me}-view");
        assert!(found.contains(&format!("/{name}/command\n")), "{found}");
        group.entry().0.make("deeper").unwrap();
        let own = group.parent.dir(".").unwrap();
        let twice = Group::in_parent(group.parent.dir(".").unwrap(), &[], me);
        assert!(twice.unwrap_err().contains("cannot be made"));
        sweep(&own, 0);
        assert!(group.is_populated());
        drop(group);
        let status = child.wait().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(9));
        assert!(!own.groups().unwrap().contains(&name));
    }

    #[test]
    fn kernel_is_believed_when_it_counts_a_kill() {
        let fake = Fake::new("events");
        fake.write("memory.events", "oom 1\noom_kill 0\noom_group_kill 2\n");
        assert_eq!(has_killed(&fake.dir()), Ok(false));
        fake.write("memory.events", "oom 1\noom_kill 3\noom_group_kill 0\n");
        assert_eq!(has_killed(&fake.dir()), Ok(true));
        assert!(remove(&fake.dir(), "missing", 1).is_err());
    }
}
