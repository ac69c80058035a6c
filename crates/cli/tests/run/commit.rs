// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath commit` brings the changes of a view to the real tree, undoes them on
//! request, refuses conflicts, and can go on or back after a kill; as root and as an ordinary user.

use crate::place::{GROUP, OPENPATH, Place, Who, err, out};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::process::{Output, Stdio};

/// Runs a verb of `openpath` with the view as its first argument.
fn verb(place: &Place, verb: &str, rest: &[&str]) -> Output {
    let args = [verb, "view"].into_iter().chain(rest.iter().copied());
    place.openpath(args).output().unwrap()
}

fn run(place: &Place, line: &str) {
    let output = place.run(&["--name", "view", "--quiet"], line);
    assert!(output.status.success(), "{}", err(&output));
}

/// All files of the place except the views, as find(1) and sha256sum(1) list them.
const LOOK: &str = "find . -mindepth 1 -path ./state -prune -o \
    -printf '%p %M %U %G %l %T@\\n' | sort; \
    find . -mindepth 1 -path ./state -prune -o -type f -exec sha256sum {} + | sort";

fn look(place: &Place) -> String {
    out(&place.plain(LOOK))
}

const FURNISH: &str = "mkdir -p state dir/deep gone/deep && echo 1 > file && echo 2 > mode && \
    echo 3 > dir/a && echo 4 > dir/deep/b && echo 5 > gone/deep/c && echo 6 > one && \
    ln one two && ln -s file link";
const CHANGE: &str = "echo changed > file && chmod 751 mode && mv dir moved && \
    echo x > moved/new && echo z >> moved/a && \
    rm -r gone && mkdir -p made/in && echo y > made/in/f && ln made/in/f again && \
    mkfifo fifo && ln -sf elsewhere link && truncate -s 1M made/holes && rm two && \
    chmod 500 made/in";

#[test]
fn view_is_committed_and_undone() {
    for place in Place::all("commit") {
        place.plain(FURNISH);
        let before = look(&place);
        run(&place, CHANGE);
        let shown = place.run(&["--name", "view", "--quiet"], LOOK);
        let differs = verb(&place, "diff", &["--stat"]);
        assert!(
            out(&differs).contains("moved/a  +1 -0\n"),
            "{}{}",
            out(&differs),
            err(&differs)
        );
        let tried = verb(&place, "commit", &["--dry-run"]);
        assert!(
            out(&tried).ends_with("changes can be committed\n"),
            "{}",
            out(&tried)
        );
        assert_eq!(look(&place), before);
        let done = verb(&place, "commit", &["--json"]);
        assert!(done.status.success(), "{}", err(&done));
        let json: Value = serde_json::from_str(&out(&done)).unwrap();
        assert_eq!(
            (&json["result"], &json["conflicts"]),
            (&"committed".into(), &Value::Array(vec![]))
        );
        assert_eq!(look(&place), out(&shown));
        let blocks = std::fs::metadata(place.dir.join("made/holes"))
            .unwrap()
            .blocks();
        assert_eq!(blocks, 0);
        assert_eq!(out(&verb(&place, "diff", &[])), "");
        let listed = out(&place.openpath(["list"]).output().unwrap());
        assert!(listed.contains("can be undone"), "{listed}");
        let undone = verb(&place, "commit", &["--undo"]);
        assert!(undone.status.success(), "{}", err(&undone));
        assert_eq!(look(&place), before);
        let again = place.run(&["--name", "view", "--quiet"], LOOK);
        assert_eq!(out(&again), out(&shown));
        assert!(verb(&place, "discard", &[]).status.success());
        assert_eq!(look(&place), before);
    }
}

#[test]
fn conflict_shows_both_sides() {
    for place in Place::all("both") {
        place.write("file", "base\n");
        place.write("other", "base\n");
        run(&place, "echo view > file; echo view > other");
        std::thread::sleep(std::time::Duration::from_millis(20));
        place.write("file", "theirs\n");
        let refused = verb(&place, "commit", &[]);
        let text = out(&refused);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(
            text.contains("file: modified in the view, changed by others since"),
            "{text}"
        );
        assert!(
            text.contains("-theirs\n+view\n") && text.contains("nothing was done"),
            "{text}"
        );
        assert_eq!(
            (place.read("file"), place.read("other")),
            ("theirs\n".into(), "base\n".into())
        );
        assert_eq!(verb(&place, "commit", &["other"]).status.code(), Some(0));
        assert_eq!(
            (place.read("file"), place.read("other")),
            ("theirs\n".into(), "view\n".into())
        );
        assert_eq!(verb(&place, "commit", &["--force"]).status.code(), Some(0));
        assert_eq!(place.read("file"), "view\n");
        assert_eq!(
            out(&verb(&place, "commit", &[])),
            "openpath: nothing to commit\n"
        );
        // A directory without changes has none to commit; a name of neither tree is mistyped.
        std::fs::create_dir(place.dir.join("dir")).unwrap();
        for path in [".", "dir", "/"] {
            let none = verb(&place, "commit", &[path]);
            assert_eq!(
                out(&none),
                "openpath: nothing to commit\n",
                "{}",
                err(&none)
            );
            assert_eq!(none.status.code(), Some(0));
        }
        let none = verb(&place, "diff", &["dir"]);
        assert_eq!((out(&none), none.status.code()), (String::new(), Some(0)));
        for path in ["none", "dir/none", "file"] {
            let wrong = verb(&place, "commit", &[".", path]);
            assert_eq!(wrong.status.code(), Some(2), "{path}");
            assert!(err(&wrong).contains("has no change at"), "{}", err(&wrong));
        }
    }
}

#[test]
fn file_of_another_owner_is_refused_without_force() {
    let Some(place) = Place::new("foreign", Who::Ordinary) else {
        return;
    };
    let path = place.dir.join("group");
    std::fs::write(&path, "base").unwrap();
    chown(&path, Some(0), Some(GROUP)).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o664)).unwrap();
    place.write("own", "base");
    run(&place, "echo view > group; echo view > own");
    let refused = verb(&place, "commit", &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        err(&refused).contains("belongs to user 0"),
        "{}",
        err(&refused)
    );
    assert_eq!(
        (place.read("group"), place.read("own")),
        ("base".into(), "base".into())
    );
    assert!(verb(&place, "commit", &["own"]).status.success());
    let own = std::fs::metadata(place.dir.join("own")).unwrap();
    assert_eq!((own.uid(), place.read("own")), (1000, "view\n".into()));
    assert!(verb(&place, "commit", &["--force"]).status.success());
    let group = std::fs::metadata(&path).unwrap();
    assert_eq!(
        (group.uid(), group.gid(), group.mode() & 0o777),
        (1000, GROUP, 0o664)
    );
}

#[test]
fn impossible_commit_is_refused_before_any_change() {
    let Some(place) = Place::new("rights", Who::Ordinary) else {
        return;
    };
    // The file belongs to the user, the directory to another user.
    std::fs::create_dir(place.dir.join("closed")).unwrap();
    place.plain("echo base > mine; echo base > file");
    std::fs::rename(place.dir.join("mine"), place.dir.join("closed/file")).unwrap();
    run(&place, "echo view > closed/file; echo view > file");
    let refused = verb(&place, "commit", &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        err(&refused).contains("closed: Permission denied"),
        "{}",
        err(&refused)
    );
    assert_eq!(place.read("file"), "base\n");
    assert_eq!(place.read("closed/file"), "base\n");
    assert!(!place.dir.join("state/openpath/views/view/next").exists());
}

#[test]
fn directory_of_another_owner_is_not_removed() {
    let Some(place) = Place::new("keep", Who::Ordinary) else {
        return;
    };
    std::fs::create_dir(place.dir.join("foreign")).unwrap();
    place.plain("mkdir shut; chmod 555 shut; echo base > file");
    let before = look(&place);
    run(&place, "rmdir foreign shut; echo view > file");
    for force in [&[][..], &["--force"]] {
        let refused = verb(&place, "commit", force);
        assert_eq!(refused.status.code(), Some(2));
        let said = err(&refused);
        assert!(said.contains("foreign: it belongs to another"), "{said}");
        assert!(!place.dir.join("state/openpath/views/view/next").exists());
    }
    assert_eq!(place.read("file"), "base\n");
    // The user's own read-only directory is removed, and the undo restores it.
    let done = verb(&place, "commit", &["shut", "file"]);
    assert!(done.status.success(), "{}", err(&done));
    assert!(!place.dir.join("shut").exists());
    let undone = verb(&place, "commit", &["--undo"]);
    assert!(undone.status.success(), "{}", err(&undone));
    assert_eq!(look(&place), before);
}

#[test]
fn view_on_another_file_system_is_committed_and_undone() {
    for place in Place::all("across") {
        let shared = format!("/dev/shm/openpath-commit-{}", std::process::id());
        let _old = std::fs::remove_dir_all(&shared);
        if std::fs::create_dir(&shared).is_err() {
            return;
        }
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
        place.plain(FURNISH);
        let state = place.dir.join("state");
        std::fs::remove_dir(&state).unwrap();
        std::os::unix::fs::symlink(&shared, &state).unwrap();
        let before = look(&place);
        run(&place, CHANGE);
        let shown = place.run(&["--name", "view", "--quiet"], LOOK);
        let done = verb(&place, "commit", &[]);
        assert!(done.status.success(), "{}", err(&done));
        assert_eq!(look(&place), out(&shown));
        let undone = verb(&place, "commit", &["--undo"]);
        assert!(undone.status.success(), "{}", err(&undone));
        assert_eq!(look(&place), before);
        std::fs::remove_dir_all(&shared).unwrap();
    }
}

/// Backups are copied back, since the view is on another file system.
#[test]
fn undo_that_cannot_write_a_file_names_it_as_the_tree_does() {
    let Some(place) = Place::new("unwritable", Who::Caller) else {
        return;
    };
    let shared = format!("/dev/shm/openpath-unwritable-{}", std::process::id());
    std::fs::create_dir(&shared).unwrap();
    std::os::unix::fs::symlink(&shared, place.dir.join("state")).unwrap();
    place.plain("head -c 300000 /dev/zero > large");
    let before = look(&place);
    run(&place, "echo view > large");
    assert!(verb(&place, "commit", &[]).status.success());
    let done = place.plain(&format!(
        "trap '' XFSZ; ulimit -f 128; XDG_STATE_HOME=$PWD/state exec {OPENPATH} commit view --undo"
    ));
    let told = err(&done);
    assert!(
        told.contains(&*place.dir.join("large").to_string_lossy()),
        "{told}"
    );
    assert!(verb(&place, "commit", &["--continue"]).status.success());
    assert_eq!(look(&place), before);
    std::fs::remove_dir_all(&shared).unwrap();
}

#[test]
#[ignore = "slow: 10 s"]
fn killed_commit_can_be_continued_or_aborted() {
    for place in Place::all("killed") {
        place.plain("mkdir state tree; for i in $(seq 300); do echo base $i > tree/$i; done");
        let before = look(&place);
        let line = "for i in $(seq 300); do echo view $i > tree/$i; done; mv tree moved";
        run(&place, line);
        let shown = out(&place.run(&["--name", "view", "--quiet"], LOOK));
        let mut interrupted = 0;
        let view = place.dir.join("state/openpath/views/view");
        let in_state = |dir: &str, state: &str| {
            let record = std::fs::read_to_string(view.join(dir).join("state"));
            record.is_ok_and(|record| record.contains(state))
        };
        let half = || {
            let dirs = ["tree", "moved"].map(|dir| place.dir.join(dir).join("150"));
            dirs.iter()
                .any(|file| std::fs::read(file).is_ok_and(|text| text == b"view 150\n"))
        };
        // Four moments of a commit. A quick commit may end before the kill, so each has more turns.
        for turn in 0..40 {
            if turn >= 4 && interrupted >= 2 {
                break;
            }
            let reached = || match turn % 4 {
                0 => in_state("next", "Preparing"),
                1 => in_state("commit", "Applying"),
                2 => half(),
                _ => in_state("commit", "Settling"),
            };
            let mut commit = place.openpath(["commit", "view"]);
            commit.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = commit.spawn().unwrap();
            while !reached() && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            if child.try_wait().unwrap().is_none() {
                kill_tree(child.id());
            }
            child.wait().unwrap();
            let said = verb(&place, "diff", &[]);
            if err(&said).contains("--continue") {
                interrupted += 1;
                let run = place.run(&["--name", "view"], "true");
                assert_eq!(run.status.code(), Some(125));
                let (option, want) = match turn % 2 {
                    0 => ("--continue", &shown),
                    _ => ("--abort", &before),
                };
                let done = verb(&place, "commit", &[option]);
                assert!(done.status.success(), "{}", err(&done));
                assert_eq!(&look(&place), want, "{option}");
            }
            // And back to the beginning.
            if look(&place) != before {
                assert_eq!(look(&place), shown);
                let undone = verb(&place, "commit", &["--undo"]);
                assert!(undone.status.success(), "{}{}", out(&undone), err(&undone));
                assert_eq!(look(&place), before);
            }
        }
        assert!(interrupted >= 2, "{interrupted}");
    }
}

/// The kill comes while a directory that its user may not write is made writable for the work.
#[test]
fn undo_killed_while_it_opens_a_directory_can_be_continued() {
    let Some(place) = Place::new("opened", Who::Ordinary) else {
        return;
    };
    place.plain("mkdir state shut; echo base > shut/file; chmod 555 shut");
    let before = look(&place);
    run(
        &place,
        "chmod u+w shut; echo view > shut/file; chmod 555 shut",
    );
    let mode = || std::fs::metadata(place.dir.join("shut")).unwrap().mode() & 0o777;
    let mut caught = 0;
    for _ in 0..5 {
        assert!(verb(&place, "commit", &[]).status.success());
        let mut undo = place.openpath(["commit", "view", "--undo"]);
        undo.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = undo.spawn().unwrap();
        while mode() == 0o555 && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        if mode() != 0o555 {
            caught += 1;
            let told = err(&verb(&place, "diff", &[]));
            assert!(told.contains("--continue"), "{told}");
            assert!(verb(&place, "commit", &["--continue"]).status.success());
        }
        assert_eq!(look(&place), before);
    }
    assert_ne!(caught, 0);
}

/// Kills a process and its children.
fn kill_tree(pid: u32) {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    for pid in std::iter::once(pid.to_string().as_str()).chain(children.split_whitespace()) {
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        let _gone = kill_process(pid, Signal::KILL);
    }
}

#[test]
fn paths_without_a_change_are_refused() {
    for place in Place::all("typo") {
        place.write("file", "base\n");
        place.write("same", "base\n");
        run(&place, "echo view > file");
        for (paths, name) in [
            (&["typo"][..], "typo"),
            (&["file", "same"], "same"),
            (&["typo", "--dry-run"], "typo"),
        ] {
            let refused = verb(&place, "commit", paths);
            assert_eq!(refused.status.code(), Some(2), "{paths:?}");
            assert!(err(&refused).contains(name), "{}", err(&refused));
            assert_eq!(place.read("file"), "base\n");
        }
        for (paths, name) in [(&["typo"][..], "typo"), (&["file", "same"], "same")] {
            let refused = verb(&place, "diff", paths);
            assert_eq!(refused.status.code(), Some(2), "{paths:?}");
            assert!(err(&refused).contains(name), "{}", err(&refused));
            assert_eq!(out(&refused), "");
        }
    }
}

#[test]
fn files_that_the_view_never_saw_are_not_removed_with_force() {
    for place in Place::all("unseen") {
        place.plain("mkdir state gone && echo 1 > gone/a");
        run(&place, "rm -r gone; mkdir tests; echo a > tests/a");
        std::thread::sleep(std::time::Duration::from_millis(20));
        place.plain("mkdir tests; echo precious > tests/b; echo precious > gone/b");
        let refused = verb(&place, "commit", &[]);
        let text = out(&refused);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains("gone/b: made by others since"), "{text}");
        assert!(!text.contains("tests/b"), "{text}");
        let refused = verb(&place, "commit", &["--force"]);
        assert_eq!(refused.status.code(), Some(2), "{}", out(&refused));
        assert!(err(&refused).contains("gone/b"), "{}", err(&refused));
        let merged = verb(&place, "commit", &["--force", "tests"]);
        assert!(merged.status.success(), "{}", err(&merged));
        let all = ["tests/a", "tests/b", "gone/b"].map(|path| place.read(path));
        assert_eq!(all, ["a\n", "precious\n", "precious\n"]);
    }
}

#[test]
#[ignore = "slow: 6 s"]
fn read_only_directories_of_the_user_are_committed_and_undone() {
    let made = "mkdir -p m n/v p/v q r s/old; \
        for f in m/a n/v/a r/a s/old/a; do echo 1 > $f; done; \
        chmod 555 n/v n p r";
    let changes = [
        "echo 2 > m/a; echo 3 > m/b; chmod 555 m",
        "chmod u+w n/v; echo 2 > n/v/b",
        "chmod u+w p; mv p q/p2",
        "chmod u+w r; echo 2 > r/a; chmod 555 r",
        "mkdir s/new; mv s/old s/new/o; echo 2 > s/new/o/b; chmod 555 s/new s/new/o",
        "mkdir -p t/v; echo 2 > t/v/a; chmod 555 t/v t",
    ];
    let look = "find . -path ./view -prune -o ! -name 'fuse-*' -printf '%p %y %m %l ' -a \
        \\( -type f -exec cat {} \\; -o -printf '\\n' \\) | sort";
    // With the kernel the directory of named views is made.
    for place in Place::all("read-only-dirs").map(Place::needs_fuse) {
        let view = place.path("view");
        for change in changes {
            assert!(place.plain(made).status.success());
            let before = out(&place.plain(look));
            let ran = place.run(&["-q", "--upper", &view], &format!("{change}; {look}"));
            let wanted = out(&ran);
            assert_ne!(wanted, before, "{change}: {}", err(&ran));
            for (verb, real) in [
                (&["commit", &view][..], &wanted),
                (&["commit", &view, "--undo"], &before),
            ] {
                let done = place.openpath(verb).output().unwrap();
                assert!(done.status.success(), "{change}: {}", err(&done));
                assert_eq!(out(&place.plain(look)), *real, "{change}: {verb:?}");
            }
            assert!(
                place
                    .openpath(["discard", &view])
                    .status()
                    .unwrap()
                    .success()
            );
            let gone = "chmod -R u+w . 2> /dev/null; rm -rf m n p q r s t";
            assert!(place.plain(gone).status.success());
        }
    }
}

/// Others make names all the time in the directory above the changes, as in `/tmp`.
#[test]
fn names_made_by_others_beside_a_commit_do_not_stop_it() {
    for place in Place::all("beside") {
        let noise = place.dir.with_extension("noise");
        std::thread::scope(|scope| {
            let commits = scope.spawn(|| {
                for number in 0..4 {
                    run(&place, &format!("echo {number} > file"));
                    let done = verb(&place, "commit", &[]);
                    assert!(done.status.success(), "{number}: {}", err(&done));
                }
            });
            while !commits.is_finished() {
                std::fs::write(&noise, "").unwrap();
                std::fs::remove_file(&noise).unwrap();
            }
        });
    }
}

/// Runs `first` in the view, then `outside` on the real tree, then `second` in the same run.
fn run_around(place: &Place, first: &str, outside: &str, second: &str) {
    place.plain("rm -rf sync; mkdir sync");
    let line =
        format!("{first}; touch sync/first; until [ -e sync/go ]; do sleep 0.02; done; {second}");
    let args = [
        "run", "-q", "--name", "view", "--rw", "sync", "--", "sh", "-c", &line,
    ];
    let mut child = place.openpath(args).spawn().unwrap();
    let outside = format!("until [ -e sync/first ]; do sleep 0.02; done; {outside}; touch sync/go");
    assert!(place.plain(&outside).status.success());
    assert!(child.wait().unwrap().success());
}

#[test]
#[ignore = "slow: 5 s"]
fn change_of_others_between_two_replacements_in_one_run_is_a_conflict() {
    for place in Place::all("replaced") {
        for (second, was) in [
            ("echo two > new; mv new file", "file"),
            ("rm file; echo two > file", "file"),
            ("rm file", "file"),
            ("rm file; mv other file", "file"),
            ("mv file gone; rm gone", "file"),
            ("rm link; ln other link", "link"),
        ] {
            place.plain(
                "rm -rf state; echo base > file; echo other > other; rm -f link; ln file link",
            );
            let first = format!("echo one > new; mv new {was}");
            run_around(&place, &first, "echo theirs > file", second);
            let refused = verb(&place, "commit", &[]);
            assert_eq!(
                refused.status.code(),
                Some(1),
                "{second}: {}",
                err(&refused)
            );
            let said = out(&refused);
            assert!(
                said.contains(was) && said.contains("since"),
                "{second}: {said}"
            );
            assert_eq!(place.read("file"), "theirs\n", "{second}");
            // A path that only the view changed is committed without a conflict.
            run_around(
                &place,
                "echo one > calm; rm -f calm",
                "true",
                "echo two > calm",
            );
            let done = verb(&place, "commit", &["calm"]);
            assert!(
                done.status.success(),
                "{second}: {}{}",
                out(&done),
                err(&done)
            );
            verb(&place, "discard", &[]);
            place.plain("rm -f calm");
        }
    }
}

#[test]
fn paths_made_by_both_sides_and_removed_by_the_view_stay() {
    for place in Place::all("both-made") {
        run_around(
            &place,
            "echo ours > file; mkdir dir; echo ours > dir/in",
            "echo theirs > file; mkdir dir; echo theirs > dir/other",
            "rm file; rm -r dir",
        );
        let refused = verb(&place, "commit", &[]);
        assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
        assert!(
            out(&refused).contains("made by others since"),
            "{}",
            out(&refused)
        );
        let forced = verb(&place, "commit", &["--force", "dir"]);
        assert!(!forced.status.success(), "{}", out(&forced));
        assert_eq!(place.read("file"), "theirs\n");
        assert_eq!(place.read("dir/other"), "theirs\n");
    }
}

#[test]
fn escape_sequence_in_a_name_is_not_printed_raw() {
    for place in Place::all("escapes") {
        place.plain("echo base > x; mkdir d");
        run(
            &place,
            "ln x \"$(printf 'd/evil\\033]0;owned\\007')\"; echo view > x",
        );
        for args in [
            &["x"][..],
            &["nothing\u{1b}[2J"],
            &[],
            &["--undo"],
            &["--undo"],
        ] {
            let output = verb(&place, "commit", args);
            let said = format!("{}{}", out(&output), err(&output));
            assert!(!said.contains(['\u{1b}', '\u{7}']), "{args:?}: {said:?}");
            assert!(!said.is_empty(), "{args:?}");
        }
    }
}

#[test]
fn unreadable_file_does_not_keep_others_from_diff() {
    let Some(place) = Place::new("unread", Who::Ordinary) else {
        return;
    };
    let foreign = place.dir.join("foreign");
    std::fs::write(&foreign, "secret").unwrap();
    std::fs::set_permissions(&foreign, PermissionsExt::from_mode(0o600)).unwrap();
    run(&place, "rm -f foreign; echo new > other");
    for args in [&[][..], &["--stat"], &["--json"]] {
        let diff = verb(&place, "diff", args);
        assert!(diff.status.success(), "{}", err(&diff));
        let said = out(&diff);
        assert!(said.contains("foreign") && said.contains("other"), "{said}");
    }
}

#[test]
fn forced_undo_lists_what_it_cannot_put_back_and_ends_with_status_2() {
    for place in Place::all("out-of-reach") {
        place.plain("mkdir -p state d e; echo old > d/a; echo old > e/b; echo x > e/del");
        run(&place, "echo new > d/a; echo new > e/b; rm e/del");
        assert!(verb(&place, "commit", &[]).status.success());
        place.plain("rm -r e; mkdir e");
        let refused = verb(&place, "commit", &["--undo"]);
        assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
        let said = out(&refused);
        assert!(said.contains("e/b: cannot be put back") && said.contains("commit/old/"));
        assert_eq!(place.read("d/a"), "new\n");
        let undone = verb(&place, "commit", &["--undo", "--force"]);
        assert_eq!(undone.status.code(), Some(2), "{}", err(&undone));
        let said = out(&undone);
        assert!(said.contains("e/del: was not put back"), "{said}");
        assert!(said.contains("taken back but for 2 paths"), "{said}");
        assert_eq!(
            (place.read("d/a"), place.read("e/b")),
            ("old\n".into(), String::new())
        );
        let kept = "cat state/openpath/views/view/old-content/*/* | sort";
        assert_eq!(out(&place.plain(kept)), "old\nx\n");
        run(&place, "cat d/a");
        assert!(verb(&place, "discard", &[]).status.success());
    }
}

#[test]
fn path_through_a_link_of_another_user_is_refused_with_where_it_leads() {
    let Some(place) = Place::new("led", Who::Caller) else {
        return;
    };
    place.plain("mkdir -p state ok/cfg; ln -s ok mine; ln -s ok proj");
    run(&place, "echo view > ok/cfg/a");
    let mine = verb(&place, "diff", &["mine/cfg", "--stat"]);
    assert!(mine.status.success(), "{}", err(&mine));
    let real = place.path("ok/cfg");
    assert!(
        err(&mine).contains(&format!("mine/cfg is {real}")),
        "{}",
        err(&mine)
    );
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::lchown(place.dir.join("proj"), Some(1000), None).unwrap();
    for (name, options) in [
        ("diff", &["proj/cfg", "--stat"][..]),
        ("commit", &["proj/cfg"]),
    ] {
        let refused = verb(&place, name, options);
        assert_eq!(refused.status.code(), Some(2), "{}", out(&refused));
        let said = err(&refused);
        assert!(
            said.contains("another user can change") && said.contains(&real),
            "{said}"
        );
    }
    assert_eq!(place.read("ok/cfg/a"), "");
    let named = verb(&place, "commit", &["ok/cfg"]);
    assert!(named.status.success(), "{}", err(&named));
    assert_eq!(place.read("ok/cfg/a"), "view\n");
}

#[test]
#[ignore = "slow: 5 s"]
fn commit_of_the_other_name_of_a_committed_file_is_not_interrupted() {
    for place in Place::all("two-names") {
        for change in ["rm e", "echo y >> e", "mv e z", "rm e; echo n > f"] {
            assert!(
                place
                    .plain("echo v > a; ln a e; mkdir -p state")
                    .status
                    .success()
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
            for line in ["echo x >> a", change] {
                run(&place, line);
                let done = verb(&place, "commit", &[]);
                assert!(done.status.success(), "{change}: {line}: {}", err(&done));
            }
            let undone = verb(&place, "commit", &["--undo"]);
            assert!(undone.status.success(), "{change}: {}", err(&undone));
            assert_eq!(out(&place.plain("cat a e")), "v\nx\nv\n", "{change}");
            assert!(verb(&place, "discard", &[]).status.success());
            assert!(place.plain("rm -rf a e z f state").status.success());
        }
    }
}
