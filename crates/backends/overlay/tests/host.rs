// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an overlay over directories of the host shows what other programs change in a lower
//! tree, opens cached files without a call of the host, and takes changes in an ordinary user's
//! upper directory.

mod common;

use common::{get, names, put, task_in};
use openpath_abi::access::R_OK;
use openpath_abi::xattr::ACL_ACCESS_NAME;
use openpath_abi::{Errno, XattrFlags};
use openpath_host::{HostFs, HostOptions, Ownership, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_overlay::{OverlayFs, OverlayOptions};
use openpath_vfs::{Acl, AclEntry, AclTag, Cred, LookupResult, SuperBlock, Task, Vfs, WaitMode};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is removed with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir();
        let place = place.join(format!("openpath-stack-{}-{name}", std::process::id()));
        let _left_over = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(place.join("lower/d")).expect("a directory to play in");
        std::fs::create_dir(place.join("view")).expect("a directory to play in");
        Self(place)
    }

    fn put(&self, name: &str, data: &str) {
        std::fs::write(self.0.join("lower").join(name), data).expect("a file");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _goes_if_it_can = std::fs::remove_dir_all(&self.0);
    }
}

fn tree(dir: &Path, policy: Policy) -> Arc<SuperBlock> {
    let options = HostOptions::default().policy(policy);
    HostFs::open(dir, options).expect("a tree")
}

/// An overlay with the directory as lower tree and a tree in memory as upper one; returns the lower
/// tree too.
fn over_memory(s: &Scratch, policy: Policy) -> (Arc<SuperBlock>, Vfs, Task) {
    let lower = tree(&s.0.join("lower"), policy);
    let options = OverlayOptions::default()
        .lowers(vec![Arc::clone(&lower)])
        .upper(Some(MemFs::new(MemOptions::default())));
    let (vfs, task) = task_in(&OverlayFs::new(options).expect("an overlay"));
    (lower, vfs, task)
}

#[test]
fn changes_in_lower_trees_are_seen() {
    for policy in [Policy::Notify, Policy::Revalidate, Policy::None] {
        let s = Scratch::new(&format!("{policy:?}"));
        s.put("d/f", "one");
        s.put("d/gone", "");
        s.put("d/mine", "below");
        let (lower, _vfs, task) = over_memory(&s, policy);
        assert_eq!(get(&task, "/d/f"), Ok("one".to_owned()));
        assert_eq!(get(&task, "/d/new"), Err(Errno::ENOENT));
        assert_eq!(names(&task, "/d"), ["f", "gone", "mine"]);
        put(&task, "/d/mine", "above");
        // In place, so that it stays the same file.
        s.put("d/f", "another");
        s.put("d/new", "two");
        s.put("d/mine", "not seen");
        let dir = s.0.join("lower/d");
        std::fs::remove_file(dir.join("gone")).expect("remove");
        let mode = std::fs::Permissions::from_mode(0o751);
        std::fs::set_permissions(s.0.join("lower/d/f"), mode).expect("chmod");
        HostFs::catch_up(&lower);
        assert_eq!(get(&task, "/d/f"), Ok("another".to_owned()), "{policy:?}");
        let st = task.stat(b"/d/f").expect("stat");
        assert_eq!((st.size, st.mode & 0o777), (7, 0o751), "{policy:?}");
        assert_eq!(get(&task, "/d/new"), Ok("two".to_owned()), "{policy:?}");
        assert_eq!(get(&task, "/d/gone"), Err(Errno::ENOENT), "{policy:?}");
        assert_eq!(get(&task, "/d/mine"), Ok("above".to_owned()), "{policy:?}");
        assert_eq!(names(&task, "/d"), ["f", "mine", "new"], "{policy:?}");
    }
}

#[test]
fn cached_open_of_a_lower_file_makes_no_call_of_the_host() {
    let s = Scratch::new("cached");
    s.put("d/f", "below");
    let (_lower, _vfs, task) = over_memory(&s, Policy::Exclusive);
    assert_eq!(get(&task, "/d/f"), Ok("below".to_owned()));
    std::fs::remove_dir_all(s.0.join("lower/d")).expect("remove");
    assert_eq!(get(&task, "/d/f"), Ok("below".to_owned()));
}

#[test]
fn upper_directory_of_an_ordinary_user_takes_changes() {
    let s = Scratch::new("anyones");
    s.put("d/f", "below");
    s.put("g", "below");
    let squashed = HostOptions::default()
        .policy(Policy::Exclusive)
        .ownership(Ownership::Squash { uid: 0, gid: 0 });
    let mount = || {
        let upper = HostFs::open(s.0.join("view"), squashed.clone()).expect("a tree");
        let options = OverlayOptions::default()
            .lowers(vec![tree(&s.0.join("lower"), Policy::Exclusive)])
            .upper(Some(upper))
            .syncs(true);
        task_in(&OverlayFs::new(options).expect("an overlay"))
    };
    let (vfs, task) = mount();
    let ino = |task: &Task, path: &[u8]| task.stat(path).map(|st| st.ino);
    let before = ino(&task, b"/d/f");
    put(&task, "/d/f", "above");
    task.rename(b"/d", b"/e").expect("rename");
    task.unlink(b"/g").expect("unlink");
    assert_eq!(ino(&task, b"/e/f"), before);
    drop((vfs, task));
    let (_vfs, task) = mount();
    assert_eq!(names(&task, "/"), ["e"]);
    assert_eq!(get(&task, "/e/f"), Ok("above".to_owned()));
    assert_eq!(ino(&task, b"/e/f"), before);
}

#[test]
fn unread_list_of_a_lower_file_denies_and_is_copied_up() {
    let entries = [
        (AclTag::UserObj, 6),
        (AclTag::User(61_000), 0),
        (AclTag::GroupObj, 6),
        (AclTag::Mask, 6),
        (AclTag::Other, 6),
    ];
    let list = Acl::new(entries.map(|(tag, perm)| AclEntry { tag, perm }).to_vec()).encode();
    let s = Scratch::new("lists");
    s.put("f", "lower");
    let (_direct, direct) = task_in(&tree(&s.0.join("lower"), Policy::Exclusive));
    let set = direct.setxattr(b"/f", ACL_ACCESS_NAME, &list, XattrFlags::empty());
    if set == Err(Errno::EOPNOTSUPP) {
        eprintln!("left out: no access control lists here");
        return;
    }
    set.expect("a list");
    for copied in [false, true] {
        let (lower, vfs, task) = over_memory(&s, Policy::Notify);
        task.stat(b"/f").expect("attributes");
        let named = vfs.task(Cred::user(61_000, 61_000, &[])).expect("a task");
        let other = vfs.task(Cred::user(61_001, 61_001, &[])).expect("a task");
        let below = match lower
            .root()
            .ops()
            .lookup(lower.root(), b"f", WaitMode::Wait)
        {
            Ok(LookupResult::Inode(inode)) => inode,
            found => panic!("{found:?}"),
        };
        assert!(below.are_acls_unread());
        if copied {
            put(&task, "/f", "upper");
        }
        assert_eq!(named.access(b"/f", R_OK), Err(Errno::EACCES), "{copied}");
        assert_eq!(other.access(b"/f", R_OK), Ok(()), "{copied}");
        assert_eq!(task.getxattr(b"/f", ACL_ACCESS_NAME), Ok(list.clone()));
        assert!(!below.are_acls_unread());
    }
}
