// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes control groups that enforce `--limit memory` and `--limit cpu`, and `--limit pids` where
//! the pid namespace of the view cannot.
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
//! Made (the limits are set, and the group is empty) -> the command is in it, before it starts ->
//! ended (the remaining processes are killed, and the groups are removed).
//!
//! # Rules
//! R1. The limits are in the parent of the command's group. A command that mounts control groups
//!     anew, in user and cgroup namespaces of its own, sees at most its own group.
//! R2. Enabled controllers stay enabled: another run may depend on them.
//! R3. A group that a killed run left behind is removed if it has such a name, is empty, and its
//!     PID is gone.

mod dir;
mod site;

use crate::limit::{Limit, Limits};
use crate::plan::Plan;
use crate::signals::CommandExit;
use dir::Dir;
use openpath_commit::{Refusal, RefusalKind};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::Pid;
use site::{Placement, Site};
use std::time::{Duration, Instant};

/// The period that `cpu.max` counts in, in microseconds.
const PERIOD: u64 = 100_000;
/// How long killed processes may take to end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// How deep the groups that the command made are removed.
const DEPTH: u32 = 8;
/// The group of the command, in the one with the limits.
const COMMAND: &str = "command";

/// The groups of a view.
#[derive(Debug)]
pub(crate) struct Group {
    parent: Dir,
    name: String,
    /// The group with the limits.
    dir: Dir,
    /// The group with the command.
    command: CommandGroup,
}

/// The group that the commands of a view are moved into.
#[derive(Debug)]
pub(crate) struct CommandGroup(Dir);

/// Whether a group with this limit can be made here; changes nothing.
///
/// # Errors
/// Why it cannot, with the remedy.
pub(crate) fn check(limit: Limit) -> Result<(), String> {
    let me = std::process::id();
    let controllers = controller(&limit).into_iter().collect::<Vec<_>>();
    Site::find()?.placement(&controllers, me).map(drop)
}

/// The controller that enforces this limit.
fn controller(limit: &Limit) -> Option<&'static str> {
    match limit {
        Limit::Memory(_) => Some("memory"),
        Limit::Cpu(_) => Some("cpu"),
        Limit::Pids(_) => Some("pids"),
        Limit::Time(_) => None,
    }
}

/// The limits of a view that its control group enforces.
fn group_limits(plan: &Plan) -> Vec<Limit> {
    let by_namespace = crate::pid_limit::limit(plan).map(Limit::Pids);
    let all = plan.limits.all().iter().copied();
    all.filter(|one| controller(one).is_some() && Some(*one) != by_namespace)
        .collect()
}

impl Group {
    /// Makes a group with those limits of the view that a group enforces; none if there are none.
    ///
    /// # Errors
    /// Such a group cannot be made, with the remedy.
    pub(crate) fn make(plan: &Plan) -> Result<Option<Group>, Refusal> {
        let limits = group_limits(plan);
        if limits.is_empty() {
            return Ok(None);
        }
        let made = Self::attempt(&limits);
        made.map(Some).map_err(|why| {
            let words: Vec<_> = limits.iter().map(Limit::to_string).collect();
            let words = words.join(",");
            Refusal::new(
                RefusalKind::Unsupported,
                format!("--limit {words} cannot hold: {why}"),
            )
        })
    }

    fn attempt(limits: &[Limit]) -> Result<Group, String> {
        let me = std::process::id();
        let controllers: Vec<_> = limits.iter().filter_map(controller).collect();
        let site = Site::find()?;
        let placement = site.placement(&controllers, me)?;
        let Site { own, parent } = site;
        let done = match placement {
            Placement::Within => enable(&own, &controllers),
            Placement::Cleared => clear(&own, &controllers, me),
            Placement::Beside => Ok(()),
        };
        done.map_err(|why| {
            format!("the control group of this process cannot have groups with limits ({why})")
        })?;
        let parent = parent
            .filter(|_| placement == Placement::Beside)
            .unwrap_or(own);
        remove_stale(&parent, me);
        Self::in_parent(parent, limits, me)
    }

    fn in_parent(parent: Dir, limits: &[Limit], me: u32) -> Result<Group, String> {
        let name = format!("openpath-{me}-view");
        let failed = |why: Errno| format!("a control group for the command cannot be made ({why})");
        parent.make(&name).map_err(failed)?;
        let made = set_up(&parent, &name, limits).map_err(failed);
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
    pub(crate) fn command_group(&self) -> &CommandGroup {
        &self.command
    }

    /// The limit by which the kernel killed a command that ended so.
    pub(crate) fn reached(&self, limits: &Limits, end: CommandExit) -> Option<Limit> {
        let killed = end == CommandExit::Signal(rustix::process::Signal::KILL.as_raw());
        let mut all = limits.all().iter();
        let memory = all.find(|limit| matches!(limit, Limit::Memory(_)));
        memory
            .copied()
            .filter(|_| killed && has_killed(&self.dir) == Ok(true))
    }

    fn is_populated(&self) -> bool {
        // A group that cannot be read is gone.
        let events = self.dir.read("cgroup.events").unwrap_or_default();
        field_value(&events, "populated") == Some(1)
    }
}

impl Drop for Group {
    /// Kills the processes left in it, and removes it. Without cgroup.kill, before Linux 5.14, the
    /// processes left in it keep their limits.
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

impl CommandGroup {
    /// The group of a view, received from another process of its run; none if the descriptor is no
    /// group.
    pub(crate) fn from_fd(fd: OwnedFd) -> Option<CommandGroup> {
        let dir = Dir::from_fd(fd);
        dir.is_cgroup2().then_some(CommandGroup(dir))
    }

    /// Moves a process into the group, before it starts anything.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(crate) fn admit(&self, pid: Pid) -> Result<(), Refusal> {
        let number = pid.as_raw_nonzero().to_string();
        let done = self.0.write("cgroup.procs", &number);
        done.map_err(|why| {
            Refusal::system(format!(
                "the command cannot be put into the control group that holds the view's limits \
                 ({why}): start it from a group of the same session as the view's run"
            ))
        })
    }
}

impl AsFd for CommandGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sets the limits while the group is empty.
fn set_up(parent: &Dir, name: &str, limits: &[Limit]) -> rustix::io::Result<(Dir, CommandGroup)> {
    let dir = parent.dir(name)?;
    set(&dir, limits)?;
    dir.make(COMMAND)?;
    let command = CommandGroup(dir.dir(COMMAND)?);
    Ok((dir, command))
}

fn set(dir: &Dir, limits: &[Limit]) -> rustix::io::Result<()> {
    for limit in limits {
        match limit {
            Limit::Memory(size) => {
                dir.write("memory.max", &size.to_string())?;
                match dir.write("memory.swap.max", "0") {
                    // The kernel does not account swap.
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(why) => return Err(why),
                }
                // A view with some of its processes killed is useless, so all are killed together.
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

/// Enables these controllers for the groups in `own`.
fn enable(own: &Dir, controllers: &[&str]) -> rustix::io::Result<()> {
    let enabled = own.read("cgroup.subtree_control")?;
    let is_on = |one: &&str| enabled.split_whitespace().any(|on| on == *one);
    if controllers.iter().all(is_on) {
        return Ok(());
    }
    let words: Vec<_> = controllers.iter().map(|one| format!("+{one}")).collect();
    own.write("cgroup.subtree_control", &words.join(" "))
}

/// The same for a group that contains only this process, which first moves into a group of its own.
fn clear(own: &Dir, controllers: &[&str], me: u32) -> rustix::io::Result<()> {
    let leaf = format!("openpath-{me}-self");
    match own.make(&leaf) {
        // An earlier process with this number left it behind.
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
fn remove_stale(parent: &Dir, me: u32) {
    for name in parent.groups().unwrap_or_default() {
        let words = name.strip_prefix("openpath-");
        let words = words.and_then(|rest| rest.split_once('-'));
        let Some((number, "view" | "self")) = words else {
            continue;
        };
        let Some(pid) = number.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        // This process has made no group yet, but may be in `openpath-PID-self`.
        let is_mine = pid.as_raw_nonzero().get().cast_unsigned() == me;
        if is_mine || rustix::process::test_kill_process(pid) == Err(Errno::SRCH) {
            // The kernel refuses to remove a group with processes.
            parent.remove(&format!("{name}/{COMMAND}")).ok();
            parent.remove(&name).ok();
        }
    }
}

/// Removes a group and the groups in it.
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

/// Whether the kernel has killed a process of the group because of its memory limit.
fn has_killed(dir: &Dir) -> rustix::io::Result<bool> {
    let events = dir.read("memory.events")?;
    Ok(field_value(&events, "oom_kill").is_some_and(|count| count > 0))
}

/// The number after a key, in a file with one pair per line.
fn field_value(text: &str, word: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, number) = lines.find(|(key, _)| *key == word)?;
    number.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{
        Dir, Group, Site, clear, enable, group_limits, has_killed, remove, remove_stale, set,
    };
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
        // The file of the swap limit may be missing.
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
        let by_namespace = crate::pid_limit::check(&plan).is_ok();
        assert_eq!(group_limits(&plan).contains(&all[0]), !by_namespace);
        plan.share.push(Share::Pid);
        let limits = group_limits(&plan);
        assert!(limits.len() == 2 && limits.contains(&all[0]) && limits.contains(&all[1]));
    }

    #[test]
    fn disabled_controllers_are_enabled_in_one_write() {
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
        remove_stale(&fake.dir(), me);
        for name in kept.into_iter().chain([&*used]) {
            assert!(fake.path(name).exists(), "{name}");
        }
        for name in removed {
            assert!(!fake.path(&name).exists(), "{name}");
        }
    }

    /// Uses real control groups, where this process may make some. No limit is set, so no
    /// controller is needed.
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
        group.command_group().admit(pid).unwrap();
        assert!(group.is_populated());
        let found = std::fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        let name = format!("openpath-{me}-view");
        assert!(found.contains(&format!("/{name}/command\n")), "{found}");
        group.command_group().0.make("deeper").unwrap();
        let own = group.parent.dir(".").unwrap();
        let twice = Group::in_parent(group.parent.dir(".").unwrap(), &[], me);
        assert!(twice.unwrap_err().contains("cannot be made"));
        remove_stale(&own, 0);
        assert!(group.is_populated());
        drop(group);
        let status = child.wait().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(signal, Some(9));
        assert!(!own.groups().unwrap().contains(&name));
    }

    #[test]
    fn oom_kill_is_read_from_memory_events() {
        let fake = Fake::new("events");
        fake.write("memory.events", "oom 1\noom_kill 0\noom_group_kill 2\n");
        assert_eq!(has_killed(&fake.dir()), Ok(false));
        fake.write("memory.events", "oom 1\noom_kill 3\noom_group_kill 0\n");
        assert_eq!(has_killed(&fake.dir()), Ok(true));
        assert!(remove(&fake.dir(), "missing", 1).is_err());
    }
}
