// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit neither changes nor removes what the view never saw in directories that
//! others replaced by other ones, whatever times these have.

use super::{ActAt, Scene, StopAfter, StopBefore, put};
use openpath_commit::{ConflictKind, Phase, abort, resume};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

/// The clock of files has ticks.
fn tick() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

/// Moves a directory away and another one to its place.
fn swap(scene: &Scene, dir: &str, other: &str) {
    tick();
    std::fs::rename(scene.base(dir), scene.base(&format!("{dir}.away"))).unwrap();
    std::fs::rename(scene.base(other), scene.base(dir)).unwrap();
}

fn make_dirs(scene: &Scene, dirs: &[&str]) {
    for dir in dirs {
        std::fs::create_dir_all(scene.base(dir)).unwrap();
    }
}

fn found(scene: &Scene) -> Vec<(PathBuf, ConflictKind)> {
    let conflicts = scene.commit(&[]);
    let found = conflicts.iter();
    found
        .map(|one| (one.path.path().to_owned(), one.kind))
        .collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

/// Sets the modification time of a directory.
fn set_modified(path: &Path, time: std::time::SystemTime) {
    std::fs::File::open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

#[test]
fn directory_moved_in_after_the_run_gets_no_attributes() {
    let scene = Scene::new("dir-attributes");
    make_dirs(&scene, &["d/proj", "d/backup"]);
    for dir in ["d/proj", "d/backup"] {
        std::fs::set_permissions(scene.base(dir), PermissionsExt::from_mode(0o700)).unwrap();
    }
    scene.view(|task| task.chmod(&scene.at("d/proj"), 0o755).unwrap());
    swap(&scene, "d/proj", "d/backup");
    let before = scene.real();
    assert_eq!(
        found(&scene),
        [(scene.base("d/proj"), ConflictKind::Replaced)]
    );
    assert_eq!(scene.real(), before);
    assert_eq!(mode(&scene.base("d/proj")), 0o700);
}

#[test]
fn directory_made_after_the_run_is_not_moved() {
    let scene = Scene::new("dir-moved");
    make_dirs(&scene, &["d/pkg", "opt"]);
    scene.write("d/pkg/run", "good");
    scene.view(|task| {
        task.rename(&scene.at("d/pkg"), &scene.at("opt/pkg"))
            .unwrap();
    });
    make_dirs(&scene, &["d/evil"]);
    scene.write("d/evil/run", "evil");
    swap(&scene, "d/pkg", "d/evil");
    let before = scene.real();
    let found = found(&scene);
    let want = (scene.base("opt/pkg"), ConflictKind::Replaced);
    assert!(found.contains(&want), "{found:?}");
    assert_eq!(scene.real(), before);
}

#[test]
fn files_in_a_replaced_directory_are_neither_changed_nor_removed() {
    // The directory itself is replaced, or one above it; the other one is old.
    for (dir, other) in [("top/app", "top/app-new"), ("top", "top-new")] {
        let scene = Scene::new("deployed");
        let inner = if dir == "top" { "top-new/app" } else { other };
        make_dirs(&scene, &["top/app", "top/app/sub", inner]);
        make_dirs(&scene, &[&format!("{inner}/sub")]);
        for file in ["conf", "gone", "sub/in"] {
            scene.write(&format!("top/app/{file}"), "v1");
            scene.write(&format!("{inner}/{file}"), "v2");
        }
        tick();
        scene.view(|task| {
            put(task, &scene.at("top/app/conf"), "view").unwrap();
            task.unlink(&scene.at("top/app/gone")).unwrap();
            task.unlink(&scene.at("top/app/sub/in")).unwrap();
            task.rmdir(&scene.at("top/app/sub")).unwrap();
            put(task, &scene.at("beside"), "view").unwrap();
        });
        swap(&scene, dir, other);
        let before = scene.real();
        let found = found(&scene);
        let want = (scene.base(dir), ConflictKind::Replaced);
        assert!(found.contains(&want), "{found:?}");
        assert_eq!(scene.real(), before);
        // Force removes no directory that the view never saw.
        let forced = crate::commit::Commit::plan(&scene.kept(), &[], true);
        let refused = forced.expect_err("a refusal").to_string();
        assert!(refused.contains("app/sub"), "{refused}");
        // What is elsewhere is no conflict.
        assert_eq!(scene.commit(&["beside"]), []);
    }
}

#[test]
fn names_are_not_made_in_a_replaced_directory() {
    let scene = Scene::new("dir-new-name");
    make_dirs(&scene, &["d", "other"]);
    scene.view(|task| put(task, &scene.at("d/new"), "view").unwrap());
    swap(&scene, "d", "other");
    assert_eq!(found(&scene), [(scene.base("d"), ConflictKind::Replaced)]);
    assert!(!scene.base("d/new").exists());
}

#[test]
fn names_made_and_removed_by_others_do_not_replace_a_directory() {
    let scene = Scene::new("dir-same");
    make_dirs(&scene, &["d/old"]);
    scene.write("d/f", "base");
    scene.view(|task| {
        put(task, &scene.at("d/f"), "view").unwrap();
        task.chmod(&scene.at("d"), 0o750).unwrap();
        task.rename(&scene.at("d/old"), &scene.at("d/new")).unwrap();
    });
    tick();
    scene.write("d/theirs", "theirs");
    scene.write("d/old/theirs", "theirs");
    std::fs::remove_file(scene.base("d/theirs")).unwrap();
    assert_eq!(scene.commit(&[]), []);
    assert_eq!(std::fs::read(scene.base("d/f")).unwrap(), b"view");
    assert!(scene.base("d/new/theirs").exists());
}

#[test]
fn directory_that_a_commit_made_is_known_to_the_view() {
    let scene = Scene::new("dir-known");
    scene.view(|task| {
        task.mkdir(&scene.at("made"), 0o755).unwrap();
        for name in ["a", "b"] {
            put(task, &scene.at(&format!("made/{name}")), "view").unwrap();
        }
    });
    assert_eq!(scene.commit(&["made/a"]), []);
    tick();
    scene.write("made/theirs", "theirs");
    scene.view(|task| task.unlink(&scene.at("made/a")).unwrap());
    assert_eq!(scene.commit(&["made/a"]), []);
    assert!(!scene.base("made/a").exists());
    make_dirs(&scene, &["other"]);
    swap(&scene, "made", "other");
    assert_eq!(
        found(&scene),
        [(scene.base("made"), ConflictKind::Replaced)]
    );
}

/// A directory that the view removes, with one in it that others replace.
fn removed_tree(name: &str) -> Scene {
    let scene = Scene::new(name);
    make_dirs(&scene, &["gone/sub", "other"]);
    scene.write("gone/sub/p", "base");
    scene.write("other/p", "never seen");
    tick();
    scene.view(|task| {
        task.unlink(&scene.at("gone/sub/p")).unwrap();
        task.rmdir(&scene.at("gone/sub")).unwrap();
        task.rmdir(&scene.at("gone")).unwrap();
        put(task, &scene.at("new"), "view").unwrap();
    });
    scene
}

/// Replaces `gone/sub`, and sets the modification time of `gone` back.
fn replace_sub(scene: &Scene) {
    let time = std::fs::metadata(scene.base("gone")).unwrap().modified();
    tick();
    std::fs::rename(scene.base("gone/sub"), scene.base("away")).unwrap();
    std::fs::rename(scene.base("other"), scene.base("gone/sub")).unwrap();
    set_modified(&scene.base("gone"), time.unwrap());
}

#[test]
fn directory_moved_into_a_removed_one_stays_whatever_its_times_are() {
    let scene = removed_tree("moved-in");
    replace_sub(&scene);
    let before = scene.real();
    let conflicts = scene.commit(&[]);
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert_eq!(conflicts[0].path.path(), scene.base("gone/sub"));
    assert!(conflicts[0].unseen);
    assert_eq!(scene.real(), before);
}

#[test]
fn directory_moved_to_the_place_of_a_removed_one_stays() {
    let scene = removed_tree("moved-over");
    swap(&scene, "gone", "other");
    let before = scene.real();
    assert_eq!(found(&scene), [(scene.base("gone"), ConflictKind::Changed)]);
    assert_eq!(scene.real(), before);
}

#[test]
fn directory_moved_into_a_removed_one_during_a_commit_stays() {
    for (phase, killed) in [
        (Phase::Copying, false),
        (Phase::Copying, true),
        (Phase::Exchanging, false),
        (Phase::Exchanging, true),
    ] {
        let scene = removed_tree("moved-meanwhile");
        let commit = scene.plan(&[]).unwrap();
        assert_eq!(commit.conflicts(), []);
        let refused = if killed {
            commit.carry_out(&mut StopBefore(phase)).unwrap_err();
            replace_sub(&scene);
            resume(&scene.kept(), &mut StopAfter(u64::MAX)).map(drop)
        } else {
            let done = commit.carry_out(&mut ActAt(phase, Some(|| replace_sub(&scene))));
            done.map(drop)
        };
        let refused = refused.expect_err("a commit of a changed tree").to_string();
        assert!(refused.contains("was changed"), "{refused}");
        if phase == Phase::Exchanging {
            abort(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
        }
        let kept = std::fs::read(scene.base("gone/sub/p")).unwrap();
        assert_eq!(kept, b"never seen", "{phase:?} {killed}");
    }
}

#[test]
fn view_that_records_no_directories_is_not_committed_over_a_changed_one() {
    let scene = Scene::new("dir-unrecorded");
    make_dirs(&scene, &["d", "other"]);
    for dir in ["d", "other"] {
        scene.write(&format!("{dir}/f"), dir);
    }
    tick();
    scene.view(|task| {
        put(task, &scene.at("d/f"), "view").unwrap();
    });
    let inner = scene.base("d");
    let mut above = inner.as_path();
    loop {
        let upper = scene
            .view
            .join("upper")
            .join(above.strip_prefix("/").unwrap());
        let marks = ["user.overlay.lower", "trusted.overlay.lower"].into_iter();
        let gone = marks.filter(|mark| rustix::fs::removexattr(&upper, *mark).is_ok());
        assert_eq!(gone.count(), 1);
        match above.parent() {
            Some(next) => above = next,
            None => break,
        }
    }
    swap(&scene, "d", "other");
    let before = scene.real();
    let found = found(&scene);
    let want = (scene.base("d"), ConflictKind::Changed);
    assert!(found.contains(&want), "{found:?}");
    assert_eq!(scene.real(), before);
}
