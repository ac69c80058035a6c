// SPDX-License-Identifier: MIT OR Apache-2.0
//! A disk that fails.

use super::kinds::{change, furnish};
use super::{Before, Meanwhile, Scene, Until};
use openpath_commit::fault_injection::fail_next_sync;
use openpath_commit::{Committed, Phase, abort, resume, undo};

#[test]
fn disk_that_fails_while_files_are_copied_ends_the_commit_with_nothing_done() {
    let scene = Scene::new("disk");
    furnish(&scene);
    let before = scene.real();
    change(&scene);
    let commit = scene.plan(&[]).unwrap();
    let refused = commit.carry_out(&mut Meanwhile(Phase::Copying, Some(fail_next_sync)));
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
        let commit = scene.plan(&[]).unwrap();
        let failed = commit.carry_out(&mut Meanwhile(Phase::Exchanging, Some(fail_next_sync)));
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
