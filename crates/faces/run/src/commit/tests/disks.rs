// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that fails, and directories that may not be read.

use super::kinds::{change, furnish};
use super::{Before, Meanwhile, Scene, Until};
use crate::Committed;
use crate::commit::disks::{Disks, seam::FAILS};
use crate::commit::tree::Tree;
use crate::commit::{Phase, abort, resume, undo};
use std::os::unix::fs::{PermissionsExt as _, chown};

#[test]
fn disk_that_fails_while_files_are_copied_ends_the_commit_with_nothing_done() {
    let scene = Scene::new("disk");
    furnish(&scene);
    let before = scene.real();
    change(&scene);
    let fail = || FAILS.set(true);
    let commit = scene.plan(&[]).unwrap();
    let refused = commit.carry_out(&mut Meanwhile(Phase::Copying, Some(fail)));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("brought to the disk"), "{refused}");
    assert_eq!(scene.real(), before);
    assert_eq!(scene.kept().committed().unwrap(), Committed::No);
}

#[test]
fn disk_that_fails_later_leaves_a_commit_that_can_go_on_or_back() {
    for back in [false, true] {
        let scene = Scene::new("disk-later");
        furnish(&scene);
        let before = scene.real();
        change(&scene);
        let wanted = scene.shown();
        let fail = || FAILS.set(true);
        let commit = scene.plan(&[]).unwrap();
        let failed = commit.carry_out(&mut Meanwhile(Phase::Exchanging, Some(fail)));
        failed.unwrap_err();
        let kept = scene.kept();
        assert_eq!(kept.committed().unwrap(), Committed::Interrupted);
        if back {
            abort(&kept, false, &mut Until(u64::MAX)).unwrap();
            assert_eq!(scene.real(), before);
        } else {
            resume(&kept, &mut Until(u64::MAX)).unwrap();
            assert_eq!(scene.real(), wanted);
            undo(&kept, false, &mut Before(Phase::Copying)).unwrap();
            assert_eq!(scene.real(), before);
        }
    }
}

/// Threads of an ordinary user are asked, which root alone can make.
#[test]
fn directory_that_may_not_be_read_is_brought_to_the_disk_by_a_descriptor() {
    if !super::is_root() {
        return;
    }
    let scene = Scene::new("unread");
    let dirs = ["shut", "shut/open", "none"].map(|path| scene.base(path));
    for (dir, mode) in dirs.iter().zip([0o300, 0o300, 0o100]) {
        std::fs::create_dir(dir).unwrap();
        chown(dir, Some(1000), Some(1000)).unwrap();
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let hold = move |top: std::path::PathBuf, path: &'static [u8]| {
        let thread = std::thread::spawn(move || {
            let user = rustix::process::Uid::from_raw(1000);
            // The tree begins at the directory: nothing above it can be read instead.
            let tree = Tree::open(&top).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            let disks = Disks::default();
            disks.hold(&tree, path)?;
            disks.sync()
        });
        thread.join().unwrap()
    };
    assert_eq!(hold(dirs[0].clone(), b""), Ok(()));
    assert_eq!(hold(dirs[0].clone(), b"/open"), Ok(()));
    assert_eq!(hold(dirs[2].clone(), b""), Err(rustix::io::Errno::ACCESS));
}
