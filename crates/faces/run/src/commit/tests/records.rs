// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that only the owner can read the records that a commit keeps in its view's directory, and
//! that a commit neither follows links among them nor reads records of other users.

use super::{Scene, StopAfter, put};
use crate::commit::Commit;
use crate::plan::Plan;
use crate::view::View;
use openpath_commit::{Committed, record_taken};
use std::os::unix::fs::{MetadataExt as _, symlink};

impl Scene {
    fn note(&self) {
        record_taken(self.kept().view_dir()).unwrap();
    }
}

#[test]
fn notes_of_a_commit_are_for_their_owner_alone() {
    let scene = Scene::new("notes");
    super::kinds::populate(&scene);
    super::kinds::change(&scene);
    assert_eq!(scene.commit(&[]), []);
    scene.view(|task| put(task, &scene.at("again"), "view").unwrap());
    scene.note();
    for path in ["commit", "commit/old", "commit/view"] {
        let mode = std::fs::metadata(scene.view.join(path)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o700, "{path}");
    }
    for path in ["commit/journal", "commit/state", "known", "taken"] {
        let mode = std::fs::metadata(scene.view.join(path)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600, "{path}");
    }
}

#[test]
fn links_among_the_notes_are_not_written_through() {
    let scene = Scene::new("links");
    scene.write("victim", "precious");
    scene.write("file", "base");
    scene.view(|task| put(task, &scene.at("file"), "view").unwrap());
    for name in ["taken.new", "known.new"] {
        symlink(scene.base("victim"), scene.view.join(name)).unwrap();
    }
    scene.note();
    assert_eq!(scene.commit(&[]), []);
    assert_eq!(std::fs::read(scene.base("victim")).unwrap(), b"precious");
    assert_eq!(std::fs::read(scene.base("file")).unwrap(), b"view");
    // A note that is a link is not read either.
    std::fs::remove_file(scene.view.join("known")).unwrap();
    symlink(scene.base("victim"), scene.view.join("known")).unwrap();
    assert!(scene.plan(&[]).is_err());
}

#[test]
fn directory_put_in_place_of_a_view_that_is_held_is_not_read() {
    let scene = Scene::new("swapped");
    scene.write("file", "base");
    scene.view(|task| put(task, &scene.at("file"), "view").unwrap());
    let kept = scene.kept();
    std::fs::rename(&scene.view, scene.view.with_extension("away")).unwrap();
    // This one would be refused as interrupted, and its changes committed otherwise.
    std::fs::create_dir_all(scene.view.join("commit")).unwrap();
    std::fs::create_dir(scene.view.join("upper")).unwrap();
    std::fs::write(scene.view.join("commit/state"), "\"Applying\"").unwrap();
    assert_eq!(kept.committed().unwrap(), Committed::No);
    let commit = Commit::plan(&kept, &[], false).unwrap();
    commit.carry_out(&mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(std::fs::read(scene.base("file")).unwrap(), b"view");
    assert_eq!(kept.committed().unwrap(), Committed::Yes);
}

#[test]
fn run_that_cannot_record_copy_up_times_is_refused() {
    let scene = Scene::new("untaken");
    scene.write("file", "base");
    scene.view(|task| put(task, &scene.at("file"), "view").unwrap());
    // As a disk without room would.
    std::fs::create_dir(scene.view.join("taken.new")).unwrap();
    let mut plan = Plan::default();
    plan.keep_changes_in(&scene.kept());
    let refused = View::build(&plan, &crate::view::ViewOptions::default());
    let refused = refused.err().expect("a refusal").to_string();
    assert!(refused.contains("taken"), "{refused}");
    std::fs::remove_dir(scene.view.join("taken.new")).unwrap();
    assert_eq!(scene.commit(&[]), []);
}

#[test]
fn record_of_another_user_is_not_read() {
    if !super::is_root() {
        return;
    }
    let scene = Scene::new("foreign-note");
    scene.write("file", "base");
    scene.view(|task| put(task, &scene.at("file"), "view").unwrap());
    let note = scene.view.join("known");
    std::fs::write(&note, "[]").unwrap();
    assert!(scene.plan(&[]).is_ok());
    std::os::unix::fs::chown(&note, Some(1000), Some(1000)).unwrap();
    let refused = scene.plan(&[]).expect_err("a refusal").to_string();
    assert!(refused.contains("another user"), "{refused}");
}
