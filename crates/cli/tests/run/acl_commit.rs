// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that each committed file ends with the access control lists that the view shows, whatever
//! default list its directory has, and that only changed lists count as changes.
//!
//! # Judgement
//! R1. The expected lists are those of another directory, where the same line ran without a view.

use crate::acl::{ACCESS, DEFAULT, GROUP_OBJ, MASK, NAMED_USER, OTHER, USER_OBJ, give};
use crate::place::{Place, Who, err, out, until};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

fn verb(place: &Place, verb: &str, rest: &[&str]) -> Output {
    let args = [verb, "view"].into_iter().chain(rest.iter().copied());
    place.openpath(args).output().unwrap()
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}{}", out(output), err(output));
}

const FILE: [(u16, u16); 5] = [
    (USER_OBJ, 6),
    (NAMED_USER, 6),
    (GROUP_OBJ, 0),
    (MASK, 6),
    (OTHER, 0),
];
const DIR: [(u16, u16); 5] = [
    (USER_OBJ, 7),
    (NAMED_USER, 7),
    (GROUP_OBJ, 5),
    (MASK, 7),
    (OTHER, 5),
];

/// Makes files with lists in a directory of the place.
fn furnish(place: &Place, dir: &str) {
    let line = format!(
        "mkdir {dir} && cd {dir} && mkdir gives plain && for f in mode data gone same; \
        do echo words > $f; done"
    );
    done(&place.plain(&line));
    let at = |name: &str| place.dir.join(dir).join(name);
    for name in ["mode", "data", "gone", "same"] {
        give(&at(name), ACCESS, &FILE);
    }
    give(&at("gives"), DEFAULT, &DIR);
}

/// Changes a mode and so a mask, changes data, and makes files that inherit a list.
const CHANGE: &str = "chmod 640 mode; echo more >> data; rm gone; touch -r data -- same; \
    umask 077; echo new > gives/f; mkdir gives/d; echo new > gives/d/g; mkfifo gives/p; \
    umask 022; echo new > plain/f; mkdir plain/d; echo new > plain/d/g; mkfifo plain/p";

/// The modes and lists of all entries of a directory.
fn lists(place: &Place, dir: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut todo = vec![place.dir.join(dir)];
    while let Some(path) = todo.pop() {
        let list = |name: &str| {
            let mut value = [0; 256];
            let got = rustix::fs::getxattr(&path, name, &mut value[..]);
            got.map(|len| value[..len].to_vec())
        };
        let mode = std::fs::symlink_metadata(&path).unwrap().mode();
        let name = path.strip_prefix(place.dir.join(dir)).unwrap();
        let name = name.display();
        all.push(format!(
            "{name} {mode:o} {:?} {:?}",
            list(ACCESS),
            list(DEFAULT)
        ));
        if path.is_dir() {
            let names = std::fs::read_dir(&path).unwrap();
            todo.extend(names.map(|entry| entry.unwrap().path()));
        }
    }
    all.sort();
    all
}

#[test]
fn committed_files_have_the_lists_of_the_view() {
    // The kernel records no attributes of a directory at its copy-up.
    for place in Place::all("acl-commit").map(Place::needs_fuse) {
        for across in [false, true] {
            done(&place.plain("rm -rf tree beside state; mkdir state"));
            let shared = format!("/dev/shm/openpath-acl-{}", std::process::id());
            if across {
                std::fs::remove_dir_all(&shared).ok();
                std::fs::create_dir(&shared).unwrap();
                std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
                std::fs::remove_dir(place.dir.join("state")).unwrap();
                std::os::unix::fs::symlink(&shared, place.dir.join("state")).unwrap();
            }
            furnish(&place, "tree");
            furnish(&place, "beside");
            let before = lists(&place, "tree");
            let line = format!("cd tree; {CHANGE}");
            done(&place.run(&["--name", "view", "--quiet"], &line));
            place.plain(&format!("cd beside; {CHANGE}"));
            // The directories get default lists that the view never saw: no change of the view,
            // so they stay, and no new file gets one of them.
            for dir in ["plain", "."] {
                give(&place.dir.join("tree").join(dir), DEFAULT, &DIR);
            }
            let given = lists(&place, "tree");
            assert_ne!(given, before);
            done(&verb(&place, "commit", &[]));
            for dir in ["plain", "."] {
                give(&place.dir.join("beside").join(dir), DEFAULT, &DIR);
            }
            assert_eq!(lists(&place, "tree"), lists(&place, "beside"), "{across}");
            done(&verb(&place, "commit", &["--undo"]));
            assert_eq!(lists(&place, "tree"), given, "{across}");
            std::fs::remove_dir_all(&shared).ok();
            std::fs::remove_file(place.dir.join("state")).ok();
        }
    }
}

/// Sets and removes lists by raw attribute values.
const SET: &str = "python3 -c \"
import os, struct
def pack(*all): return struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e) for e in all)
none = 2**32 - 1
os.setxattr('bare', 'system.posix_acl_access', pack((1, 6, none), (2, 4, 1000), (4, 0, none), \
    (16, 4, none), (32, 0, none)))
os.chmod('bare', 0o640)
os.removexattr('listed', 'system.posix_acl_access')
os.chmod('listed', 0o660)
os.setxattr('dir', 'system.posix_acl_default', pack((1, 7, none), (4, 5, none), (32, 0, none)))
\"";

#[test]
fn list_set_or_removed_in_the_view_is_a_change_of_attributes() {
    let Some(place) = Place::new("acl-set-commit", Who::Caller) else {
        return;
    };
    for dir in ["tree", "beside"] {
        let line = format!("mkdir -p state {dir}/dir && cd {dir} && echo 1 | tee bare > listed");
        done(&place.plain(&format!("{line} && chmod 640 bare")));
        give(&place.dir.join(dir).join("listed"), ACCESS, &FILE);
    }
    let before = lists(&place, "tree");
    let summary = place.run(&["--name", "view"], &format!("cd tree; {SET}"));
    done(&summary);
    done(&place.plain(&format!("cd beside; {SET}")));
    assert!(
        err(&summary).contains("tree/bare  access control list set\n"),
        "{}",
        err(&summary)
    );
    let diff = out(&verb(&place, "diff", &["--json"]));
    let json: serde_json::Value = serde_json::from_str(&diff).unwrap();
    let all = json["changes"].as_array().unwrap();
    for name in ["bare", "dir", "listed"] {
        let change = all
            .iter()
            .find(|change| change["path"].as_str().unwrap().ends_with(name));
        let change = change.expect(name);
        assert_eq!(
            (&change["change"], &change["access_lists_changed"]),
            (&"attributes".into(), &true.into()),
            "{name}"
        );
    }
    let diff = out(&verb(&place, "diff", &[]));
    for word in ["set", "removed"] {
        let line = format!("access control list {word}\n");
        assert!(diff.contains(&line), "{diff}");
    }
    done(&verb(&place, "commit", &[]));
    assert_eq!(lists(&place, "tree"), lists(&place, "beside"));
    done(&verb(&place, "commit", &["--undo"]));
    assert_eq!(lists(&place, "tree"), before);
}

#[test]
fn copied_file_with_its_lists_as_they_were_is_no_change() {
    for place in Place::all("acl-same") {
        done(&place.plain("mkdir state; echo words > f"));
        give(&place.dir.join("f"), ACCESS, &FILE);
        let line = "chmod 600 f; chmod 660 f";
        done(&place.run(&["--name", "view", "--quiet"], line));
        assert_eq!(out(&verb(&place, "diff", &[])), "");
    }
}

#[test]
fn list_that_the_file_system_cannot_keep_is_refused_before_any_change() {
    let Some(place) = Place::new("acl-ramfs", Who::Caller) else {
        return;
    };
    // A ramfs has no access control lists; only these commands see this one.
    let set = SET.replace("'bare'", "'f'");
    let set = set.split("os.removexattr").next().unwrap();
    let script = format!(
        "cd \"$1\" && mkdir state bare && mount -t ramfs none bare && echo base > bare/f && \
        echo base > bare/g && export XDG_STATE_HOME=$PWD/state && \
        \"$2\" run -q --engine fuse --name view -- sh -c 'cd bare; echo view > g; {}\"' && \
        \"$2\" commit view; echo status $?; cat bare/f bare/g",
        set.replace('\'', "'\\''")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]);
    command
        .arg(&place.dir)
        .arg(Path::new(crate::place::OPENPATH));
    let output = command.output().unwrap();
    assert_eq!(out(&output), "status 2\nbase\nbase\n", "{}", err(&output));
    assert!(
        err(&output).contains("bare/f has an access control list in the view"),
        "{}",
        err(&output)
    );
}

#[test]
fn list_set_outside_while_a_view_runs_is_seen_inside() {
    for place in Place::all("acl-outside") {
        done(&place.plain("mkdir state; echo words > f; chmod 600 f; mkdir bell"));
        let mut run = place.openpath([
            "run",
            "-q",
            "--rw",
            "bell",
            "--",
            "sh",
            "-c",
            // The change is seen a moment after it, which is not that of the file in `bell`.
            "stat -c %a f; [ -r f ] && echo reads; touch bell/looked; \
            until [ -e bell/listed ]; do sleep 0.02; done; \
            until [ $(stat -c %a f) != 600 ]; do sleep 0.02; done; \
            stat -c %a f; [ -r f ] && echo reads; true",
        ]);
        run.stdin(std::process::Stdio::null());
        run.stdout(std::process::Stdio::piped());
        let run = run.spawn().unwrap();
        let bell = place.dir.join("bell");
        until("the command has looked", || bell.join("looked").exists());
        let list = [(USER_OBJ, 6), (GROUP_OBJ, 4), (MASK, 7), (OTHER, 1)];
        give(&place.dir.join("f"), ACCESS, &list);
        std::fs::write(bell.join("listed"), "").unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!(out(&output), "600\nreads\n671\nreads\n", "{}", err(&output));
    }
}

/// What mkdir(2) and the umask leave to an owner can lack permissions that a commit needs.
#[test]
fn directory_is_committed_where_a_new_one_is_not_its_owners() {
    for place in Place::all("closed-dir") {
        place.plain("mkdir d plain");
        let list = [(USER_OBJ, 6), (GROUP_OBJ, 5), (OTHER, 4)];
        give(&place.dir.join("d"), DEFAULT, &list);
        let line = "mkdir d/new plain/new; chmod 751 d/new plain/new; echo 1 > d/new/f";
        let ran = place.run(&["--name", "view", "--quiet"], line);
        assert!(ran.status.success(), "{}", err(&ran));
        let line = format!(
            "umask 0177; XDG_STATE_HOME=$PWD/state exec {} commit view",
            env!("CARGO_BIN_EXE_openpath")
        );
        let committed = place.plain(&line);
        assert!(committed.status.success(), "{}", err(&committed));
        let modes = place.plain("stat -c %a d/new plain/new");
        assert_eq!(out(&modes), "751\n751\n", "{}", err(&modes));
        assert_eq!(place.read("d/new/f"), "1\n");
    }
}
