// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that commits and undos by root in a directory of another user, who swaps names or rewrites
//! files meanwhile, give that user no file of root's, and no file rights that were meant for
//! another. Also tests file systems that lack rename flags or hard links.

use super::{ActAt, Scene, StopAfter, StopBefore, put};
use openpath_commit::fault_injection::{after_each_copy, lack_hard_links, lack_rename_flags};
use openpath_commit::{Committed, KeptView, Phase, abort, resume, undo};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const USER: u32 = 1000;

/// A directory of another user, with a file of root's in it.
fn directory_of_another_user(name: &str) -> Option<Scene> {
    // Only root has other users' directories to commit into.
    if !super::is_root() {
        return None;
    }
    let scene = Scene::new(name);
    let dir = scene.base("d");
    std::fs::create_dir(&dir).unwrap();
    chown(&dir, Some(USER), Some(USER)).unwrap();
    let secret = dir.join("secret");
    std::fs::write(&secret, "of root").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    Some(scene)
}

/// Whether the file of root's, wherever it is by now, is unchanged.
fn secret_is_closed(dir: &Path) -> bool {
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let found = std::fs::symlink_metadata(&path).unwrap();
            if found.is_dir() {
                todo.push(path);
            } else if found.is_file() && std::fs::read(&path).unwrap() == b"of root" {
                return (found.uid(), found.mode() & 0o7777) == (0, 0o600);
            }
        }
    }
    false
}

fn hidden(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(OsString::from_vec(name.to_vec()))
}

/// Rolls an interrupted commit back, if there is one.
fn end(kept: &KeptView) {
    if kept.committed().unwrap() == Committed::Interrupted {
        abort(kept, false, &mut StopAfter(u64::MAX)).unwrap();
    }
}

#[test]
fn file_swapped_for_a_copy_gets_neither_its_owner_nor_its_name() {
    let Some(scene) = directory_of_another_user("swapped") else {
        return;
    };
    scene.view(|task| {
        put(task, &scene.at("d/f"), "data").unwrap();
        task.chown(&scene.at("d/f"), USER, USER).unwrap();
        task.chmod(&scene.at("d/f"), 0o644).unwrap();
    });
    let commit = scene.plan(&[]).unwrap();
    let dir = scene.base("d");
    after_each_copy(Some(Box::new(move |name| {
        std::fs::rename(dir.join("secret"), hidden(&dir, name)).unwrap();
    })));
    let refused = commit.carry_out(&mut StopAfter(u64::MAX));
    after_each_copy(None);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("d/f was changed"), "{refused}");
    end(&scene.kept());
    assert!(!scene.base("d/f").exists());
    assert!(secret_is_closed(&scene.base("d")));
}

#[test]
fn directory_swapped_for_a_new_one_gets_no_files() {
    let Some(scene) = directory_of_another_user("swapped-dir") else {
        return;
    };
    scene.view(|task| {
        task.mkdir(&scene.at("d/new"), 0o700).unwrap();
        for name in ["one", "two"] {
            put(task, &scene.at(&format!("d/new/{name}")), "for root alone").unwrap();
        }
    });
    let commit = scene.plan(&[]).unwrap();
    let dir = scene.base("d");
    let own = dir.clone();
    let mut swapped = false;
    after_each_copy(Some(Box::new(move |_| {
        if std::mem::replace(&mut swapped, true) {
            return;
        }
        let names = std::fs::read_dir(&own).unwrap().map(|entry| entry.unwrap());
        let is_hidden = |name: &OsString| name.to_string_lossy().starts_with(".openpath-");
        let made = names
            .map(|entry| entry.file_name())
            .find(is_hidden)
            .unwrap();
        std::fs::rename(own.join(&made), own.join("away")).unwrap();
        std::fs::create_dir(own.join(&made)).unwrap();
        chown(own.join(&made), Some(USER), Some(USER)).unwrap();
    })));
    let refused = commit.carry_out(&mut StopAfter(u64::MAX));
    after_each_copy(None);
    assert!(refused.is_err());
    end(&scene.kept());
    assert!(!scene.base("d/new").exists());
    // What root made is where it was moved to, and as closed as it was.
    let away = std::fs::metadata(scene.base("d/away")).unwrap();
    assert_eq!((away.uid(), away.mode() & 0o7777), (0, 0o700));
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let stolen = path.join("two").exists() && !path.ends_with("away");
        assert!(!stolen, "{}", path.display());
    }
    assert!(secret_is_closed(&dir));
}

#[test]
fn attributes_are_not_given_to_a_file_that_was_swapped_in() {
    let Some(scene) = directory_of_another_user("touch") else {
        return;
    };
    scene.write("d/mode", "its own");
    scene.view(|task| task.chmod(&scene.at("d/mode"), 0o666).unwrap());
    let commit = scene.plan(&[]).unwrap();
    let swap = || std::fs::rename(scene.base("d/secret"), scene.base("d/mode")).unwrap();
    let mut swap = ActAt(Phase::Exchanging, Some(swap));
    let refused = commit.carry_out(&mut swap).unwrap_err().to_string();
    assert!(refused.contains("was changed"), "{refused}");
    end(&scene.kept());
    assert!(secret_is_closed(&scene.base("d")));
}

/// A file of another user that root's view makes a set-user-ID file of root.
fn file_that_becomes_setuid_root(name: &str) -> Option<Scene> {
    let scene = directory_of_another_user(name)?;
    let tool = scene.base("d/tool");
    std::fs::write(&tool, "good").unwrap();
    chown(&tool, Some(USER), Some(USER)).unwrap();
    std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    set_old(&tool);
    scene.view(|task| {
        task.chown(&scene.at("d/tool"), 0, 0).unwrap();
        task.chmod(&scene.at("d/tool"), 0o4755).unwrap();
        put(task, &scene.at("d/new"), "data").unwrap();
    });
    Some(scene)
}

/// Sets a modification time of long ago.
fn set_old(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
}

fn owner_and_mode(path: &Path) -> (u32, u32) {
    let found = std::fs::metadata(path).unwrap();
    (found.uid(), found.mode() & 0o7777)
}

#[test]
fn file_rewritten_by_its_owner_during_a_commit_gains_no_rights() {
    for (phase, killed) in [
        (Phase::Copying, false),
        (Phase::Copying, true),
        (Phase::Exchanging, false),
        (Phase::Exchanging, true),
    ] {
        let Some(scene) = file_that_becomes_setuid_root("rewritten") else {
            return;
        };
        let tool = scene.base("d/tool");
        let rewrite = || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(&tool, "evil").unwrap();
            set_old(&tool);
        };
        let commit = scene.plan(&[]).unwrap();
        assert_eq!(commit.conflicts(), []);
        let refused = if killed {
            commit.carry_out(&mut StopBefore(phase)).unwrap_err();
            rewrite();
            resume(&scene.kept(), &mut StopAfter(u64::MAX)).map(drop)
        } else {
            let done = commit.carry_out(&mut ActAt(phase, Some(rewrite)));
            done.map(drop)
        };
        let refused = refused
            .expect_err("a commit of a rewritten file")
            .to_string();
        assert!(refused.contains("was changed"), "{refused}");
        end(&scene.kept());
        assert_eq!(owner_and_mode(&tool), (USER, 0o755), "{phase:?} {killed}");
        assert_eq!(std::fs::read(&tool).unwrap(), b"evil");
    }
}

#[test]
fn file_held_open_by_its_owner_is_not_the_one_that_gains_rights() {
    use std::io::Write as _;
    let Some(scene) = file_that_becomes_setuid_root("held-open") else {
        return;
    };
    let tool = scene.base("d/tool");
    let mut held = std::fs::File::options().append(true).open(&tool).unwrap();
    assert_eq!(scene.commit(&[]), []);
    held.write_all(b" evil").unwrap();
    assert_eq!(owner_and_mode(&tool), (0, 0o4755));
    assert_eq!(std::fs::read(&tool).unwrap(), b"good");
    let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(undone.conflicts, []);
    assert_eq!(owner_and_mode(&tool), (USER, 0o755));
}

#[test]
fn names_are_not_changed_in_a_directory_that_was_swapped_in() {
    let Some(scene) = directory_of_another_user("parent") else {
        return;
    };
    std::fs::create_dir_all(scene.base("d/sub")).unwrap();
    std::fs::create_dir_all(scene.base("d/private")).unwrap();
    scene.view(|task| put(task, &scene.at("d/sub/f"), "data").unwrap());
    let commit = scene.plan(&[]).unwrap();
    std::fs::rename(scene.base("d/sub"), scene.base("d/away")).unwrap();
    std::fs::rename(scene.base("d/private"), scene.base("d/sub")).unwrap();
    let refused = commit
        .carry_out(&mut StopAfter(u64::MAX))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("d/sub was changed"), "{refused}");
    end(&scene.kept());
    assert_eq!(std::fs::read_dir(scene.base("d/sub")).unwrap().count(), 0);
}

#[test]
fn file_swapped_for_what_an_undo_brings_back_is_not_installed() {
    let Some(scene) = directory_of_another_user("undo") else {
        return;
    };
    scene.write("d/f", "before");
    scene.view(|task| put(task, &scene.at("d/f"), "after").unwrap());
    assert_eq!(scene.commit(&[]), []);
    // The undo stops when the backup waits under its hidden name.
    let stopped = (1..20).find(|steps| {
        let stopped = match scene.kept().committed().unwrap() {
            Committed::Interrupted => resume(&scene.kept(), &mut StopAfter(*steps)).err(),
            _ => undo(&scene.kept(), false, &mut StopAfter(*steps)).err(),
        };
        let names = std::fs::read_dir(scene.base("d")).unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name());
        stopped.is_some() && names.any(|name| name.to_string_lossy().starts_with(".openpath-"))
    });
    assert!(stopped.is_some());
    let names = std::fs::read_dir(scene.base("d")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().path());
    let waits = names
        .find(|path| path.to_string_lossy().contains(".openpath-"))
        .unwrap();
    std::fs::rename(scene.base("d/secret"), &waits).unwrap();
    resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap_err();
    assert_eq!(std::fs::read(scene.base("d/f")).unwrap(), b"after");
    assert!(secret_is_closed(&scene.base("d")));
}

/// Moves the file of root's over the first hidden name that it sees.
const SWAP: &str = "cd \"$0\" && touch ready && while [ ! -e done ]; do \
    for n in .openpath-*; do [ -e \"$n\" ] && mv -f secret \"$n\" && exit; done; done";

#[test]
fn another_user_who_races_a_commit_of_root_gets_nothing() {
    for round in 0..6 {
        let Some(scene) = directory_of_another_user(&format!("race-{round}")) else {
            return;
        };
        scene.view(|task| {
            put(task, &scene.at("d/f"), "data").unwrap();
            task.truncate(&scene.at("d/f"), 0).unwrap();
            let data = vec![1; 1 << 20];
            let fd = task
                .open(&scene.at("d/f"), openpath_abi::fcntl::O_WRONLY, 0)
                .unwrap();
            for _ in 0..8 << (round % 3) {
                task.write(fd, &data).unwrap();
            }
            task.close(fd).unwrap();
            task.chown(&scene.at("d/f"), USER, USER).unwrap();
        });
        let commit = scene.plan(&[]).unwrap();
        for dir in [&scene.top, &scene.base("")] {
            std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let user = USER.to_string();
        let mut racer = Command::new("setpriv")
            .args([
                "--reuid",
                &user,
                "--regid",
                &user,
                "--clear-groups",
                "sh",
                "-c",
                SWAP,
            ])
            .arg(scene.base("d"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        while !scene.base("d/ready").exists() {
            std::thread::yield_now();
        }
        let _either = commit.carry_out(&mut StopAfter(u64::MAX));
        std::fs::write(scene.base("d/done"), "").unwrap();
        racer.wait().unwrap();
        end(&scene.kept());
        assert!(secret_is_closed(&scene.base("d")), "round {round}");
        let found = std::fs::read(scene.base("d/f")).unwrap_or_default();
        assert_ne!(found, b"of root", "round {round}");
    }
}

#[test]
fn file_systems_without_flags_of_rename_commit_and_undo() {
    lack_rename_flags(true);
    let scene = Scene::new("lacking");
    super::kinds::populate(&scene);
    let before = scene.real();
    super::kinds::change(&scene);
    let wanted = scene.shown();
    assert_eq!(scene.commit(&[]), []);
    assert_eq!(scene.real(), wanted);
    let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!((undone.conflicts, scene.real()), (vec![], before));
    lack_rename_flags(false);
}

#[test]
fn file_system_without_flags_of_rename_and_without_links_is_refused_and_unchanged() {
    let scene = Scene::new("linkless");
    scene.write("file", "base");
    let before = scene.real();
    scene.view(|task| {
        put(task, &scene.at("file"), "view").unwrap();
        put(task, &scene.at("new"), "new").unwrap();
    });
    lack_rename_flags(true);
    lack_hard_links(true);
    let refused = scene.plan(&[]).unwrap();
    let refused = refused.carry_out(&mut StopAfter(u64::MAX)).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("can neither rename without replacing nor make links"),
        "{text}"
    );
    end(&scene.kept());
    lack_rename_flags(false);
    lack_hard_links(false);
    assert_eq!(scene.real(), before);
}

/// All files below a directory with a set-user-ID or set-group-ID bit.
fn privileged(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let stat = std::fs::symlink_metadata(&path).unwrap();
            match stat.is_dir() {
                true => todo.push(path),
                false if stat.mode() & 0o6000 != 0 => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// No hidden name has a file with privileges; at the last step before the exchanges, their owner
/// moves the hidden names away if told so.
struct Watch {
    dir: PathBuf,
    moves_away: bool,
}

impl openpath_commit::CommitObserver for Watch {
    fn step(&mut self, phase: Phase, done: u64, of: u64) -> bool {
        let hidden = |path: &Path| path.to_string_lossy().contains("/.openpath-");
        let mut all = privileged(&self.dir);
        all.retain(|path| hidden(path));
        assert_eq!(all, [] as [PathBuf; 0], "{phase:?} {done}");
        if self.moves_away && phase == Phase::Copying && done == of {
            for entry in std::fs::read_dir(&self.dir).unwrap() {
                let path = entry.unwrap().path();
                if hidden(&path) {
                    std::fs::rename(&path, path.with_extension("away")).unwrap();
                }
            }
        }
        true
    }
}

#[test]
fn staged_copy_gets_set_id_bits_right_before_the_exchange() {
    for moves_away in [false, true] {
        let Some(scene) = directory_of_another_user("privileged") else {
            return;
        };
        scene.write("d/f", "plain");
        scene.view(|task| {
            task.mkdir(&scene.at("d/new"), 0o755).unwrap();
            task.chown(&scene.at("d/new"), USER, USER).unwrap();
            for path in ["d/f", "d/new/tool"] {
                put(task, &scene.at(path), "tool").unwrap();
                task.chmod(&scene.at(path), 0o6755).unwrap();
            }
        });
        let dir = scene.base("d");
        let mut watch = Watch {
            dir: dir.clone(),
            moves_away,
        };
        let done = scene.plan(&[]).unwrap().carry_out(&mut watch);
        if moves_away {
            done.unwrap_err();
            end(&scene.kept());
            assert_eq!(privileged(&dir), [] as [PathBuf; 0]);
            continue;
        }
        done.unwrap();
        assert_eq!(privileged(&dir), [dir.join("f"), dir.join("new/tool")]);
        // Nobody changed it since.
        let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
        assert_eq!(undone.conflicts, []);
        assert_eq!(privileged(&dir), [] as [PathBuf; 0]);
    }
}
