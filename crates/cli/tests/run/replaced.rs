// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that files which a program of an ordinary user replaces in a view keep their group and
//! their access control list when the view is committed.
//!
//! # Judgement
//! R1. The expected result is that of the same line in another directory, without a view.
//! R2. If the view hides a group that the program would have to see to keep it, neither a group nor
//!     other users get more permissions than the replaced file gave.

use crate::acl::{ACCESS, DEFAULT, GROUP_OBJ, MASK, NAMED_USER, OTHER, USER_OBJ, give};
use crate::place::{GROUP, Place, Who, err, out};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::process::Output;

/// A group that the user is not in.
const FOREIGN: u32 = 3000;

const LIST: [(u16, u16); 5] = [
    (USER_OBJ, 6),
    (NAMED_USER, 4),
    (GROUP_OBJ, 0),
    (MASK, 6),
    (OTHER, 0),
];
const INHERITED: [(u16, u16); 5] = [
    (USER_OBJ, 7),
    (NAMED_USER, 7),
    (GROUP_OBJ, 7),
    (MASK, 7),
    (OTHER, 0),
];

fn done(output: &Output) {
    assert!(output.status.success(), "{}{}", out(output), err(output));
}

/// Makes directories of the user, one set-group-ID and one with a default list; in each, files of
/// several groups, with and without a list.
fn furnish(place: &Place, top: &str) {
    let top = place.dir.join(top);
    std::fs::create_dir(&top).unwrap();
    for (dir, group, mode) in [
        ("plain", 1000, 0o755),
        ("shared", FOREIGN, 0o2775),
        ("gives", 1000, 0o755),
    ] {
        let dir = top.join(dir);
        std::fs::create_dir(&dir).unwrap();
        for group in [1000, GROUP, FOREIGN] {
            for (kind, bits) in [("bare", 0o664), ("listed", 0o640), ("private", 0o600)] {
                let path = dir.join(format!("{kind}-{group}"));
                std::fs::write(&path, "words\n").unwrap();
                chown(&path, Some(1000), Some(group)).unwrap();
                std::fs::set_permissions(&path, PermissionsExt::from_mode(bits)).unwrap();
                if kind == "listed" {
                    give(&path, ACCESS, &LIST);
                }
            }
        }
        chown(&dir, Some(1000), Some(group)).unwrap();
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
        if dir.ends_with("gives") {
            give(&dir, DEFAULT, &INHERITED);
        }
    }
}

/// Owner, group, mode, list and content of all entries in the directories of `top`.
fn facts(place: &Place, top: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut todo = vec![place.dir.join(top)];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let mut value = [0; 256];
            let list = rustix::fs::getxattr(&path, ACCESS, &mut value[..]);
            let list = list.map(|len| &value[..len]).unwrap_or_default();
            let name = path.strip_prefix(place.dir.join(top)).unwrap();
            let name = name.display();
            let (uid, gid, mode) = (meta.uid(), meta.gid(), meta.mode());
            all.push(format!("{name} {uid} {gid} {mode:o} {list:?}"));
            if meta.is_dir() {
                todo.push(path);
            }
        }
    }
    all.sort();
    all
}

/// Runs a line in a directory, and in a view of an equal one that is committed; returns what each
/// leaves.
fn both(place: &Place, line: &str) -> (Vec<String>, Vec<String>) {
    done(&place.plain("rm -rf state; mkdir state"));
    for top in ["tree", "beside"] {
        std::fs::remove_dir_all(place.dir.join(top)).ok();
        furnish(place, top);
    }
    let whole = |top: &str| format!("umask 022; cd {top}; for d in *; do (cd $d; {line}); done");
    done(&place.plain(&whole("beside")));
    done(&place.run(&["--name", "view", "--quiet"], &whole("tree")));
    done(&place.openpath(["commit", "view"]).output().unwrap());
    (facts(place, "tree"), facts(place, "beside"))
}

#[test]
#[ignore = "slow: 6 s"]
fn replaced_files_keep_group_and_list_as_without_a_view() {
    let Some(place) = Place::new("replaced", Who::Ordinary) else {
        return;
    };
    for line in [
        // Makes a file, gives it the owner, list and mode of the old one, and renames it.
        "sed -i s/words/other/ bare-* listed-* private-*",
        // Does the same, but renames the old one before.
        "sed -i.old s/words/other/ *-[12]000",
        "sed -i s/words/other/ *; sed -i s/other/third/ *; chmod g-r,u+x *",
        // Gives nothing: the file has the user's own group.
        "for f in *; do echo new > tmp; chmod 604 tmp; mv tmp $f; done",
        "for f in *; do rm $f; echo new > $f; done",
        "mv bare-2000 bare-1000; mv private-1000 private-2000; mv listed-2000 listed-1000",
        // New files get the group of a set-group-ID directory.
        "echo new > new; sed -i s/new/other/ new; touch empty; ln -s new link",
    ] {
        let (tree, beside) = both(&place, line);
        assert_eq!(tree, beside, "{line}");
    }
}

#[test]
fn copied_mode_grants_no_more_than_the_replaced_file() {
    let Some(place) = Place::new("replaced-mode", Who::Ordinary) else {
        return;
    };
    // The visible group bits are the mask of the list.
    let line = "for f in *; do echo new > tmp; chmod --reference=$f tmp; mv tmp $f; done";
    let (tree, _) = both(&place, line);
    std::fs::remove_dir_all(place.dir.join("beside")).unwrap();
    furnish(&place, "beside");
    let own = |fact: &&String| !fact.contains("-3000 ");
    let kept = |all: &[String]| all.iter().filter(own).cloned().collect::<Vec<_>>();
    assert_eq!(kept(&tree), kept(&facts(&place, "beside")));
    // A group that the user cannot set gets no permission, and the list stays.
    let foreign = tree
        .iter()
        .find(|fact| fact.starts_with("plain/listed-3000"));
    let like = tree
        .iter()
        .find(|fact| fact.starts_with("plain/listed-1000"));
    let (foreign, like) = (foreign.unwrap(), like.unwrap());
    assert_eq!(
        foreign.split_once(' ').unwrap().1,
        like.split_once(' ').unwrap().1
    );
}

#[test]
#[ignore = "slow: 5 s"]
fn group_and_list_give_no_more_than_the_replaced_file() {
    let Some(place) = Place::new("replaced-wider", Who::Ordinary) else {
        return;
    };
    for line in [
        // Wider than the old file, set-group-ID, or set-user-ID.
        "for f in *; do echo new > tmp; chown 1000:1000 tmp; chmod 670 tmp; mv tmp $f; done",
        "for f in *; do echo new > tmp; chown 1000:1000 tmp; chmod 2755 tmp; mv tmp $f; done",
        "for f in *; do echo new > tmp; chown 1000:1000 tmp; chmod 4750 tmp; mv tmp $f; done",
        "for f in p*; do echo new > tmp; chown 1000:1000 tmp; chmod 660 tmp; mv tmp $f; done",
        // Wider later.
        "for f in *; do m=$(stat -c %a $f); rm $f; echo new > $f; chmod $m $f; chmod 2775 $f; done",
    ] {
        let (tree, beside) = both(&place, line);
        // There, chown(2) natively takes away the group that the directory gave.
        let own = |fact: &&String| !fact.starts_with("shared/");
        let of = |all: &[String]| all.iter().filter(own).cloned().collect::<Vec<_>>();
        assert_eq!(of(&tree), of(&beside), "{line}");
    }
}

#[test]
#[ignore = "slow: 6 s"]
fn group_and_list_do_not_go_to_another_name() {
    let Some(place) = Place::new("replaced-name", Who::Ordinary) else {
        return;
    };
    let made = "m=$(stat -c %a $f); rm $f; echo new > $f";
    for work in [
        format!("{made}; mv $f other; chmod $m other"),
        format!("{made}; chmod $m $f; mv $f other"),
        format!("{made}; ln $f other; rm $f; chmod $m other"),
        format!("{made}; chmod $m $f; ln $f other; rm $f"),
        "m=$(stat -c %a $f); echo new > tmp; ln tmp other; chmod $m tmp; mv tmp $f".to_owned(),
    ] {
        let (tree, beside) = both(
            &place,
            &format!("for f in *-*; do {work}; mv other other-$f; done"),
        );
        assert_eq!(tree, beside, "{work}");
    }
}
