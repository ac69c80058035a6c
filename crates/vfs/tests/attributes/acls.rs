// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that access control lists in memory take space and free it, that explanations name the
//! entry that decided, and that walks over cached paths obey a changed list.

use crate::world::*;
use openpath_abi::access::{R_OK, W_OK};
use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_abi::xattr::{ACL_ACCESS_NAME, ACL_DEFAULT_NAME};
use openpath_abi::{Errno, OpenHow, XattrFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Acl, AclEntry, AclMatch, AclTag, Decider, ExplainOp, Step, TenantLimits, Vfs};

/// An access control list with one named user.
fn list(user: u32, perm: u16) -> Vec<u8> {
    let entries = [
        (AclTag::UserObj, 6),
        (AclTag::User(user), perm),
        (AclTag::GroupObj, 4),
        (AclTag::Mask, 6),
        (AclTag::Other, 4),
    ];
    let entries = entries.map(|(tag, perm)| AclEntry { tag, perm });
    Acl::new(entries.to_vec()).encode()
}

#[test]
fn an_acl_takes_space_and_frees_it() {
    let tree = MemFs::new(MemOptions::default().mode(0o755).inodes(6));
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    let task = root(&vfs);
    let tenant = vfs.tenant(TenantLimits::default());
    task.set_tenant(&tenant).expect("a tenant");
    task.touch("/f", 0o644, (0, 0));
    task.dir("/d", 0o755, (0, 0));
    let free = || task.statfs(b"/").expect("statfs").ffree;
    let (bytes, room) = (tenant.stats().bytes, free());
    let set = |path: &[u8], name: &[u8], value: &[u8]| {
        task.setxattr(path, name, value, XattrFlags::empty())
    };
    assert_eq!(set(b"/f", ACL_ACCESS_NAME, &list(1000, 6)), Ok(()));
    let taken = ACL_ACCESS_NAME.len() as u64 + 40 + 4 + 5 * 8;
    assert_eq!(tenant.stats().bytes - bytes, taken);
    // Replaces the first list.
    assert_eq!(set(b"/f", ACL_ACCESS_NAME, &list(1001, 6)), Ok(()));
    assert_eq!(tenant.stats().bytes - bytes, taken);
    assert_eq!(task.removexattr(b"/f", ACL_ACCESS_NAME), Ok(()));
    assert_eq!((tenant.stats().bytes, free()), (bytes, room));
    assert_eq!(set(b"/d", ACL_DEFAULT_NAME, &list(1000, 6)), Ok(()));
    let before = tenant.stats().bytes;
    task.touch("/d/f", 0o666, (0, 0));
    assert!(tenant.stats().bytes >= before + taken);
    task.unlink(b"/d/f").expect("unlink");
    task.rmdir(b"/d").expect("rmdir");
    vfs.collect();
    assert_eq!(free(), room + 1);
    // A list that does not fit changes nothing.
    let many = (0..500).map(|uid| (AclTag::User(uid), 6));
    let ends = [(AclTag::GroupObj, 4), (AclTag::Mask, 6), (AclTag::Other, 4)];
    let entries = [(AclTag::UserObj, 6)].into_iter().chain(many).chain(ends);
    let long = entries.map(|(tag, perm)| AclEntry { tag, perm }).collect();
    let long = Acl::new(long).encode();
    assert_eq!(set(b"/f", ACL_ACCESS_NAME, &long), Err(Errno::ENOSPC));
    assert_eq!(task.lstat(b"/f").expect("stat").mode & 0o777, 0o664);
    assert_eq!(task.getxattr(b"/f", ACL_ACCESS_NAME), Err(Errno::ENODATA));
}

#[test]
fn explain_names_the_acl_entry_that_decided() {
    let vfs = world();
    let task = root(&vfs);
    task.touch("/f", 0o644, (0, 50));
    let value = list(1000, 0);
    task.setxattr(b"/f", ACL_ACCESS_NAME, &value, XattrFlags::empty())
        .expect("a list");
    let decided = |uid, groups: &[u32]| {
        let user = user(&vfs, uid, groups, &[]);
        let how = OpenHow {
            flags: u64::from(O_RDONLY),
            ..OpenHow::default()
        };
        let why = user.explain(&ExplainOp::Openat2 {
            dirfd: AT_FDCWD,
            path: b"/f",
            how,
        });
        let asked = why.steps.iter().rev().find_map(|step| match step {
            Step::Asked(asked) => Some((asked.by, asked.granted)),
            _ => None,
        });
        (why.result.is_ok(), asked)
    };
    let denied = Some((Decider::Acl(AclMatch::User(1000)), false));
    assert_eq!(decided(1000, &[]), (false, denied));
    assert!(decided(1001, &[]).0);
}

#[test]
fn cached_walks_obey_a_changed_acl() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    task.touch("/d/f", 0o644, (0, 0));
    let user = user(&vfs, 1000, &[], &[]);
    for _ in 0..2 {
        assert_eq!(user.access(b"/d/f", R_OK), Ok(()));
        let value = list(1000, 6);
        task.setxattr(b"/d", ACL_ACCESS_NAME, &value, XattrFlags::empty())
            .expect("a list");
        assert_eq!(user.access(b"/d/f", R_OK), Err(Errno::EACCES));
        assert_eq!(user.open(b"/d/f", O_RDONLY, 0), Err(Errno::EACCES));
        task.removexattr(b"/d", ACL_ACCESS_NAME).expect("removed");
        task.chmod(b"/d", 0o755).expect("chmod");
        assert_eq!(user.access(b"/d/f", R_OK), Ok(()));
        assert_eq!(user.access(b"/d/f", W_OK), Err(Errno::EACCES));
    }
}
