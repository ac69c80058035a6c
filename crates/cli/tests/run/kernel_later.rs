// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests, with either engine, that a commit after several commands in one view still finds what
//! others changed between them, and neither overwrites nor removes what the view never showed.

use crate::kernel_engine::{Started, commit, root_place};
use crate::place::{Place, err, out};

const ENGINES: [&str; 2] = ["fuse", "kernel"];

/// Runs a line in the view; `meanwhile` happens outside once the line has said `ready`, and the
/// line goes on at the end of its input.
fn beside(place: &Place, engine: &str, line: &str, meanwhile: &str) {
    let args = vec![
        "run", "-q", "--engine", engine, "--name", "view", "--", "sh", "-c", line,
    ];
    let started = Started::of(place, args);
    let done = place.plain(meanwhile);
    assert!(done.status.success(), "{}", err(&done));
    started.finish();
}

fn later(place: &Place, engine: &str, line: &str) {
    let run = place.run(&["-q", "--engine", engine, "--name", "view"], line);
    assert!(run.status.success(), "{}", err(&run));
}

/// A commit finds these conflicts and changes nothing.
fn conflicts(place: &Place, what: &str, files: &str, wanted: &str) {
    let done = place.openpath(["commit", "view"]).output().unwrap();
    let said = format!("{}{}", out(&done), err(&done));
    assert_eq!(done.status.code(), Some(1), "{what}: {said}");
    assert_eq!(out(&place.plain(files)), wanted, "{what}: {said}");
    let gone = place.openpath(["discard", "view"]).output().unwrap();
    assert!(gone.status.success(), "{}", err(&gone));
}

#[test]
fn names_that_a_directory_of_both_sides_never_showed_stay() {
    for engine in ENGINES {
        for second in [false, true] {
            let Some(place) = root_place("both-dirs") else {
                return;
            };
            place.plain("mkdir p");
            let line = "mkdir p/n; echo a > p/n/a; echo ready; cat; \
                mkdir p/n/s; echo mine > p/n/s/mine; echo mine > p/n/late";
            let others = "mkdir p/n p/n/s; echo theirs > p/n/s/deep; echo theirs > p/n/late";
            beside(&place, engine, line, others);
            if second {
                later(&place, engine, "true");
            }
            let what = format!("{engine} {second}");
            conflicts(&place, &what, "cat p/n/s/deep p/n/late", "theirs\ntheirs\n");
        }
    }
}

#[test]
fn later_rename_of_a_directory_hides_no_change_by_others() {
    for next in ENGINES {
        let Some(place) = root_place("later-rename") else {
            return;
        };
        place.plain("mkdir d; echo old > d/f; echo old > d/g");
        let line = "cat d/f d/g; echo ready; cat; echo mine >> d/f; rm d/g";
        let others = "echo theirs > new; mv new d/f; echo theirs > d/g";
        beside(
            &place,
            "kernel",
            &line.replacen("cat d/f d/g;", "cat d/f d/g > /dev/null;", 1),
            others,
        );
        later(&place, next, "mv d e");
        conflicts(&place, next, "cat d/f d/g", "theirs\ntheirs\n");
    }
}

#[test]
fn directory_that_others_move_away_for_a_while_hides_no_change() {
    let Some(place) = root_place("away") else {
        return;
    };
    place.plain("mkdir d; echo old > d/f");
    let line = "cat d/f > /dev/null; echo ready; cat; echo mine >> d/f";
    beside(&place, "kernel", line, "echo theirs > new; mv new d/f");
    place.plain("mv d away");
    later(&place, "kernel", "true");
    place.plain("mv away d");
    conflicts(&place, "away", "cat d/f", "theirs\n");
}

#[test]
fn attributes_of_the_working_directory_are_changes() {
    for engine in ENGINES {
        let Some(place) = root_place("cwd-attributes") else {
            return;
        };
        place.plain("setfattr -n user.keep -v 1 .");
        later(
            &place,
            engine,
            "setfattr -x user.keep .; setfattr -n user.overlay.note -v 1 .",
        );
        let done = place.openpath(["commit", "view"]).output().unwrap();
        assert!(done.status.success(), "{engine}: {}", err(&done));
        let names = out(&place.plain("getfattr -m - . | sort"));
        assert!(names.contains("user.overlay.note"), "{engine}: {names}");
        assert!(!names.contains("user.keep"), "{engine}: {names}");
    }
}

/// A commit of one path changes its directory, but that does not make known what others did to it.
#[test]
fn commit_of_a_path_does_not_hide_what_others_did_to_its_directory() {
    for engine in ["fuse", "kernel"] {
        let Some(place) = root_place("later-part") else {
            return;
        };
        place.plain("mkdir b; echo 1 > b/f; sleep 0.02");
        let made = "echo new > b/n; echo new > b/n2";
        let run = place.run(&["-q", "--engine", engine, "--name", "view"], made);
        assert!(run.status.success(), "{}", err(&run));
        place.plain("sleep 0.02; chmod 700 b; setfattr -n user.others -v 1 b");
        let all = commit(&place, &[]);
        let expected = if engine == "fuse" { 0 } else { 1 };
        assert_eq!(all.status.code(), Some(expected), "{engine}: {}", err(&all));
        let first = commit(&place, &["b/n"]);
        assert!(expected == 0 || first.status.success(), "{}", err(&first));
        let rest = commit(&place, &[]);
        assert_eq!(
            rest.status.code(),
            Some(expected),
            "{engine}: {}",
            err(&rest)
        );
        let real = place.plain("stat -c %a b; getfattr --only-values -n user.others b; ls b");
        assert!(out(&real).starts_with("700\n1"), "{engine}: {}", out(&real));
    }
}
