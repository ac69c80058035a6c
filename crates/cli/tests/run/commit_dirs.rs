// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit changes only those attributes of a directory that the view changed. All
//! others stay as other users set them, and attributes that both set are a conflict.

use crate::acl::{ACCESS, GROUP_OBJ, MASK, NAMED_USER, OTHER, USER_OBJ, give};
use crate::place::{Place, err, out};
use rustix::fs::XattrFlags;
use std::os::unix::fs::MetadataExt as _;
use std::process::Output;

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

const LIST: [(u16, u16); 5] = [
    (USER_OBJ, 7),
    (NAMED_USER, 7),
    (GROUP_OBJ, 5),
    (MASK, 7),
    (OTHER, 5),
];

/// The mode, access control list and an extended attribute of `d`.
fn attributes(place: &Place) -> (u32, Option<Vec<u8>>, Option<Vec<u8>>) {
    let path = place.dir.join("d");
    let value = |name: &str| {
        let mut value = [0; 256];
        let got = rustix::fs::getxattr(&path, name, &mut value[..]);
        got.ok().map(|length| value[..length].to_vec())
    };
    let mode = std::fs::metadata(&path).unwrap().mode();
    (mode & 0o7777, value(ACCESS), value("user.a"))
}

/// Changes an attribute of `d` from outside the view.
fn change(place: &Place, how: &str) {
    let dir = place.dir.join("d");
    match how {
        "mode" => done(&place.plain("chmod 700 d")),
        "list" => give(&dir, ACCESS, &LIST),
        _ => rustix::fs::setxattr(&dir, "user.a", b"b", XattrFlags::empty()).unwrap(),
    }
}

#[test]
#[ignore = "slow: 5 s"]
fn directory_attributes_set_by_others_stay() {
    // The kernel records no attributes of a directory at its copy-up.
    for place in Place::all("dirs").map(Place::needs_fuse) {
        for how in ["mode", "list", "attribute"] {
            for name_made in [true, false] {
                done(&place.plain("rm -rf d; mkdir d state; chmod 755 d; echo 1 > d/f"));
                run(&place, "echo n > d/f; echo n > d/new");
                std::thread::sleep(std::time::Duration::from_millis(20));
                change(&place, how);
                if name_made {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    done(&place.plain("echo 1 > d/other"));
                }
                let given = attributes(&place);
                let diff = out(&verb(&place, "diff", &["--json"]));
                let json: serde_json::Value = serde_json::from_str(&diff).unwrap();
                let changes = json["changes"].as_array().unwrap();
                assert_eq!(changes.len(), 2, "{how}: {diff}");
                done(&verb(&place, "commit", &[]));
                assert_eq!(attributes(&place), given, "{how}");
                assert_eq!(place.read("d/f"), "n\n");
                done(&verb(&place, "commit", &["--undo"]));
                assert_eq!(attributes(&place), given, "{how}");
                done(&verb(&place, "discard", &[]));
                done(&place.plain("rm -rf state"));
            }
        }
    }
}

#[test]
fn directory_attributes_set_by_both_sides_are_a_conflict() {
    for place in Place::all("dirs-both") {
        done(&place.plain("mkdir d state; chmod 755 d"));
        run(&place, "chmod 750 d; echo n > d/new");
        std::thread::sleep(std::time::Duration::from_millis(20));
        done(&place.plain("chmod 700 d; echo 1 > d/other"));
        let refused = verb(&place, "commit", &[]);
        assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
        assert!(
            out(&refused).contains("d: attributes in the view, changed by others since"),
            "{}",
            out(&refused)
        );
        assert_eq!(attributes(&place).0, 0o700);
        done(&verb(&place, "commit", &["--force"]));
        assert_eq!(attributes(&place).0, 0o750);
        // The undo also refuses to overwrite a later change of others, with a new name there.
        std::thread::sleep(std::time::Duration::from_millis(20));
        done(&place.plain("chmod 711 d; echo 2 > d/later"));
        let refused = verb(&place, "commit", &["--undo"]);
        assert_eq!(refused.status.code(), Some(1), "{}", out(&refused));
        assert_eq!(attributes(&place).0, 0o711);
        done(&verb(&place, "commit", &["--undo", "--force"]));
        assert_eq!(attributes(&place).0, 0o700);
    }
}

#[test]
fn directory_attributes_set_by_the_view_alone_are_committed() {
    // The kernel records no attributes of a directory at its copy-up.
    for place in Place::all("dirs-view").map(Place::needs_fuse) {
        for name in ["d", "e"] {
            done(&place.plain("rm -rf d e; mkdir -p d state; chmod 755 d"));
            run(&place, "chmod 750 d");
            std::thread::sleep(std::time::Duration::from_millis(20));
            done(&place.plain("echo 1 > d/other"));
            if name == "e" {
                run(&place, "mv d e");
            }
            done(&verb(&place, "commit", &[]));
            let mode = || std::fs::metadata(place.dir.join(name)).unwrap().mode() & 0o7777;
            assert_eq!(mode(), 0o750);
            if name == "d" {
                // The view uses the directory again, and the undo gives its own change back to it.
                run(&place, "echo n > d/new");
            }
            done(&verb(&place, "commit", &["--undo"]));
            assert_eq!(attributes(&place).0, 0o755);
            done(&verb(&place, "commit", &[]));
            assert_eq!(mode(), 0o750);
            done(&verb(&place, "discard", &[]));
        }
    }
}

#[test]
fn view_without_records_does_not_overwrite_directory_attributes() {
    for place in Place::all("dirs-old") {
        for how in ["mode", "list", "attribute"] {
            done(&place.plain("rm -rf d; mkdir d state; chmod 755 d; echo 1 > d/f"));
            run(&place, "echo n > d/f");
            let strip = "import os\n\
                for top, dirs, files in os.walk('state/openpath/views/view/upper'):\n  \
                for kind in ('user', 'trusted'):\n    \
                try: os.removexattr(top, kind + '.overlay.attrs')\n    except OSError: pass\n";
            std::fs::write(place.dir.join("strip"), strip).unwrap();
            done(&place.plain("python3 strip"));
            std::thread::sleep(std::time::Duration::from_millis(20));
            change(&place, how);
            std::thread::sleep(std::time::Duration::from_millis(20));
            done(&place.plain("echo 1 > d/other"));
            let given = attributes(&place);
            let refused = verb(&place, "commit", &[]);
            assert_eq!(refused.status.code(), Some(1), "{how}: {}", out(&refused));
            assert_eq!(attributes(&place), given, "{how}");
            done(&verb(&place, "discard", &[]));
            done(&place.plain("rm -rf state"));
        }
    }
}

#[test]
fn directory_replaced_by_others_is_reported_as_replaced() {
    for place in Place::all("dirs-replaced") {
        done(&place.plain("mkdir state d e; echo 1 | tee d/f > e/f"));
        run(&place, "echo n > d/f");
        done(&place.plain("mv d d.old; mv e d"));
        let refused = verb(&place, "commit", &[]);
        assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
        let words = "d: changed in the view, replaced by others since";
        assert!(out(&refused).contains(words), "{}", out(&refused));
        assert_eq!(place.read("d/f"), "1\n");
        done(&verb(&place, "commit", &["--force"]));
        assert_eq!(
            (place.read("d/f"), place.read("d.old/f")),
            ("n\n".into(), "1\n".into())
        );
    }
}
