// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that file locks of processes on a mount whose server keeps the locks itself give the same
//! results as on the host's file system beside it. Two tests show where the kernel acts otherwise
//! on a mount.

mod agent;
mod shared;
#[path = "../test_mount/mod.rs"]
mod test_mount;

use agent::Agent;
use openpath_abi::fcntl::O_RDONLY;
use openpath_abi::lock::{LOCK_EX, LOCK_NB};
use openpath_fuse::Options;
use std::path::Path;
use std::time::{Duration, Instant};
use test_mount::TestMount;

/// With locks, and few threads.
fn options() -> Options {
    Options::default().locks(true).threads(2)
}

/// A mount with locks.
fn locking() -> Option<TestMount> {
    TestMount::new(options())
}

/// A directory, in a mount or on the host.
struct Place<'a> {
    dir: &'a Path,
    mount: Option<&'a TestMount>,
}

impl Place<'_> {
    fn agent(&self) -> Agent {
        Agent::new(self.dir)
    }

    /// Starts a command that waits until something else is done.
    fn waits(&self, agent: &mut Agent, what: &str) {
        let before = self.mount.map(|mount| shared::waiting(&mount.task));
        agent.begin(what);
        let began = Instant::now();
        let waits = || match (self.mount, before) {
            (Some(mount), Some(before)) => shared::waiting(&mount.task) > before,
            _ => agent.sleeps_in_call(),
        };
        while !waits() {
            assert!(
                began.elapsed() < agent::HANG_TIMEOUT,
                "{what} does not wait"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs a test on a mount and on the host.
fn both(test: impl Fn(&Place<'_>)) {
    let Some(mount) = locking() else { return };
    let name = format!("openpath-locks-{}", std::process::id());
    let thread = format!("{:?}", std::thread::current().id());
    let beside = std::env::temp_dir().join(name + &thread);
    std::fs::create_dir_all(&beside).expect("a directory");
    test(&Place {
        dir: &beside,
        mount: None,
    });
    let _gone = std::fs::remove_dir_all(&beside);
    test(&Place {
        dir: mount.dir(),
        mount: Some(&mount),
    });
    assert_eq!(
        mount.task.locks_of_all(),
        0,
        "all that was locked was let go"
    );
    assert!(mount.asked("getlk, setlk") > 0);
    mount.end();
}

/// How many locks there are in the `Vfs` of a task.
trait LocksOfAll {
    fn locks_of_all(&self) -> usize;
}

impl LocksOfAll for openpath_vfs::Task {
    fn locks_of_all(&self) -> usize {
        // Openings end a moment after their last close.
        for _ in 0..200 {
            if shared::locks(self).is_empty() {
                return 0;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        shared::locks(self).len()
    }
}

/// Two processes with the file `f` open as 3.
fn two(dir: &Path) -> [Agent; 2] {
    [(); 2].map(|()| {
        let mut agent = Agent::new(dir);
        assert_eq!(agent.does("open f rw"), "3");
        agent
    })
}

#[test]
fn a_conflicting_lock_is_reported() {
    both(|place| {
        let [mut a, mut b] = two(place.dir);
        assert_eq!(a.does("setlk 3 w 10 10"), "ok");
        assert_eq!(b.does("getlk 3 r 0 11"), "w 10 10 pid");
        assert_eq!(b.does("getlk 3 w 20 0"), "free");
        assert_eq!(b.does("setlk 3 r 19 1"), "EAGAIN");
        assert_eq!(b.does("setlk 3 w 20 0"), "ok");
        assert_eq!(a.does("getlk 3 w 30 5"), "w 20 0 pid");
        assert_eq!(a.does("setlk 3 u 12 2"), "ok");
        assert_eq!(b.does("setlk 3 w 12 2"), "ok");
        assert_eq!(b.does("getlk 3 w 0 0"), "w 10 2 pid");
        assert_eq!(a.does("setlk 3 r 10 2"), "ok");
        assert_eq!(b.does("setlk 3 r 10 2"), "ok");
        assert_eq!(a.does("setlk 3 w 10 2"), "EAGAIN");
        let (mut read, mut write) = (place.agent(), place.agent());
        assert_eq!(read.does("open f r"), "3");
        assert_eq!(write.does("open f w"), "3");
        assert_eq!(read.does("setlk 3 w 100 1"), "EBADF");
        assert_eq!(write.does("setlk 3 r 100 1"), "EBADF");
    });
}

#[test]
fn a_waiting_lock_is_granted_when_no_conflict_is_left() {
    both(|place| {
        let [mut a, mut b] = two(place.dir);
        assert_eq!(a.does("setlk 3 w 0 10"), "ok");
        place.waits(&mut b, "setlkw 3 r 5 1");
        assert_eq!(a.does("setlk 3 u 0 5"), "ok");
        assert_eq!(b.now(), None);
        assert_eq!(a.does("setlk 3 r 0 10"), "ok", "it lets readers in");
        assert_eq!(b.answer(), "ok");
        place.waits(&mut a, "setlkw 3 w 0 10");
        assert_eq!(b.does("close 3"), "ok");
        assert_eq!(a.answer(), "ok");
    });
}

#[test]
fn a_deadlock_is_refused() {
    both(|place| {
        let [mut a, mut b] = two(place.dir);
        assert_eq!(a.does("setlk 3 w 0 1"), "ok");
        assert_eq!(b.does("setlk 3 w 1 1"), "ok");
        place.waits(&mut b, "setlkw 3 w 0 1");
        assert_eq!(a.does("setlkw 3 w 1 1"), "EDEADLK");
        assert_eq!(a.does("setlk 3 u 0 1"), "ok");
        assert_eq!(b.answer(), "ok");
    });
}

#[test]
fn a_signal_ends_a_wait_and_leaves_nothing() {
    both(|place| {
        let [mut a, mut b] = two(place.dir);
        for (held, wanted, free) in [
            ("setlk 3 w 0 0", "setlkw 3 w 0 0", "setlk 3 u 0 0"),
            (
                "ofd_setlk 3 w 0 0",
                "ofd_setlkw 3 w 0 0",
                "ofd_setlk 3 u 0 0",
            ),
            ("flock 3 ex", "flock 3 ex", "flock 3 un"),
        ] {
            assert_eq!(a.does(held), "ok");
            place.waits(&mut b, wanted);
            b.interrupt();
            assert_eq!(b.answer(), "interrupted");
            assert_eq!(a.does(free), "ok");
            assert_eq!(a.does(held), "ok", "nobody has it");
            assert_eq!(a.does(free), "ok");
        }
    });
}

#[test]
fn a_killed_process_releases_its_locks() {
    both(|place| {
        for (held, wanted) in [
            ("setlk 3 w 0 0", "setlkw 3 w 0 0"),
            ("ofd_setlk 3 w 0 0", "ofd_setlkw 3 w 0 0"),
            ("flock 3 ex", "flock 3 ex"),
        ] {
            let [mut a, mut b] = two(place.dir);
            let mut c = place.agent();
            assert_eq!(c.does("open f rw"), "3");
            assert_eq!(a.does(held), "ok");
            place.waits(&mut b, wanted);
            place.waits(&mut c, wanted);
            // A process that waits and is killed waits no more, and one that holds the lock and is
            // killed releases it.
            b.kill();
            a.kill();
            assert_eq!(c.answer(), "ok");
        }
    });
}

#[test]
fn any_close_ends_what_a_table_has_locked_and_no_child_has_any() {
    both(|place| {
        let [mut a, mut b] = two(place.dir);
        assert_eq!(a.does("setlk 3 w 0 0"), "ok");
        assert_eq!(a.does("fork setlk 3 w 0 0"), "EAGAIN");
        assert_eq!(a.does("fork close 3"), "ok");
        assert_eq!(b.does("setlk 3 w 0 0"), "EAGAIN");
        assert_eq!(a.does("dup 3"), "4");
        assert_eq!(a.does("close 4"), "ok");
        assert_eq!(b.does("setlk 3 w 0 0"), "ok");
        assert_eq!(b.does("setlk 3 u 0 0"), "ok");
        assert_eq!(a.does("setlk 3 w 0 0"), "ok");
        assert_eq!(a.does("open f r"), "4");
        assert_eq!(a.does("close 4"), "ok");
        assert_eq!(b.does("setlk 3 w 0 0"), "ok");
    });
}

#[test]
fn a_lock_of_an_open_file_lives_as_long_as_the_file() {
    both(|place| {
        let [mut a, mut b] = two(place.dir);
        for (lock, wanted) in [
            ("ofd_setlk 3 w 0 0", "ofd_setlk 3 w 0 0"),
            ("flock 3 ex", "flock 3 ex nb"),
        ] {
            assert_eq!(a.does("open f rw"), "4");
            let lock = lock.replace('3', "4");
            assert_eq!(a.does(&lock), "ok");
            assert_eq!(
                a.does(wanted),
                "EAGAIN",
                "another opening of the same process"
            );
            assert_eq!(a.does(&format!("fork {lock}")), "ok", "the same opening");
            assert_eq!(a.does("fork close 4"), "ok");
            assert_eq!(a.does("dup 4"), "5");
            assert_eq!(a.does("close 4"), "ok");
            assert_eq!(b.does(wanted), "EAGAIN");
            place.waits(
                &mut b,
                &wanted.replace("setlk", "setlkw").replace(" nb", ""),
            );
            assert_eq!(a.does("close 5"), "ok");
            assert_eq!(b.answer(), "ok");
            assert_eq!(b.does("ofd_setlk 3 u 0 0"), "ok");
            assert_eq!(b.does("flock 3 un"), "ok");
        }
    });
}

#[test]
fn a_lock_granted_after_an_unlock_of_all_ends_with_its_open_file() {
    both(|place| {
        let [mut a, mut b] = two(place.dir);
        assert_eq!(a.does("ofd_setlk 3 w 0 1"), "ok");
        assert_eq!(b.does("ofd_setlk 3 w 1 1"), "ok");
        place.waits(&mut a, "begin ofd_setlkw 3 w 1 1");
        assert_eq!(a.answer(), "ok");
        assert_eq!(a.does("ofd_setlk 3 u 0 1"), "ok");
        assert_eq!(b.does("ofd_setlk 3 u 1 1"), "ok");
        assert_eq!(a.does("end"), "ok");
        assert_eq!(b.does("ofd_setlk 3 w 1 1"), "EAGAIN");
        place.waits(&mut b, "ofd_setlkw 3 w 1 1");
        assert_eq!(a.does("close 3"), "ok");
        assert_eq!(b.answer(), "ok");
    });
}

#[test]
fn a_file_table_and_its_open_file_are_two_owners() {
    both(|place| {
        let [mut a, _b] = two(place.dir);
        assert_eq!(a.does("setlk 3 w 0 1"), "ok");
        assert_eq!(a.does("ofd_setlk 3 w 0 1"), "EAGAIN");
        assert_eq!(a.does("ofd_setlk 3 w 1 1"), "ok");
        assert_eq!(a.does("setlk 3 w 1 1"), "EAGAIN");
        assert_eq!(a.does("flock 3 ex"), "ok", "it knows nothing of the others");
    });
}

#[test]
fn flock_is_shared_upgraded_and_downgraded() {
    both(|place| {
        let [mut a, mut b] = two(place.dir);
        assert_eq!(a.does("flock 3 sh"), "ok");
        assert_eq!(b.does("flock 3 sh nb"), "ok");
        place.waits(&mut a, "flock 3 ex");
        assert_eq!(b.does("flock 3 un"), "ok");
        assert_eq!(a.answer(), "ok");
        assert_eq!(b.does("flock 3 sh nb"), "EAGAIN");
        place.waits(&mut b, "flock 3 sh");
        assert_eq!(a.does("flock 3 sh"), "ok");
        assert_eq!(b.answer(), "ok");
        // An upgrade that would wait and may not loses the lock.
        assert_eq!(a.does("flock 3 ex nb"), "EAGAIN");
        assert_eq!(b.does("flock 3 ex nb"), "ok");
    });
}

#[test]
fn the_kernel_does_not_say_which_locks_are_of_open_files() {
    let Some(mount) = locking() else { return };
    let place = Place {
        dir: mount.dir(),
        mount: Some(&mount),
    };
    let [mut a, mut b] = two(mount.dir());
    assert_eq!(a.does("ofd_setlk 3 w 0 1"), "ok");
    assert_eq!(b.does("getlk 3 w 0 0"), "w 0 1 pid");
    assert_eq!(b.does("ofd_setlk 3 w 1 1"), "ok");
    place.waits(&mut b, "ofd_setlkw 3 w 0 1");
    // On another file system both would wait for ever.
    assert_eq!(a.does("ofd_setlkw 3 w 1 1"), "EDEADLK");
    let listed = shared::locks(&mount.task);
    assert!(listed.iter().all(|lock| lock.to_string().contains("POSIX")));
    drop([a, b]);
    mount.end();
}

#[test]
fn directories_are_locked_by_the_kernel() {
    let Some(mount) = locking() else { return };
    let mut agent = Agent::new(mount.dir());
    let task = &mount.task;
    task.mkdir(b"/f", 0o755).expect("made");
    assert_eq!(agent.does("open f r"), "3");
    assert_eq!(agent.does("flock 3 ex"), "ok");
    assert_eq!(agent.does("setlk 3 r 0 0"), "ok");
    assert_eq!(mount.asked("getlk, setlk"), 0);
    let fd = task.open(b"/f", O_RDONLY, 0).expect("a directory");
    assert_eq!(task.flock(fd, LOCK_EX | LOCK_NB), Ok(()));
    drop(agent);
    mount.end();
}
