// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a new file in place of another gets that file's group, access control list and mode
//! only where this grants nothing more, and loses them by a wider chmod(2) or another name.

use super::*;
use crate::nodes::ROOT;
use crate::options::Options;
use crate::worker::ActingAs;
use openpath_abi::fcntl::O_RDWR;
use openpath_abi::rename::{RENAME_EXCHANGE, RENAME_NOREPLACE};
use openpath_abi::{RenameFlags, TimeSet};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Vfs};

const USER: ActingAs = ActingAs::Owner(1000, 1000);
/// A supplementary group of the user.
const SHARED: u32 = 2000;

/// A view of a tree with the file `old` of that group.
struct View {
    fs: FuseFs,
    w: Worker,
}

impl View {
    fn new(mode: u32, listed: bool) -> Self {
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
        let task = vfs.expect("a Vfs").task(Cred::root()).expect("a task");
        let options = Options {
            only_user: Some(OnlyUser {
                uid: 1000,
                gid: 1000,
                groups: vec![SHARED],
            }),
            ..Options::default()
        };
        let file = O_RDWR | openpath_abi::fcntl::O_CREAT;
        let old = task.open(b"/old", file, 0o600).expect("made");
        task.fchownat(old, b"", 1000, SHARED, AT_EMPTY_PATH)
            .expect("given");
        task.fchmodat2(old, b"", mode, AT_EMPTY_PATH).expect("set");
        if listed {
            let name = AclKind::Access.name();
            let list = list().encode();
            let none = XattrFlags::empty();
            task.setxattrat(old, b"", AT_EMPTY_PATH, name, &list, none)
                .expect("set");
        }
        task.close(old).expect("closed");
        let (fs, mut workers) = FuseFs::new(&task, &options).expect("a view");
        let w = workers.pop().expect("a worker");
        Self { fs, w }
    }

    fn make(&mut self, name: &[u8]) -> u64 {
        let made = self
            .fs
            .create(&mut self.w, USER, (ROOT, name), 0o600, O_RDWR);
        made.expect("made").0.number
    }

    fn change(&mut self, number: u64, owner: bool, mode: Option<u32>) {
        let change = AttrChange {
            mode,
            uid: owner.then_some(1000),
            gid: None,
            size: None,
            times: [TimeSet::Omit; 2],
            by_descriptor: false,
            fd: None,
        };
        let set = self.fs.setattr(&mut self.w, USER, number, &change);
        set.expect("changed");
    }

    fn chmod(&mut self, number: u64, mode: u32) {
        self.change(number, false, Some(mode));
    }

    fn rename(&mut self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<(), Errno> {
        let (from, to) = ((ROOT, from), (ROOT, to));
        self.fs.rename(&mut self.w, USER, from, to, flags)
    }

    fn remove(&self, name: &[u8]) {
        self.fs.remove(&self.w, (ROOT, name), false).expect("gone");
    }

    /// Group, mode, and whether there is a list.
    fn has(&self, number: u64) -> (u32, u32, bool) {
        let path_fd = self.fs.nodes.path_fd(number).expect("known");
        let attr = attr_of(&self.w, path_fd).expect("attributes");
        let acl = list_of(&self.w, path_fd).expect("a list");
        let mode = u32::from(attr.mode) & S_IALLUGO;
        (attr.gid, mode, acl.is_some())
    }

    /// The file `old` goes, and a new one of this name gets its mode.
    fn again(&mut self, mode: u32) -> u64 {
        self.remove(b"old");
        let number = self.make(b"old");
        self.chmod(number, mode);
        number
    }
}

/// One that gives a user more than the group, with a mask `rw-`.
fn list() -> Acl {
    let entries = [
        (AclTag::UserObj, 6),
        (AclTag::User(7), 4),
        (AclTag::GroupObj, 0),
        (AclTag::Mask, 6),
        (AclTag::Other, 0),
    ];
    let entries = entries.map(|(tag, perm)| AclEntry { tag, perm });
    Acl::new(entries.to_vec())
}

/// What a file has that was given an owner and a mode, and then replaced one.
fn replaced(old: (u32, bool), mode: u32) -> (u32, u32, bool) {
    let mut view = View::new(old.0, old.1);
    let new = view.make(b"new");
    view.change(new, true, Some(mode));
    view.rename(b"new", b"old", RenameFlags::empty())
        .expect("renamed");
    view.has(new)
}

#[test]
fn group_of_a_replaced_file_gets_no_bit_that_it_had_not() {
    assert_eq!(replaced((0o640, false), 0o640), (SHARED, 0o640, false));
    assert_eq!(replaced((0o660, true), 0o640), (SHARED, 0o640, true));
    assert_eq!(replaced((0o600, false), 0o660), (1000, 0o660, false));
    assert_eq!(replaced((0o660, true), 0o670), (1000, 0o670, false));
    assert_eq!(replaced((0o750, false), 0o4750), (1000, 0o4750, false));
    assert_eq!(replaced((0o4750, false), 0o4750), (SHARED, 0o4750, false));
    for old in [0o640, 0o755, 0o2755] {
        assert_eq!(replaced((old, false), 0o2755), (1000, 0o2755, false));
    }
}

#[test]
fn chmod_beyond_the_replaced_file_takes_group_and_list_back() {
    for (listed, wide) in [(false, 0o660), (false, 0o2640), (true, 0o670)] {
        let mut view = View::new(0o640, listed);
        let new = view.again(if listed { 0o660 } else { 0o640 });
        assert_eq!(view.has(new).0, SHARED);
        view.chmod(new, 0o600);
        view.chmod(new, 0o640);
        assert_eq!(view.has(new), (SHARED, 0o640, listed));
        view.chmod(new, wide);
        assert_eq!(view.has(new), (1000, wide, false));
        view.chmod(new, 0o640);
        assert_eq!(view.has(new), (1000, 0o640, false));
    }
    let mut view = View::new(0o640, false);
    let new = view.make(b"new");
    view.chmod(new, 0o640);
    view.rename(b"new", b"old", RenameFlags::empty())
        .expect("renamed");
    assert_eq!(view.has(new), (SHARED, 0o640, false));
    view.chmod(new, 0o660);
    assert_eq!(view.has(new), (1000, 0o660, false));
}

#[test]
fn another_name_takes_group_and_list_back() {
    let none = RenameFlags::empty();
    for listed in [false, true] {
        let mode = if listed { 0o660 } else { 0o640 };
        // The new file gets its mode before it gets the other name, or after.
        for first in [true, false] {
            for way in ["rename", "exchange", "link", "link and remove"] {
                let mut view = View::new(0o640, listed);
                let new = view.again(if first { mode } else { 0o600 });
                assert_eq!(view.has(new).0, if first { SHARED } else { 1000 });
                match way {
                    "rename" => view.rename(b"old", b"other", none).expect("renamed"),
                    "exchange" => {
                        view.make(b"other");
                        view.rename(b"other", b"old", RENAME_EXCHANGE)
                            .expect("exchanged");
                    }
                    _ => {
                        let linked = view.fs.link(&view.w, new, (ROOT, b"other"));
                        linked.expect("linked");
                        if way == "link and remove" {
                            view.remove(b"old");
                        }
                    }
                }
                view.chmod(new, mode);
                assert_eq!(view.has(new), (1000, mode, false), "{way} {first}");
            }
        }
    }
}

#[test]
fn file_with_two_names_or_a_failed_rename_gets_nothing() {
    let mut view = View::new(0o640, false);
    let new = view.make(b"new");
    view.chmod(new, 0o640);
    let failed = view.rename(b"new", b"old", RENAME_NOREPLACE);
    assert_eq!(failed, Err(Errno::EEXIST));
    assert_eq!(view.has(new), (1000, 0o640, false));
    view.fs
        .link(&view.w, new, (ROOT, b"second"))
        .expect("linked");
    view.rename(b"new", b"old", RenameFlags::empty())
        .expect("renamed");
    assert_eq!(view.has(new), (1000, 0o640, false));
}
