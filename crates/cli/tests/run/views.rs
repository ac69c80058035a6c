// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that directories of kept views are private, that forged or damaged ones and those of other
//! users are refused or listed with a remedy, and that an interrupted discard is finished later.

use crate::place::{Place, Who, err, out};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::process::Output;

/// Another user.
const OTHER: u32 = 1003;

fn openpath(place: &Place, args: &[&str]) -> Output {
    let mut command = place.openpath(args);
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

/// The output of all verbs that act on the view of this name.
fn verbs<'a>(place: &Place, view: &'a str) -> Vec<(&'a str, Output)> {
    vec![
        ("run", place.run(&["--name", view], "echo x > new")),
        ("upper", place.run(&["--upper", view], "echo x > new")),
        ("diff", openpath(place, &["diff", view])),
        ("commit", openpath(place, &["commit", view])),
        ("continue", openpath(place, &["commit", view, "--continue"])),
        ("abort", openpath(place, &["commit", view, "--abort"])),
        ("undo", openpath(place, &["commit", view, "--undo"])),
        ("discard", openpath(place, &["discard", view])),
    ]
}

/// Checks that the message is one sentence.
fn is_sentence(said: &str) -> bool {
    said.starts_with("openpath: ") && said.trim_end().lines().count() == 1
}

#[test]
fn view_directory_of_another_user_is_refused_and_its_links_not_followed() {
    let Some(place) = Place::new("theirs", Who::Caller) else {
        return;
    };
    place.write("precious", "precious\n");
    let plain = fs::metadata(place.dir.join("precious")).unwrap().uid();
    if plain != 0 {
        return;
    }
    let dir = place.dir.join("view");
    fs::create_dir(&dir).unwrap();
    fs::create_dir(dir.join("upper")).unwrap();
    for (name, to) in [
        ("lock", "made"),
        ("view.toml", "made"),
        ("taken.new", "precious"),
    ] {
        symlink(place.dir.join(to), dir.join(name)).unwrap();
    }
    chown(&dir, Some(OTHER), Some(OTHER)).unwrap();
    for (verb, output) in verbs(&place, "./view") {
        let said = err(&output);
        assert!(!output.status.success(), "{verb}");
        assert!(is_sentence(&said), "{verb}: {said}");
        assert!(
            said.contains("user 1003: run as that user"),
            "{verb}: {said}"
        );
        assert!(!place.dir.join("made").exists(), "{verb}");
        assert_eq!(place.read("precious"), "precious\n", "{verb}");
    }
    // The same in a directory of root, as an older version may have left it.
    chown(&dir, Some(0), Some(0)).unwrap();
    for (verb, output) in verbs(&place, "./view") {
        assert!(!output.status.success(), "{verb}");
        assert!(is_sentence(&err(&output)), "{verb}: {}", err(&output));
        assert!(!place.dir.join("made").exists(), "{verb}");
        assert_eq!(place.read("precious"), "precious\n", "{verb}");
    }
}

#[test]
fn overlay_changes_are_not_kept_in_a_directory_of_another_user() {
    let Some(place) = Place::new("overlay-theirs", Who::Caller) else {
        return;
    };
    for dir in ["low", "up", "at"] {
        fs::create_dir(place.dir.join(dir)).unwrap();
    }
    symlink(place.dir.join("made"), place.dir.join("up/lock")).unwrap();
    if chown(place.dir.join("up"), Some(OTHER), Some(OTHER)).is_err() {
        return;
    }
    let output = place.run(&["--mount", "at=overlay,lower=low,upper=up"], "true");
    assert_eq!(output.status.code(), Some(125));
    assert!(err(&output).contains("user 1003"), "{}", err(&output));
    assert!(!place.dir.join("made").exists());
}

#[test]
fn view_directory_is_private_whatever_the_umask() {
    for place in Place::all("umask") {
        let line = "umask 0; \"$0\" run --name v -q -- sh -c 'mkdir -m 777 open; echo x > open/x' \
            && \"$0\" commit v";
        let output = place.plain(&format!(
            "export XDG_STATE_HOME=$PWD/state; set -e; {}",
            line.replace("\"$0\"", crate::place::OPENPATH)
        ));
        assert!(output.status.success(), "{}", err(&output));
        for dir in ["openpath", "openpath/views", "openpath/views/v"] {
            let mode = fs::metadata(place.dir.join("state").join(dir)).unwrap();
            assert_eq!(mode.permissions().mode() & 0o777, 0o700, "{dir}");
        }
        let about = place.dir.join("state/openpath/views/v/view.toml");
        let mode = fs::metadata(about).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn damaged_views_are_listed_with_a_remedy_and_never_run() {
    for place in Place::all("damaged") {
        for view in ["lost", "broken", "whole"] {
            let run = place.run(&["--name", view], "echo old > file");
            assert!(run.status.success(), "{}", err(&run));
        }
        let views = place.dir.join("state/openpath/views");
        fs::remove_file(views.join("lost/view.toml")).unwrap();
        fs::write(views.join("broken/view.toml"), "made = [").unwrap();
        let list = openpath(&place, &["list"]);
        let text = out(&list);
        for view in ["lost", "broken"] {
            let line = text.lines().find(|line| line.starts_with(view)).unwrap();
            assert!(line.contains("damaged"), "{line}");
            assert!(
                line.contains(&format!("`openpath discard {view}`")),
                "{line}"
            );
            let run = place.run(&["--name", view], "cat file");
            assert_eq!(run.status.code(), Some(125), "{}", out(&run));
            assert!(err(&run).contains("is damaged"), "{}", err(&run));
        }
        let list = openpath(&place, &["list", "--json"]);
        let rows: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
        let damaged = |row: &serde_json::Value| row["damaged"].is_string();
        let rows = rows.as_array().unwrap();
        assert_eq!(
            rows.iter().filter(|row| damaged(row)).count(),
            2,
            "{rows:?}"
        );
        let done = openpath(&place, &["discard", "lost", "none", "broken"]);
        assert_eq!(done.status.code(), Some(2));
        assert!(is_sentence(&err(&done)), "{}", err(&done));
        assert!(err(&done).contains("no view none"), "{}", err(&done));
        assert!(!views.join("lost").exists() && !views.join("broken").exists());
        let fresh = place.run(&["--name", "lost"], "cat file");
        assert_eq!(fresh.status.code(), Some(1), "{}", err(&fresh));
        assert!(views.join("whole/upper").exists());
    }
}

#[test]
fn killed_discard_is_finished_by_the_next_run_or_discard() {
    for place in Place::all("half-gone") {
        let views = place.dir.join("state/openpath/views");
        for next in ["run", "discard", "discard another"] {
            let run = place.run(&["--name", "v"], "echo old > file");
            assert!(run.status.success(), "{}", err(&run));
            // The state right after the step that ends the view.
            let going = views.join("v/.openpath-discarded");
            fs::create_dir(&going).unwrap();
            fs::rename(views.join("v/view.toml"), going.join("view.toml")).unwrap();
            for path in [&views.join("v"), &going] {
                fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            }
            place.own("state/openpath/views/v/.openpath-discarded");
            let diff = openpath(&place, &["diff", "v"]);
            assert!(err(&diff).contains("discard v"), "{}", err(&diff));
            match next {
                "run" => {
                    let run = place.run(&["--name", "v"], "cat file");
                    assert_eq!(out(&run), "", "{}", err(&run));
                    let done = openpath(&place, &["discard", "v"]);
                    assert!(done.status.success(), "{}", err(&done));
                }
                "discard" => {
                    let done = openpath(&place, &["discard", "v"]);
                    assert!(done.status.success(), "{}", err(&done));
                }
                _ => {
                    openpath(&place, &["discard", "another"]);
                }
            }
            assert!(!views.join("v").exists(), "{next}");
        }
    }
}

#[test]
fn failed_run_leaves_no_view() {
    for place in Place::all("orphan") {
        let output = place.run(
            &["--name", "v", "--hide", "state", "--rw", "/nowhere"],
            "true",
        );
        assert_eq!(output.status.code(), Some(125), "{}", err(&output));
        assert!(!place.dir.join("state/openpath/views/v").exists());
        let mut none = place.openpath(["run", "--name", "v", "--", "/no/such/command"]);
        assert_eq!(none.output().unwrap().status.code(), Some(127));
        assert!(!place.dir.join("state/openpath/views/v").exists());
    }
}

#[test]
fn command_forges_no_view_and_no_socket_through_any_path() {
    for place in Place::all("forge") {
        let ways: [(&[&str], &str); 6] = [
            (&["--rw", "."], "."),
            (&["--rw", "state", "--rw", "run"], "."),
            (&["--mount", "other=host:."], "other"),
            (&["--pass", "."], "."),
            (&["--pass", "state", "--pass", "run"], "."),
            (&[], "."),
        ];
        // Once before the directories exist, and once after.
        for round in ["none", "one"] {
            for (options, top) in ways {
                for dir in ["state", "run", "other"] {
                    fs::create_dir_all(place.dir.join(dir)).unwrap();
                    place.own(dir);
                }
                let forge = "mkdir -p state/openpath/views/forged/upper run/openpath; \
                    echo made=1 > state/openpath/views/forged/view.toml; \
                    echo x > run/openpath/1.sock; ls state/openpath/views; \
                    cat state/openpath/views/forged/view.toml run/openpath/1.sock";
                let line = format!("cd {top}; {forge}; mv state away; mv run gone; {forge}");
                let mut command = place.openpath(["run"].iter().chain(options));
                command.args(["--", "sh", "-c", &line]);
                command.env("XDG_RUNTIME_DIR", place.dir.join("run"));
                let output = command.output().unwrap();
                assert_ne!(output.status.code(), Some(125), "{}", err(&output));
                assert_eq!(out(&output), "", "{round} {options:?}");
                let forged = place.dir.join("state/openpath/views/forged");
                assert!(!forged.exists(), "{round} {options:?}");
                assert!(!place.dir.join("run/openpath/1.sock").exists());
                assert!(!place.dir.join("away/openpath").exists());
                for copy in ["away", "gone"] {
                    fs::remove_dir(place.dir.join(copy)).ok();
                }
            }
            assert!(place.run(&["--name", "one"], "true").status.success());
        }
        let refused = place.run(&["--pass", "state/openpath"], "true");
        assert_eq!(refused.status.code(), Some(125));
        assert!(is_sentence(&err(&refused)), "{}", err(&refused));
    }
}

#[test]
fn view_named_twice_is_discarded_once() {
    for place in Place::all("discard-twice") {
        assert!(place.run(&["-q", "--name", "a"], "true").status.success());
        let done = openpath(&place, &["discard", "a", "a"]);
        assert!(done.status.success(), "{}", err(&done));
    }
}
