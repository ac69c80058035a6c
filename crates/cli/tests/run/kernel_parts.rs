// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests views of an ordinary user of which the kernel's overlay serves a part (`--engine kernel`):
//! their changes, conflicts and commits are the same as with our mount alone.

use crate::kernel_engine::{KERNEL, Started, commit, kernel, kernel_place};
use crate::kernel_marks::done;
use crate::place::{GROUP, OPENPATH, Place, Who, err, out, until};
use std::io::Read as _;
use std::process::{Command, Output, Stdio};

pub(crate) fn user_place(name: &str) -> Option<Place> {
    kernel_place(name, Who::Ordinary)
}

pub(crate) fn fuse(place: &Place, line: &str) -> Output {
    place.run(&["-q", "--engine", "fuse", "--name", "view"], line)
}

/// The changes of the kept view without what differs from run to run.
fn changes(place: &Place) -> serde_json::Value {
    let diff = place.openpath(["diff", "view", "--json"]).output().unwrap();
    let text = done(&diff).replace(&place.path(""), "");
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["changes"].take()
}

/// Entries of all kinds, with modes that only the owner's capabilities can read.
const LINE: &str = "cd p; echo more >> file; rm gone; mkdir -p made/in; echo x > made/in/f; \
    chmod 600 mode; ln -s file link; mkfifo fifo; rm -r dir; mkdir dir; echo y > dir/new; \
    truncate -s 1M holes; ln file second; echo z > zero; chmod 0 zero; echo r > read; \
    chmod 444 read; mkdir shut; echo i > shut/in; chmod 555 shut; mkdir closed; \
    echo c > closed/in; chmod 0 closed; echo s > suid; chmod 6755 suid; mv file moved; \
    touch -d 2001-02-03 old";

/// The tests that commit work in `p`: each command of an ordinary user changes the names above.
const FILES: &str =
    "mkdir p; cd p; mkdir dir; for f in file gone mode old dir/a dir/b; do echo $f > $f; done";

#[test]
fn changes_are_the_same_with_both_engines() {
    let mut seen = Vec::new();
    for run in [fuse, kernel] {
        let Some(place) = user_place("parts-engines") else {
            return;
        };
        done(&place.plain(FILES));
        let before = done(&place.plain("cd p; ls -l . dir; cat file old"));
        done(&run(&place, LINE));
        assert_eq!(
            done(&place.plain("cd p; ls -l . dir; cat file old")),
            before
        );
        let listed = changes(&place);
        done(&commit(&place, &[]));
        let real = "cd p; find . -printf '%p %M %n %s %l\\n' | sort; \
            chmod 700 closed zero; cat moved second zero read shut/in closed/in suid";
        seen.push((listed, done(&place.plain(real))));
    }
    assert!(seen[0].0.as_array().unwrap().len() > 12, "{}", seen[0].0);
    let text = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap();
    // What the kernel marks for an ordinary user does not tell which file was renamed.
    let without_renames = |value: &serde_json::Value| {
        let text = text(value);
        text.matches("\"change\"").count()
    };
    assert_eq!(seen[0].1, seen[1].1, "committed");
    assert_eq!(
        without_renames(&seen[0].0) + 1,
        without_renames(&seen[1].0),
        "{}\n{}",
        text(&seen[0].0),
        text(&seen[1].0)
    );
}

#[test]
fn kernel_serves_the_part_and_our_mount_the_rest() {
    let Some(place) = user_place("parts-which") else {
        return;
    };
    done(&place.plain("mkdir sub"));
    let types = "stat -f -c %T . sub / /usr; touch here; mktemp -u /tmp/x.XXXX > name; \
        echo beside > $(cat name); cat $(cat name)";
    let said = done(&kernel(&place, types));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[..2], ["overlayfs", "overlayfs"], "{said}");
    assert!(
        lines[2].contains("fuse") && lines[3].contains("fuse"),
        "{said}"
    );
    assert_eq!(lines[4], "beside");
    let beside = "sh -c 'cat $(cat name)'";
    assert_eq!(done(&kernel(&place, beside)), "beside\n");
    let listed = changes(&place).to_string();
    assert!(
        listed.contains("\"here\"") && listed.contains("/tmp/x."),
        "{listed}"
    );
}

#[test]
fn view_goes_on_with_either_engine() {
    let Some(place) = user_place("parts-go-on") else {
        return;
    };
    done(&place.plain(FILES));
    done(&kernel(&place, LINE));
    let listed = changes(&place);
    let look = "cd p; find . -printf '%p %M %n %s %l\\n' | sort; \
        cat moved second read shut/in dir/new made/in/f; ls gone dir/a; cat zero closed/in; true";
    let first = done(&kernel(&place, look));
    assert_eq!(done(&fuse(&place, look)), first);
    assert_eq!(changes(&place), listed);
    let more = "cd p; chmod 640 zero; cat zero; chmod 755 closed; cat closed/in; rm second; \
        chmod 644 read; echo again >> read; echo new > gone; mkfifo pipe; rm old; rmdir dir 2>&1; \
        rm -r made";
    let said = done(&fuse(&place, more));
    assert!(said.starts_with("z\nc\n"), "{said}");
    let fuse_look = done(&fuse(&place, look));
    assert_eq!(done(&kernel(&place, look)), fuse_look);
    done(&kernel(
        &place,
        "cd p; echo kernel >> read; ! test -e old && ! test -e made && test -p pipe",
    ));
    done(&commit(&place, &[]));
    assert_eq!(place.read("p/read"), "r\nagain\nkernel\n");
    assert_eq!(place.read("p/gone"), "new\n");
    assert_eq!(
        done(&place.plain("cd p; stat -c %a closed zero; ls -d made old 2>/dev/null; true")),
        "755\n640\n"
    );
}

#[test]
fn commit_and_undo_bring_back_what_was_there() {
    let Some(place) = user_place("parts-undo") else {
        return;
    };
    done(&place.plain(FILES));
    let all = "cd p; find . -type f -printf '%p %m %T@ ' -exec cat {} \\; | sort";
    let before = done(&place.plain(all));
    done(&kernel(&place, &format!("{LINE}; chmod 755 closed")));
    let listed = changes(&place);
    done(&commit(&place, &[]));
    assert_eq!(changes(&place).as_array().unwrap().len(), 0);
    done(&commit(&place, &["--undo"]));
    assert_eq!(done(&place.plain(all)), before);
    assert_eq!(changes(&place), listed);
    done(&commit(&place, &[]));
    assert_eq!(place.read("p/moved"), "file\nmore\n");
}

/// Runs a line in the kept view; `meanwhile` happens outside once the line has said `ready`.
fn beside(place: &Place, line: &str, meanwhile: &str) {
    let started = Started::new(place, ["sh", "-c", line]);
    done(&place.plain(meanwhile));
    started.finish();
}

#[test]
fn changes_by_others_during_the_run_are_conflicts() {
    let Some(place) = user_place("parts-conflicts") else {
        return;
    };
    for (line, meanwhile) in [
        ("echo view >> file", "echo other > new; mv new file"),
        ("echo view >> file", "echo other >> file"),
        ("true", "rm early"),
        ("rm file", "echo other >> file"),
        ("rm file", "echo other > new; mv new file"),
        ("rm -r dir", "echo other > dir/late"),
        ("mv file moved", "echo other > new; mv new file"),
        ("chmod 600 file", "chmod 640 file"),
        ("echo view > made", "echo other > made"),
    ] {
        done(&place.plain(
            "rm -rf p; mkdir -p p/dir; cd p; echo e > early; echo base > file; \
             echo in > dir/in; sleep 0.02",
        ));
        let line =
            format!("cd p; cat file dir/in >&2; echo view >> early; echo ready; cat; {line}");
        beside(&place, &line, &format!("cd p; {meanwhile}"));
        let before = done(&place.plain("cd p; ls -l; cat file dir/late made 2>/dev/null; true"));
        let refused = commit(&place, &[]);
        assert_eq!(
            refused.status.code(),
            Some(1),
            "{line}: {meanwhile}: {}",
            err(&refused)
        );
        let after = done(&place.plain("cd p; ls -l; cat file dir/late made 2>/dev/null; true"));
        assert_eq!(after, before, "{line}: {meanwhile}");
        done(&place.openpath(["discard", "view"]).output().unwrap());
    }
}

/// A change of others to what our mount serves is no conflict before the view takes the file.
#[test]
fn only_the_part_counts_as_taken_when_the_run_began() {
    let Some(place) = user_place("parts-begun") else {
        return;
    };
    let beside_part = place.dir.with_extension("beside");
    std::fs::write(&beside_part, "base\n").unwrap();
    std::os::unix::fs::chown(&beside_part, place.user(), place.user()).unwrap();
    let name = beside_part.display().to_string();
    let line = format!("echo ready; cat; echo view >> {name}");
    beside(
        &place,
        &line,
        &format!("sleep 0.02; echo other >> {name}; sleep 0.02"),
    );
    let done_or_not = commit(&place, &[]);
    let text = std::fs::read_to_string(&beside_part).unwrap();
    std::fs::remove_file(&beside_part).unwrap();
    done(&done_or_not);
    assert_eq!(text, "base\nother\nview\n");
}

#[test]
fn attributes_with_our_prefix_stay_and_do_not_forge_entries() {
    let Some(place) = user_place("parts-forged") else {
        return;
    };
    done(&place.plain("echo base > file"));
    let line = "setfattr -n user.openpath.attr -v '8192 0 0 0' file && \
        echo x > new && setfattr -n user.openpath.attr -v '33261 0 0 0' new && \
        setfattr -n user.openpath.acl_access -v x new; \
        setfattr -n user.overlay.opaque -v y .; setfattr -n user.mine -v 1 new; chmod 640 new";
    done(&kernel(&place, line));
    let said = "stat -c '%n %a %u' file new; getfattr -d new | grep =";
    let expected = "file 644 1000\nnew 640 1000\nuser.mine=\"1\"\n\
        user.openpath.acl_access=\"x\"\nuser.openpath.attr=\"33261 0 0 0\"\n";
    assert_eq!(done(&fuse(&place, said)), expected);
    assert_eq!(done(&kernel(&place, said)), expected);
    done(&commit(&place, &[]));
    assert_eq!(
        done(&place.plain("stat -c '%n %a %u' file new")),
        "file 644 1000\nnew 640 1000\n"
    );
}

/// A view that a run inside keeps in the part has the same format as the part at rest.
#[test]
fn kept_view_inside_a_part_keeps_modes_types_and_removed_names() {
    let Some(place) = user_place("parts-inside") else {
        return;
    };
    let inner = "rm f; rm -r dir; chmod 755 g; mkfifo p; echo sh > run; chmod 711 run; echo 1 >> h";
    let inside = format!("{OPENPATH} run -q --upper $PWD/up -- sh -c '{inner}'");
    for first in [kernel, fuse] {
        for then in [kernel, fuse] {
            done(&place.plain(
                "rm -rf up dir p run; mkdir dir; for f in f g h dir/in; do echo $f > $f; done; \
                 chmod 644 g",
            ));
            done(&first(&place, &inside));
            done(&then(&place, "true"));
            done(&commit(&place, &["up"]));
            // The view that was inside goes on in the real tree.
            let shown = "stat -c '%a %F %n' g p run; tail -n 1 h; ls -d f dir 2> /dev/null; true";
            let args = ["run", "-q", "--upper", "./up", "--", "sh", "-c", shown];
            let wanted = "755 regular file g\n644 fifo p\n711 regular file run\n1\n";
            assert_eq!(done(&place.openpath(args).output().unwrap()), wanted);
            done(&place.openpath(["discard", "view"]).output().unwrap());
        }
    }
}

#[test]
fn lists_of_the_real_tree_are_kept() {
    let Some(place) = user_place("parts-lists") else {
        return;
    };
    let files =
        "echo a > a; setfacl -m u:1234:rw a; mkdir d; setfacl -d -m u:1234:rwx d; echo b > d/b";
    done(&place.plain(files));
    done(&kernel(
        &place,
        "echo more >> a; echo n > d/new; mkdir d/sub; chmod 640 a",
    ));
    done(&commit(&place, &[]));
    let lists = done(&place.plain("getfacl -cn a d d/new d/sub | grep -v '^$'"));
    let access = |user: &str, mask: &str| format!("user::rw-\nuser:1234:{user}\ngroup::{mask}");
    assert!(
        lists.starts_with(&access("rw-\t#effective:r--", "r--\nmask::r--\nother::---")),
        "{lists}"
    );
    assert_eq!(lists.matches("user:1234:").count(), 5, "{lists}");
}

#[test]
fn killed_run_leaves_a_view_that_is_compared() {
    let Some(place) = user_place("parts-killed") else {
        return;
    };
    done(&place.plain(FILES));
    let line = format!("{LINE}; rm zero; echo ready; cat");
    let mut started = Started::new(&place, ["sh", "-c", &line]);
    let front = started.run.id();
    let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).unwrap();
    // The front is what `unshare` became; its children are the server and those of the view.
    let server = children.split_whitespace().find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(9).any(|word| word == b"run-serve")
    });
    let kill = format!("kill -9 {} {front}", server.unwrap());
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
    started.run.wait().unwrap();
    let mut said = String::new();
    until("the view is free", || {
        let diff = place.openpath(["diff", "view", "--json"]).output().unwrap();
        said = out(&diff) + &err(&diff);
        diff.status.success()
    });
    assert!(
        said.contains("closed/in") && said.contains("gone"),
        "{said}"
    );
    done(&fuse(
        &place,
        "cd p; cat read moved; chmod 700 closed; cat closed/in",
    ));
    done(&commit(&place, &[]));
    assert_eq!(place.read("p/moved"), "file\nmore\n");
}

#[test]
fn view_that_a_process_outside_uses_is_not_touched() {
    let Some(place) = user_place("parts-outside") else {
        return;
    };
    done(&place.plain(FILES));
    let line = "echo x > made; echo ready; cat";
    let started = Started::new(&place, ["sh", "-c", line]);
    // A process outside opens a file of the overlay.
    let hold = r#"for i in $(seq 500); do
            for p in /proc/[0-9]*; do
                [ "$(readlink $p/cwd)" = "$0" ] && [ -e $p/cwd/made ] && break 2
            done; sleep 0.02
        done; exec 3>> $p/cwd/made; echo held; read end"#;
    let id = place.user().unwrap().to_string();
    let mut holder = Command::new("setpriv")
        .args([
            "--reuid",
            &id,
            "--regid",
            &id,
            "--clear-groups",
            "sh",
            "-c",
            hold,
            place.dir.to_str().unwrap(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = [0; 5];
    holder.stdout.take().unwrap().read_exact(&mut held).unwrap();
    let (_, said) = started.end();
    assert!(said.contains("still use"), "{said}");
    let refused = place.openpath(["diff", "view"]).output().unwrap();
    assert!(
        !refused.status.success() && err(&refused).contains("outlived"),
        "{}",
        err(&refused)
    );
    drop(holder.stdin.take());
    holder.wait().unwrap();
    until("the view is free", || {
        place
            .openpath(["diff", "view"])
            .output()
            .unwrap()
            .status
            .success()
    });
    done(&commit(&place, &[]));
    assert_eq!(place.read("made"), "x\n");
}

#[test]
fn files_of_others_can_be_read_and_not_changed() {
    let Some(place) = user_place("parts-others") else {
        return;
    };
    let theirs = place.dir.join("theirs");
    std::fs::write(&theirs, "root's\n").unwrap();
    std::fs::set_permissions(&theirs, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    done(&place.plain(&format!("echo g > group; chgrp {GROUP} group")));
    // Divergence: L152
    done(&place.plain(&format!("mkdir team; chgrp {GROUP} team; chmod 2775 team")));
    let line = "cat theirs; echo x >> theirs; echo x >> group; mkdir team/d; rm theirs && ls";
    let run = kernel(&place, line);
    assert_eq!(out(&run).lines().next(), Some("root's"));
    assert_eq!(
        err(&run).matches("Value too large").count(),
        3,
        "{}",
        err(&run)
    );
    assert!(changes(&place).to_string().contains("theirs"));
}

/// Divergence: L154
#[test]
fn changed_file_keeps_its_number_within_a_run() {
    let Some(place) = user_place("parts-number") else {
        return;
    };
    done(&place.plain("echo base > file"));
    let real = done(&place.plain("stat -c %i file"));
    let first = done(&kernel(
        &place,
        "stat -c %i file; echo x >> file; stat -c %i file",
    ));
    assert_eq!(first, real.repeat(2));
    assert_ne!(done(&kernel(&place, "stat -c %i file")), real);
    // Several names.
    done(&place.plain("echo base > one; ln one two"));
    let real = done(&place.plain("stat -c %i one"));
    let line = "stat -c %i one two; echo x >> one; stat -c %i one two; cat two";
    let said = done(&kernel(&place, line));
    let lines: Vec<_> = said.lines().map(|line| format!("{line}\n")).collect();
    assert_eq!(lines[..2], [&*real, &*real], "{said}");
    assert_ne!(lines[2], real, "{said}");
    assert_eq!(lines[3..], [&*real, "base\n"], "{said}");
}

#[test]
fn renames_across_the_edge_and_of_real_directories_are_copies() {
    let Some(place) = user_place("parts-renames") else {
        return;
    };
    done(&place.plain("mkdir dir; echo a > dir/a; echo f > file"));
    let line = "python3 -c '
import os
def call(old, new):
    try:
        os.rename(old, new)
        return 0
    except OSError as why:
        return why.errno
os.mkdir(\"made\")
print(call(\"dir\", \"other\"), call(\"made\", \"made2\"), call(\"file\", \"/tmp/parts-edge\"))
'; mv dir other && cat other/a; ls";
    // Divergence: L140, L151
    let said = done(&kernel(&place, line));
    assert!(said.starts_with("18 0 18\na\n"), "{said}");
}

#[test]
fn runs_without_a_possible_part_are_refused() {
    let Some(place) = user_place("parts-refused") else {
        return;
    };
    done(&place.plain("mkdir -p a/b; echo x > a/secret"));
    let dir = place.path("a");
    for options in [
        &["--hide", &format!("{dir}/secret")][..],
        &["--absent", "*.pem"],
        &["--ro", &dir],
        &["--rw", &dir],
    ] {
        let all = [&KERNEL[..], &["view"], options].concat();
        let mut run = place.openpath([&["run"], &all[..], &["--", "true"]].concat());
        let refused = run.current_dir(&dir).output().unwrap();
        assert_eq!(refused.status.code(), Some(125), "{options:?}");
        assert!(
            err(&refused).contains("--engine kernel"),
            "{}",
            err(&refused)
        );
    }
    for options in [
        &["--live"][..],
        &["--locks"],
        &["--share", "pid"],
        &["--write-back"],
    ] {
        let all = [&KERNEL[..], &["view"], options].concat();
        let refused = place.run(&all, "true");
        assert_eq!(refused.status.code(), Some(125), "{options:?}");
        assert!(
            err(&refused).contains("--engine kernel"),
            "{}",
            err(&refused)
        );
    }
    // A rule elsewhere makes the part smaller.
    let hide = format!("{dir}/secret");
    let all = [
        &KERNEL[..],
        &[
            "view",
            "--hide",
            &hide,
            "--",
            "sh",
            "-c",
            "stat -f -c %T . ..; ls ..",
        ],
    ]
    .concat();
    let mut run = place.openpath([&["run"], &all[..]].concat());
    let said = run.current_dir(place.path("a/b")).output().unwrap();
    let said = done(&said);
    assert!(
        said.starts_with("overlayfs\n") && !said.contains("secret"),
        "{said}"
    );
}

#[test]
fn directories_of_views_are_out_of_reach_in_a_part() {
    let Some(place) = user_place("parts-own") else {
        return;
    };
    let line = "ls state/openpath; touch state/openpath/x; rmdir state/openpath; mv state moved; \
        rm -rf state; ls state";
    let run = kernel(&place, line);
    assert!(!out(&run).contains("views"), "{}", out(&run));
    assert_eq!(err(&run).matches("Read-only").count(), 1, "{}", err(&run));
    let listed = changes(&place).to_string();
    assert!(!listed.contains("openpath/views"), "{listed}");
    assert!(place.dir.join("state/openpath/views/view").is_dir());
    let named = place.run(
        &["-q", "--engine", "kernel", "--name", "./kept"],
        "ls kept; touch kept/x",
    );
    assert!(
        !named.status.success() && err(&named).contains("Read-only"),
        "{}",
        err(&named)
    );
}

#[test]
fn other_commands_enter_a_part() {
    let Some(place) = user_place("parts-exec") else {
        return;
    };
    let started = Started::new(
        &place,
        ["sh", "-c", "echo x > made; echo ready; cat; cat more"],
    );
    let front = started.run.id().to_string();
    let exec = place.openpath([
        "exec",
        &front,
        "--",
        "sh",
        "-c",
        "cat made; stat -f -c %T .; echo y > more",
    ]);
    let mut exec = exec;
    assert_eq!(done(&exec.output().unwrap()), "x\noverlayfs\n");
    assert_eq!(started.finish(), "y\n");
    assert_eq!(changes(&place).as_array().unwrap().len(), 2);
}

#[test]
fn changes_in_memory_are_the_same_with_both_engines() {
    let mut seen = Vec::new();
    for engine in ["fuse", "kernel"] {
        let Some(place) = user_place("parts-memory") else {
            return;
        };
        done(&place.plain(FILES));
        let line = format!(
            "{}; stat -f -c %T . >&2",
            LINE.replace("mv file moved; ", "")
        );
        let run = place.run(&["--engine", engine, "--json"], &line);
        let text = err(&run).replace(&place.path(""), "");
        let json = text.find('{').map_or("", |at| &text[at..]);
        let mut value: serde_json::Value = serde_json::from_str(json).expect(&text);
        assert_eq!(value["engine"], engine);
        assert_eq!(text.starts_with("overlayfs"), engine == "kernel", "{text}");
        seen.push(value["changes"].take());
        assert_eq!(place.read("p/gone"), "gone\n");
    }
    assert!(seen[0].as_array().unwrap().len() > 12, "{}", seen[0]);
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn dry_run_and_doctor_say_what_the_kernel_serves() {
    let Some(place) = user_place("parts-dry") else {
        return;
    };
    let dry = done(&place.run(&["--engine", "kernel", "--dry-run"], "true"));
    let line = format!(
        "# kernel: it serves {}, and fuse the rest",
        place.dir.display()
    );
    assert!(dry.contains(&line), "{dry}");
    let doctor = place.openpath(["doctor"]).output().unwrap();
    let said = done(&doctor) + &err(&doctor);
    assert!(said.contains("a part of its view"), "{said}");
    let plain = done(&place.run(&["--engine", "auto", "--dry-run"], "true"));
    let why = "only a part of an ordinary user's view";
    assert!(plain.contains(why), "{plain}");
}
