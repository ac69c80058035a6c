// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that mounts of one tree and tasks beside them see each other's file locks, and that
//! requests that wait for a lock are granted in order, are bounded, and delay no other request.

use super::agent::{Agent, HANG_TIMEOUT};
use super::test_mount::TestMount;
use super::{locking, options};
use openpath_abi::fcntl::O_RDWR;
use openpath_abi::lock::{F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_UN};
use openpath_abi::{Errno, Flock};
use openpath_fuse::Options;
use openpath_vfs::{LockInfo, Task};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ALL: Flock = Flock::new(F_WRLCK, 0, 0);
const FREE: Flock = Flock::new(F_UNLCK, 0, 0);

/// The locks of the file `f`, if it is there.
pub(crate) fn locks(task: &Task) -> Vec<LockInfo> {
    let Ok(fd) = task.open(b"/f", O_RDWR, 0) else {
        return Vec::new();
    };
    let locks = task.locks(fd).expect("a list");
    task.close(fd).expect("closed");
    locks
}

/// How many locks of `f` are waited for.
pub(crate) fn waiting(task: &Task) -> usize {
    locks(task).iter().filter(|lock| lock.waits).count()
}

/// Waits until so many locks of `f` are waited for.
fn until_waiting(task: &Task, count: usize) {
    let begun = Instant::now();
    while waiting(task) != count {
        assert!(begun.elapsed() < HANG_TIMEOUT, "{:?}", locks(task));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn mounts_of_one_tree_and_its_tasks_see_each_other() {
    let Some(first) = locking() else { return };
    let other = first.task.fork().expect("a task");
    let Some(second) = TestMount::of(other, options()) else {
        return;
    };
    let (mut a, mut b) = (Agent::new(first.dir()), Agent::new(second.dir()));
    assert_eq!(a.does("open f rw"), "3");
    assert_eq!(b.does("open f rw"), "3");
    let task = &first.task;
    let fd = task.open(b"/f", O_RDWR, 0).expect("a file");
    assert_eq!(a.does("setlk 3 w 0 10"), "ok");
    assert_eq!(b.does("getlk 3 w 0 0"), "w 0 10 pid");
    assert_eq!(b.does("setlk 3 w 5 1"), "EAGAIN");
    let seen = task.fcntl_getlk(fd, &ALL).expect("a look");
    assert_eq!(seen.pid, a.pid(), "who set it");
    assert_eq!(task.fcntl_setlk(fd, &ALL), Err(Errno::EAGAIN));
    b.begin("setlkw 3 w 0 10");
    until_waiting(&second.task, 1);
    let list: Vec<_> = locks(task).iter().map(ToString::to_string).collect();
    assert!(list[0].starts_with("POSIX  ADVISORY  WRITE ") && list[1].starts_with("-> POSIX"));
    assert_eq!(a.does("close 3"), "ok");
    assert_eq!(b.answer(), "ok");
    b.begin("setlk 3 u 0 0");
    assert_eq!(b.answer(), "ok");
    // And the other way round.
    task.fcntl_setlk(fd, &ALL).expect("a lock");
    task.flock(fd, LOCK_EX).expect("a lock");
    assert!(b.does("getlk 3 w 0 0").starts_with("w 0 0"));
    assert_eq!(b.does("flock 3 sh nb"), "EAGAIN");
    b.begin("setlkw 3 w 0 0");
    until_waiting(&second.task, 1);
    task.fcntl_setlk(fd, &FREE).expect("freed");
    assert_eq!(b.answer(), "ok");
    b.begin("flock 3 ex");
    until_waiting(&second.task, 1);
    task.flock(fd, LOCK_UN).expect("freed");
    assert_eq!(b.answer(), "ok");
    assert_eq!(task.flock(fd, LOCK_EX | LOCK_NB), Err(Errno::EAGAIN));
    drop((a, b));
    second.end();
    first.end();
}

#[test]
fn a_lock_does_not_bring_data_that_another_mount_has_written() {
    let Some(first) = locking() else { return };
    let other = first.task.fork().expect("a task");
    let Some(second) = TestMount::of(other, options()) else {
        return;
    };
    fs::write(first.at("f"), "old").expect("written");
    let read = |mount: &TestMount| fs::read(mount.at("f")).expect("read");
    let (mut a, mut b) = (Agent::new(first.dir()), Agent::new(second.dir()));
    assert_eq!(a.does("open f rw"), "3");
    assert_eq!(b.does("open f rw"), "3");
    assert_eq!(read(&second), b"old");
    assert_eq!(a.does("setlk 3 w 0 0"), "ok");
    fs::write(first.at("f"), "new").expect("written");
    assert_eq!(a.does("setlk 3 u 0 0"), "ok");
    assert_eq!(b.does("setlk 3 w 0 0"), "ok");
    assert_eq!(read(&second), b"old", "neither tells the other");
    assert_eq!(read(&first), b"new");
    drop((a, b));
    second.end();
    first.end();
}

#[test]
fn waiting_requests_delay_no_other_and_are_granted_in_order() {
    let Some(mount) = locking() else { return };
    let mut holder = Agent::new(mount.dir());
    assert_eq!(holder.does("open f rw"), "3");
    assert_eq!(holder.does("setlk 3 w 0 0"), "ok");
    let mut waiters = Vec::new();
    for n in 0..8 {
        let mut agent = Agent::new(mount.dir());
        assert_eq!(agent.does("open f rw"), "3");
        agent.begin("setlkw 3 w 0 0");
        until_waiting(&mount.task, n + 1);
        waiters.push(agent);
    }
    // There are two threads, and eight waiting requests.
    for n in 0..50 {
        let path = mount.at(&format!("file {n}"));
        fs::write(&path, "text").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"text");
    }
    drop(holder);
    for mut agent in waiters {
        assert_eq!(agent.answer(), "ok");
        assert_eq!(agent.does("setlk 3 u 0 0"), "ok");
    }
    mount.end();
}

#[test]
fn waiting_requests_are_bounded() {
    let Some(mount) = TestMount::new(options().lock_waits_max(2)) else {
        return;
    };
    let mut agents: Vec<_> = (0..4).map(|_| Agent::new(mount.dir())).collect();
    for agent in &mut agents {
        assert_eq!(agent.does("open f rw"), "3");
    }
    let [holder, first, second, third] = &mut agents[..] else {
        panic!("four")
    };
    assert_eq!(holder.does("setlk 3 w 0 0"), "ok");
    for (count, agent) in [(1, &mut *first), (2, &mut *second)] {
        agent.begin("setlkw 3 w 0 0");
        until_waiting(&mount.task, count);
    }
    assert_eq!(third.does("setlkw 3 w 0 0"), "ENOLCK");
    assert_eq!(third.does("setlkw 3 w 0 0"), "ENOLCK");
    second.interrupt();
    assert_eq!(second.answer(), "interrupted");
    third.begin("setlkw 3 w 0 0");
    until_waiting(&mount.task, 2);
    // A lock that is free is granted however many requests wait.
    assert_eq!(holder.does("open g rw"), "4");
    assert_eq!(holder.does("setlkw 4 w 0 0"), "ok");
    assert_eq!(holder.does("flock 4 ex"), "ok");
    assert_eq!(holder.does("flock 4 un"), "ok");
    assert_eq!(holder.does("setlkw 4 u 0 0"), "ok");
    assert_eq!(holder.does("close 3"), "ok");
    assert_eq!(first.answer(), "ok");
    assert_eq!(first.does("close 3"), "ok");
    assert_eq!(third.answer(), "ok");
    drop(agents);
    mount.end();
}

#[test]
fn an_aborted_mount_releases_all_its_locks() {
    let Some(mount) = locking() else { return };
    let other = mount.task.fork().expect("a task");
    let Some(second) = TestMount::of(other, options()) else {
        return;
    };
    let (mut a, mut b) = (Agent::new(mount.dir()), Agent::new(mount.dir()));
    let mut c = Agent::new(second.dir());
    for agent in [&mut a, &mut b, &mut c] {
        assert_eq!(agent.does("open f rw"), "3");
    }
    assert_eq!(a.does("setlk 3 w 0 0"), "ok");
    assert_eq!(a.does("flock 3 ex"), "ok");
    b.begin("setlkw 3 w 0 0");
    until_waiting(&mount.task, 1);
    c.begin("setlkw 3 w 0 0");
    until_waiting(&mount.task, 2);
    let device = fs::metadata(mount.dir()).expect("there").dev();
    let abort = format!(
        "/sys/fs/fuse/connections/{}/abort",
        device & 0xff | device >> 12 & 0xfff00
    );
    let control = std::path::Path::new("/sys/fs/fuse/connections");
    if fs::write(&abort, "1").is_err() {
        let mounted = Command::new("mount")
            .args(["-t", "fusectl", "none"])
            .arg(control)
            .status();
        if !mounted.is_ok_and(|status| status.success()) || fs::write(&abort, "1").is_err() {
            eprintln!("skipped: no connection can be cut off here");
            return;
        }
    }
    assert_eq!(b.answer(), "ECONNABORTED");
    assert_eq!(c.answer(), "ok", "what the other mount's users had is free");
    // The server releases the locks one after the other.
    assert_eq!(c.does("flock 3 ex"), "ok");
    until_waiting(&second.task, 0);
    assert_eq!(locks(&second.task).len(), 2, "{:?}", locks(&second.task));
    drop((a, b, c));
    second.end();
}

#[test]
fn the_kernel_keeps_locks_without_the_option() {
    let Some(mount) = TestMount::new(Options::default()) else {
        return;
    };
    let (mut a, mut b) = (Agent::new(mount.dir()), Agent::new(mount.dir()));
    assert_eq!(a.does("open f rw"), "3");
    assert_eq!(b.does("open f rw"), "3");
    assert_eq!(a.does("setlk 3 w 0 0"), "ok");
    assert_eq!(b.does("setlk 3 w 0 0"), "EAGAIN");
    assert_eq!(
        (mount.asked("getlk, setlk"), locks(&mount.task).len()),
        (0, 0)
    );
    drop((a, b));
    mount.end();
}

/// Increments a number as often as it is told.
const ADDS: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for n in range(int(sys.argv[2])):
    db.execute('begin immediate')
    was = db.execute('select n from t').fetchone()[0]
    db.execute('update t set n = ?', (was + 1,))
    db.execute('commit')
";

#[test]
fn databases_of_several_processes_lose_nothing() {
    const EACH: u32 = 40;
    for journal in ["delete", "wal"] {
        let Some(mount) = locking() else { return };
        let make = format!(
            "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n\
             db.execute('pragma journal_mode={journal}')\n\
             db.execute('create table t(n)')\ndb.execute('insert into t values(0)')\ndb.commit()"
        );
        let python = |script: &str| {
            let mut command = Command::new("python3");
            command
                .args(["-c", script])
                .arg(mount.at("db"))
                .arg(EACH.to_string());
            command.stdin(Stdio::null());
            command
        };
        let made = python(&make).status().expect("python3");
        assert!(made.success());
        let adders: Vec<_> = (0..3)
            .map(|_| python(ADDS).spawn().expect("python3"))
            .collect();
        for mut adder in adders {
            assert!(adder.wait().expect("ended").success());
        }
        let look = "import sqlite3, sys\nprint(sqlite3.connect(sys.argv[1])\
                    .execute('select n from t').fetchone()[0])";
        let told = python(look).output().expect("python3");
        let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
        assert_eq!(told, (3 * EACH).to_string(), "{journal}");
        assert!(mount.asked("getlk, setlk") > u64::from(EACH));
        mount.end();
    }
}
