// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that what a run or a commit refuses is named as it is, with a remedy that works.

use crate::place::{Place, Who, err, out};
use std::process::Output;

fn openpath(place: &Place, line: &str) -> Output {
    let args = line.split_whitespace();
    place.openpath(args).output().unwrap()
}

fn root(name: &str) -> Option<Place> {
    Place::new(name, Who::Caller).filter(|_| rustix::process::geteuid().is_root())
}

#[test]
fn commit_names_the_flag_of_a_file_and_a_remedy_that_works() {
    let Some(place) = root("flagged") else { return };
    if !place
        .plain("touch t && chattr +a t && chattr -a t")
        .status
        .success()
    {
        eprintln!("skipped: no flags of files here");
        return;
    }
    for (flag, name, line) in [
        ("a", "append-only", "echo 2 >> log"),
        ("i", "immutable", "echo 2 >> log"),
        ("i", "immutable", "chmod 600 log"),
        ("a", "append-only", "chmod 600 log"),
    ] {
        place.plain("rm -f log; echo 1 > log; echo 1 > other");
        let line = format!("{line}; echo 2 > other");
        let run = place.run(&["-q", "--name", "flagged"], &line);
        assert!(run.status.success(), "{}", err(&run));
        place.plain(&format!("chattr +{flag} log"));
        let refused = openpath(&place, "commit flagged --force");
        assert_eq!(refused.status.code(), Some(2), "{}", out(&refused));
        let why =
            format!("log is {name}: name other paths, or remove the flag by `chattr -{flag}`");
        assert!(err(&refused).contains(&why), "{}", err(&refused));
        assert_eq!(place.read("other"), "1\n");
        place.plain(&format!("chattr -{flag} log"));
        let done = openpath(&place, "commit flagged --force");
        assert!(done.status.success(), "{}", err(&done));
        assert_eq!(place.read("other"), "2\n");
        openpath(&place, "discard flagged");
    }
}

#[test]
fn attributes_on_a_read_only_mount_are_refused_before_the_first_step() {
    let Some(place) = root("attributes-ro") else {
        return;
    };
    let line = "mkdir at; mount -t tmpfs tmpfs at; touch at/old; mount -o remount,ro at; \
        \"$OPENPATH\" run -q --name ro -- sh -c 'chmod 600 at/old; echo x > other'; \
        \"$OPENPATH\" commit ro; echo $?; \"$OPENPATH\" discard ro; echo $?; ls";
    let all = crate::kernel_engine::apart(&place, line);
    assert_eq!(out(&all), "2\n0\nat\nstate\n", "{}", err(&all));
    let why = "at/old is on a read-only mount: name other paths";
    assert!(err(&all).contains(why), "{}", err(&all));
}

#[test]
fn name_of_a_directory_needs_a_slash() {
    let Some(place) = Place::new("slash", Who::Caller) else {
        return;
    };
    for name in [".", ".."] {
        let refused = openpath(&place, &format!("diff {name}"));
        let hint = format!("a view in a directory is named with a slash, as `{name}/`");
        assert!(err(&refused).contains(&hint), "{}", err(&refused));
    }
}

#[test]
fn commit_of_other_paths_says_that_the_view_has_changes() {
    let Some(place) = Place::new("elsewhere", Who::Caller) else {
        return;
    };
    place.plain("mkdir dir");
    let run = place.run(&["-q", "--name", "view"], "echo x > new");
    assert!(run.status.success(), "{}", err(&run));
    let none = openpath(&place, "commit view dir");
    let wanted = "openpath: nothing to commit at these paths of the view: `openpath diff view \
                  --stat` lists its change\n";
    assert_eq!(out(&none), wanted, "{}", err(&none));
    assert!(none.status.success());
}
