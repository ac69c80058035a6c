// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests, as root, views that the kernel's overlayfs serves (`--engine kernel`): their changes,
//! conflicts and commits are the same as with openpath's own engine, and what overlayfs cannot do
//! is refused.

use crate::place::{Place, Who, err, out, until};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

pub(crate) const KERNEL: [&str; 4] = ["-q", "--engine", "kernel", "--name"];

/// A place of root; `None`, with a printed line, where the kernel refuses overlays.
pub(crate) fn root_place(name: &str) -> Option<Place> {
    kernel_place(name, Who::Caller)
}

/// The same of any user.
pub(crate) fn kernel_place(name: &str, who: Who) -> Option<Place> {
    let place = Place::new(name, who)?;
    let probe = place.run(&[&KERNEL[..], &["probe"]].concat(), "true");
    if err(&probe).contains("the kernel refuses an overlay") {
        eprintln!("skipped: {}", err(&probe));
        return None;
    }
    assert!(probe.status.success(), "{}", err(&probe));
    let gone = place.openpath(["discard", "probe"]).output().unwrap();
    assert!(gone.status.success(), "{}", err(&gone));
    Some(place)
}

pub(crate) fn kernel(place: &Place, line: &str) -> Output {
    place.run(&[&KERNEL[..], &["view"]].concat(), line)
}

pub(crate) fn commit(place: &Place, options: &[&str]) -> Output {
    let args = ["commit", "view"].iter().chain(options);
    place.openpath(args).output().unwrap()
}

/// A run in the kept view whose command has printed `ready`, and waits for the end of its input.
pub(crate) struct Started {
    pub(crate) run: Child,
    said: ChildStdout,
}

impl Started {
    pub(crate) fn new(place: &Place, command: [&str; 3]) -> Started {
        let all = [&["run"], &KERNEL[..], &["view", "--"], &command].concat();
        Started::of(place, all)
    }

    /// The same with these arguments of `openpath`.
    pub(crate) fn of(place: &Place, args: Vec<&str>) -> Started {
        Started::by(place.openpath(args))
    }

    /// The same of a command.
    pub(crate) fn by(mut run: Command) -> Started {
        let run = run.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = run.stdout.take().unwrap();
        let mut ready = [0; 6];
        if said.read_exact(&mut ready).is_err() {
            panic!("{}", err(&run.wait_with_output().unwrap()));
        }
        assert_eq!(&ready, b"ready\n");
        Started { run, said }
    }

    /// Lets the command go on; returns the exit status and the messages.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.run.stdin.take());
        let ended = self.run.wait_with_output().unwrap();
        (ended.status.code(), err(&ended))
    }

    /// Lets the command go on; returns what it says until its end.
    pub(crate) fn finish(mut self) -> String {
        drop(self.run.stdin.take());
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        assert!(self.run.wait().unwrap().success());
        said
    }
}

/// Runs a line in the kept view; `meanwhile` happens outside once the line has said `ready`.
fn beside(place: &Place, line: &str, meanwhile: &str) {
    let started = Started::new(place, ["sh", "-c", line]);
    let done = place.plain(meanwhile);
    assert!(done.status.success(), "{}", err(&done));
    started.finish();
}

#[test]
fn changes_are_the_same_with_both_engines() {
    let line = "echo more >> file; rm gone; mkdir -p made/in; echo x > made/in/f; chmod 600 mode; \
        ln -s file link; mkfifo fifo; rm -r dir; mkdir dir; echo y > dir/new; truncate -s 1M holes";
    let mut seen = Vec::new();
    for engine in ["fuse", "kernel"] {
        let Some(place) = root_place("engines") else {
            return;
        };
        place.plain("mkdir dir; for f in file gone mode dir/a dir/b; do echo $f > $f; done");
        let before = out(&place.plain("ls -lR"));
        let json = place.run(&["--engine", engine, "--json"], line);
        assert!(json.status.success(), "{}", err(&json));
        assert_eq!(out(&place.plain("ls -lR")), before, "the real tree");
        let text = err(&json).replace(&place.path(""), "");
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        seen.push(value["changes"].take());
    }
    assert!(seen[0].as_array().unwrap().len() > 8, "{}", seen[0]);
    assert_eq!(seen[0], seen[1]);
}

/// The changes of the kept view, by path: the kind of each, with the old path of a rename.
fn kinds(place: &Place) -> Vec<(String, String)> {
    let diff = place.openpath(["diff", "view", "--json"]).output().unwrap();
    assert!(diff.status.success(), "{}", err(&diff));
    let text = out(&diff).replace(&place.path(""), "");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let all = value["changes"].as_array().unwrap().iter();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let kind = |change: &serde_json::Value| word(&change["change"]) + " " + &word(&change["from"]);
    all.map(|change| (word(&change["path"]), kind(change).trim_end().to_owned()))
        .collect()
}

/// The kernel marks a copy with a handle of the file that it is of, our overlay with its number.
#[test]
fn renamed_files_are_listed_alike_by_both_engines() {
    let line = "mv a moved; mv b dir/in; echo more >> dir/in; mv c over; chmod 600 over; \
        mv x t; mv y x; mv t y; mkdir new; mv d new/d; ln e e2; mv f g; echo other > f; \
        mv h i; ln i j; mv linked elsewhere; mv one two; mv two three; mv k l; rm l; \
        mv m n; mv n m; mv p q; ln -s q p; mv s/t s/u; rm s/u";
    let mut seen = Vec::new();
    for engine in ["fuse", "kernel"] {
        let Some(place) = root_place("renames") else {
            return;
        };
        let files = "mkdir dir s; for f in a b c d e f h k m p x y over linked one s/t; do \
            echo $f > $f; done; ln linked also";
        place.plain(files);
        let run = place.run(&["-q", "--engine", engine, "--name", "view"], line);
        assert!(run.status.success(), "{}", err(&run));
        seen.push(kinds(&place));
    }
    let renamed = seen[0]
        .iter()
        .filter(|(_, kind)| kind.starts_with("renamed"));
    assert!(renamed.count() > 8, "{:?}", seen[0]);
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn renamed_files_are_committed_and_undone() {
    let Some(place) = root_place("renames-commit") else {
        return;
    };
    place.plain("mkdir d; echo 1 > a; echo 2 > b; echo 3 > over; echo 4 > linked; ln linked also");
    let files =
        "find . -path ./state -prune -o -type f -printf '%p %i %T@ ' -exec cat {} \\; | sort";
    let before = out(&place.plain(files));
    let run = kernel(
        &place,
        "mv a d/a; mv b over; echo more >> over; mv linked d/linked",
    );
    assert!(run.status.success(), "{}", err(&run));
    let listed = [
        ("d/a", "renamed a"),
        ("d/linked", "added"),
        ("linked", "deleted"),
        ("over", "renamed b"),
    ];
    let listed = listed.map(|(path, kind)| (path.to_owned(), kind.to_owned()));
    assert_eq!(kinds(&place), listed);
    let half = commit(&place, &["d/a"]);
    assert!(
        err(&half).contains("the other half of a rename"),
        "{}",
        err(&half)
    );
    let done = commit(&place, &[]);
    assert!(done.status.success(), "{}", err(&done));
    assert_eq!(
        out(&place.plain("ls . d | grep -v state; cat d/a over d/linked also")),
        ".:\nalso\nd\nover\n\nd:\na\nlinked\n1\n2\nmore\n4\n4\n"
    );
    assert_eq!(kinds(&place), []);
    let undone = commit(&place, &["--undo"]);
    assert!(undone.status.success(), "{}", err(&undone));
    assert_eq!(out(&place.plain(files)), before);
    assert_eq!(kinds(&place), listed);
    let again = commit(&place, &[]);
    assert!(again.status.success(), "{}", err(&again));
    assert_eq!(place.read("over"), "2\nmore\n");
}

/// In doubt, a file is none that was renamed: the number of the old file is not enough.
#[test]
fn file_is_listed_as_renamed_only_if_the_old_one_is_certain() {
    let Some(place) = root_place("renames-doubt") else {
        return;
    };
    place.plain("echo 1 > linked; echo 2 > reused; echo 3 > changed; echo 4 > gone");
    assert!(kernel(&place, "mv reused r").status.success());
    // One of these gets the number of the removed file.
    place.plain("rm reused; sleep 0.05; for n in $(seq 100); do echo $n > n$n; done");
    beside(
        &place,
        "mv linked l; mv changed c; mv gone g; rm n*; echo ready; read x; true",
        "ln linked link; echo more >> changed; rm gone",
    );
    let all = kinds(&place);
    let kind = |path: &str| {
        all.iter()
            .find(|(one, _)| one == path)
            .map(|(_, kind)| &kind[..])
    };
    assert_eq!(kind("l"), Some("added"));
    assert_eq!(kind("linked"), Some("deleted"));
    assert_eq!(kind("c"), Some("renamed changed"));
    assert_eq!(kind("g"), Some("added"));
    assert_eq!(kind("r"), Some("added"));
    let done = commit(&place, &["changed", "c"]);
    assert_eq!(done.status.code(), Some(1), "{}{}", out(&done), err(&done));
    assert!(out(&done).contains("/changed: "), "{}", out(&done));
    assert_eq!(place.read("changed"), "3\nmore\n");
}

#[test]
fn view_goes_on_with_either_engine_and_is_committed_and_undone() {
    let Some(place) = root_place("either") else {
        return;
    };
    let files = "find . -path ./state -prune -o -print | sort; cat file dir/a";
    place.plain("mkdir dir; echo 1 > file; echo 2 > gone; echo 3 > dir/a");
    let before = out(&place.plain(files));
    assert!(
        kernel(&place, "echo k >> file; rm gone; mkdir new")
            .status
            .success()
    );
    let fuse = place.run(
        &["-q", "--name", "view"],
        "echo f >> file; echo f >> dir/a; ls -I state",
    );
    assert_eq!(out(&fuse), "dir\nfile\nnew\n", "{}", err(&fuse));
    let again = kernel(&place, "cat file; echo k >> dir/a; rmdir new");
    assert_eq!(out(&again), "1\nk\nf\n", "{}", err(&again));
    let done = commit(&place, &[]);
    assert!(done.status.success(), "{}", err(&done));
    assert_eq!(place.read("file"), "1\nk\nf\n");
    assert_eq!(place.read("dir/a"), "3\nf\nk\n");
    assert!(!Path::new(&place.path("gone")).exists());
    assert!(commit(&place, &["--undo"]).status.success());
    assert_eq!(out(&place.plain(files)), before);
    let gone = place.openpath(["discard", "view"]).output().unwrap();
    assert!(gone.status.success(), "{}", err(&gone));
    assert_eq!(out(&place.plain("ls state/openpath/views")), "");
}

/// overlayfs copies the file that it has looked up, though others have replaced it meanwhile: the
/// copy is younger than their file.
#[test]
fn file_replaced_by_others_before_copy_up_is_a_conflict() {
    let Some(place) = root_place("replaced-lower") else {
        return;
    };
    place.write("file", "old\n");
    let line = "cat file > /dev/null; echo ready; read x; echo view >> file; cat file > seen";
    beside(&place, line, "echo saved > new && mv new file");
    let done = commit(&place, &[]);
    assert_eq!(done.status.code(), Some(1), "{}", err(&done));
    assert!(
        out(&done).contains("/file: modified in the view"),
        "{}",
        out(&done)
    );
    assert_eq!(place.read("file"), "saved\n");
    // No later run lets the begin of this one be forgotten.
    for engine in ["fuse", "kernel"] {
        let run = place.run(&["-q", "--engine", engine, "--name", "view"], "true");
        assert!(run.status.success(), "{}", err(&run));
        assert_eq!(commit(&place, &[]).status.code(), Some(1), "{engine}");
    }
    assert_eq!(place.read("file"), "saved\n");
}

/// All whiteouts of an overlay of the kernel are names of one inode, so its times are those of the
/// last removal.
#[test]
fn file_changed_by_others_after_its_removal_is_a_conflict() {
    let Some(place) = root_place("whiteouts-share") else {
        return;
    };
    place.plain("echo 1 > one; echo 2 > two");
    beside(
        &place,
        "rm one; echo ready; read x; rm two",
        "echo more >> one; sleep 0.05",
    );
    let done = commit(&place, &[]);
    assert_eq!(done.status.code(), Some(1), "{}", err(&done));
    assert!(
        out(&done).contains("/one: deleted in the view"),
        "{}",
        out(&done)
    );
    assert_eq!(place.read("one"), "1\nmore\n");
}

#[test]
fn file_removed_by_others_is_a_conflict_and_one_moved_in_the_view_is_not() {
    let Some(place) = root_place("removed-lower") else {
        return;
    };
    place.plain("mkdir d e; echo 1 > d/one; echo 2 > e/two");
    beside(
        &place,
        "echo ready; read x; echo x >> d/one; mv e/two e/other",
        "true",
    );
    place.plain("rm d/one");
    let done = commit(&place, &[]);
    assert_eq!(done.status.code(), Some(1), "{}", err(&done));
    assert!(out(&done).contains("/d/one"), "{}", out(&done));
    assert!(!out(&done).contains("/e/other"), "{}", out(&done));
    assert!(!Path::new(&place.path("d/one")).exists());
    let rest = commit(&place, &["e"]);
    assert!(rest.status.success(), "{}{}", out(&rest), err(&rest));
    assert_eq!(place.read("e/other"), "2\n");
}

/// The view removes names in a directory in which others make some, and in one that they replace.
#[test]
fn directory_that_others_replace_is_a_conflict_and_one_that_they_change_is_not() {
    let Some(place) = root_place("lower-dirs") else {
        return;
    };
    place.plain("mkdir -p kept/in swapped; echo 1 > kept/in/a; echo 1 > swapped/a");
    place.plain("mkdir other; echo other > other/a; sleep 0.05");
    let line = "ls -R > /dev/null; rm kept/in/a swapped/a; echo ready; read x; true";
    beside(
        &place,
        line,
        "echo 2 > kept/in/b; mv swapped away; mv other swapped",
    );
    let done = commit(&place, &[]);
    assert_eq!(done.status.code(), Some(1), "{}", err(&done));
    assert!(out(&done).contains("/swapped: "), "{}", out(&done));
    assert!(!out(&done).contains("/kept"), "{}", out(&done));
    assert_eq!(place.read("swapped/a"), "other\n");
    let rest = commit(&place, &["kept"]);
    assert!(rest.status.success(), "{}{}", out(&rest), err(&rest));
    assert_eq!(out(&place.plain("ls kept/in")), "b\n");
}

#[test]
fn killed_run_loses_no_change_and_no_conflict() {
    let Some(place) = root_place("killed-kernel") else {
        return;
    };
    place.plain("echo old > file; echo old > other");
    let line = "cat file > /dev/null; echo x >> other; echo ready; sleep 100";
    let mut started = Started::new(&place, ["sh", "-c", line]);
    place.plain("echo saved >> other");
    started.run.kill().unwrap();
    started.run.wait().unwrap();
    until("the view is free", || {
        let diff = place.openpath(["diff", "view"]).output().unwrap();
        out(&diff).contains("+x")
    });
    let done = commit(&place, &[]);
    assert_eq!(done.status.code(), Some(1), "{}", err(&done));
    assert_eq!(place.read("other"), "old\nsaved\n");
}

#[test]
#[ignore = "slow: 13 s"]
fn view_that_a_process_outside_still_uses_is_not_read() {
    let Some(place) = root_place("kernel-used") else {
        return;
    };
    let line = "echo x > made; echo ready; cat";
    let started = Started::new(&place, ["sh", "-c", line]);
    let made = place.path("made");
    let inside = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let mut roots = all.map(|entry| entry.path().join("root"));
        roots.find(|root| root.join(&made[1..]).exists())
    };
    let mut user = Command::new("sleep");
    let user = user.arg("600").current_dir(inside().unwrap().join("tmp"));
    let mut user = user.stdin(Stdio::null()).spawn().unwrap();
    until("the process is outside with its directory inside", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", user.id()));
        name.is_ok_and(|name| name == "sleep\n")
    });
    let (code, said) = started.end();
    let uses = [["diff", "view"], ["commit", "view"], ["discard", "view"]];
    let refused = uses.map(|args| place.openpath(args).output().unwrap());
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(code, Some(0), "{said}");
    let users = format!("process {} (sleep) still uses the view", user.id());
    assert!(said.contains(&users), "{said}");
    for refused in refused {
        assert!(
            err(&refused).contains("outlived a run"),
            "{}",
            err(&refused)
        );
    }
    let diff = place.openpath(["diff", "view"]).output().unwrap();
    assert!(out(&diff).contains("+x"), "{}", err(&diff));
    let done = commit(&place, &[]);
    assert!(done.status.success(), "{}", err(&done));
    assert_eq!(place.read("made"), "x\n");
}

#[test]
fn places_of_mounts_are_no_changes() {
    let Some(place) = root_place("kernel-places") else {
        return;
    };
    place.plain("mkdir -p deep/at deep/kept");
    let line = "mount -t tmpfs none deep/at && mount -t tmpfs none deep/kept && \
        \"$OPENPATH\" run --engine kernel --name view -- sh -c \
        'chmod 700 deep/kept; echo x > file' 2>&1; umount deep/at deep/kept; \
        find state -path '*/upper/*' -type d | grep deep";
    let output = apart(&place, line);
    let said = out(&output);
    assert!(
        said.contains("deep/kept") && said.contains("file"),
        "{said}"
    );
    assert!(!said.contains("deep/at"), "{said} {}", err(&output));
}

#[test]
fn auto_takes_the_kernel_where_it_holds_all_that_is_asked_for() {
    let Some(place) = root_place("auto") else {
        return;
    };
    let engine = |place: &Place, options: &[&str], line: &str| {
        let run = place.run(&[&["--engine", "auto", "--json"], options].concat(), line);
        assert!(run.status.success(), "{}", err(&run));
        let told: serde_json::Value = serde_json::from_str(&err(&run)).unwrap();
        told["engine"].as_str().unwrap().to_owned()
    };
    place.write("file", "");
    assert_eq!(engine(&place, &[], "true"), "kernel");
    assert_eq!(engine(&place, &["--ro", "file"], "true"), "fuse");
    assert_eq!(engine(&place, &["--live"], "true"), "fuse");
    assert_eq!(engine(&place, &["--hide", "file"], "true"), "fuse");
    assert_eq!(
        engine(&place, &["--hide-try", "/root/none"], "true"),
        "fuse"
    );
    assert_eq!(engine(&place, &["--log", "log"], "true"), "fuse");
    let named = ["--name", "view"];
    assert_eq!(engine(&place, &named, "echo x > file"), "kernel");
    // Known only when the view is opened: a device 0:0 is a whiteout to the kernel.
    let made = place.run(&["--engine", "fuse", "--name", "view"], "mknod null c 0 0");
    assert!(made.status.success(), "{}", err(&made));
    assert_eq!(engine(&place, &named, "cat file; rm null"), "fuse");
    assert_eq!(engine(&place, &named, "cat file"), "kernel");
    let dry = |options: &[&str]| {
        let run = place.run(
            &[&["--engine", "auto", "--dry-run"], options].concat(),
            "true",
        );
        out(&run)
    };
    assert!(dry(&[]).contains("# auto: the kernel serves the view"));
    let why = "# auto: fuse serves the view, because --locks needs the engine fuse\n";
    assert!(dry(&["--locks"]).contains(why), "{}", dry(&["--locks"]));
    if let Some(place) = Place::new("auto-user", Who::Ordinary) {
        assert_eq!(engine(&place, &[], "true"), "fuse");
    }
}

#[test]
fn kept_read_only_rule_holds_with_the_kernel() {
    let Some(place) = root_place("kernel-kept-ro") else {
        return;
    };
    place.write("file", "");
    let first = place.run(
        &["--engine", "fuse", "--name", "view", "--ro", "file"],
        "true",
    );
    assert!(first.status.success(), "{}", err(&first));
    let next = kernel(&place, "echo x > file; echo y > other");
    assert!(
        err(&next).contains("Read-only file system"),
        "{}",
        err(&next)
    );
    // The view has no such path, so nothing could be mounted there.
    std::fs::remove_file(place.dir.join("file")).unwrap();
    let refused = kernel(&place, "echo ran");
    assert_eq!(
        (out(&refused), refused.status.code()),
        (String::new(), Some(125))
    );
    assert!(
        err(&refused).contains("no mount and no rule in it"),
        "{}",
        err(&refused)
    );
    let auto = place.run(
        &["--engine", "auto", "--name", "view"],
        "echo x > file; cat other",
    );
    assert_eq!(out(&auto), "y\n", "{}", err(&auto));
    assert!(!place.dir.join("file").exists());
}

#[test]
fn rules_that_overlayfs_cannot_hold_are_refused() {
    let Some(place) = root_place("kernel-rules") else {
        return;
    };
    place.write("file", "");
    let rules: [&[&str]; 7] = [
        &["--live"],
        &["--rw", ".", "--ro", "file"],
        &["--locks"],
        &["--log", "log"],
        &["--no-rings"],
        &["--share", "pid"],
        &["--upper", "memory:0"],
    ];
    for rule in rules {
        let refused = place.run(&[&["--engine", "kernel"], rule].concat(), "echo ran");
        assert_eq!(refused.status.code(), Some(125), "{rule:?}");
        assert!(
            err(&refused).contains("needs the engine fuse"),
            "{}",
            err(&refused)
        );
        assert_eq!(out(&refused), "");
    }
    // They hold beside a part, and there is none.
    for rule in [
        ["--hide", "file"],
        ["--hide-try", "none"],
        ["--absent", "*.pem"],
        ["--ro-try", "none"],
    ] {
        let refused = place.run(&[&["--engine", "kernel"][..], &rule].concat(), "echo ran");
        assert_eq!(refused.status.code(), Some(125), "{rule:?}");
        assert!(
            err(&refused).contains("no mount and no rule in it"),
            "{}",
            err(&refused)
        );
        assert_eq!(out(&refused), "");
    }
}

/// Above a mount of the host, or at it, the view has a directory of its own.
#[test]
fn view_that_replaced_the_place_of_a_mount_is_refused() {
    let Some(place) = root_place("replaced-place") else {
        return;
    };
    place.plain("mkdir -p top/m");
    let line = "mount -t tmpfs none top/m; echo host > top/m/old; \
        \"$OPENPATH\" run -q --engine fuse --name own-place -- \
            sh -c 'rm -rf top/m; rm -r top; mkdir -p top/m'; \
        \"$OPENPATH\" run -q --engine kernel --name own-place -- ls top/m; echo $?; \
        \"$OPENPATH\" discard own-place";
    let output = apart(&place, line);
    assert_eq!(out(&output), "125\n", "{}", err(&output));
    assert!(
        err(&output).contains("removed or replaced"),
        "{}",
        err(&output)
    );
}

#[test]
fn protected_and_written_through_paths_are_as_with_fuse() {
    let Some(place) = root_place("kernel-paths") else {
        return;
    };
    place.plain("mkdir -p ro/rw real; echo 1 > ro/file; echo 1 > real/file");
    let options = [&KERNEL[..], &["view", "--ro", "ro", "--rw", "real"]].concat();
    let line = "echo x >> ro/file; mv ro moved; rm -r ro; echo x >> real/file; \
        mv real/file real/f; \
        mkdir -p state/openpath/views; mv state s; ls state/openpath";
    let ran = place.run(&options, line);
    assert_eq!(out(&ran), "", "{}", err(&ran));
    assert!(
        err(&ran).contains("ro/file: Read-only file system"),
        "{}",
        err(&ran)
    );
    assert_eq!(place.read("real/f"), "1\nx\n");
    assert_eq!(place.read("ro/file"), "1\n");
}

#[test]
fn commands_enter_a_view_that_the_kernel_serves() {
    let Some(place) = root_place("kernel-exec") else {
        return;
    };
    let line = "echo inside > file; echo ready; read x || true";
    let started = Started::new(&place, ["sh", "-c", line]);
    let pid = started.run.id().to_string();
    let mut entered = place.openpath(["exec", &pid, "--", "cat", "file"]);
    let entered = entered.output().unwrap();
    assert_eq!(out(&entered), "inside\n", "{}", err(&entered));
    let listed = place.openpath(["list"]).output().unwrap();
    let runs = format!("runs: {pid}");
    assert!(out(&listed).contains(&runs), "{}", out(&listed));
    let locks = place.openpath(["locks", &pid]).output().unwrap();
    assert!(err(&locks).contains("lslocks"), "{}", err(&locks));
    started.finish();
    assert_eq!(place.read("file"), "");
}

/// Runs a shell's line in a mount namespace of its own.
pub(crate) fn apart(place: &Place, line: &str) -> Output {
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "sh", "-c", line]);
    apart.current_dir(&place.dir);
    apart.env("OPENPATH", env!("CARGO_BIN_EXE_openpath"));
    apart.env("XDG_STATE_HOME", place.path("state"));
    apart.output().unwrap()
}

#[test]
fn view_without_room_for_names_is_listed_and_discarded() {
    let Some(place) = root_place("no-names") else {
        return;
    };
    place.plain("mkdir small");
    for engine in ["kernel", "fuse"] {
        let line = format!(
            "mount -t tmpfs -o size=4M,nr_inodes=400 none small; V=$PWD/small/view; \
            \"$OPENPATH\" run --engine {engine} --upper $V -- \
                sh -c 'i=0; while : > f$i; do i=$((i+1)); done' 2> said; \
            grep -o '[0-9]* changes' said; grep 'not known' said; \
            \"$OPENPATH\" diff --stat $V > diff; echo $?; wc -l < diff; \
            \"$OPENPATH\" run -q --upper $V -- cat f0; echo $?; \
            \"$OPENPATH\" discard $V; echo $?; ls small; umount small"
        );
        let output = apart(&place, &line);
        let said = out(&output);
        let lines: Vec<_> = said.lines().collect();
        let [told, "0", listed, "0", "0"] = lines[..] else {
            panic!("{engine}: {said}{}{}", err(&output), place.read("said"));
        };
        assert!(told.starts_with('3') && told.ends_with("changes"), "{said}");
        assert!(listed.parse::<u32>().unwrap() > 300, "{engine}: {said}");
    }
}

/// L142
#[test]
fn mount_of_a_file_is_read_only() {
    let Some(place) = root_place("file-mount") else {
        return;
    };
    place.plain("echo real > file; echo other > other");
    let line = "mount --bind other file; exec \"$OPENPATH\" run -q --engine kernel -- \
        sh -c 'cat file; echo x >> file; echo x >> other; cat other'";
    let output = apart(&place, line);
    assert_eq!(out(&output), "other\nother\nx\n", "{}", err(&output));
    assert!(
        err(&output).contains("file: Read-only file system"),
        "{}",
        err(&output)
    );
    assert_eq!(place.read("other"), "other\n");
}

/// L142, with a mount of which only overlayfs knows that it takes no further one.
#[test]
fn auto_falls_back_where_overlayfs_refuses_the_working_directory() {
    let Some(place) = root_place("third-overlay") else {
        return;
    };
    place.plain("mkdir own");
    let overlay = "mkdir $1/l $1/u $1/w; echo old > $1/l/old; \
        mount -t overlay -o lowerdir=${2:-$1/l},upperdir=$1/u,workdir=$1/w none $3";
    let line = format!(
        "mount -t tmpfs none own; mkdir own/1 own/2 own/m own/n; over() {{ {overlay}; }}; \
         over own/1 '' own/m && over own/2 own/m own/n && cd own/n && \
         \"$OPENPATH\" run -q --engine kernel -- sh -c 'echo x > new'; \
         \"$OPENPATH\" run -q -- sh -c 'echo x > new; cat new old'; ls; \
         cd ..; umount n m"
    );
    let output = apart(&place, &line);
    assert_eq!(out(&output), "x\nold\nold\n", "{}", err(&output));
    assert!(err(&output).contains("Read-only"), "{}", err(&output));
}

/// L142
#[test]
fn auto_means_fuse_where_the_working_directory_would_be_read_only() {
    let Some(place) = root_place("fuse-below") else {
        return;
    };
    place.plain("mkdir own");
    let line = "{ \"$OPENPATH\" mount mem own & } && \
        until mountpoint -q own; do sleep 0.01; done; cd own && \
        \"$OPENPATH\" run --dry-run -- true | grep '# auto'; \
        \"$OPENPATH\" run -q -- sh -c 'echo x > new && cat new'; ls; cd .. && umount own && wait";
    let output = apart(&place, line);
    let own = place.dir.join("own");
    let want = format!(
        "# auto: fuse serves the view, because the working directory is in {} (fuse.openpath), \
         which no overlay of the kernel's can show writable\nx\n",
        own.display()
    );
    assert_eq!(out(&output), want, "{}", err(&output));
}

/// L142
#[test]
fn mounts_that_lead_out_or_do_not_answer_are_not_shown() {
    let Some(place) = root_place("odd-mounts") else {
        return;
    };
    place.plain("mkdir proc dead hidden; echo below > dead/below; echo below > ns");
    let line = "mount -t proc none proc && mount --bind /proc/self/ns/net ns && \
        { \"$OPENPATH\" mount mem dead & } && \
        until mountpoint -q dead; do sleep 0.01; done && kill -9 $! && wait; \
        exec \"$OPENPATH\" run -q --engine kernel -- sh -c 'ls proc; cat ns dead/below; \
        for at in ns dead/new proc/new; do echo x > $at; done'";
    let output = apart(&place, line);
    assert_eq!(out(&output), "below\nbelow\n", "{}", err(&output));
    let refused = err(&output).matches("Read-only file system").count();
    assert_eq!(refused, 3, "{}", err(&output));
    assert_eq!(place.read("ns"), "below\n");
}
