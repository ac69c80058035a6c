// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that lookups, opens and creations that hang below one directory of the host delay no
//! cached open there, and no call elsewhere.

use super::{Gate, QUICK_FILES, TestDir, opens};
use crate::options::{HostOptions, Policy};
use crate::superblock::HostFs;
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY};
use openpath_abi::{Errno, OpenHow, resolve};
use openpath_vfs::{Cred, Task, TenantLimits, Vfs};
use std::path::Path;

/// Rounds of cached calls.
pub(super) const ROUNDS: usize = 500;

pub(super) fn world(place: &Path, policy: Policy) -> (Vfs, [Task; 2]) {
    let options = HostOptions {
        policy,
        ..HostOptions::default()
    };
    let tree = HostFs::open(place, options).expect("a tree");
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    let tasks = [0, 1].map(|n| {
        let task = vfs.task(Cred::root()).expect("a task");
        if n == 1 {
            task.set_tenant(&vfs.tenant(TenantLimits::default()))
                .expect("a tenant of this Vfs");
        }
        task
    });
    (vfs, tasks)
}

/// Opens without waiting.
pub(super) fn open_cached(task: &Task, path: &str) -> Result<(), Errno> {
    let how = OpenHow {
        flags: u64::from(O_RDONLY),
        mode: 0,
        resolve: resolve::RESOLVE_CACHED,
    };
    let fd = task.openat2(AT_FDCWD, path.as_bytes(), &how)?;
    task.close(fd)
}

/// Calls in the quick directory, which must continue while others wait in the slow one.
pub(super) fn check_quick_dir(tasks: &[Task; 2]) {
    for n in 0..QUICK_FILES {
        let task = &tasks[n % 2];
        opens(task, &format!("/quick/f{n}"), O_RDONLY).expect("not asked for before");
        let absent = format!("/quick/absent{n}");
        assert_eq!(opens(task, &absent, O_RDONLY), Err(Errno::ENOENT));
    }
    for (n, task) in tasks.iter().enumerate() {
        let made = format!("/quick/made{n}");
        opens(task, &made, O_WRONLY | O_CREAT).expect("made");
        let renamed = format!("/quick/renamed{n}");
        task.rename(made.as_bytes(), renamed.as_bytes())
            .expect("renamed");
        task.unlink(renamed.as_bytes()).expect("removed");
        let fd = task.open(b"/quick", O_RDONLY | O_DIRECTORY, 0);
        let listed = task.getdents64(fd.expect("open"), 1 << 16).expect("list");
        assert_eq!(listed.len(), QUICK_FILES + 2);
    }
}

#[test]
fn hanging_lookups_and_opens_delay_no_other_call() {
    for policy in [Policy::Exclusive, Policy::Notify] {
        let dir = TestDir::new("lookups");
        let (vfs, tasks) = world(&dir.0, policy);
        for task in &tasks {
            opens(task, "/slow/f0", O_RDONLY).expect("known from here on");
            task.stat(b"/slow/f1").expect("its name is known");
            assert_eq!(opens(task, "/slow/none", O_RDONLY), Err(Errno::ENOENT));
        }
        let gate = Gate::shut(dir.at("slow"));
        std::thread::scope(|scope| {
            // Two names that are not cached, one of them twice, and a file that has no handle.
            let wanted = ["/slow/f1", "/slow/f2", "/slow/f3", "/slow/f3"];
            let vfs = &vfs;
            let blocked = wanted.map(|path| {
                scope.spawn(move || {
                    let task = vfs.task(Cred::root()).expect("a task");
                    opens(&task, path, O_RDONLY)
                })
            });
            gate.await_waiting(3);
            for _ in 0..ROUNDS {
                for task in &tasks {
                    opens(task, "/slow/f0", O_RDONLY).expect("known");
                    open_cached(task, "/slow/f0").expect("known");
                    task.stat(b"/slow/f1").expect("known");
                    assert_eq!(opens(task, "/slow/none", O_RDONLY), Err(Errno::ENOENT));
                    assert_eq!(open_cached(task, "/slow/f2"), Err(Errno::EAGAIN));
                    assert_eq!(open_cached(task, "/slow/f1"), Err(Errno::EAGAIN));
                    assert_eq!(open_cached(task, "/slow/new"), Err(Errno::EAGAIN));
                }
            }
            check_quick_dir(&tasks);
            let (waiting, refused) = gate.counts();
            assert_eq!(waiting, 3, "{policy:?}: the same calls still wait");
            assert!(refused >= 2 * ROUNDS, "{policy:?}: {refused}");
            assert!(blocked.iter().all(|thread| !thread.is_finished()));
            drop(gate);
            for thread in blocked {
                let ended = thread.join().expect("no panic");
                ended.expect("opened after all");
            }
        });
        check_all_cached(&tasks);
    }
}

fn check_all_cached(tasks: &[Task; 2]) {
    for task in tasks {
        for n in 0..4 {
            open_cached(task, &format!("/slow/f{n}")).expect("known to all by now");
        }
    }
}

#[test]
fn hanging_create_delays_no_cached_open() {
    let dir = TestDir::new("makes");
    let (vfs, tasks) = world(&dir.0, Policy::Exclusive);
    opens(&tasks[0], "/slow/f0", O_RDONLY).expect("known from here on");
    let gate = Gate::shut(dir.at("slow"));
    std::thread::scope(|scope| {
        let vfs = &vfs;
        let blocked = scope.spawn(move || {
            let task = vfs.task(Cred::root()).expect("a task");
            opens(&task, "/slow/made", O_WRONLY | O_CREAT)
        });
        gate.await_waiting(1);
        for _ in 0..ROUNDS {
            for task in &tasks {
                opens(task, "/slow/f0", O_RDONLY).expect("known");
                assert_eq!(open_cached(task, "/slow/made"), Err(Errno::EAGAIN));
            }
        }
        check_quick_dir(&tasks);
        assert!(!blocked.is_finished());
        drop(gate);
        blocked.join().expect("no panic").expect("made after all");
    });
    assert!(dir.at("slow/made").exists());
}

#[test]
fn revalidating_open_waits_for_its_own_file_alone() {
    for policy in [Policy::Revalidate, Policy::None] {
        let dir = TestDir::new("asks");
        let (vfs, tasks) = world(&dir.0, policy);
        opens(&tasks[0], "/slow/f0", O_RDONLY).expect("open");
        let gate = Gate::shut(dir.at("slow"));
        std::thread::scope(|scope| {
            let vfs = &vfs;
            let blocked = scope.spawn(move || {
                let task = vfs.task(Cred::root()).expect("a task");
                opens(&task, "/slow/f0", O_RDONLY)
            });
            gate.await_waiting(1);
            for task in &tasks {
                assert_eq!(open_cached(task, "/slow/f0"), Err(Errno::EAGAIN));
            }
            check_quick_dir(&tasks);
            assert_eq!(gate.counts().0, 1, "{policy:?}");
            drop(gate);
            blocked.join().expect("no panic").expect("opened after all");
        });
    }
}
