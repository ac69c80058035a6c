// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a commit writes into the directory of its view.

use super::{Scene, put};
use crate::commit::note;
use std::os::unix::fs::{MetadataExt as _, symlink};

#[test]
fn notes_of_a_commit_are_for_their_owner_alone() {
    let scene = Scene::new("notes");
    super::kinds::furnish(&scene);
    super::kinds::change(&scene);
    assert_eq!(scene.commit(&[]), []);
    scene.view(|task| put(task, &scene.at("again"), "view").unwrap());
    note(&scene.view).unwrap();
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
    note(&scene.view).unwrap();
    assert_eq!(scene.commit(&[]), []);
    assert_eq!(std::fs::read(scene.base("victim")).unwrap(), b"precious");
    assert_eq!(std::fs::read(scene.base("file")).unwrap(), b"view");
    // A note that is a link is not read either.
    std::fs::remove_file(scene.view.join("known")).unwrap();
    symlink(scene.base("victim"), scene.view.join("known")).unwrap();
    assert!(scene.plan(&[]).is_err());
}
