// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the access control list of a host's file is read by the first check that needs it and
//! is obeyed, also after others change it. A list that cannot be read denies all but the owner.

mod common;

use common::{SEEING, Scratch, policy, tree};
use openpath_abi::access::R_OK;
use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY, O_RDWR};
use openpath_abi::xattr::ACL_ACCESS_NAME;
use openpath_abi::{AtFlags, Errno, XattrFlags};
use openpath_host::{HostFs, Policy};
use openpath_vfs::{
    Acl, AclEntry, AclTag, Cred, Inode, LookupResult, SuperBlock, Task, TryError, Vfs, WaitMode,
};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

/// The user that the lists name.
const NAMED: u32 = 61_000;
/// Another one.
const OTHER: u32 = 61_001;

/// A list that gives [`NAMED`] these bits, and everyone else `rw-`.
fn list(perm: u16) -> Vec<u8> {
    let entries = [
        (AclTag::UserObj, 6),
        (AclTag::User(NAMED), perm),
        (AclTag::GroupObj, 6),
        (AclTag::Mask, 6),
        (AclTag::Other, 6),
    ];
    let entries = entries.map(|(tag, perm)| AclEntry { tag, perm });
    Acl::new(entries.to_vec()).encode()
}

/// Gives a file of the host a list; `None` where the host has none.
fn give(s: &Scratch, name: &str, perm: u16) -> Option<()> {
    let flags = rustix::fs::XattrFlags::empty();
    let given = rustix::fs::setxattr(s.at(name), ACL_ACCESS_NAME, &list(perm), flags);
    if given == Err(rustix::io::Errno::OPNOTSUPP) {
        eprintln!("left out: no access control lists here");
        return None;
    }
    given.expect("a list");
    Some(())
}

struct World {
    s: Scratch,
    tree: Arc<SuperBlock>,
    vfs: Vfs,
    root: Task,
}

/// A tree with the file `f`, which denies [`NAMED`] everything.
fn world(name: &str, p: Policy) -> Option<World> {
    let s = Scratch::new(name);
    s.put("f", "data");
    std::fs::set_permissions(s.at("f"), PermissionsExt::from_mode(0o666)).expect("a mode");
    give(&s, "f", 0)?;
    let tree = tree(&s, policy(p));
    let vfs = Vfs::builder().build(Arc::clone(&tree)).expect("a Vfs");
    let root = vfs.task(Cred::root()).expect("a task");
    Some(World { s, tree, vfs, root })
}

impl World {
    fn user(&self, uid: u32) -> Task {
        let cred = Cred::user(uid, uid, &[]);
        self.vfs.task(cred).expect("a task")
    }

    fn file(&self) -> Arc<Inode> {
        let root = self.tree.root();
        match root.ops().lookup(root, b"f", WaitMode::Wait) {
            Ok(LookupResult::Inode(inode)) => inode,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn list_is_read_by_the_first_check_that_needs_it() {
    let all = [Policy::Exclusive].into_iter().chain(SEEING);
    for p in all {
        let Some(w) = world("acl-first", p) else {
            return;
        };
        let file = w.file();
        w.root.stat(b"/f").expect("attributes");
        let fd = w.root.open(b"/f", O_RDWR, 0).expect("the owner's open");
        w.root.close(fd).expect("close");
        assert!(file.are_acls_unread(), "{p:?}: nobody needed it");
        let named = w.user(NAMED);
        assert_eq!(named.open(b"/f", O_RDONLY, 0), Err(Errno::EACCES), "{p:?}");
        assert!(!file.are_acls_unread(), "{p:?}");
        assert_eq!(w.user(OTHER).access(b"/f", R_OK), Ok(()), "{p:?}");
        assert_eq!(w.root.getxattr(b"/f", ACL_ACCESS_NAME), Ok(list(0)));
    }
}

#[test]
fn value_and_names_of_a_list_are_there_before_any_check() {
    let Some(w) = world("acl-value", Policy::Notify) else {
        return;
    };
    let names = w.root.listxattr(b"/f").expect("names");
    assert!(
        names
            .windows(ACL_ACCESS_NAME.len())
            .any(|n| n == ACL_ACCESS_NAME)
    );
    let Some(w) = world("acl-value", Policy::Notify) else {
        return;
    };
    assert_eq!(w.root.getxattr(b"/f", ACL_ACCESS_NAME), Ok(list(0)));
}

#[test]
fn call_that_may_not_wait_leaves_the_list_to_one_that_may() {
    let Some(w) = world("acl-try", Policy::Notify) else {
        return;
    };
    // A readable handle is there, so that nothing but the list is missing.
    let _held = w.root.open(b"/f", O_RDONLY, 0).expect("open");
    let (named, other) = (w.user(NAMED), w.user(OTHER));
    assert!(
        w.root.try_open(b"/f", O_RDONLY, 0).is_ok(),
        "the owner's open needs no list"
    );
    assert_eq!(
        other.try_open(b"/f", O_RDONLY, 0),
        Err(TryError::WouldBlock)
    );
    assert_eq!(
        named.try_faccessat2(AT_FDCWD, b"/f", R_OK, AtFlags::empty()),
        Err(TryError::WouldBlock)
    );
    assert_eq!(named.access(b"/f", R_OK), Err(Errno::EACCES));
    let denied = Err(TryError::Errno(Errno::EACCES));
    assert_eq!(named.try_open(b"/f", O_RDONLY, 0), denied);
    assert!(other.try_open(b"/f", O_RDONLY, 0).is_ok());
}

#[test]
fn list_that_others_change_is_obeyed_read_or_not() {
    for p in SEEING {
        for read_before in [false, true] {
            let Some(w) = world("acl-others", p) else {
                return;
            };
            let named = w.user(NAMED);
            w.root.stat(b"/f").expect("attributes");
            if read_before {
                assert_eq!(named.access(b"/f", R_OK), Err(Errno::EACCES), "{p:?}");
            }
            give(&w.s, "f", 6).expect("a list");
            HostFs::catch_up(&w.tree);
            assert_eq!(named.access(b"/f", R_OK), Ok(()), "{p:?}");
            give(&w.s, "f", 0).expect("a list");
            HostFs::catch_up(&w.tree);
            assert_eq!(named.access(b"/f", R_OK), Err(Errno::EACCES), "{p:?}");
        }
    }
}

#[test]
fn change_of_mode_or_list_here_counts_for_an_unread_list() {
    let Some(w) = world("acl-change", Policy::Notify) else {
        return;
    };
    let named = w.user(NAMED);
    w.root.chmod(b"/f", 0o660).expect("chmod");
    assert_eq!(named.access(b"/f", R_OK), Err(Errno::EACCES));
    assert_eq!(w.user(OTHER).access(b"/f", R_OK), Err(Errno::EACCES));
    let Some(w) = world("acl-change", Policy::Notify) else {
        return;
    };
    let (named, none) = (w.user(NAMED), XattrFlags::empty());
    w.root
        .setxattr(b"/f", ACL_ACCESS_NAME, &list(4), none)
        .expect("a list");
    assert_eq!(named.access(b"/f", R_OK), Ok(()));
}

#[test]
fn list_that_cannot_be_read_denies_all_but_the_owner() {
    let Some(w) = world("acl-gone", Policy::Exclusive) else {
        return;
    };
    w.root.stat(b"/f").expect("attributes");
    std::fs::remove_file(w.s.at("f")).expect("removed");
    assert_eq!(w.user(OTHER).access(b"/f", R_OK), Err(Errno::EACCES));
}
