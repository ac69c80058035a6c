// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an undo or abort of a commit whose directories others moved, removed or replaced
//! lists the changes that it cannot take back, and takes back all others.

use super::{Scene, StopAfter, put};
use openpath_commit::{
    NotUndone, NotUndoneReason, Refusal, RefusalKind, Undone, abort, discard, resume, undo,
};
use openpath_vfs::Task;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// More steps than there are.
const MANY: u64 = 1000;

/// A committed change in one directory, and a change, a removal and a new file in another.
fn scene(name: &str) -> Scene {
    let scene = Scene::new(name);
    for dir in ["d", "e", "other"] {
        std::fs::create_dir(scene.base(dir)).unwrap();
    }
    for path in ["d/a", "e/b", "e/del"] {
        scene.write(path, &format!("old {path}"));
    }
    scene.write("other/b", "theirs");
    scene.view(|task| {
        for path in ["d/a", "e/b", "e/made"] {
            put(task, &scene.at(path), &format!("new {path}")).unwrap();
        }
        task.unlink(&scene.at("e/del")).unwrap();
    });
    scene
}

fn forced_undo(scene: &Scene) -> Result<Undone, Refusal> {
    undo(&scene.kept(), true, &mut StopAfter(MANY))
}

fn forced_abort(scene: &Scene) -> Result<Undone, Refusal> {
    abort(&scene.kept(), true, &mut StopAfter(MANY))
}

fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// What is left, by path in the tree, with where its old content is kept.
fn left(scene: &Scene, undone: &Undone) -> BTreeMap<String, Option<PathBuf>> {
    let all = undone.left.iter();
    all.map(|one| {
        let path = one.path.path().strip_prefix(scene.base("")).unwrap();
        (path.display().to_string(), one.kept.clone())
    })
    .collect()
}

/// The view can be used again, and discarded.
fn is_usable(scene: &Scene) {
    scene.view(|task| put(task, &scene.at("d/again"), "again").unwrap());
    assert_eq!(scene.commit(&["d/again"]), []);
    assert_eq!(read(&scene.base("d/again")), "again");
    discard(&scene.view.display().to_string(), &mut || {}).unwrap();
}

fn check_undone(scene: &Scene, undone: &Undone) {
    let left = left(scene, undone);
    let paths: Vec<&str> = left.keys().map(String::as_str).collect();
    assert_eq!(paths, ["e/b", "e/del", "e/made"]);
    for path in ["e/b", "e/del"] {
        let kept = left[path].as_ref().unwrap();
        assert_eq!(read(kept), format!("old {path}"));
    }
    assert_eq!(left["e/made"], None);
    assert_eq!(read(&scene.base("d/a")), "old d/a");
}

#[test]
fn undo_lists_changes_in_a_directory_that_was_removed_or_replaced() {
    for is_made_again in [false, true] {
        let scene = scene("removed");
        assert_eq!(scene.commit(&[]), []);
        std::fs::remove_dir_all(scene.base("e")).unwrap();
        if is_made_again {
            std::fs::create_dir(scene.base("e")).unwrap();
        }
        let refused = undo(&scene.kept(), false, &mut StopAfter(MANY)).unwrap();
        assert_eq!(refused.left.len(), 3);
        assert_eq!(read(&scene.base("d/a")), "new d/a");
        let kept = refused.left.iter().filter_map(|one| one.kept.as_ref());
        assert_eq!(kept.map(read).collect::<String>(), "old e/bold e/del");
        let undone = forced_undo(&scene).unwrap();
        check_undone(&scene, &undone);
        if is_made_again {
            assert_eq!(std::fs::read_dir(scene.base("e")).unwrap().count(), 0);
        }
        let none = forced_undo(&scene).unwrap_err();
        assert_eq!(none.kind(), RefusalKind::NoSuchCommit);
        assert!(none.to_string().contains("old-content"), "{none}");
        is_usable(&scene);
    }
}

#[test]
fn undo_lists_changes_in_a_directory_that_was_moved_and_replaced() {
    let scene = scene("moved");
    assert_eq!(scene.commit(&[]), []);
    std::fs::rename(scene.base("e"), scene.base("e.moved")).unwrap();
    std::fs::rename(scene.base("other"), scene.base("e")).unwrap();
    scene.write("e/b", "theirs");
    let undone = forced_undo(&scene).unwrap();
    check_undone(&scene, &undone);
    let reason = |one: &NotUndone| one.reason == NotUndoneReason::Directory;
    assert!(undone.left.iter().all(reason));
    assert_eq!(read(&scene.base("e/b")), "theirs");
    assert_eq!(read(&scene.base("e.moved/b")), "new e/b");
    // For the view, whose changes are back, the other directory is a conflict, and what is in it.
    let plan = scene.plan(&["e/b"]).unwrap();
    let found = plan.conflicts().iter();
    let mut found: Vec<_> = found.map(|one| one.path.path().to_owned()).collect();
    found.sort();
    assert_eq!(found, [scene.base("e"), scene.base("e/b")]);
    drop(plan);
    is_usable(&scene);
}

#[test]
fn undo_puts_all_back_once_a_moved_directory_is_back() {
    let scene = scene("back-again");
    let before = scene.real();
    assert_eq!(scene.commit(&[]), []);
    std::fs::rename(scene.base("e"), scene.base("e.moved")).unwrap();
    assert!(
        !undo(&scene.kept(), false, &mut StopAfter(MANY))
            .unwrap()
            .left
            .is_empty()
    );
    std::fs::rename(scene.base("e.moved"), scene.base("e")).unwrap();
    let undone = undo(&scene.kept(), false, &mut StopAfter(MANY)).unwrap();
    assert!(undone.left.is_empty() && undone.conflicts.is_empty());
    assert_eq!(scene.real(), before);
}

#[test]
fn abort_lists_changes_in_a_directory_that_was_moved_during_the_interruption() {
    for stop in 0..MANY {
        let scene = scene("abort");
        let plan = scene.plan(&[]).unwrap();
        if plan.carry_out(&mut StopAfter(stop)).is_ok() {
            assert!(stop > 8, "{stop} steps");
            return;
        }
        std::fs::rename(scene.base("e"), scene.base("e.moved")).unwrap();
        std::fs::rename(scene.base("other"), scene.base("e")).unwrap();
        let undone = abort(&scene.kept(), false, &mut StopAfter(MANY)).unwrap();
        let undone = match undone.left.is_empty() && undone.conflicts.is_empty() {
            true => undone,
            false => {
                // It can also stop in the middle.
                let first = abort(&scene.kept(), true, &mut StopAfter(3));
                first.or_else(|_| forced_abort(&scene)).unwrap()
            }
        };
        let left = left(&scene, &undone);
        for path in ["b", "del"] {
            let moved = scene.base(&format!("e.moved/{path}"));
            let text = std::fs::read_to_string(&moved).unwrap_or_default();
            let is_back = text == format!("old e/{path}");
            let kept = left.get(&format!("e/{path}"));
            assert!(
                is_back || kept.is_some(),
                "{path}, stopped before step {stop}"
            );
            if let Some(Some(kept)) = kept {
                assert_eq!(read(kept), format!("old e/{path}"));
            }
        }
        let is_made = scene.base("e.moved/made").exists();
        assert!(!is_made || left.contains_key("e/made"), "step {stop}");
        assert_eq!(read(&scene.base("d/a")), "old d/a", "step {stop}");
        assert_eq!(read(&scene.base("e/b")), "theirs", "step {stop}");
        if !left.is_empty() {
            // The view lists it until it is discarded.
            let list = std::fs::read_dir(scene.view.join("old-content")).unwrap();
            let list = list.map(|entry| entry.unwrap().path());
            let list = list.filter(|path| path.extension().is_some());
            let list: String = list.map(|path| read(&path)).collect();
            assert!(left.keys().all(|path| list.contains(path)), "{list}");
        }
        is_usable(&scene);
    }
    panic!("there are more steps than {MANY}");
}

#[test]
fn interrupted_undo_of_a_moved_directory_can_be_ended() {
    for stop in 0..MANY {
        let scene = scene("undo-stop");
        assert_eq!(scene.commit(&[]), []);
        if undo(&scene.kept(), false, &mut StopAfter(stop)).is_ok() {
            assert!(stop > 5, "{stop} steps");
            return;
        }
        std::fs::rename(scene.base("e"), scene.base("e.moved")).unwrap();
        // It is either all put back already, or refused and ended by force.
        if resume(&scene.kept(), &mut StopAfter(MANY)).is_err() {
            let undone = forced_abort(&scene).unwrap();
            assert!(!undone.left.is_empty(), "step {stop}");
            for (path, kept) in left(&scene, &undone) {
                if let Some(kept) = kept {
                    assert_eq!(read(&kept), format!("old {path}"));
                }
            }
        }
        assert_eq!(read(&scene.base("d/a")), "old d/a", "step {stop}");
        is_usable(&scene);
    }
    panic!("there are more steps than {MANY}");
}

#[test]
fn directory_that_the_commit_renamed_and_others_moved_is_listed() {
    let scene = Scene::new("renamed");
    for dir in ["up/p", "d"] {
        std::fs::create_dir_all(scene.base(dir)).unwrap();
    }
    scene.write("up/p/in", "old");
    scene.write("d/a", "old d/a");
    scene.view(|task| {
        task.rename(&scene.at("up/p"), &scene.at("q")).unwrap();
        put(task, &scene.at("q/in"), "new").unwrap();
        put(task, &scene.at("d/a"), "new d/a").unwrap();
    });
    assert_eq!(scene.commit(&[]), []);
    // Its old directory is gone.
    std::fs::rename(scene.base("up"), scene.base("up.moved")).unwrap();
    let undone = forced_undo(&scene).unwrap();
    assert_eq!(left(&scene, &undone).into_keys().collect::<Vec<_>>(), ["q"]);
    assert_eq!(read(&scene.base("q/in")), "old");
    assert_eq!(read(&scene.base("d/a")), "old d/a");
    is_usable(&scene);
}

/// A view of directories `b` and `other`, in which something is done.
fn changed(scene: Scene, change: impl FnOnce(&Scene, &Task)) -> Scene {
    for dir in ["b", "b/c", "b/c/in", "b/d", "other", "other/d"] {
        std::fs::create_dir(scene.base(dir)).unwrap();
    }
    for file in ["e", "b/c/x", "b/c/in/y", "b/d/f", "other/d/f"] {
        scene.write(file, file);
    }
    scene.view(|task| change(&scene, task));
    scene
}

/// Removes `b`, of which all but this is gone.
fn remove_b(scene: &Scene, task: &Task, rest: &[&str]) {
    for file in ["b/c/in/y", "b/c/x", "b/d/f"] {
        if rest.contains(&file) {
            task.unlink(&scene.at(file)).unwrap();
        }
    }
    for dir in ["b/c/in", "b/c", "b/d", "b"] {
        if rest.contains(&dir) {
            task.rmdir(&scene.at(dir)).unwrap();
        }
    }
}

#[test]
fn directory_moved_out_of_a_removed_one_comes_back() {
    type Change = fn(&Scene, &Task);
    const REST: &[&str] = &["b/c/in/y", "b/c/x", "b/c/in", "b/c", "b"];
    let changes: [(&str, Change); 5] = [
        ("into-new", |scene, task| {
            task.mkdir(&scene.at("n"), 0o755).unwrap();
            task.rename(&scene.at("b/d"), &scene.at("n/e")).unwrap();
            remove_b(scene, task, REST);
        }),
        ("over-file", |scene, task| {
            task.unlink(&scene.at("e")).unwrap();
            task.rename(&scene.at("b/d"), &scene.at("e")).unwrap();
            remove_b(scene, task, REST);
        }),
        ("deep", |scene, task| {
            task.rename(&scene.at("b/c/in"), &scene.at("in")).unwrap();
            remove_b(scene, task, &["b/c/x", "b/c", "b/d/f", "b/d", "b"]);
        }),
        ("replaced", |scene, task| {
            task.rename(&scene.at("b/d"), &scene.at("d")).unwrap();
            remove_b(scene, task, REST);
            put(task, &scene.at("b"), "file").unwrap();
        }),
        ("twice", |scene, task| {
            task.rename(&scene.at("b/c/in"), &scene.at("in")).unwrap();
            task.rename(&scene.at("b/d"), &scene.at("in/d")).unwrap();
            remove_b(scene, task, &["b/c/x", "b/c", "b"]);
        }),
    ];
    for (name, change) in changes {
        for make in [Scene::new, Scene::across] {
            let scene = changed(make(&format!("removed-above-{name}")), change);
            let (before, wanted) = (scene.real(), scene.shown());
            assert_eq!(scene.commit(&[]), [], "{name}");
            assert_eq!(scene.real(), wanted, "{name}");
            let undone = undo(&scene.kept(), false, &mut StopAfter(MANY)).unwrap();
            assert_eq!(left(&scene, &undone), BTreeMap::new(), "{name}");
            assert_eq!(scene.real(), before, "{name}");
            assert_eq!(scene.shown(), wanted, "{name}");
        }
    }
}

#[test]
fn directory_that_cannot_move_back_stays_with_the_new_one_around_it() {
    let scene = changed(Scene::new("stuck-move"), |scene, task| {
        task.mkdir(&scene.at("n"), 0o755).unwrap();
        task.rename(&scene.at("b/d"), &scene.at("n/e")).unwrap();
    });
    assert_eq!(scene.commit(&[]), []);
    std::fs::rename(scene.base("b"), scene.base("away")).unwrap();
    let undone = forced_undo(&scene).unwrap();
    let left = left(&scene, &undone);
    assert_eq!(left.keys().collect::<Vec<_>>(), ["n", "n/e"]);
    assert_eq!(read(&scene.base("n/e/f")), "b/d/f");
}

#[test]
fn directory_that_moves_back_takes_along_what_cannot() {
    let scene = changed(Scene::new("stuck-in-moved"), |scene, task| {
        task.rename(&scene.at("b/c/in"), &scene.at("in")).unwrap();
        task.rename(&scene.at("b"), &scene.at("q")).unwrap();
        task.mkdir(&scene.at("q/n"), 0o755).unwrap();
        task.rename(&scene.at("other/d"), &scene.at("q/n/e"))
            .unwrap();
    });
    assert_eq!(scene.commit(&[]), []);
    std::fs::rename(scene.base("other"), scene.base("away")).unwrap();
    let undone = forced_undo(&scene).unwrap();
    let left = left(&scene, &undone);
    assert_eq!(left.keys().collect::<Vec<_>>(), ["q/n", "q/n/e"]);
    assert_eq!(read(&scene.base("b/n/e/f")), "other/d/f");
    assert_eq!(read(&scene.base("b/c/in/y")), "b/c/in/y");
    assert_eq!(read(&scene.base("b/d/f")), "b/d/f");
    assert!(!scene.base("q").exists() && !scene.base("in").exists());
}
