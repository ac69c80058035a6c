// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit and its undo keep names that others made and the view never showed, in
//! directories that the view made or deleted.

use super::{Scene, StopAfter, put};
use crate::commit::Commit;
use openpath_commit::{ConflictKind, Refusal, undo};

fn tick() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

fn force(scene: &Scene) -> Result<(), Refusal> {
    let commit = Commit::plan(&scene.kept(), &[], true)?;
    commit.carry_out(&mut StopAfter(u64::MAX)).map(drop)
}

fn names(scene: &Scene) -> Vec<String> {
    scene.real().into_keys().collect()
}

/// Makes a directory in the view, with a file and a directory in it.
fn make(scene: &Scene) {
    scene.view(|task| {
        task.mkdir(&scene.at("tests"), 0o755).unwrap();
        put(task, &scene.at("tests/a"), "view").unwrap();
        task.mkdir(&scene.at("tests/sub"), 0o755).unwrap();
        put(task, &scene.at("tests/sub/c"), "view").unwrap();
    });
    tick();
}

#[test]
fn directories_made_by_both_sides_are_merged_and_separated_by_undo() {
    for forced in [false, true] {
        let scene = Scene::new("merged");
        make(&scene);
        let shown = scene.shown();
        std::fs::create_dir_all(scene.base("tests/sub/deep")).unwrap();
        scene.write("tests/b", "precious");
        scene.write("tests/sub/d", "precious");
        let before = scene.real();
        match forced {
            true => force(&scene).unwrap(),
            false => assert_eq!(scene.commit(&[]), []),
        }
        let all = ["tests", "tests/a", "tests/b", "tests/sub"];
        let below = ["tests/sub/c", "tests/sub/d", "tests/sub/deep"];
        assert_eq!(names(&scene), [&all[..], &below].concat());
        assert!(scene.real()["tests/b"].contains("precious"));
        assert_eq!((scene.left(), scene.shown()), (0, scene.real()));
        let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
        assert_eq!((undone.conflicts, scene.real()), (vec![], before));
        assert_eq!(scene.shown(), shown);
    }
}

#[test]
fn part_of_a_directory_made_by_both_sides_is_committed() {
    let scene = Scene::new("merged-part");
    make(&scene);
    std::fs::create_dir_all(scene.base("tests/sub")).unwrap();
    scene.write("tests/b", "precious");
    assert_eq!(scene.commit(&["tests/a"]), []);
    assert_eq!(names(&scene), ["tests", "tests/a", "tests/b", "tests/sub"]);
    let shown: Vec<_> = scene.shown().into_keys().collect();
    let all = ["tests", "tests/a", "tests/b", "tests/sub", "tests/sub/c"];
    assert_eq!(shown, all);
    assert_eq!(scene.commit(&[]), []);
    assert_eq!(names(&scene), all);
}

#[test]
fn file_made_by_both_sides_in_a_merged_directory_is_a_conflict() {
    let scene = Scene::new("merged-file");
    make(&scene);
    std::fs::create_dir(scene.base("tests")).unwrap();
    scene.write("tests/a", "theirs");
    scene.write("tests/b", "precious");
    let conflicts = scene.commit(&[]);
    let said: Vec<_> = conflicts.iter().map(|one| (one.kind, one.unseen)).collect();
    assert_eq!(said, [(ConflictKind::Made, false)]);
    assert_eq!(conflicts[0].path.path(), scene.base("tests/a"));
    force(&scene).unwrap();
    assert!(scene.real()["tests/a"].contains("view"));
    assert!(scene.real()["tests/b"].contains("precious"));
}

#[test]
fn force_keeps_foreign_names_in_a_deleted_directory() {
    type Do = fn(&Scene, &openpath_vfs::Task);
    let clear: Do = |scene, task| {
        task.unlink(&scene.at("dir/old")).unwrap();
        task.rmdir(&scene.at("dir")).unwrap();
    };
    let cases: [(&str, Do); 4] = [
        ("deleted", |_, _| {}),
        ("a file instead", |scene, task| {
            put(task, &scene.at("dir"), "file").unwrap();
        }),
        ("made again", |scene, task| {
            task.mkdir(&scene.at("dir"), 0o755).unwrap();
        }),
        ("another one instead", |scene, task| {
            task.rename(&scene.at("other"), &scene.at("dir")).unwrap();
        }),
    ];
    for (case, then) in cases {
        for came in ["dir/new", "dir/sub", "dir/moved"] {
            let scene = Scene::new("came");
            for dir in ["dir", "other"] {
                std::fs::create_dir(scene.base(dir)).unwrap();
            }
            scene.write("dir/old", "base");
            scene.write("far", "precious");
            tick();
            scene.view(|task| {
                clear(&scene, task);
                then(&scene, task);
            });
            tick();
            match came {
                "dir/new" => scene.write(came, "precious"),
                "dir/sub" => std::fs::create_dir(scene.base(came)).unwrap(),
                _ => std::fs::rename(scene.base("far"), scene.base(came)).unwrap(),
            }
            let before = scene.real();
            let conflicts = scene.commit(&[]);
            let unseen = conflicts.iter().any(|one| one.unseen);
            assert!(unseen, "{case}, {came}: {conflicts:?}");
            let refused = force(&scene).expect_err(case).to_string();
            assert!(refused.contains(came), "{case}: {refused}");
            assert_eq!(scene.real(), before, "{case}, {came}");
        }
    }
}
