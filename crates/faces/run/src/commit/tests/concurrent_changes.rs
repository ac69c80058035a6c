// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit and its undo keep what others changed before and during the commit, while it
//! is interrupted, and after it is undone.

use super::kinds::{change, populate};
use super::{ActAt, Scene, StopAfter, StopBefore, put};
use crate::commit::Commit;
use openpath_commit::{CommitObserver, Committed, ConflictKind, Phase, abort, resume, undo};

/// The clock of files has ticks.
fn tick() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

/// Replaces a file in the view as an editor does, or `sed -i`.
fn replace(scene: &Scene, path: &str, data: &str) {
    let beside = scene.at("beside");
    scene.view(|task| {
        put(task, &beside, data).unwrap();
        task.rename(&beside, &scene.at(path)).unwrap();
    });
}

/// No hidden name is left.
fn no_hidden(scene: &Scene) -> bool {
    let hidden = |name: &String| name.contains(".openpath-");
    !scene.real().keys().any(hidden)
}

fn said(scene: &Scene) -> Vec<(std::path::PathBuf, ConflictKind)> {
    let conflicts = scene.commit(&[]);
    let said = conflicts.iter();
    said.map(|one| (one.path.path().to_owned(), one.kind))
        .collect()
}

#[test]
fn file_replaced_twice_in_the_view_is_still_a_conflict() {
    let scene = Scene::new("again");
    for path in ["file", "gone", "made", "dir/in", "two/in"] {
        std::fs::create_dir_all(scene.base(path).parent().unwrap()).unwrap();
        scene.write(path, "base");
    }
    replace(&scene, "file", "view 1");
    scene.view(|task| {
        task.unlink(&scene.at("gone")).unwrap();
        task.unlink(&scene.at("made")).unwrap();
        for dir in ["dir", "two"] {
            task.unlink(&scene.at(&format!("{dir}/in"))).unwrap();
            task.rmdir(&scene.at(dir)).unwrap();
        }
        task.mkdir(&scene.at("two"), 0o755).unwrap();
    });
    tick();
    for path in ["file", "gone", "made", "dir/in", "two/in"] {
        scene.write(path, "theirs");
    }
    let theirs = scene.real();
    tick();
    replace(&scene, "file", "view 2");
    scene.view(|task| {
        put(task, &scene.at("made"), "view").unwrap();
        put(task, &scene.at("gone"), "view").unwrap();
        task.unlink(&scene.at("gone")).unwrap();
        task.mkdir(&scene.at("dir"), 0o755).unwrap();
        task.rmdir(&scene.at("two")).unwrap();
    });
    let want = ["dir/in", "file", "gone", "made", "two/in"];
    let want = want.map(|path| (scene.base(path), ConflictKind::Changed));
    assert_eq!(said(&scene), want);
    assert_eq!(scene.real(), theirs);
}

#[test]
fn change_during_copying_is_not_overwritten() {
    for path in [
        "file",
        "mode",
        "gone/deep/y",
        "gone/z",
        "fifo",
        "replaced/more",
    ] {
        let scene = Scene::new("copying");
        populate(&scene);
        change(&scene);
        let commit = scene.plan(&[]).unwrap();
        assert_eq!(commit.conflicts(), []);
        let write = || {
            tick();
            scene.write(path, "theirs");
        };
        let refused = commit
            .carry_out(&mut ActAt(Phase::Copying, Some(write)))
            .expect_err(path);
        let refused = refused.to_string();
        assert!(refused.contains("was changed"), "{refused}");
        assert!(scene.real()[path].contains("theirs"));
        assert!(no_hidden(&scene), "{path}: {:?}", scene.real());
        assert_eq!(scene.kept().committed().unwrap(), Committed::No);
    }
}

#[test]
fn change_after_an_interruption_is_not_overwritten() {
    for phase in [Phase::Copying, Phase::Exchanging] {
        let scene = Scene::new("since-then");
        populate(&scene);
        change(&scene);
        let wanted = scene.shown();
        let commit = scene.plan(&[]).unwrap();
        commit.carry_out(&mut StopBefore(phase)).unwrap_err();
        tick();
        scene.write("file", "theirs");
        let refused = resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap_err();
        assert!(refused.to_string().contains("was changed"), "{refused}");
        if phase == Phase::Exchanging {
            abort(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
        }
        assert!(scene.real()["file"].contains("theirs") && no_hidden(&scene));
        assert_eq!(scene.kept().committed().unwrap(), Committed::No);
        assert_eq!(scene.shown(), wanted);
    }
}

/// What others do to a file that an interrupted commit had put in place, and the conflict for it.
const EDITS: [(&str, ConflictKind); 5] = [
    ("write", ConflictKind::Changed),
    ("replace", ConflictKind::Changed),
    ("remove", ConflictKind::Removed),
    ("chmod", ConflictKind::Changed),
    ("make", ConflictKind::Made),
];

/// Does one of [`EDITS`]; returns the path.
fn edit(scene: &Scene, how: &str) -> &'static str {
    let file = scene.base("file");
    match how {
        "write" => scene.write("file", "theirs"),
        "replace" => {
            scene.write("theirs", "theirs");
            std::fs::rename(scene.base("theirs"), file).unwrap();
        }
        "remove" => std::fs::remove_file(file).unwrap(),
        "chmod" => {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(file, mode).unwrap();
        }
        _ => {
            std::fs::create_dir_all(scene.base("gone")).unwrap();
            scene.write("gone/theirs", "theirs");
            return "gone";
        }
    }
    "file"
}

#[test]
fn rollback_keeps_changes_by_others() {
    for make in [Scene::new, Scene::across] {
        for (how, kind) in EDITS {
            let scene = make(&format!("back-{how}"));
            populate(&scene);
            let before = scene.real();
            change(&scene);
            let wanted = scene.shown();
            let commit = scene.plan(&[]).unwrap();
            commit
                .carry_out(&mut StopBefore(Phase::Settling))
                .unwrap_err();
            tick();
            tick();
            let path = edit(&scene, how);
            let theirs = scene.real();
            let refused = abort(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
            let told: Vec<_> = refused
                .conflicts
                .iter()
                .map(|c| (c.path.path(), c.kind))
                .collect();
            assert_eq!(told, [(&*scene.base(path), kind)], "{how}");
            assert_eq!(scene.real(), theirs, "{how}");
            assert_eq!(scene.kept().committed().unwrap(), Committed::Interrupted);
            if how == "write" {
                // The commit can also be resumed, and keeps the change.
                resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap();
                assert!(scene.real()["file"].contains("theirs"));
                continue;
            }
            abort(&scene.kept(), true, &mut StopAfter(u64::MAX)).unwrap();
            assert_eq!((scene.real(), scene.shown()), (before, wanted), "{how}");
        }
    }
}

#[test]
#[ignore = "slow: 8 s"]
fn rollback_leaves_names_that_the_commit_had_not_reached() {
    let mut reached = 0;
    for stop in 0..1000 {
        let scene = Scene::new("unreached");
        populate(&scene);
        change(&scene);
        let commit = scene.plan(&[]).unwrap();
        if commit.carry_out(&mut StopAfter(stop)).is_ok() {
            break;
        }
        tick();
        tick();
        scene.write("file", "theirs");
        let kept = scene.kept();
        let refused = abort(&kept, false, &mut StopAfter(u64::MAX)).unwrap();
        // Whether the commit had reached it or not, nothing of theirs is lost.
        assert!(scene.real()["file"].contains("theirs"), "stopped at {stop}");
        let all_back = refused.conflicts.is_empty();
        assert_eq!(
            kept.committed().unwrap() == Committed::No,
            all_back,
            "stopped at {stop}"
        );
        reached += usize::from(!all_back);
    }
    assert!(reached > 3, "{reached}");
}

#[test]
fn resumed_undo_keeps_changes_by_others() {
    let scene = Scene::new("undo-since");
    populate(&scene);
    change(&scene);
    assert_eq!(scene.commit(&[]), []);
    tick();
    // Stopped before the first name is put back.
    let mut stops = 0;
    while undo(&scene.kept(), false, &mut StopAfter(stops)).is_err() {
        if scene.real().keys().any(|name| name.contains(".openpath-")) {
            break;
        }
        stops += 1;
        resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap();
        assert_eq!(scene.commit(&[]), []);
        tick();
    }
    tick();
    scene.write("file", "theirs");
    let refused = resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap_err();
    assert!(refused.to_string().contains("--abort"), "{refused}");
    let listed = abort(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(listed.conflicts.len(), 1);
    assert!(scene.real()["file"].contains("theirs"));
    abort(&scene.kept(), true, &mut StopAfter(u64::MAX)).unwrap();
    assert!(scene.real()["file"].contains("base file") && no_hidden(&scene));
}

#[test]
fn commit_without_a_journal_leaves_nothing_behind() {
    let scene = Scene::new("unnoted");
    populate(&scene);
    let before = scene.real();
    change(&scene);
    let note = scene.kept().dir.join("next/journal.new");
    let bar = || std::fs::create_dir(&note).unwrap();
    let commit = scene.plan(&[]).unwrap();
    commit
        .carry_out(&mut ActAt(Phase::Copying, Some(bar)))
        .unwrap_err();
    assert_eq!(scene.real(), before);
    assert_eq!(scene.kept().committed().unwrap(), Committed::No);
    assert_eq!(scene.commit(&[]), []);
}

#[test]
fn conflict_returns_after_its_forced_commit_is_undone() {
    for undone in [true, false] {
        let scene = Scene::new("forced");
        populate(&scene);
        change(&scene);
        tick();
        scene.write("file", "theirs");
        scene.write("gone/deep/y", "theirs");
        let conflicts = said(&scene);
        assert_eq!(conflicts.len(), 2);
        let theirs = scene.real();
        let forced = Commit::plan(&scene.kept(), &[], true).unwrap();
        if undone {
            forced.carry_out(&mut StopAfter(u64::MAX)).unwrap();
            undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
        } else {
            forced
                .carry_out(&mut StopBefore(Phase::Settling))
                .unwrap_err();
            abort(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
        }
        assert_eq!(scene.real(), theirs);
        assert_eq!(said(&scene), conflicts);
        // What was no conflict still is none.
        assert_eq!(scene.commit(&["link", "fifo"]), []);
    }
}

/// Undoes a commit; returns the conflicts.
fn undone(scene: &Scene) -> Vec<(std::path::PathBuf, ConflictKind)> {
    let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    let conflicts = undone.conflicts.iter();
    conflicts
        .map(|one| (one.path.path().to_owned(), one.kind))
        .collect()
}

#[test]
fn undo_keeps_changes_made_before_the_commit_resumed() {
    for make in [Scene::new, Scene::across] {
        for phase in [Phase::Settling, Phase::Exchanging] {
            let scene = make("edited");
            populate(&scene);
            change(&scene);
            let commit = scene.plan(&[]).unwrap();
            match phase {
                Phase::Settling => drop(commit.carry_out(&mut StopBefore(phase)).unwrap_err()),
                // Stopped between two exchanges, after that of `file`.
                _ => {
                    let mut steps = StopOnceInPlace(scene.base("file"));
                    commit.carry_out(&mut steps).unwrap_err();
                }
            }
            tick();
            tick();
            // In place, as `>>` writes.
            let mut file = std::fs::OpenOptions::new();
            let mut file = file.append(true).open(scene.base("file")).unwrap();
            std::io::Write::write_all(&mut file, b"theirs").unwrap();
            drop(file);
            tick();
            resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap();
            let found = undone(&scene);
            assert_eq!(
                found,
                [(scene.base("file"), ConflictKind::Changed)],
                "{phase:?}"
            );
            assert!(scene.real()["file"].contains("theirs"));
            undo(&scene.kept(), true, &mut StopAfter(u64::MAX)).unwrap();
            assert!(scene.real()["file"].contains("base file"));
        }
    }
}

/// Stops once this file has the view's content.
struct StopOnceInPlace(std::path::PathBuf);

impl CommitObserver for StopOnceInPlace {
    fn step(&mut self, _phase: Phase, _done: u64, _of: u64) -> bool {
        let now = std::fs::read(&self.0).unwrap_or_default();
        !now.starts_with(b"view")
    }
}

#[test]
fn undo_keeps_changes_made_between_exchange_and_end() {
    for path in ["file", "made/dir/new", "replaced/fresh", "replaced/theirs"] {
        let scene = Scene::new("between");
        populate(&scene);
        change(&scene);
        let write = || {
            tick();
            scene.write(path, "theirs");
        };
        let commit = scene.plan(&[]).unwrap();
        commit
            .carry_out(&mut ActAt(Phase::Settling, Some(write)))
            .unwrap();
        tick();
        let found = undone(&scene);
        let kind = match path {
            "replaced/theirs" => ConflictKind::Made,
            _ => ConflictKind::Changed,
        };
        assert!(
            found.contains(&(scene.base(path), kind)),
            "{path}: {found:?}"
        );
        assert!(scene.real()[path].contains("theirs"), "{path}");
    }
}

#[test]
fn forced_undo_keeps_foreign_names_in_a_committed_directory() {
    for make in [Scene::new, Scene::across] {
        let scene = make("came-in");
        let before = scene.real();
        scene.view(|task| {
            task.mkdir(&scene.at("made"), 0o755).unwrap();
            task.mkdir(&scene.at("made/sub"), 0o755).unwrap();
            put(task, &scene.at("made/own"), "view").unwrap();
        });
        assert_eq!(scene.commit(&[]), []);
        tick();
        scene.write("made/sub/mine", "precious");
        let since = scene.real();
        let theirs = (scene.base("made/sub/mine"), ConflictKind::Made);
        assert!(undone(&scene).contains(&theirs));
        let refused = undo(&scene.kept(), true, &mut StopAfter(u64::MAX)).unwrap_err();
        assert!(refused.to_string().contains("made/sub/mine"), "{refused}");
        assert_eq!(scene.real(), since);
        let away = scene.base("made/sub/mine");
        std::fs::rename(&away, scene.base("mine")).unwrap();
        undo(&scene.kept(), true, &mut StopAfter(u64::MAX)).unwrap();
        assert!(scene.real()["mine"].contains("precious"));
        std::fs::remove_file(scene.base("mine")).unwrap();
        assert_eq!(scene.real(), before);
    }
}
