// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit or an undo, after interruptions and after changes to the same paths by other
//! users, ends with the right status, says what was done, and names a command that helps.

use crate::place::{Place, Who, err, out};
use serde_json::Value;
use std::process::{Output, Stdio};

fn verb(place: &Place, verb: &str, rest: &[&str]) -> Output {
    let args = [verb, "view"].into_iter().chain(rest.iter().copied());
    place.openpath(args).output().unwrap()
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}{}", out(output), err(output));
}

fn run(place: &Place, line: &str) {
    done(&place.run(&["--name", "view", "--quiet"], line));
}

/// Commits one file, and kills the undo of that at its beginning.
fn interrupted_undo(place: &Place) {
    done(&place.plain("rm -rf state; mkdir state; echo base > file"));
    run(place, "echo view > file");
    done(&verb(place, "commit", &[]));
    let state = place.dir.join("state/openpath/views/view/commit/state");
    assert_eq!(std::fs::read(&state).unwrap(), b"\"Done\"");
    std::fs::write(state, "\"Recalling\"").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
}

#[test]
fn continued_undo_is_reported_as_an_undo() {
    for place in Place::all("undo-on") {
        interrupted_undo(&place);
        let done = verb(&place, "commit", &["--continue"]);
        let said = out(&done);
        assert!(said.contains("openpath: 1 change undone"), "{said}");
        assert!(!said.contains("committed"), "{said}");
        assert_eq!(place.read("file"), "base\n");
        interrupted_undo(&place);
        let done = verb(&place, "commit", &["--continue", "--json"]);
        let json: Value = serde_json::from_str(&out(&done)).unwrap();
        assert_eq!(json["result"], "undone");
    }
}

#[test]
fn advice_for_an_undo_over_changes_of_others_works() {
    for place in Place::all("undo-advice") {
        interrupted_undo(&place);
        place.plain("echo theirs > file");
        let refused = verb(&place, "commit", &["--continue"]);
        let said = err(&refused);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("copy your versions elsewhere"), "{said}");
        let refused = verb(&place, "commit", &["--abort"]);
        let said = out(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(
            said.contains("`--abort --force` finishes the undo over them"),
            "{said}"
        );
        assert!(!said.contains("--continue"), "{said}");
        assert_eq!(place.read("file"), "theirs\n");
        let forced = out(&verb(&place, "commit", &["--abort", "--force"]));
        assert!(forced.contains("1 change undone"), "{forced}");
        assert_eq!(place.read("file"), "base\n");
    }
}

#[test]
fn undo_says_which_paths_the_view_changed_since() {
    for place in Place::all("undo-view") {
        done(&place.plain("mkdir state; echo base > file; echo base > other"));
        run(&place, "echo view > file; echo view > other");
        done(&verb(&place, "commit", &[]));
        run(&place, "echo newer > file");
        let refused = verb(&place, "commit", &["--undo"]);
        let said = out(&refused);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(
            said.contains("file: changed in the view since the commit"),
            "{said}"
        );
        assert!(said.contains("`--undo --force` keeps the view's"), "{said}");
        done(&verb(&place, "commit", &["--undo", "--force"]));
        let real = [place.read("file"), place.read("other")];
        assert_eq!(real, ["base\n", "base\n"]);
        let shown = place.run(&["--name", "view", "--quiet"], "cat file other");
        assert_eq!(out(&shown), "newer\nview\n");
    }
}

#[test]
fn path_through_a_symbolic_link_is_found() {
    for place in Place::all("through-link") {
        done(&place.plain("mkdir -p state dir; ln -s dir link; echo base > dir/file"));
        run(
            &place,
            "echo view > dir/file; mkdir dir/new; echo view > dir/new/in",
        );
        for (path, file) in [("link/new/in", "dir/new/in"), ("link/file", "dir/file")] {
            let diff = verb(&place, "diff", &["--stat", path]);
            done(&diff);
            assert!(out(&diff).contains(file), "{}", out(&diff));
            assert_eq!(out(&diff).lines().count(), 1, "{}", out(&diff));
            done(&verb(&place, "commit", &[&place.path(path)]));
            assert_eq!(place.read(file), "view\n");
        }
        for (word, status) in [("commit", 2), ("diff", 2)] {
            let refused = verb(&place, word, &[&place.path("link/none")]);
            assert_eq!(refused.status.code(), Some(status));
            assert!(err(&refused).contains("link/none"), "{}", err(&refused));
        }
    }
}

#[test]
fn directory_made_by_both_sides_is_listed_as_added_in_the_view() {
    for place in Place::all("both-dir") {
        done(&place.plain("mkdir state"));
        run(&place, "mkdir d; chmod 700 d");
        std::thread::sleep(std::time::Duration::from_millis(20));
        done(&place.plain("mkdir d; chmod 755 d"));
        let refused = verb(&place, "commit", &[]);
        assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
        let said = out(&refused);
        assert!(
            said.contains("d: added in the view, made by others since"),
            "{said}"
        );
    }
}

#[test]
fn commit_is_done_even_if_its_list_cannot_be_written() {
    let Some(place) = Place::new("full", Who::Caller) else {
        return;
    };
    done(&place.plain("mkdir state; echo base > file"));
    run(&place, "echo view > file");
    let full = |rest: &[&str]| {
        let args = ["commit", "view"].iter().chain(rest);
        let mut command = place.openpath(args);
        let device = std::fs::File::options().write(true).open("/dev/full");
        command.stdout(Stdio::from(device.unwrap()));
        command.output().unwrap()
    };
    let tried = full(&["--dry-run"]);
    assert_eq!(tried.status.code(), Some(2), "{}", err(&tried));
    for (rest, what, now) in [
        (&[][..], "1 change committed", "view\n"),
        (&["--undo"], "1 change undone", "base\n"),
        (&["--json"], "1 change committed", "view\n"),
    ] {
        let output = full(rest);
        let said = err(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(what), "{said}");
        assert!(
            said.contains("the list cannot be written: No space"),
            "{said}"
        );
        assert_eq!(place.read("file"), now);
    }
}

#[test]
fn remedies_name_the_view() {
    for place in Place::all("remedies") {
        interrupted_undo(&place);
        let dir = place.path("state/openpath/views/view");
        let by_dir = place.openpath(["diff", &dir]).output().unwrap();
        for refused in [
            place.run(&["--name", "view"], "true"),
            verb(&place, "diff", &[]),
            by_dir,
        ] {
            let said = err(&refused);
            assert!(said.contains("`openpath commit view --continue`"), "{said}");
        }
        place.plain("echo theirs > file");
        let said = err(&verb(&place, "commit", &["--continue"]));
        assert!(said.contains("`openpath commit view --abort`"), "{said}");
        // A view without a name is named by its directory.
        done(&place.plain("mkdir changes; echo base > file"));
        done(&place.run(&["--quiet", "--upper", "changes"], "echo view > file"));
        let refused = place
            .openpath(["commit", "./changes", "none"])
            .output()
            .unwrap();
        let said = err(&refused);
        assert!(
            said.contains("see `openpath diff ./changes --stat`"),
            "{said}"
        );
        let refused = verb(&place, "commit", &["--abort", "--force"]);
        done(&refused);
        let said = err(&verb(&place, "commit", &["none"]));
        assert!(said.contains("see `openpath diff view --stat`"), "{said}");
    }
}
