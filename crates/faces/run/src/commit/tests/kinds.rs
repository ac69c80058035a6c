// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that each kind of change is committed and undone, that selected paths are committed alone,
//! and that a path that others changed meanwhile is a conflict.

use super::{Scene, StopAfter, put};
use crate::inspect::Inspect;
use openpath_abi::XattrFlags;
use openpath_abi::mode;
use openpath_commit::{Committed, ConflictKind, abort, discard, resume, undo};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

/// A tree with some of everything.
pub(super) fn populate(scene: &Scene) {
    for dir in ["dir/deep", "gone/deep", "swap", "other", "replaced"] {
        std::fs::create_dir_all(scene.base(dir)).unwrap();
    }
    let files = [
        "file",
        "mode",
        "one",
        "dir/a",
        "dir/deep/b",
        "gone/x",
        "gone/deep/y",
        "swap/in",
        "other/in",
        "replaced/old",
        "linked",
        "kept",
        "closed",
    ];
    for path in files {
        scene.write(path, &format!("base {path}"));
    }
    std::fs::hard_link(scene.base("linked"), scene.base("dir/linked")).unwrap();
    std::os::unix::fs::symlink("file", scene.base("link")).unwrap();
}

/// Changes some of everything.
pub(super) fn change(scene: &Scene) {
    let at = |path: &str| scene.at(path);
    scene.view(|task| {
        put(task, &at("file"), "view file").unwrap();
        task.chmod(&at("mode"), 0o751).unwrap();
        task.rename(&at("one"), &at("two")).unwrap();
        task.unlink(&at("gone/x")).unwrap();
        task.unlink(&at("gone/deep/y")).unwrap();
        task.rmdir(&at("gone/deep")).unwrap();
        task.rmdir(&at("gone")).unwrap();
        // A directory goes, with a change and a file more in it, and to another's place.
        put(task, &at("dir/deep/b"), "view b").unwrap();
        put(task, &at("dir/new"), "view new").unwrap();
        task.mkdir(&at("made"), 0o750).unwrap();
        task.rename(&at("dir"), &at("made/dir")).unwrap();
        task.rename(&at("made/dir/deep"), &at("deep")).unwrap();
        let swap = openpath_abi::rename::RENAME_EXCHANGE;
        let cwd = openpath_abi::fcntl::AT_FDCWD;
        task.renameat2(cwd, &at("swap"), cwd, &at("other"), swap)
            .unwrap();
        task.unlink(&at("replaced/old")).unwrap();
        task.rmdir(&at("replaced")).unwrap();
        task.mkdir(&at("replaced"), 0o755).unwrap();
        put(task, &at("replaced/fresh"), "fresh").unwrap();
        task.link(&at("replaced/fresh"), &at("again")).unwrap();
        task.link(&at("kept"), &at("kept-too")).unwrap();
        task.chmod(&at("closed"), 0o600).unwrap();
        task.link(&at("closed"), &at("closed-too")).unwrap();
        put(task, &at("linked"), "view linked").unwrap();
        task.unlink(&at("link")).unwrap();
        task.symlink(b"elsewhere", &at("link")).unwrap();
        task.mknod(&at("fifo"), mode::S_IFIFO | 0o640, 0).unwrap();
        task.setxattr(&at("file"), b"user.test", b"value", XattrFlags::empty())
            .unwrap();
        task.setxattr(&at("made"), b"user.test", b"made", XattrFlags::empty())
            .unwrap();
    });
}

#[test]
fn all_kinds_of_changes_are_committed_and_undone() {
    let scene = Scene::new("kinds");
    populate(&scene);
    let before = scene.real();
    change(&scene);
    let wanted = scene.shown();
    assert_eq!(scene.real(), before);
    let linked = std::fs::metadata(scene.base("kept")).unwrap().ino();
    assert_eq!(scene.commit(&[]), []);
    assert_eq!(scene.real(), wanted);
    assert_eq!(
        std::fs::metadata(scene.base("kept-too")).unwrap().ino(),
        linked
    );
    assert_eq!((scene.left(), scene.shown()), (0, wanted.clone()));
    assert_eq!(scene.kept().committed().unwrap(), Committed::Yes);

    let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!((undone.conflicts, scene.real()), (vec![], before));
    assert_eq!(
        (scene.shown(), scene.kept().committed().unwrap()),
        (wanted.clone(), Committed::No)
    );
    // What was undone can be done again.
    assert_eq!(scene.commit(&[]), []);
    assert_eq!(scene.real(), wanted);
    discard(&scene.kept().name, &mut || {}).unwrap();
}

#[test]
fn empty_commit_leaves_the_previous_one_undoable() {
    let scene = Scene::new("nothing");
    populate(&scene);
    let before = scene.real();
    change(&scene);
    assert_eq!(scene.commit(&[]), []);
    let real = scene.real();
    assert_eq!(scene.commit(&[]), []);
    // A path without a change is mistyped.
    let refused = scene.plan(&["nowhere"]).err().unwrap().to_string();
    assert!(refused.contains("nowhere"), "{refused}");
    assert_eq!(scene.real(), real);
    let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert!(undone.changes.len() > 10, "{undone:?}");
    assert_eq!(scene.real(), before);
}

#[test]
fn partial_commit_takes_new_parent_directories() {
    let scene = Scene::new("part");
    scene.write("file", "base");
    scene.view(|task| {
        put(task, &scene.at("file"), "view").unwrap();
        task.mkdir(&scene.at("new"), 0o700).unwrap();
        task.mkdir(&scene.at("new/in"), 0o750).unwrap();
        task.mkdir(&scene.at("new/out"), 0o755).unwrap();
        for path in ["new/in/a", "new/in/b", "new/out/c"] {
            put(task, &scene.at(path), path).unwrap();
        }
    });
    let shown = scene.shown();
    assert_eq!(scene.commit(&["new/in/a"]), []);
    let names: Vec<_> = scene.real().into_keys().collect();
    assert_eq!(names, ["file", "new", "new/in", "new/in/a"]);
    let mode = std::fs::metadata(scene.base("new/in"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o750);
    assert_eq!((scene.left(), scene.shown().len()), (4, shown.len()));
    assert_eq!(scene.commit(&["new"]), []);
    assert_eq!((scene.left(), scene.commit(&[]).len()), (1, 0));
    assert_eq!((scene.left(), scene.real().len()), (0, shown.len()));
}

#[test]
fn half_of_a_rename_or_link_is_refused_and_the_other_is_named() {
    let scene = Scene::new("halves");
    populate(&scene);
    let before = scene.real();
    change(&scene);
    for (only, missing) in [
        ("two", "/one "),
        ("one", "/two,"),
        ("deep", "/made/dir/deep "),
        ("made/dir/new", "/made/dir,"),
        ("again", "/replaced/fresh "),
        ("replaced/fresh", "/replaced,"),
        ("swap", "/other"),
    ] {
        let refused = scene.plan(&[only]).err().map(|why| why.to_string());
        let refused = refused.unwrap_or_default();
        assert!(refused.contains(missing.trim_end()), "{only}: {refused}");
    }
    assert_eq!(scene.real(), before);
}

#[test]
fn further_name_beside_a_removed_one_of_the_same_file_is_committed() {
    let scene = Scene::new("further");
    scene.write("first", "data");
    std::fs::hard_link(scene.base("first"), scene.base("second")).unwrap();
    let before = scene.real();
    scene.view(|task| {
        task.link(&scene.at("first"), &scene.at("third")).unwrap();
        task.unlink(&scene.at("second")).unwrap();
    });
    assert_eq!(scene.commit(&[]), []);
    let read = |name: &str| std::fs::read(scene.base(name)).unwrap();
    assert_eq!(
        (read("first"), read("third")),
        (b"data".into(), b"data".into())
    );
    assert!(!scene.base("second").exists());
    undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(scene.real(), before);
}

#[test]
fn change_by_others_is_a_conflict() {
    let scene = Scene::new("conflicts");
    populate(&scene);
    change(&scene);
    scene.view(|task| put(task, &scene.at("mine"), "view").unwrap());
    // The clock of files has ticks.
    std::thread::sleep(std::time::Duration::from_millis(20));
    scene.write("file", "theirs");
    scene.write("gone/deep/y", "theirs");
    scene.write("gone/z", "theirs");
    scene.write("mine", "theirs");
    std::fs::remove_dir_all(scene.base("swap")).unwrap();
    std::fs::set_permissions(scene.base("mode"), PermissionsExt::from_mode(0o751)).unwrap();
    scene.write("other/more", "theirs, and no matter");
    let before = scene.real();
    let said: Vec<_> = scene
        .commit(&[])
        .iter()
        .map(|conflict| (conflict.path.path().to_owned(), conflict.kind))
        .collect();
    let want = [
        ("file", ConflictKind::Changed),
        ("gone/deep/y", ConflictKind::Changed),
        ("gone/z", ConflictKind::Made),
        ("mine", ConflictKind::Made),
        ("other", ConflictKind::Removed),
    ];
    let want: Vec<_> = want.map(|(path, kind)| (scene.base(path), kind)).to_vec();
    assert_eq!(said, want);
    assert_eq!(scene.real(), before);
    // The rest of it can go, and all of it with force, once nothing is in the way that the view
    // never saw.
    assert_eq!(scene.commit(&["link", "fifo"]), []);
    let refused = super::Commit::plan(&scene.kept(), &[], true).err().unwrap();
    assert!(refused.to_string().contains("gone/z"), "{refused}");
    assert!(refused.to_string().contains("never saw"), "{refused}");
    std::fs::rename(scene.base("gone/z"), scene.base("z")).unwrap();
    let commit = super::Commit::plan(&scene.kept(), &[], true).unwrap();
    commit.carry_out(&mut StopAfter(u64::MAX)).unwrap();
    let real = scene.real();
    assert!(!real.contains_key("gone") && real["file"].contains("view file"));
}

#[test]
fn undo_keeps_changes_made_since_the_commit() {
    let scene = Scene::new("since");
    populate(&scene);
    let before = scene.real();
    change(&scene);
    assert_eq!(scene.commit(&[]), []);
    std::thread::sleep(std::time::Duration::from_millis(20));
    scene.write("file", "theirs");
    scene.write("gone", "theirs");
    scene.view(|task| put(task, &scene.at("two"), "newer").unwrap());
    let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    let said: Vec<_> = undone
        .conflicts
        .iter()
        .map(|c| c.path.path().to_owned())
        .collect();
    assert_eq!(said, ["file", "gone", "two"].map(|path| scene.base(path)));
    undo(&scene.kept(), true, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(scene.real(), before);
    let shown = scene.shown();
    assert!(
        shown["two"].contains("newer") && shown["file"].contains("view file"),
        "{shown:?}"
    );
}

#[test]
fn interrupted_commit_blocks_the_view_and_names_the_remedy() {
    let scene = Scene::new("said");
    populate(&scene);
    change(&scene);
    let kept = scene.kept();
    assert!(
        resume(&kept, &mut StopAfter(9)).is_err() && undo(&kept, false, &mut StopAfter(9)).is_err()
    );
    let stopped = scene
        .plan(&[])
        .unwrap()
        .carry_out(&mut StopAfter(20))
        .unwrap_err();
    assert!(stopped.to_string().contains("--continue"), "{stopped}");
    assert_eq!(kept.committed().unwrap(), Committed::Interrupted);
    let said = Inspect::open(&kept).err().unwrap().to_string();
    assert!(said.contains("--abort"), "{said}");
    assert!(scene.plan(&[]).is_err() && discard(&scene.kept().name, &mut || {}).is_err());
    abort(&kept, false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(kept.committed().unwrap(), Committed::No);
}
