// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that access control lists of the real tree hold under `openpath run`: they deny and grant
//! the same as without it, and new files inherit the default list of their directory.
//!
//! # Judgement
//! R1. A line prints the same in a run as without one, and both are as expected: a file system
//!     that cannot keep the lists fails the test.

use crate::place::{GROUP, Place, Who, err, out};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

pub(crate) const USER_OBJ: u16 = 1;
pub(crate) const NAMED_USER: u16 = 2;
pub(crate) const GROUP_OBJ: u16 = 4;
pub(crate) const MASK: u16 = 16;
pub(crate) const OTHER: u16 = 32;

pub(crate) const ACCESS: &str = "system.posix_acl_access";
pub(crate) const DEFAULT: &str = "system.posix_acl_default";

/// The ordinary user's ID.
const USER: u32 = 1000;

/// Gives a file a list: tags and permissions, a named user being [`USER`].
pub(crate) fn give(path: &Path, name: &str, entries: &[(u16, u16)]) {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm) in entries {
        let id = if *tag == NAMED_USER { USER } else { u32::MAX };
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, name, &value, flags).unwrap();
}

/// A file of root with a mode and a group of the user.
fn file(place: &Place, name: &str, mode: u32) {
    let path = place.dir.join(name);
    std::fs::write(&path, "words\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    chown(&path, Some(0), Some(GROUP)).unwrap();
}

/// Files that a list denies or grants to the user, each contrary to the mode alone.
fn tree(place: &Place) {
    for (name, mode) in [("denied", 0o644), ("masked", 0o640), ("granted", 0o600)] {
        file(place, name, mode);
    }
    for dir in ["shut", "ajar"] {
        let path = place.dir.join(dir);
        std::fs::create_dir(&path).unwrap();
        chown(&path, Some(0), Some(0)).unwrap();
        file(place, &format!("{dir}/inner"), 0o644);
    }
    let at = |name: &str| place.dir.join(name);
    let of = |user, group, mask, other| {
        [
            (USER_OBJ, 6),
            (NAMED_USER, user),
            (GROUP_OBJ, group),
            (MASK, mask),
            (OTHER, other),
        ]
    };
    give(&at("denied"), ACCESS, &of(0, 4, 4, 4));
    let masked = [(USER_OBJ, 6), (GROUP_OBJ, 0), (MASK, 4), (OTHER, 0)];
    give(&at("masked"), ACCESS, &masked);
    give(&at("granted"), ACCESS, &of(6, 0, 6, 0));
    let mut shut = of(0, 5, 5, 5);
    shut[0].1 = 7;
    give(&at("shut"), ACCESS, &shut);
    let mut ajar = of(5, 0, 5, 0);
    ajar[0].1 = 7;
    give(&at("ajar"), ACCESS, &ajar);
}

/// Prints what may be read and written, by open(2) and access(2).
const TRY: &str = "for f in denied masked granted shut/inner ajar/inner; do echo $f \
    $(cat $f >/dev/null && echo reads) $( (: >>$f) && echo writes) \
    $([ -r $f ] && echo may-read) $([ -w $f ] && echo may-write); done 2>/dev/null";

const EXPECTED: &str = "denied\nmasked\ngranted reads writes may-read may-write\nshut/inner\n\
    ajar/inner reads may-read\n";

/// The line for the ordinary user, started by a user with the right to become that user.
fn as_user(line: &str) -> String {
    let line = line.replace('\'', "'\\''");
    format!("setpriv --reuid {USER} --regid {USER} --groups {GROUP} -- sh -c '{line}'")
}

/// The ways in which a tree is part of a view.
const WAYS: [&[&str]; 3] = [&[], &["--upper", "memory:16m"], &["--rw", "."]];

#[test]
fn list_denies_and_grants_a_user_in_a_run_of_root() {
    let Some(place) = Place::new("acl-root", Who::Caller) else {
        return;
    };
    tree(&place);
    let line = as_user(TRY);
    assert_eq!(out(&place.plain(&line)), EXPECTED);
    for options in WAYS {
        let run = place.run(options, &line);
        assert_eq!(out(&run), EXPECTED, "{options:?} {}", err(&run));
    }
    // A copied-up file keeps its lists.
    let line = format!("chmod o-x ajar; touch denied masked granted shut ajar; {line}");
    for options in &WAYS[..2] {
        let run = place.run(options, &line);
        assert_eq!(out(&run), EXPECTED, "{options:?} {}", err(&run));
    }
}

#[test]
fn list_denies_and_grants_the_same_in_a_run_of_an_ordinary_user() {
    let Some(place) = Place::new("acl-user", Who::Ordinary) else {
        return;
    };
    tree(&place);
    assert_eq!(out(&place.plain(TRY)), EXPECTED);
    for options in WAYS {
        let run = place.run(options, TRY);
        assert_eq!(out(&run), EXPECTED, "{options:?} {}", err(&run));
    }
    // The same for a copy.
    let line = "echo more >> granted; cat granted; echo even >> granted; tail -n 1 granted";
    for options in &WAYS[..2] {
        let run = place.run(options, line);
        assert_eq!(
            out(&run),
            "words\nmore\neven\n",
            "{options:?} {}",
            err(&run)
        );
    }
}

#[test]
fn list_set_or_changed_inside_decides_at_once() {
    let Some(place) = Place::new("acl-set", Who::Caller) else {
        return;
    };
    file(&place, "f", 0o644);
    let set = "python3 -c \"import os, struct; os.setxattr('f', 'system.posix_acl_access', \
        struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e) for e in [(1, 6, 2**32 - 1), \
        (2, 0, 1000), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 4, 2**32 - 1)]))\"";
    let read = as_user("cat f 2>/dev/null || echo no");
    let line = format!(
        "{read}; {set}; {read}; chmod 604 f; {read}; chmod 664 f; {read}; \
        stat -c %a f; chown 1000 f; {read}"
    );
    for options in [&[][..], &["--rw", "."]] {
        let run = place.run(options, &line);
        // Without group bits the kernel asks no list, and the user is in the group.
        let said = "words\nno\nno\nno\n664\nwords\n";
        assert_eq!(out(&run), said, "{options:?} {}", err(&run));
    }
}

#[test]
fn new_files_inherit_a_default_list() {
    for place in Place::all("acl-default") {
        for dir in ["outside", "inside", "through"] {
            let path = place.dir.join(dir);
            std::fs::create_dir(&path).unwrap();
            place.own(dir);
            let list = [
                (USER_OBJ, 7),
                (NAMED_USER, 7),
                (GROUP_OBJ, 5),
                (MASK, 7),
                (OTHER, 5),
            ];
            give(&path, DEFAULT, &list);
        }
        let make = "umask 077; : > f; mkdir d; : > d/g; mkfifo p; ln -s x l; stat -c '%n %a' *";
        let modes = "d 775\nf 664\nl 777\np 664\n";
        assert_eq!(out(&place.plain(&format!("cd outside; {make}"))), modes);
        let run = place.run(&[], &format!("cd inside; {make}"));
        assert_eq!(out(&run), modes, "{}", err(&run));
        let run = place.run(&["--rw", "."], &format!("cd through; {make}"));
        assert_eq!(out(&run), modes, "{}", err(&run));
        let lists = |dir: &str| {
            let list = |file: &str, name: &str| {
                let mut value = [0; 256];
                let path = place.dir.join(dir).join(file);
                let got = rustix::fs::getxattr(path, name, &mut value[..]);
                got.map(|len| value[..len].to_vec())
            };
            [
                list("f", ACCESS),
                list("d", ACCESS),
                list("d", DEFAULT),
                list("d/g", ACCESS),
                list("p", ACCESS),
            ]
        };
        assert!(lists("outside").iter().all(Result::is_ok));
        assert_eq!(lists("outside"), lists("through"));
    }
}
