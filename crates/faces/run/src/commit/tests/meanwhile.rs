// SPDX-License-Identifier: MIT OR Apache-2.0
//! What others change between two looks: of the view, of a commit that is at work, of one that was
//! interrupted, and after one that was taken back.

use super::kinds::{change, furnish};
use super::{Before, Meanwhile, Scene, Until, put};
use crate::commit::Commit;
use openpath_commit::{Committed, Did, Phase, Watch, abort, resume, undo};

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

fn said(scene: &Scene) -> Vec<(std::path::PathBuf, Did)> {
    let conflicts = scene.commit(&[]);
    let said = conflicts.iter();
    said.map(|one| (one.path.path().to_owned(), one.did))
        .collect()
}

#[test]
fn what_the_view_replaced_again_is_a_conflict_all_the_same() {
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
    let want = want.map(|path| (scene.base(path), Did::Changed));
    assert_eq!(said(&scene), want);
    assert_eq!(scene.real(), theirs);
}

#[test]
fn what_changes_while_files_are_copied_is_not_overwritten() {
    for path in [
        "file",
        "mode",
        "gone/deep/y",
        "gone/z",
        "fifo",
        "replaced/more",
    ] {
        let scene = Scene::new("copying");
        furnish(&scene);
        change(&scene);
        let commit = scene.plan(&[]).unwrap();
        assert_eq!(commit.conflicts(), []);
        let write = || {
            tick();
            scene.write(path, "theirs");
        };
        let refused = commit
            .carry_out(&mut Meanwhile(Phase::Copying, Some(write)))
            .expect_err(path);
        let refused = refused.to_string();
        assert!(refused.contains("was changed"), "{refused}");
        assert!(scene.real()[path].contains("theirs"));
        assert!(no_hidden(&scene), "{path}: {:?}", scene.real());
        assert_eq!(scene.kept().committed().unwrap(), Committed::No);
    }
}

#[test]
fn what_changed_since_a_commit_was_interrupted_is_not_overwritten() {
    for phase in [Phase::Copying, Phase::Exchanging] {
        let scene = Scene::new("since-then");
        furnish(&scene);
        change(&scene);
        let wanted = scene.shown();
        let commit = scene.plan(&[]).unwrap();
        commit.carry_out(&mut Before(phase)).unwrap_err();
        tick();
        scene.write("file", "theirs");
        let refused = resume(&scene.kept(), &mut Until(u64::MAX)).unwrap_err();
        assert!(refused.to_string().contains("was changed"), "{refused}");
        if phase == Phase::Exchanging {
            abort(&scene.kept(), false, &mut Until(u64::MAX)).unwrap();
        }
        assert!(scene.real()["file"].contains("theirs") && no_hidden(&scene));
        assert_eq!(scene.kept().committed().unwrap(), Committed::No);
        assert_eq!(scene.shown(), wanted);
    }
}

/// What others do to a file that a commit, interrupted since, had put in place, and how that is
/// told.
const EDITS: [(&str, Did); 5] = [
    ("write", Did::Changed),
    ("replace", Did::Changed),
    ("remove", Did::Removed),
    ("chmod", Did::Changed),
    ("make", Did::Made),
];

/// Does one of [`EDITS`]; the path it is about.
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
fn going_back_from_a_commit_keeps_what_others_changed_since() {
    for make in [Scene::new, Scene::across] {
        for (how, did) in EDITS {
            let scene = make(&format!("back-{how}"));
            furnish(&scene);
            let before = scene.real();
            change(&scene);
            let wanted = scene.shown();
            let commit = scene.plan(&[]).unwrap();
            commit.carry_out(&mut Before(Phase::Settling)).unwrap_err();
            tick();
            tick();
            let path = edit(&scene, how);
            let theirs = scene.real();
            let refused = abort(&scene.kept(), false, &mut Until(u64::MAX)).unwrap();
            let told: Vec<_> = refused
                .conflicts
                .iter()
                .map(|c| (c.path.path(), c.did))
                .collect();
            assert_eq!(told, [(&*scene.base(path), did)], "{how}");
            assert_eq!(scene.real(), theirs, "{how}");
            assert_eq!(scene.kept().committed().unwrap(), Committed::Interrupted);
            if how == "write" {
                // The other way is open, and keeps it too.
                resume(&scene.kept(), &mut Until(u64::MAX)).unwrap();
                assert!(scene.real()["file"].contains("theirs"));
                continue;
            }
            abort(&scene.kept(), true, &mut Until(u64::MAX)).unwrap();
            assert_eq!((scene.real(), scene.shown()), (before, wanted), "{how}");
        }
    }
}

#[test]
fn going_back_from_a_commit_leaves_what_it_had_not_reached() {
    let mut reached = 0;
    for stop in 0..1000 {
        let scene = Scene::new("unreached");
        furnish(&scene);
        change(&scene);
        let commit = scene.plan(&[]).unwrap();
        if commit.carry_out(&mut Until(stop)).is_ok() {
            break;
        }
        tick();
        tick();
        scene.write("file", "theirs");
        let kept = scene.kept();
        let refused = abort(&kept, false, &mut Until(u64::MAX)).unwrap();
        // Whether it had come so far or not, nothing of theirs is lost.
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
fn going_on_with_an_undo_keeps_what_others_changed_since() {
    let scene = Scene::new("undo-since");
    furnish(&scene);
    change(&scene);
    assert_eq!(scene.commit(&[]), []);
    tick();
    // Stopped before the first name is put back.
    let mut stops = 0;
    while undo(&scene.kept(), false, &mut Until(stops)).is_err() {
        if scene.real().keys().any(|name| name.contains(".openpath-")) {
            break;
        }
        stops += 1;
        resume(&scene.kept(), &mut Until(u64::MAX)).unwrap();
        assert_eq!(scene.commit(&[]), []);
        tick();
    }
    tick();
    scene.write("file", "theirs");
    let refused = resume(&scene.kept(), &mut Until(u64::MAX)).unwrap_err();
    assert!(refused.to_string().contains("--abort"), "{refused}");
    let listed = abort(&scene.kept(), false, &mut Until(u64::MAX)).unwrap();
    assert_eq!(listed.conflicts.len(), 1);
    assert!(scene.real()["file"].contains("theirs"));
    abort(&scene.kept(), true, &mut Until(u64::MAX)).unwrap();
    assert!(scene.real()["file"].contains("base file") && no_hidden(&scene));
}

#[test]
fn what_cannot_be_noted_leaves_nothing_behind() {
    let scene = Scene::new("unnoted");
    furnish(&scene);
    let before = scene.real();
    change(&scene);
    let note = scene.kept().dir.join("next/journal.new");
    let bar = || std::fs::create_dir(&note).unwrap();
    let commit = scene.plan(&[]).unwrap();
    commit
        .carry_out(&mut Meanwhile(Phase::Copying, Some(bar)))
        .unwrap_err();
    assert_eq!(scene.real(), before);
    assert_eq!(scene.kept().committed().unwrap(), Committed::No);
    assert_eq!(scene.commit(&[]), []);
}

#[test]
fn a_conflict_is_one_again_once_its_commit_is_taken_back() {
    for undone in [true, false] {
        let scene = Scene::new("forced");
        furnish(&scene);
        change(&scene);
        tick();
        scene.write("file", "theirs");
        scene.write("gone/deep/y", "theirs");
        let conflicts = said(&scene);
        assert_eq!(conflicts.len(), 2);
        let theirs = scene.real();
        let forced = Commit::plan(&scene.kept(), &[], true).unwrap();
        if undone {
            forced.carry_out(&mut Until(u64::MAX)).unwrap();
            undo(&scene.kept(), false, &mut Until(u64::MAX)).unwrap();
        } else {
            forced.carry_out(&mut Before(Phase::Settling)).unwrap_err();
            abort(&scene.kept(), false, &mut Until(u64::MAX)).unwrap();
        }
        assert_eq!(scene.real(), theirs);
        assert_eq!(said(&scene), conflicts);
        // What was no conflict is none.
        assert_eq!(scene.commit(&["link", "fifo"]), []);
    }
}

/// Undoes a commit, and says what it found.
fn undone(scene: &Scene) -> Vec<(std::path::PathBuf, Did)> {
    let undone = undo(&scene.kept(), false, &mut Until(u64::MAX)).unwrap();
    let conflicts = undone.conflicts.iter();
    conflicts
        .map(|one| (one.path.path().to_owned(), one.did))
        .collect()
}

#[test]
fn what_changed_before_an_interrupted_commit_went_on_is_not_undone() {
    for make in [Scene::new, Scene::across] {
        for phase in [Phase::Settling, Phase::Exchanging] {
            let scene = make("edited");
            furnish(&scene);
            change(&scene);
            let commit = scene.plan(&[]).unwrap();
            match phase {
                Phase::Settling => drop(commit.carry_out(&mut Before(phase)).unwrap_err()),
                // Stopped between two exchanges, after that of `file`.
                _ => {
                    let mut steps = InPlace(scene.base("file"));
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
            resume(&scene.kept(), &mut Until(u64::MAX)).unwrap();
            let found = undone(&scene);
            assert_eq!(found, [(scene.base("file"), Did::Changed)], "{phase:?}");
            assert!(scene.real()["file"].contains("theirs"));
            undo(&scene.kept(), true, &mut Until(u64::MAX)).unwrap();
            assert!(scene.real()["file"].contains("base file"));
        }
    }
}

/// Stops once this file has the view's content.
struct InPlace(std::path::PathBuf);

impl Watch for InPlace {
    fn step(&mut self, _phase: Phase, _done: u64, _of: u64) -> bool {
        let now = std::fs::read(&self.0).unwrap_or_default();
        !now.starts_with(b"view")
    }
}

#[test]
fn what_changes_between_an_exchange_and_the_end_of_the_commit_is_not_undone() {
    for path in ["file", "made/dir/new", "replaced/fresh", "replaced/theirs"] {
        let scene = Scene::new("between");
        furnish(&scene);
        change(&scene);
        let write = || {
            tick();
            scene.write(path, "theirs");
        };
        let commit = scene.plan(&[]).unwrap();
        commit
            .carry_out(&mut Meanwhile(Phase::Settling, Some(write)))
            .unwrap();
        tick();
        let found = undone(&scene);
        let did = match path {
            "replaced/theirs" => Did::Made,
            _ => Did::Changed,
        };
        assert!(
            found.contains(&(scene.base(path), did)),
            "{path}: {found:?}"
        );
        assert!(scene.real()[path].contains("theirs"), "{path}");
    }
}

#[test]
fn names_that_came_into_a_directory_of_the_commit_stay_also_with_a_forced_undo() {
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
        let theirs = (scene.base("made/sub/mine"), Did::Made);
        assert!(undone(&scene).contains(&theirs));
        let refused = undo(&scene.kept(), true, &mut Until(u64::MAX)).unwrap_err();
        assert!(refused.to_string().contains("made/sub/mine"), "{refused}");
        assert_eq!(scene.real(), since);
        let away = scene.base("made/sub/mine");
        std::fs::rename(&away, scene.base("mine")).unwrap();
        undo(&scene.kept(), true, &mut Until(u64::MAX)).unwrap();
        assert!(scene.real()["mine"].contains("precious"));
        std::fs::remove_file(scene.base("mine")).unwrap();
        assert_eq!(scene.real(), before);
    }
}
