// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the summary, `diff` and `commit` list what a new file has besides its data: another
//! owner, set-id bits, extended attributes, access control lists and device numbers.

use crate::kernel_engine::root_place;
use crate::kernel_marks::done;
use crate::place::{Place, err};
use serde_json::{Value, json};

/// Runs `line` in the view `v`; returns its summary.
fn summary(place: &Place, options: &[&str], line: &str) -> String {
    let output = place.run(&[options, &["--name", "v"]].concat(), line);
    assert!(output.status.success(), "{}", err(&output));
    err(&output).replace(&place.path(""), "")
}

/// The output of another verb on the view.
fn verb(place: &Place, args: &[&str]) -> String {
    let text = done(&place.openpath(args).output().unwrap());
    let path = place.path("");
    text.replace(&path, "").replace(&path[1..], "")
}

/// The changes by path.
fn changes(text: &str) -> impl Fn(&str) -> Value + use<> {
    let all: Value = serde_json::from_str(text).unwrap();
    move |path| {
        let mut all = all["changes"].as_array().unwrap().iter();
        let found = all.find(|change| change["path"] == path);
        found.unwrap_or_else(|| panic!("{path}")).clone()
    }
}

/// Sets an attribute: the path, the name and the value in hexadecimal digits.
const SET: &str = "import os, sys\nos.setxattr(*sys.argv[1:3], bytes.fromhex(sys.argv[3]))";
const CAPABILITY: &str = "security.capability 0100000200200000000000000000000000000000";
const LIST: &str = "system.posix_acl_access 0200000001000600ffffffff02000400e803000004000400\
    ffffffff10000600ffffffff20000400ffffffff";

/// The lines of what [`make`] makes.
const LINES: &str = "  A  bits  1 B, mode 6755\n  \
    A  cap  1 B, attribute security.capability\n  \
    A  dev  block device 8:0\n  \
    A  dir/  2 names, 0 B, owner 77:0\n  \
    A  dir/out  0 B\n  \
    A  fifo  FIFO\n  \
    A  list  1 B, access control list set\n  \
    M  old  file -> link to x, owner 9:9\n  \
    A  owned  1 B, owner 1234:5\n  \
    A  plain/  2 names, 2 B\n  \
    A  plain/cap  2 B, attribute security.capability\n  \
    A  tty  character device 4:64\n  \
    A  user  1 B, attribute user.k\n";

/// Makes a new file of each kind.
fn make() -> String {
    format!(
        "printf 1 > bits; chmod 6755 bits; printf 1 > cap; python3 set cap {CAPABILITY}; \
         printf 1 > owned; chown 1234:5 owned; mknod dev b 8 0; mknod tty c 4 64; mkfifo fifo; \
         mkdir dir; touch dir/in dir/out; chown 77 dir dir/in; \
         printf 1 > list; python3 set list {LIST}; \
         mkdir plain; printf 12 > plain/cap; python3 set plain/cap {CAPABILITY}; \
         touch plain/file; rm old; ln -s x old; chown -h 9:9 old; \
         printf 1 > user; python3 set user user.k 31"
    )
}

#[test]
fn owner_rights_and_attributes_of_new_files_are_listed() {
    for engine in ["kernel", "fuse"] {
        let Some(place) = root_place("new-unusual") else {
            return;
        };
        place.write("old", "old");
        place.write("set", SET);
        let said = summary(&place, &["--engine", engine], &make());
        assert_eq!(said, format!("openpath: 13 changes\n{LINES}"), "{engine}");
        let possible = verb(&place, &["commit", "v", "--dry-run"]);
        assert_eq!(
            possible,
            format!("{LINES}openpath: 13 changes can be committed\n")
        );
        let stat = verb(&place, &["diff", "v", "--stat"]);
        for line in [
            "A  bits  +1 -0  1 B, mode 6755\n",
            "A  dev  block device 8:0\n",
            "A  owned  +1 -0  1 B, owner 1234:5\n",
            "A  plain/file  +0 -0\n",
        ] {
            assert!(stat.contains(line), "{line}{stat}");
        }
        let diff = verb(&place, &["diff", "v"]);
        for part in [
            "bbits\nnew file mode 6755\n---",
            "bcap\nnew file mode 0644\nattribute security.capability\n---",
            "bdev\nnew block device 8:0 mode 0644\n",
            "bfifo\nnew FIFO mode 0644\n",
            "blist\nnew file mode 0664\naccess control list set\n---",
            "new link mode 0777\nowner 9:9\n",
            "bowned\nnew file mode 0644\nowner 1234:5\n---",
        ] {
            assert!(diff.contains(part), "{part}{diff}");
        }
        for args in [
            &["diff", "v", "--json"][..],
            &["commit", "v", "--dry-run", "--json"],
        ] {
            let change = changes(&verb(&place, args));
            assert_eq!(change("bits")["attributes"], json!(["mode"]));
            assert_eq!(change("cap")["attributes"], json!(["security.capability"]));
            assert_eq!(change("owned")["attributes"], json!(["owner"]));
            assert_eq!(change("owned")["owner"], "1234:5");
            assert_eq!(change("old")["owner"], "9:9");
            assert_eq!(change("list")["attributes"], json!(["access lists"]));
            assert_eq!(change("list")["access_lists"], "set");
            assert_eq!(change("dev")["special"], "block device");
            assert_eq!(change("dev")["device"], "8:0");
            assert_eq!(change("fifo")["special"], "FIFO");
            let plain = json!({"path": "plain", "change": "added", "type": "directory", "size": 0,
                "size_before": null, "mode": "0755", "mode_before": null});
            assert_eq!(change("plain"), plain);
        }
        verb(&place, &["commit", "v"]);
    }
}

#[test]
fn plain_new_files_are_listed_by_their_sizes() {
    for place in Place::all("new-plain") {
        place.plain("mkdir team && chgrp 2000 team && chmod 2775 team");
        let line = "printf 1 > file; mkdir dir; chmod 1777 dir; ln -s x link; mkdir team/d; \
            printf 12 > team/d/f; printf 123 > exec; chmod 755 exec";
        let said = summary(&place, &[], line);
        let want = "openpath: 5 changes\n  A  dir/\n  A  exec  3 B\n  A  file  1 B\n  \
            A  link  link to x\n  A  team/d/  1 name, 2 B\n";
        assert_eq!(said, want);
        let change = changes(&verb(&place, &["diff", "v", "--json"]));
        assert_eq!(change("team/d")["mode"], "2755");
        for path in ["dir", "exec", "file", "link", "team/d", "team/d/f"] {
            let change = change(path);
            for member in ["attributes", "owner", "owner_before", "special", "device"] {
                assert!(change.get(member).is_none(), "{change}");
            }
        }
    }
}

#[test]
fn owners_of_changed_files_are_listed_as_json() {
    let Some(place) = root_place("new-owner") else {
        return;
    };
    place.write("file", "1");
    summary(&place, &[], "chown 5:6 file");
    let change = changes(&verb(&place, &["diff", "v", "--json"]))("file");
    assert_eq!(change["attributes"], json!(["owner"]));
    assert_eq!(
        (&change["owner"], &change["owner_before"]),
        (&json!("5:6"), &json!("0:0"))
    );
}
