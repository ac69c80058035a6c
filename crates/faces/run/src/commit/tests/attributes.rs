// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit that ends when a file has only some of its new attributes can be resumed and
//! rolled back, and keeps attributes that others set in the meantime.

use super::{Scene, StopAfter, StopBefore};
use openpath_commit::fault_injection::fail_next_xattr;
use openpath_commit::{Committed, Phase, abort, resume};
use rustix::fs::XattrFlags;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

/// A file and a directory with attributes, all of which the view changes.
fn scene(name: &str) -> Scene {
    let scene = Scene::new(name);
    scene.write("file", "base");
    std::fs::create_dir(scene.base("dir")).unwrap();
    for path in ["file", "dir"] {
        set(&scene, path, "user.test", b"old");
        chmod(&scene, path, 0o750);
        scene.view(|task| {
            let path = scene.at(path);
            task.setxattr(
                &path,
                b"user.test",
                b"new",
                openpath_abi::XattrFlags::empty(),
            )
            .unwrap();
            task.setxattr(
                &path,
                b"user.zero",
                b"new",
                openpath_abi::XattrFlags::empty(),
            )
            .unwrap();
            task.chmod(&path, 0o705).unwrap();
        });
    }
    scene
}

fn set(scene: &Scene, path: &str, name: &str, value: &[u8]) {
    let flags = XattrFlags::empty();
    rustix::fs::setxattr(scene.base(path), name, value, flags).unwrap();
}

fn chmod(scene: &Scene, path: &str, mode: u32) {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(scene.base(path), mode).unwrap();
}

#[test]
fn partly_set_attributes_are_restored_on_error() {
    let scene = scene("full");
    let before = scene.real();
    let commit = scene.plan(&[]).unwrap();
    fail_next_xattr(b"user.zero");
    let refused = commit.carry_out(&mut StopAfter(u64::MAX)).unwrap_err();
    assert!(refused.to_string().contains("No space"), "{refused}");
    assert_eq!(scene.real(), before);
    let undone = abort(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!((undone.conflicts, scene.real()), (vec![], before));
}

#[test]
fn half_set_attributes_are_recognised_as_the_commits_own() {
    for path in ["file", "dir"] {
        for half in ["attribute", "mode"] {
            let scene = scene("half");
            let (before, wanted) = (scene.real(), scene.shown());
            for resumes in [false, true] {
                let commit = scene.plan(&[]).unwrap();
                commit
                    .carry_out(&mut StopBefore(Phase::Exchanging))
                    .unwrap_err();
                // As a kill between two calls leaves it.
                match half {
                    "attribute" => set(&scene, path, "user.test", b"new"),
                    _ => chmod(&scene, path, 0o705),
                }
                let kept = scene.kept();
                if resumes {
                    resume(&kept, &mut StopAfter(u64::MAX)).unwrap();
                    assert_eq!(scene.real(), wanted, "{path}, {half}");
                } else {
                    let undone = abort(&kept, false, &mut StopAfter(u64::MAX)).unwrap();
                    assert_eq!(undone.conflicts, [], "{path}, {half}");
                    assert_eq!(scene.real(), before, "{path}, {half}");
                }
            }
        }
    }
}

#[test]
fn attributes_set_by_others_after_an_interruption_are_kept() {
    for path in ["file", "dir"] {
        let scene = scene("neither");
        let commit = scene.plan(&[]).unwrap();
        commit
            .carry_out(&mut StopBefore(Phase::Exchanging))
            .unwrap_err();
        chmod(&scene, path, 0o711);
        let kept = scene.kept();
        let refused = resume(&kept, &mut StopAfter(u64::MAX)).unwrap_err();
        assert!(refused.to_string().contains("was changed"), "{refused}");
        let mode = || std::fs::metadata(scene.base(path)).unwrap().mode() & 0o7777;
        assert_eq!(mode(), 0o711, "{path}");
        if kept.committed().unwrap() == Committed::Interrupted {
            let undone = abort(&kept, false, &mut StopAfter(u64::MAX)).unwrap();
            assert_eq!(undone.conflicts.len(), 1, "{path}");
        }
        assert_eq!(mode(), 0o711, "{path}");
    }
}
