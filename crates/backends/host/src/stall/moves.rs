// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a read or a rename that hangs on the host delays no cached open, of any tenant, and
//! no call in another directory.

use super::lookups::{ROUNDS, check_quick_dir, open_cached, world};
use super::{Gate, TestDir, opens};
use crate::options::Policy;
use openpath_abi::Errno;
use openpath_abi::fcntl::O_RDONLY;
use openpath_vfs::{Cred, Task};

/// Makes `blocked` hang below `/slow`, while cached names there, and everything in the other
/// directory, work for both tasks.
fn check_beside(name: &str, policy: Policy, blocked: impl Fn(&Task) + Send + Sync) {
    let dir = TestDir::new(name);
    for name in ["slow/d", "slow/e"] {
        std::fs::create_dir(dir.at(name)).expect("a directory");
    }
    let (vfs, tasks) = world(&dir.0, policy);
    let known = ["/slow/f0", "/slow/f1"];
    for task in &tasks {
        for path in known {
            opens(task, path, O_RDONLY).expect("known from here on");
        }
        for path in ["/slow/d", "/slow/e"] {
            task.stat(path.as_bytes()).expect("its name is known");
        }
        for path in ["/slow/none", "/slow/new", "/slow/e/d"] {
            assert_eq!(opens(task, path, O_RDONLY), Err(Errno::ENOENT));
        }
    }
    let gate = Gate::shut(dir.at("slow"));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let task = vfs.task(Cred::root()).expect("a task");
            blocked(&task);
        });
        gate.await_waiting(1);
        for _ in 0..ROUNDS {
            for task in &tasks {
                for path in known {
                    opens(task, path, O_RDONLY).expect("known");
                    open_cached(task, path).expect("known");
                }
                assert_eq!(opens(task, "/slow/none", O_RDONLY), Err(Errno::ENOENT));
            }
        }
        check_quick_dir(&tasks);
        assert_eq!(gate.counts().0, 1, "{policy:?}: one call waits");
        assert!(!thread.is_finished());
        drop(gate);
        thread.join().expect("done after all");
    });
}

const KEEPING: [Policy; 2] = [Policy::Exclusive, Policy::Notify];

#[test]
fn hanging_read_delays_no_cached_open() {
    for policy in KEEPING {
        check_beside("reads", policy, |task| {
            let fd = task.open(b"/slow/f0", O_RDONLY, 0).expect("known");
            let mut buf = [0; 4];
            assert_eq!((task.read(fd, &mut buf), buf[0]), (Ok(1), b'x'));
        });
    }
}

#[test]
fn hanging_rename_delays_no_cached_open() {
    for policy in KEEPING {
        check_beside("renames", policy, |task| {
            task.rename(b"/slow/f1", b"/slow/new").expect("renamed");
        });
    }
}

#[test]
fn hanging_move_of_a_directory_delays_no_cached_open() {
    for policy in KEEPING {
        check_beside("moves", policy, |task| {
            task.rename(b"/slow/d", b"/slow/e/d").expect("moved");
        });
    }
}
