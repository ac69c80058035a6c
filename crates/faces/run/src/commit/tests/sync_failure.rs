// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit during which syncfs(2) fails leaves the real tree unchanged, or can be
//! resumed and rolled back.

use super::kinds::{change, populate};
use super::{ActAt, Scene, StopAfter, StopBefore};
use openpath_commit::fault_injection::fail_next_sync;
use openpath_commit::{Committed, Phase, abort, resume, undo};

#[test]
fn failed_sync_during_copying_leaves_the_tree_unchanged() {
    let scene = Scene::new("disk");
    populate(&scene);
    let before = scene.real();
    change(&scene);
    let commit = scene.plan(&[]).unwrap();
    let refused = commit.carry_out(&mut ActAt(Phase::Copying, Some(fail_next_sync)));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("brought to the disk"), "{refused}");
    assert_eq!(scene.real(), before);
    assert_eq!(scene.kept().committed().unwrap(), Committed::No);
}

#[test]
fn failed_sync_after_copying_leaves_a_commit_that_resumes_or_rolls_back() {
    for back in [false, true] {
        let scene = Scene::new("disk-later");
        populate(&scene);
        let before = scene.real();
        change(&scene);
        let wanted = scene.shown();
        let commit = scene.plan(&[]).unwrap();
        let failed = commit.carry_out(&mut ActAt(Phase::Exchanging, Some(fail_next_sync)));
        failed.unwrap_err();
        let kept = scene.kept();
        assert_eq!(kept.committed().unwrap(), Committed::Interrupted);
        if back {
            abort(&kept, false, &mut StopAfter(u64::MAX)).unwrap();
            assert_eq!(scene.real(), before);
        } else {
            resume(&kept, &mut StopAfter(u64::MAX)).unwrap();
            assert_eq!(scene.real(), wanted);
            undo(&kept, false, &mut StopBefore(Phase::Copying)).unwrap();
            assert_eq!(scene.real(), before);
        }
    }
}
