// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath run` works as a command of `openpath run`, up to three deep: it leaves no
//! process, and its changes are kept and committed within the outer view.

use crate::place::{OPENPATH, Place, err, out};

/// What a run leaves in the real tree.
fn left(place: &Place) -> String {
    out(&place.plain("find . ! -name 'fuse-*' | sort"))
}

#[test]
fn runs_nest_three_deep() {
    for place in Place::all("nested") {
        place.write("file", "real\n");
        let before = left(&place);
        let inner = "cat file; echo inner > file; cat file; cat new";
        let middle = format!(
            "echo middle > file; echo made > new; '{OPENPATH}' run -q -- sh -c '{inner}'; cat file"
        );
        let line = format!(
            "echo outer > file; '{OPENPATH}' run -q -- sh -c \"$MIDDLE\"; cat file; cat new"
        );
        let mut command = place.openpath(["run", "--json", "--", "sh", "-c", &line]);
        let output = command.env("MIDDLE", middle).output().unwrap();
        let want = "middle\ninner\nmade\nmiddle\nouter\n";
        assert_eq!(out(&output), want, "{}", err(&output));
        let said = err(&output);
        let summary = said.lines().last().unwrap();
        let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
        let changes = summary["changes"].as_array().unwrap();
        assert_eq!(changes.len(), 1, "{summary}");
        assert_eq!(changes[0]["path"], place.path("file"));
        assert_eq!(place.read("file"), "real\n");
        assert_eq!(left(&place), before);
    }
}

#[test]
fn nested_run_leaves_no_process() {
    repeat_nested(1);
}

#[test]
#[ignore = "slow: 8 s"]
fn repeated_nested_run_leaves_no_process() {
    repeat_nested(5);
}

fn repeat_nested(times: usize) {
    for place in Place::all("nested-left") {
        for shared in ["ipc", "pid"] {
            // The server of the inner run needs more time to end the more it holds.
            let line = format!("'{OPENPATH}' run -q -- sh -c 'head -c 50000000 /dev/zero > f'");
            for _ in 0..times {
                let output = place.run(&["--share", shared], &line);
                assert_eq!(err(&output), "openpath: nothing changed\n", "{shared}");
            }
        }
    }
}

#[test]
fn named_nested_run_is_refused_in_a_sentence_and_leaves_nothing() {
    // Rules of names hide the directory of views.
    for place in Place::all("nested-name").map(Place::needs_fuse) {
        let before = left(&place);
        let line = format!("'{OPENPATH}' run --name v -- true; echo $?; '{OPENPATH}' list");
        for options in [&["-q"][..], &["-q", "--rw", "."], &["-q", "--pass", "."]] {
            std::fs::create_dir_all(place.dir.join("state")).unwrap();
            place.own("state");
            let output = place.run(options, &line);
            assert_eq!(out(&output), "125\n", "{}", err(&output));
            let said = err(&output);
            assert!(
                said.contains("inside another run") && said.contains("--upper DIR"),
                "{said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        place.plain("rm -r state");
        assert_eq!(left(&place), before);
    }
}

#[test]
fn nested_run_in_a_named_run_keeps_its_view_and_commits_to_the_outer() {
    for place in Place::all("nested-named") {
        place.write("file", "real\n");
        let (view, inner) = (place.path("view"), place.path("inner"));
        let run = format!("'{OPENPATH}' run -q --upper '{inner}' --");
        let line = format!(
            "{run} sh -c 'echo inner > file; chmod 640 file; mkdir d; chmod 711 d; mkfifo p'; \
             {run} stat -c '%a %F' file d p; '{OPENPATH}' commit '{inner}' > /dev/null; cat file"
        );
        let output = place.run(&["-q", "--upper", &view], &line);
        let kinds = "640 regular file\n711 directory\n644 fifo\n";
        assert_eq!(out(&output), format!("{kinds}inner\n"), "{}", err(&output));
        assert_eq!(place.read("file"), "real\n");
        // The inner view is a directory of the outer one: the commit includes what it keeps.
        let done = place.openpath(["commit", &view]).output().unwrap();
        assert!(done.status.success(), "{}", err(&done));
        let shown = place.plain("stat -c '%a %F' file d p; cat file");
        assert_eq!(out(&shown), format!("{kinds}inner\n"));
    }
}

#[test]
fn xattrs_set_by_the_command_set_no_owner_and_mode_in_a_commit() {
    for place in Place::all("own-names") {
        let line = "echo x > f; chmod 600 f; setfattr -n user.openpath.attr -v '35309 0 0 0' f; \
            getfattr --absolute-names -n user.openpath.attr f | tail -n +2";
        if !place.plain("command -v setfattr").status.success() {
            eprintln!("skipped: no setfattr here");
            return;
        }
        let view = place.path("view");
        let ran = place.run(&["-q", "--upper", &view], line);
        let value = "user.openpath.attr=\"35309 0 0 0\"\n\n";
        assert_eq!(out(&ran), value, "{}", err(&ran));
        let done = place.openpath(["commit", &view]).output().unwrap();
        assert!(done.status.success(), "{}", err(&done));
        let line = "stat -c %a f; getfattr --absolute-names -n user.openpath.attr f | tail -n +2";
        let real = place.plain(line);
        assert_eq!(out(&real), format!("600\n{value}"));
    }
}

#[test]
fn changes_of_a_nested_run_are_kept_in_a_directory_of_the_outer() {
    for place in Place::all("nested-upper") {
        place.write("file", "real\n");
        let run = format!("'{OPENPATH}' run -q --upper ./v --");
        let line = format!(
            "{run} sh -c 'echo inner > file; mkdir -p a/b; rm -f gone'; cat file; \
             {run} sh -c 'cat file; ls a'; '{OPENPATH}' diff --stat ./v; \
             '{OPENPATH}' commit ./v > commit.txt; cat file; \
             '{OPENPATH}' discard ./v; ls -d v; rm commit.txt"
        );
        let output = place.run(&["--json"], &line);
        let said = format!("{}{}", out(&output), err(&output));
        let shown = out(&output);
        assert!(shown.starts_with("real\ninner\nb\n"), "{said}");
        assert!(shown.ends_with("inner\n"), "{said}");
        assert_eq!(place.read("file"), "real\n");
    }
}
