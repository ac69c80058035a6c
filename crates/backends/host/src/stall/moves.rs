// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and renames that stand still hold up no cached open, of whatever tenant.

use super::goes_on::{ROUNDS, the_quick_one_goes_on, tries, world};
use super::{Gate, Stage, opens};
use crate::options::Policy;
use openpath_abi::Errno;
use openpath_abi::fcntl::O_RDONLY;
use openpath_vfs::{Cred, Task};

/// Has `stuck` stand still below `/slow`, while names that are known there, and everything in the
/// other directory, go on for both tasks.
fn goes_on_beside(name: &str, policy: Policy, stuck: impl Fn(&Task) + Send + Sync) {
    let stage = Stage::new(name);
    for dir in ["slow/d", "slow/e"] {
        std::fs::create_dir(stage.at(dir)).expect("a directory");
    }
    let (vfs, tasks) = world(&stage.0, policy);
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
    let gate = Gate::shut(stage.at("slow"));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let task = vfs.task(Cred::root()).expect("a task");
            stuck(&task);
        });
        gate.await_waiting(1);
        for _ in 0..ROUNDS {
            for task in &tasks {
                for path in known {
                    opens(task, path, O_RDONLY).expect("known");
                    tries(task, path).expect("known");
                }
                assert_eq!(opens(task, "/slow/none", O_RDONLY), Err(Errno::ENOENT));
            }
        }
        the_quick_one_goes_on(&tasks);
        assert_eq!(gate.counts().0, 1, "{policy:?}: who waited does, alone");
        assert!(!thread.is_finished());
        drop(gate);
        thread.join().expect("done after all");
    });
}

const KEEPING: [Policy; 2] = [Policy::Exclusive, Policy::Notify];

#[test]
fn a_read_that_stands_still_holds_up_no_open() {
    for policy in KEEPING {
        goes_on_beside("reads", policy, |task| {
            let fd = task.open(b"/slow/f0", O_RDONLY, 0).expect("known");
            let mut buf = [0; 4];
            assert_eq!((task.read(fd, &mut buf), buf[0]), (Ok(1), b'x'));
        });
    }
}

#[test]
fn a_rename_that_stands_still_holds_up_no_open() {
    for policy in KEEPING {
        goes_on_beside("renames", policy, |task| {
            task.rename(b"/slow/f1", b"/slow/new").expect("renamed");
        });
    }
}

#[test]
fn a_directory_that_moves_and_stands_still_holds_up_no_open() {
    for policy in KEEPING {
        goes_on_beside("moves", policy, |task| {
            task.rename(b"/slow/d", b"/slow/e/d").expect("moved");
        });
    }
}
