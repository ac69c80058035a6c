// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a command under `openpath run` sees the real tree with its own changes and the trees
//! that options mount. The real tree stays as it is outside `--rw`, and all changes are listed and
//! kept where an option says.

use crate::place::{Place, Who, err, out, until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

/// The changes of a run from its JSON: paths relative to the place, and the kind of change.
fn changes(place: &Place, options: &[&str], line: &str) -> Vec<(String, String)> {
    let output = place.run(&[&["--json"], options].concat(), line);
    assert!(output.status.success(), "{}", err(&output));
    let said = err(&output);
    let json: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let below = format!("{}/", place.dir.display());
    let mut all = Vec::new();
    for change in json["changes"].as_array().unwrap() {
        let path = change["path"].as_str().unwrap();
        let path = path.strip_prefix(&below).unwrap_or(path);
        let from = change["from"]
            .as_str()
            .map(|from| from.strip_prefix(&below).unwrap_or(from));
        let word = change["change"].as_str().unwrap();
        let word = from.map_or_else(|| word.to_owned(), |from| format!("{word} {from}"));
        all.push((path.to_owned(), word));
    }
    all.sort();
    all
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect()
}

#[test]
fn real_tree_is_untouched_and_changes_are_listed() {
    for place in Place::all("untouched") {
        place.write("changed", "before");
        place.write("removed", "here");
        place.write("mode", "same");
        place.write("edited", "before");
        std::fs::create_dir(place.dir.join("again")).unwrap();
        place.own("again");
        place.write("again/file", "before");
        let line = "echo after > changed && rm removed && chmod 751 mode && mkdir -p new/deep && \
            echo x > new/deep/file && \
            sed -i s/before/after/ edited && rm -r again && mkdir again && \
            ln -s changed link && cat changed new/deep/file link";
        let output = place.run(&[], line);
        assert_eq!(out(&output), "after\nx\nafter\n", "{}", err(&output));
        assert_eq!(place.read("changed"), "before");
        assert_eq!(place.read("removed"), "here");
        let names = std::fs::read_dir(&place.dir).unwrap().count();
        assert_eq!(names, 5);
        let want = pairs(&[
            ("again", "modified"),
            ("again/file", "deleted"),
            ("changed", "modified"),
            ("edited", "modified"),
            ("link", "added"),
            ("mode", "attributes"),
            ("new", "added"),
            ("new/deep", "added"),
            ("new/deep/file", "added"),
            ("removed", "deleted"),
        ]);
        assert_eq!(changes(&place, &[], line), want);
        let text = err(&output);
        assert!(text.starts_with("openpath: 8 changes\n"), "{text}");
        assert!(
            text.contains("new/  2 names") && text.contains("mode 0644 -> 0751"),
            "{text}"
        );
    }
}

#[test]
fn reading_changes_nothing() {
    for place in Place::all("reading") {
        place.write("file", "data");
        let line =
            "cat file > /dev/null; ls -lR . > /dev/null; test -x file; stat file > /dev/null";
        let output = place.run(&[], &format!("{line}; true"));
        assert_eq!(err(&output), "openpath: nothing changed\n");
    }
}

#[test]
fn renames_are_listed_as_renames() {
    for place in Place::all("renames") {
        std::fs::create_dir(place.dir.join("dir")).unwrap();
        place.write("dir/file", "data");
        place.write("one", "1");
        place.own("dir");
        let line = "mv dir moved && mv one two && cat moved/file two";
        let output = place.run(&[], line);
        assert_eq!(out(&output), "data1", "{}", err(&output));
        let told = changes(&place, &[], line);
        assert!(
            told.contains(&("moved".to_owned(), "renamed dir".to_owned())),
            "{told:?}"
        );
        assert_eq!(
            (place.read("dir/file"), place.read("one")),
            ("data".into(), "1".into())
        );
    }
}

#[test]
fn renames_are_kept_in_a_directory() {
    for place in Place::all("moved") {
        std::fs::create_dir(place.dir.join("dir")).unwrap();
        place.write("dir/file", "data");
        place.write("one", "1");
        place.own("dir");
        let options = ["--name", "view"];
        let line = "mv dir moved && mv one two && cat moved/file two; ls -d dir one";
        let output = place.run(&options, line);
        assert_eq!(out(&output), "data1", "{}", err(&output));
        let told = changes(
            &place,
            &options,
            "cat moved/file two > /dev/null; ! ls one dir",
        );
        let want = pairs(&[("moved", "renamed dir"), ("two", "renamed one")]);
        assert_eq!(told, want);
        assert_eq!(
            (place.read("dir/file"), place.read("one")),
            ("data".into(), "1".into())
        );
    }
}

#[test]
fn writes_below_rw_are_on_the_disk() {
    for place in Place::all("through") {
        std::fs::create_dir(place.dir.join("out")).unwrap();
        place.own("out");
        place.write("file", "before");
        let line = "echo kept > out/file && echo lost > file && cat out/file file";
        let output = place.run(&["--rw", "out"], line);
        assert_eq!(out(&output), "kept\nlost\n", "{}", err(&output));
        assert_eq!(
            (place.read("out/file"), place.read("file")),
            ("kept\n".into(), "before".into())
        );
        let told = changes(&place, &["--rw", "out"], line);
        assert_eq!(told, pairs(&[("file", "modified")]));
    }
}

#[test]
fn changes_by_others_are_seen() {
    // L139
    for place in Place::all("others").map(Place::needs_fuse) {
        std::fs::create_dir(place.dir.join("out")).unwrap();
        place.own("out");
        place.write("out/file", "old");
        place.write("file", "old");
        let line = "cat file out/file; ls other out/other; echo ready; \
            for f in file out/file other out/other; do \
            until grep -q new $f; do sleep 0.02; done; done 2> /dev/null; echo seen";
        let mut command = place.openpath(["run", "--rw", "out", "--", "sh", "-c", line]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "oldoldready");
        for name in ["file", "out/file", "other", "out/other"] {
            place.write(name, "new");
        }
        assert_eq!(said.next().unwrap().unwrap(), "seen");
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn read_only_paths_cannot_be_changed() {
    for place in Place::all("ro") {
        std::fs::create_dir(place.dir.join("dir")).unwrap();
        place.own("dir");
        place.write("dir/file", "before");
        let line = "cat dir/file; echo x > dir/file; echo x > dir/new; rm dir/file; \
            mv dir/file moved; ln dir/file linked; touch beside";
        let output = place.run(&["--ro", "dir"], line);
        assert_eq!(out(&output), "before");
        assert_eq!(
            err(&output).matches("Read-only file system").count(),
            4,
            "{}",
            err(&output)
        );
        assert!(
            err(&output).contains("openpath: 2 changes\n"),
            "{}",
            err(&output)
        );
    }
}

#[test]
fn absent_names_are_not_found_and_cannot_be_made() {
    for place in Place::all("absent") {
        std::fs::create_dir_all(place.dir.join("keys/deep")).unwrap();
        for name in ["keys", "keys/deep"] {
            place.own(name);
        }
        place.write("keys/a.pem", "secret");
        place.write("keys/deep/b.pem", "secret");
        place.write("keys/open", "open");
        let line = "ls -A keys keys/deep; cat keys/a.pem; cat hid/x; echo x > keys/deep/b.pem; \
            echo x > keys/c.pem; mkdir hid; mv keys/open keys/d.pem; ln -s x keys/e.pem; \
            cat ./keys/../keys/a.pem; cat /proc/self/cwd/keys/a.pem; true";
        for through in [&[][..], &["--rw", "keys"]] {
            let options = [&["--absent", "*.pem", "--hide-try", "hid"], through].concat();
            let output = place.run(&options, line);
            assert_eq!(
                out(&output),
                "keys:\ndeep\nopen\n\nkeys/deep:\n",
                "{}",
                err(&output)
            );
            let said = err(&output);
            assert_eq!(said.matches("No such file").count(), 4, "{said}");
            assert!(!said.contains("secret"));
            assert!(said.contains("openpath: nothing changed"), "{said}");
        }
        assert_eq!(
            std::fs::read_dir(place.dir.join("keys")).unwrap().count(),
            3
        );
    }
}

#[test]
fn other_trees_are_mounted_with_their_limits() {
    for place in Place::all("mounts") {
        for name in ["small", "other", "host"] {
            std::fs::create_dir(place.dir.join(name)).unwrap();
            place.own(name);
        }
        place.write("host/file", "there");
        let options = [
            "--mount",
            "small=mem,size=64K",
            "--mount",
            &format!("other=host:{},ro", place.path("host")),
        ];
        let line = "cat other/file; echo x > other/new; head -c 1000000 /dev/zero > small/big; \
            wc -c < small/big; true";
        let output = place.run(&options, line);
        // The file itself takes a part of the last one of 16 blocks.
        assert_eq!(out(&output), "there61440\n", "{}", err(&output));
        let said = err(&output);
        assert!(
            said.contains("Read-only file system") && said.contains("No space left"),
            "{said}"
        );
        assert!(said.ends_with("openpath: nothing changed\n"), "{said}");
    }
}

#[test]
fn overlays_are_mounted_and_keep_their_own_changes() {
    for place in Place::all("stack") {
        for name in ["stack", "above", "below", "changes"] {
            std::fs::create_dir(place.dir.join(name)).unwrap();
            place.own(name);
        }
        place.write("above/both", "above");
        place.write("below/both", "below");
        place.write("below/one", "one");
        let mount = |upper: &str| format!("stack=overlay,lower=above,lower=below{upper}");
        let kept = mount(",upper=changes");
        let line = "cat stack/both stack/one; echo more >> stack/one; rm stack/both; ls stack";
        let output = place.run(&["--mount", &kept], line);
        assert_eq!(out(&output), "aboveoneone\n", "{}", err(&output));
        assert!(
            err(&output).ends_with("openpath: nothing changed\n"),
            "{}",
            err(&output)
        );
        let again = place.run(&["--mount", &kept], "cat stack/one; ls stack");
        assert_eq!(out(&again), "onemore\none\n", "{}", err(&again));
        assert_eq!(place.read("below/one"), "one");
        let fresh = place.run(&["--mount", &mount(",upper=memory:1M")], "cat stack/*");
        assert_eq!(out(&fresh), "aboveone", "{}", err(&fresh));
        let fixed = place.run(&["--mount", &mount("")], "cat stack/one; echo > stack/one");
        assert_eq!(out(&fixed), "one");
        assert!(
            err(&fixed).contains("Read-only file system"),
            "{}",
            err(&fixed)
        );
        let lock = std::fs::File::open(place.dir.join("changes/lock")).unwrap();
        lock.lock().unwrap();
        let taken = place.run(&["--mount", &kept], "true");
        assert_eq!(taken.status.code(), Some(125));
        assert!(err(&taken).contains("is in use"), "{}", err(&taken));
    }
}

#[test]
fn upper_directory_is_locked_by_one_mount_or_run() {
    let Some(place) = Place::new("had-by-one", Who::Caller) else {
        return;
    };
    for dir in ["below", "at", "changes", "changes/commit"] {
        std::fs::create_dir(place.dir.join(dir)).unwrap();
    }
    let (at, below, changes) = (place.path("at"), place.path("below"), place.path("changes"));
    let tree = format!("lower={below},upper={changes}");
    let openpath = |args: &[&str]| place.openpath(args).output().unwrap();
    let mount = || openpath(&["mount", "--daemon", &format!("overlay:{tree}"), &at]);
    let run = || place.run(&["--mount", &format!("{at}=overlay,{tree}")], "true");
    place.write("changes/commit/state", "\"Applying\"");
    let (mounted, ran) = (mount(), run());
    openpath(&["umount", &at]);
    for said in [err(&mounted), err(&ran)] {
        assert!(said.contains("was interrupted"), "{said}");
    }
    std::fs::remove_file(place.dir.join("changes/commit/state")).unwrap();
    let (mounted, ran) = (mount(), run());
    let again = mount();
    assert!(mounted.status.success(), "{}", err(&mounted));
    // What other tests start has this test's descriptors until its exec.
    until("the end of the mount", || {
        openpath(&["umount", &at]).status.success()
    });
    for said in [err(&again), err(&ran)] {
        assert!(said.contains("is in use"), "{said}");
    }
}

#[test]
fn copy_up_ends_when_its_caller_is_killed() {
    for place in Place::all("killed-copy") {
        // If a fast machine copies this size before the kill, a larger size is tried.
        let landed = (28..34).any(|power| {
            let mut file = std::fs::File::create(place.dir.join("large")).unwrap();
            for _ in 0..1 << (power - 20) {
                file.write_all(&[b'x'; 1 << 20]).unwrap();
            }
            place.own("large");
            let line = "timeout -s KILL 0.05 chmod 600 large; echo $?; \
                df --output=used -B 1 . | tail -n 1; tail -c 3 large";
            let output = place.run(&["--upper", "memory:16G"], line);
            let told = out(&output);
            let [status, used, end] = told.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{told} {}", err(&output));
            };
            assert_eq!(end, "xxx");
            // The killed process may outlive the command for a moment, and is then reported.
            let said = err(&output);
            assert!(said.contains("nothing changed\n"), "{said}");
            let used: u64 = used.parse().unwrap();
            if status == "137" {
                assert!(used < 1 << power, "all of it was copied: {used}");
            }
            status == "137"
        });
        assert!(landed);
    }
}

#[test]
fn changes_are_kept_in_a_directory() {
    for place in Place::all("kept") {
        place.write("file", "before");
        place.write("gone", "here");
        let line = "echo after > file; rm gone; mkdir dir; echo x > dir/x; \
            echo x > /tmp/openpath-kept";
        let output = place.run(&["--name", "first"], line);
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(
            (place.read("file"), place.read("gone")),
            ("before".into(), "here".into())
        );
        let again = place.run(&["--name", "first"], "cat file dir/x; ls gone");
        assert_eq!(out(&again), "after\nx\n", "{}", err(&again));
        let other = place.run(&[], "cat file gone");
        assert_eq!(out(&other), "beforehere");
        let list = place.openpath(["list"]).output().unwrap();
        let list = out(&list);
        let mut lines = list.lines();
        assert!(lines.next().unwrap().starts_with("VIEW "), "{list}");
        assert!(lines.next().unwrap().starts_with("first"), "{list}");
        let inside = place.run(
            &["--name", "first"],
            "ls state/openpath/views/first/upper; true",
        );
        assert!(err(&inside).contains("No such file"), "{}", err(&inside));
        let diff = place.openpath(["diff", "first", "."]).output().unwrap();
        let said = out(&diff);
        for part in [
            "-before",
            "+after",
            "-here",
            "+++ /dev/null",
            "new directory mode",
            "+x",
        ] {
            assert!(said.contains(part), "no {part} in {said}{}", err(&diff));
        }
        assert!(!said.contains("openpath-kept") && !said.contains('\x1b'));
        let stat = place
            .openpath(["diff", "--stat", "first", "file"])
            .output()
            .unwrap();
        assert!(out(&stat).ends_with("/file  +1 -1\n"), "{}", out(&stat));
        let json = place
            .openpath(["diff", "--json", "first"])
            .output()
            .unwrap();
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(json["changes"].as_array().unwrap().len() >= 5);
        let discarded = place.openpath(["discard", "first"]).output().unwrap();
        assert!(discarded.status.success(), "{}", err(&discarded));
        assert!(!place.dir.join("state/openpath/views/first").exists());
    }
}

#[test]
fn view_belongs_to_one_run_at_a_time() {
    for place in Place::all("alone") {
        let line = format!(
            "'{}' run --name one -- true; echo $?",
            env!("CARGO_BIN_EXE_openpath")
        );
        let output = place.run(&["--name", "one", "--pass", "state"], &line);
        // Inside the view it is hidden, or in use.
        assert_ne!(out(&output), "0\n", "{}", err(&output));
    }
}

#[test]
fn full_memory_is_reported_and_breaks_nothing_else() {
    for place in Place::all("full") {
        // The room of what is removed is there again a moment later.
        // The room of what is removed is there again a moment later.
        let line = "head -c 10000000 /dev/zero > big; echo status $?; rm big; \
            until echo x > small; do sleep 0.02; done 2> /dev/null; cat small";
        let output = place.run(&["--upper", "memory:1M"], line);
        assert_eq!(out(&output), "status 1\nx\n", "{}", err(&output));
        assert!(err(&output).contains("No space left"), "{}", err(&output));
    }
}

#[test]
fn printed_plan_is_a_valid_config() {
    for place in Place::all("plan") {
        let args = [
            "run",
            "--dry-run",
            "--hide",
            "secret",
            "--upper",
            "memory:1M",
            "true",
        ];
        place.write("secret", "x");
        let printed = place.openpath(args).output().unwrap();
        place.write("plan.toml", &printed.stdout);
        let output = place.run(&["--config", "plan.toml"], "cat secret");
        assert!(err(&output).contains("No such file"), "{}", err(&output));
        place.write("wrong.toml", "write = 1\n");
        let output = place.run(&["--config", "wrong.toml"], "true");
        assert_eq!(output.status.code(), Some(125));
        assert!(err(&output).contains("wrong.toml"));
    }
}

#[test]
fn lsattr_works_and_chattr_does_not_change_the_hosts_file() {
    for place in Place::all("flags") {
        place.write("f", "kept");
        if !place.plain("command -v lsattr chattr").status.success() {
            eprintln!("skipped: no lsattr and chattr here");
            return;
        }
        let before = out(&place.plain("lsattr f"));
        let line =
            "lsattr -d . f && { chattr +i f; lsattr f; rm -f f && echo removed; chattr -i f; }";
        let output = place.run(&[], line);
        let said = out(&output);
        assert!(
            said.starts_with("-----") && said.contains(" f\n"),
            "{said} {}",
            err(&output)
        );
        // An ordinary user may not set the flag, inside or outside.
        let holds = out(&place.plain("id -u")) == "0\n";
        assert_eq!(said.contains("----i-"), holds, "{said} {}", err(&output));
        assert_eq!(said.contains("removed"), !holds, "{said}");
        assert_eq!(out(&place.plain("lsattr f")), before);
        assert_eq!(place.read("f"), "kept");
    }
}

#[test]
fn calls_answered_by_the_kernel_for_a_mount_differ_as_listed() {
    let look = r#"
import os, select, sys
def said(call):
    try:
        return call()
    except OSError as error:
        return error.strerror
file = os.open("f", os.O_RDWR)
print(said(lambda: select.epoll().register(file)))
print(said(lambda: os.lseek(os.open(".", os.O_RDONLY), 0, os.SEEK_END)) == os.stat(".").st_size)
print(said(lambda: os.chown("f", 77, -1)))
"#;
    // They differ in FUSE alone.
    for place in Place::all("listed").map(Place::needs_fuse) {
        place.write("f", "data");
        place.write("look.py", look);
        let root = place.user().is_none();
        let output = place.run(&["-q"], "python3 look.py");
        let chown = if root { "None" } else { "Invalid argument" };
        let want = format!("None\nTrue\n{chown}\n");
        assert_eq!(out(&output), want, "{}", err(&output));
        let outside = out(&place.plain("python3 look.py"));
        assert!(
            outside.starts_with("Operation not permitted\n"),
            "{outside}"
        );
        assert_eq!(
            outside.ends_with("\nOperation not permitted\n"),
            !root,
            "{outside}"
        );
    }
}

/// L150
#[test]
fn changed_directory_counts_no_links() {
    for place in Place::all("dir-links") {
        place.plain("mkdir -p at/one at/two");
        place.own("at");
        let line = "mkdir at/new; stat -c %h at at/one at/new";
        let run = place.run(&["-q"], line);
        assert_eq!(out(&run), "1\n2\n2\n", "{}", err(&run));
    }
}

#[test]
fn locks_below_rw_hold_within_the_view_and_those_below_pass_everywhere() {
    // The kernel's locks of --rw are those of all.
    for place in Place::all("flock").map(Place::needs_fuse) {
        std::fs::create_dir(place.dir.join("shared")).unwrap();
        place.own("shared");
        place.write("shared/lock", "");
        for (option, outside) in [("--rw", "free"), ("--pass", "taken")] {
            let line = "exec 9<>shared/lock; flock 9; flock -n shared/lock true || echo held; \
                read line";
            let mut run = place.openpath(["run", "-q", option, "shared", "--", "sh", "-c", line]);
            run.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut run = run.spawn().unwrap();
            let mut said = BufReader::new(run.stdout.take().unwrap()).lines();
            assert_eq!(said.next().unwrap().unwrap(), "held");
            let tried = place.plain("flock -n shared/lock echo free || echo taken");
            assert_eq!(out(&tried), format!("{outside}\n"), "{option}");
            writeln!(run.stdin.take().unwrap()).unwrap();
            assert!(run.wait().unwrap().success());
        }
    }
}
