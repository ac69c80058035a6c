// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the init, the first process of a view's pid namespace, and starts it on behalf of its
//! parent.
//!
//! It mounts a `/proc` of the namespace, reaps orphans, and ends the remaining processes when the
//! command is gone. Its own end kills all members of the namespace, whatever mounts they have made
//! or detached.
//!
//! # States
//! Started (by the helper) -> told to begin -> has offered its `/proc` -> reaps -> is asked to end
//! the rest, or the front is gone, or the time is over -> exits.
//!
//! # Rules
//! R1. The front holds the only other end of its socket. When that closes the init exits, so all
//!     members are killed with the front.
//! R2. Signals with their default action do not reach it, neither from inside nor from the
//!     terminal. It has a session of its own, and the view's user cannot trace it.
//! R3. It looks for members in the `/proc` that it has mounted itself and holds open, never by a
//!     path that a member could mount over.
//! R4. The time limit is enforced here and not by the front, which a member can stop by stopping
//!     the command. No member can outlive this process.

use crate::child::{Child, Start, drop_capabilities};
use crate::left_processes::shows_ending;
use crate::plan::{FromInit, ToInit};
use crate::terminate::{ProcessSet, terminate_all};
use crate::wire::Wire;
use nix::sys::signal::{SigSet, Signal as Caught};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use openpath_commit::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::CapabilitySet;
use std::io;
use std::time::{Duration, Instant};

/// Between two looks at the members.
const PAUSE: Duration = Duration::from_millis(5);

/// A started init, as its parent sees it.
pub(crate) struct Init {
    pub(crate) child: Child,
    /// The mount of `/proc` that it offers, or why there is none.
    pub(crate) proc: Result<OwnedFd, String>,
}

impl Init {
    /// Starts it as the first process of the pid namespace that this process has made for its
    /// children. The command of root can read its memory, so it is no fork if this process knows
    /// secrets.
    pub(crate) fn start(knows_secrets: bool) -> Result<Child, Refusal> {
        let start = Start {
            verb: crate::verbs::INIT,
            rest: &[],
            has_output: false,
            at_root: true,
            lent: CapabilitySet::SYS_ADMIN,
        };
        match knows_secrets {
            true => Child::execute(&start),
            false => Child::fork(&start, || init().map(|()| 0)),
        }
    }

    /// Tells it to begin, with a limit on the processes of its namespace, and waits for its mount
    /// of `/proc`. The command's process exists already.
    pub(crate) fn begin(child: Child, pids: Option<u32>) -> Result<Init, Refusal> {
        let lost = |why: io::Error| Refusal::step("lost the first process of the view", why);
        let begin = ToInit::Begin { pids };
        child.wire.send(&begin, None).map_err(lost)?;
        let proc = match child.wire.recv().map_err(lost)? {
            Some((FromInit::Proc(None), Some(mount))) => Ok(mount),
            Some((FromInit::Proc(Some(why)), _)) => Err(why),
            Some((FromInit::Failed(refusal), _)) => return Err(refusal),
            _ => return Err(Refusal::system("the first process of the view has ended")),
        };
        Ok(Init { child, proc })
    }
}

/// Runs as the first process of a pid namespace until the front is gone or asks it to end.
///
/// # Errors
/// It has no front, or cannot wait for it.
pub fn init() -> Result<(), Refusal> {
    let wire = Wire::inherited().map_err(|why| Refusal::step("standard input", why))?;
    if rustix::process::getpid() != Pid::INIT {
        return Err(Refusal::usage("this verb is for openpath itself"));
    }
    let done = attempt(&wire);
    if let Err(refusal) = &done {
        wire.send(&FromInit::Failed(refusal.clone()), None).ok();
    }
    done
}

fn attempt(wire: &Wire) -> Result<(), Refusal> {
    let lost = |why: io::Error| Refusal::step("lost the front", why);
    crate::confine::protect()?;
    rustix::process::setsid().map_err(|why| Refusal::step("session", why))?;
    let Some((ToInit::Begin { pids }, _)) = wire.recv().map_err(lost)? else {
        return Err(Refusal::system("the helper is gone"));
    };
    let members = match mount_proc() {
        Ok(mount) => {
            let members = NamespaceMembers::of_mount(mount.as_fd(), pids)?;
            wire.send(&FromInit::Proc(None), Some(mount.as_fd()))
                .map_err(lost)?;
            members
        }
        Err(why) => {
            let members = NamespaceMembers::of_host(pids)?;
            wire.send(&FromInit::Proc(Some(why.to_string())), None)
                .map_err(lost)?;
            members
        }
    };
    drop_capabilities().map_err(|why| Refusal::step("capabilities", why))?;
    serve(wire, &members)
}

/// Reaps orphans until it is to end.
fn serve(wire: &Wire, members: &NamespaceMembers) -> Result<(), Refusal> {
    let lost = |why: io::Error| Refusal::step("lost the front", why);
    let reaper = OrphanReaper::new().map_err(lost)?;
    let mut deadline = None;
    loop {
        if !reaper.wait(wire, deadline).map_err(lost)? {
            // R4. The front may be stopped, and reads this when it continues.
            wire.send(&FromInit::Expired, None).map_err(lost)?;
            members.end();
            return Ok(());
        }
        if !wire.is_readable().map_err(lost)? {
            continue;
        }
        match wire.recv().map_err(lost)? {
            Some((ToInit::TimeLimit(millis), _)) => {
                deadline = Some(Instant::now() + Duration::from_millis(millis));
            }
            Some((ToInit::Begin { .. }, _)) => {
                return Err(Refusal::system("unexpected message from the front"));
            }
            Some((ToInit::End, _)) => {
                let ended = members.end();
                wire.send(&FromInit::Ended(ended), None).map_err(lost)?;
                return Ok(());
            }
            // R1
            None => return Ok(()),
        }
    }
}

/// A `/proc` of this process's pid namespace, not attached to any path yet.
fn mount_proc() -> rustix::io::Result<OwnedFd> {
    let proc = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(proc.as_fd())?;
    let restricted = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(proc.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, restricted)
}

/// Reaps children.
struct OrphanReaper(SignalFd);

impl OrphanReaper {
    fn new() -> io::Result<OrphanReaper> {
        let mut signals = SigSet::empty();
        signals.add(Caught::SIGCHLD);
        signals.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(OrphanReaper(SignalFd::with_flags(&signals, flags)?))
    }

    /// Reaps until the front has sent something (true) or the deadline is over (false).
    fn wait(&self, wire: &Wire, deadline: Option<Instant>) -> io::Result<bool> {
        loop {
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut both = [
                PollFd::from_borrowed_fd(wire.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN),
            ];
            match rustix::event::poll(&mut both, left.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(why) => return Err(why.into()),
            }
            let [front, _] = both.map(|fd| !fd.revents().is_empty());
            while self.0.read_signal()?.is_some() {}
            reap();
            if front {
                return Ok(true);
            }
        }
    }
}

fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// The other processes of the namespace.
struct NamespaceMembers {
    /// A `/proc`.
    list: OwnedFd,
    /// The number of words of `NSpid` up to this namespace, if the list is the host's `/proc`; none
    /// if the list is of this namespace alone.
    level: Option<usize>,
}

impl NamespaceMembers {
    /// Lists a `/proc` of this namespace, and limits its processes.
    fn of_mount(mount: BorrowedFd<'_>, pids: Option<u32>) -> Result<NamespaceMembers, Refusal> {
        let list = open_dir(mount, ".").map_err(|why| Refusal::step("/proc", why))?;
        limit_pids(&list, pids)?;
        Ok(NamespaceMembers { list, level: None })
    }

    /// Lists the host's `/proc`.
    fn of_host(pids: Option<u32>) -> Result<NamespaceMembers, Refusal> {
        let failed = |why: Errno| Refusal::step("/proc", why);
        let list = open_dir(rustix::fs::CWD, "/proc").map_err(failed)?;
        limit_pids(&list, pids)?;
        let level = names_of(&list, "self").map(|own| own.len());
        Ok(NamespaceMembers { list, level })
    }

    /// All members that are not exiting: the exit of this process waits for the others.
    fn living(&self) -> Vec<Pid> {
        let Ok(entries) = Dir::read_from(&self.list) else {
            return Vec::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name().to_owned());
        let pids = names.filter_map(|name| {
            let name = name.to_str().ok()?;
            name.parse::<i32>().ok()?;
            let numbers = names_of(&self.list, name)?;
            if shows_ending(read(&self.list, name, "stat")?.as_bytes()) {
                return None;
            }
            match self.level {
                None => numbers.first().copied(),
                Some(level) if numbers.len() == level && self.is_here(name) => {
                    numbers.last().copied()
                }
                Some(_) => None,
            }
        });
        pids.filter_map(Pid::from_raw)
            .filter(|pid| *pid != Pid::INIT)
            .collect()
    }

    /// Whether a process of the host's list is in this namespace.
    fn is_here(&self, name: &str) -> bool {
        let space = |name: &str| {
            let path = format!("{name}/ns/pid");
            rustix::fs::readlinkat(&self.list, path, Vec::new()).ok()
        };
        space("self").is_some_and(|own| space(name) == Some(own))
    }

    /// Asks all members to end, kills them after a while, and returns how many there were.
    fn end(&self) -> usize {
        terminate_all(self, PAUSE)
    }
}

impl ProcessSet for NamespaceMembers {
    type Process = Pid;

    fn all(&self) -> Vec<(Pid, Pid)> {
        reap();
        self.living().into_iter().map(|pid| (pid, pid)).collect()
    }

    fn signal(&self, process: &Pid, signal: Signal) {
        rustix::process::kill_process(*process, signal).ok();
    }
}

fn limit_pids(proc: &OwnedFd, pids: Option<u32>) -> Result<(), Refusal> {
    pids.map_or(Ok(()), |count| crate::pid_limit::hold(proc.as_fd(), count))
}

fn open_dir(dir: BorrowedFd<'_>, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, path, flags, Mode::empty())
}

/// The numbers of a process in its pid namespaces, from that of the list on; `None` for one that
/// has ended.
fn names_of(list: &OwnedFd, name: &str) -> Option<Vec<i32>> {
    numbers(&read(list, name, "status")?)
}

/// Reads a file of a process in a `/proc`; the name of a process may be any bytes.
fn read(list: &OwnedFd, name: &str, what: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let path = format!("{name}/{what}");
    let file = rustix::fs::openat(list, path, flags, Mode::empty()).ok()?;
    let mut text = Vec::new();
    io::Read::read_to_end(&mut std::fs::File::from(file), &mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn numbers(status: &str) -> Option<Vec<i32>> {
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let state = field("State")?.trim_start();
    if state.starts_with(['Z', 'X']) {
        return None;
    }
    let words = field("NSpid")?.split_ascii_whitespace();
    words.map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn exited_processes_are_not_members() {
        let status = "Name:\tNSpid: x\nState:\tS (sleeping)\nNSpid:\t4711\t2\n";
        assert_eq!(numbers(status), Some(vec![4711, 2]));
        assert_eq!(numbers(&status.replace("S (sleeping)", "Z (zombie)")), None);
        assert_eq!(numbers("State:\tR\n"), None);
    }
}
