// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that mount namespaces, propagation, mount trees that belong to a file, and pivot_root, as
//! tasks call them, answer and act as in Linux 6.18.

use crate::tasks::{self, NOBODY, Short, root, says, tree, user, vfs};
use openpath_abi::fcntl::{AT_FDCWD, AT_RECURSIVE, O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY};
use openpath_abi::mount::{
    MNT_DETACH, MOUNT_ATTR_IDMAP, MOUNT_ATTR_RDONLY, MOVE_MOUNT_BENEATH, MOVE_MOUNT_F_EMPTY_PATH,
    MS_PRIVATE, MS_REC, MS_SHARED, MS_SLAVE, MS_UNBINDABLE, OPEN_TREE_CLONE,
};
use openpath_abi::{AtFlags, Errno, MountAttrFlags, UmountFlags};
use openpath_vfs::{LSMT_ROOT, MountAttr, MountFlags, Task, Vfs};

fn mount(t: &Task, target: &str) -> String {
    says(t.mount(tree(), target.as_bytes(), MountFlags::default()))
}

fn bind(t: &Task, source: &str, target: &str) -> String {
    says(t.bind(source.as_bytes(), target.as_bytes()))
}

fn umount(t: &Task, target: &str, flags: UmountFlags) -> String {
    says(t.umount(target.as_bytes(), flags))
}

fn kind(t: &Task, target: &str, flags: u64) -> String {
    says(t.set_propagation(target.as_bytes(), flags))
}

/// The numbers of mounts and of pins.
fn held(vfs: &Vfs) -> (u32, usize) {
    let usage = vfs.usage();
    (usage.mounts, usage.pins)
}

/// Whether the task sees a file `mark` in a directory.
fn sees(t: &Task, dir: &str) -> bool {
    t.stat(format!("{dir}/mark").as_bytes()).is_ok()
}

/// Mounts a tree with a file `mark` in it.
fn marked(t: &Task, target: &str) {
    assert_eq!(mount(t, target), "0", "{target}");
    let mark = format!("{target}/mark");
    let made = t.open(mark.as_bytes(), O_CREAT | O_WRONLY, 0o644);
    t.close(made.expect("open")).expect("close");
}

fn setup() -> (Vfs, Task) {
    let vfs = vfs();
    let t = root(&vfs);
    for dir in ["/a", "/a/x", "/b", "/c", "/m"] {
        t.dir(dir);
    }
    (vfs, t)
}

#[test]
fn a_copied_namespace_has_the_current_mounts_and_no_later_ones() {
    let (vfs, t) = setup();
    marked(&t, "/a/x");
    t.chdir(b"/a/x").expect("chdir");
    let before = held(&vfs);
    let guest = t.fork().expect("fork");
    guest.unshare_mounts().expect("unshare");
    assert_ne!(guest.namespace().id(), t.namespace().id());
    assert_eq!(guest.getcwd().expect("getcwd"), b"/a/x");
    assert!(sees(&guest, "/a/x") && sees(&guest, "."));
    marked(&t, "/b");
    marked(&guest, "/c");
    assert!(sees(&t, "/b") && !sees(&guest, "/b"));
    assert!(sees(&guest, "/c") && !sees(&t, "/c"));
    // Each unmounts its own.
    assert_eq!(umount(&guest, "/a/x", MNT_DETACH), "0");
    assert!(sees(&t, "/a/x") && !sees(&guest, "/a/x"));
    assert_eq!(umount(&t, "/b", UmountFlags::empty()), "0");
    drop(guest);
    assert_eq!(held(&vfs), before, "the namespace outlived its last task");
}

#[test]
fn mounts_propagate_to_peers_and_slaves() {
    let (_vfs, t) = setup();
    marked(&t, "/m");
    t.dir("/m/d");
    assert_eq!(kind(&t, "/m", MS_SHARED), "0");
    assert_eq!(bind(&t, "/m", "/a"), "0");
    assert_eq!(bind(&t, "/m", "/b"), "0");
    assert_eq!(kind(&t, "/b", MS_SLAVE), "0");
    assert_eq!(bind(&t, "/m", "/c"), "0");
    assert_eq!(kind(&t, "/c", MS_PRIVATE), "0");
    marked(&t, "/m/d");
    let seen = ["/m/d", "/a/d", "/b/d", "/c/d"].map(|dir| sees(&t, dir));
    assert_eq!(seen, [true, true, true, false]);
    // A mount in a slave does not propagate.
    assert_eq!(umount(&t, "/b/d", UmountFlags::empty()), "0");
    let seen = ["/m/d", "/a/d", "/b/d"].map(|dir| sees(&t, dir));
    assert_eq!(seen, [true, true, false]);
    // An unmount at one peer propagates to all, unless one is in use.
    let user = t.open(b"/a/d", O_DIRECTORY, 0).expect("open");
    assert_eq!(umount(&t, "/m/d", UmountFlags::empty()), "EBUSY");
    t.close(user).expect("close");
    assert_eq!(umount(&t, "/a/d", UmountFlags::empty()), "0");
    assert_eq!(["/m/d", "/a/d"].map(|dir| sees(&t, dir)), [false, false]);
}

#[test]
fn a_propagated_mount_goes_below_an_existing_one() {
    let (_vfs, t) = setup();
    marked(&t, "/m");
    t.dir("/m/d");
    assert_eq!(kind(&t, "/m", MS_SHARED), "0");
    assert_eq!(bind(&t, "/m", "/a"), "0");
    assert_eq!(kind(&t, "/a", MS_SLAVE), "0");
    assert_eq!(mount(&t, "/a/d"), "0");
    marked(&t, "/m/d");
    // The slave keeps its own mount on top; the propagated one lies below.
    assert!(sees(&t, "/m/d") && !sees(&t, "/a/d"));
    assert_eq!(umount(&t, "/a/d", UmountFlags::empty()), "0");
    assert!(sees(&t, "/a/d"));
}

#[test]
fn unbindable_mounts_are_left_out_of_binds_and_shared_mounts() {
    let (_vfs, t) = setup();
    marked(&t, "/a/x");
    assert_eq!(kind(&t, "/a/x", MS_UNBINDABLE), "0");
    assert_eq!(bind(&t, "/a/x", "/b"), "EINVAL");
    assert_eq!(says(t.bind_tree(b"/a", b"/b")), "0");
    assert!(!sees(&t, "/b/x"));
    marked(&t, "/c");
    t.dir("/c/d");
    assert_eq!(kind(&t, "/c", MS_SHARED), "0");
    assert_eq!(says(t.move_mount_to(b"/a/x", b"/c/d")), "EINVAL");
    assert_eq!(kind(&t, "/c", MS_PRIVATE), "0");
    assert_eq!(says(t.move_mount_to(b"/a/x", b"/c/d")), "0");
    assert!(sees(&t, "/c/d") && !sees(&t, "/a/x"));
    // A copied namespace includes them.
    t.unshare_mounts().expect("unshare");
    assert!(sees(&t, "/c/d"));
}

#[test]
fn a_mount_has_exactly_one_propagation_type() {
    let (_vfs, t) = setup();
    assert_eq!(kind(&t, "/a", MS_SHARED), "EINVAL");
    assert_eq!(mount(&t, "/a"), "0");
    assert_eq!(kind(&t, "/a", MS_SHARED | MS_SLAVE), "EINVAL");
    assert_eq!(kind(&t, "/a", MS_REC), "EINVAL");
    assert_eq!(kind(&t, "/a", MS_SHARED | MS_REC), "0");
    let nobody = user(&t, NOBODY);
    assert_eq!(kind(&nobody, "/a", MS_PRIVATE), "EPERM");
    assert_eq!(kind(&nobody, "/nowhere", MS_PRIVATE), "ENOENT");
}

#[test]
fn a_mount_moves_unless_into_itself() {
    let (_vfs, t) = setup();
    marked(&t, "/a");
    t.dir("/a/d");
    marked(&t, "/a/d");
    assert_eq!(says(t.move_mount_to(b"/a", b"/a/d")), "ELOOP");
    assert_eq!(says(t.move_mount_to(b"/a/d", b"/b")), "0");
    assert_eq!(says(t.move_mount_to(b"/a", b"/c")), "0");
    assert!(sees(&t, "/b") && sees(&t, "/c") && !sees(&t, "/a"));
    assert_eq!(says(t.move_mount_to(b"/m", b"/c")), "EINVAL");
    assert_eq!(says(t.move_mount_to(b"/", b"/c")), "ELOOP");
}

#[test]
fn a_name_is_busy_only_in_a_namespace_that_mounts_on_it() {
    let (_vfs, t) = setup();
    let guest = t.fork().expect("fork");
    guest.unshare_mounts().expect("unshare");
    marked(&guest, "/a/x");
    assert_eq!(says(guest.rmdir(b"/a/x")), "EBUSY");
    let inside = guest.open(b"/a/x", O_DIRECTORY, 0).expect("open");
    assert_eq!(says(t.rmdir(b"/a/x")), "0");
    assert_eq!(says(guest.stat(b"/a/x")), "ENOENT");
    // A task in the mount stays in it.
    assert_eq!(
        says(guest.shut(guest.openat(inside, b"mark", O_RDONLY, 0))),
        "0"
    );
    // A renamed directory takes along what others mounted on it.
    marked(&guest, "/b");
    assert_eq!(says(t.rename(b"/b", b"/b2")), "0");
    assert!(sees(&guest, "/b2"));
    // A directory that replaces it does not.
    t.dir("/n");
    assert_eq!(says(t.rename(b"/n", b"/b2")), "0");
    assert!(!sees(&guest, "/b2"));
}

#[test]
fn an_open_tree_lives_as_long_as_its_descriptor() {
    let (vfs, t) = setup();
    marked(&t, "/a/x");
    let before = held(&vfs);
    let cloned = t
        .open_tree(AT_FDCWD, b"/a", OPEN_TREE_CLONE)
        .expect("open_tree");
    assert_eq!(
        says(t.fstatat(cloned, b"x/mark", AtFlags::empty())),
        "ENOENT"
    );
    t.close(cloned).expect("close");
    assert_eq!(held(&vfs), before);
    let whole = OPEN_TREE_CLONE | AT_RECURSIVE;
    let cloned = t.open_tree(AT_FDCWD, b"/a", whole).expect("open_tree");
    assert_eq!(says(t.fstatat(cloned, b"x/mark", AtFlags::empty())), "0");
    // It can be mounted once, and stays when the file is closed.
    let empty = MOVE_MOUNT_F_EMPTY_PATH;
    assert_eq!(says(t.move_mount(cloned, b"", AT_FDCWD, b"/b", empty)), "0");
    t.close(cloned).expect("close");
    assert!(sees(&t, "/b/x"));
    assert_eq!(says(t.open_tree(AT_FDCWD, b"/a", AT_RECURSIVE)), "EINVAL");
    let nobody = user(&t, NOBODY);
    assert_eq!(
        says(nobody.open_tree(AT_FDCWD, b"/nowhere", OPEN_TREE_CLONE)),
        "EPERM"
    );
}

#[test]
fn fsmount_gives_a_mount_as_a_file() {
    let (vfs, t) = setup();
    let before = held(&vfs);
    let fd = t.fsmount(tree(), 0, MOUNT_ATTR_RDONLY).expect("fsmount");
    let made = t.openat(fd, b"f", O_CREAT | O_WRONLY, 0o644);
    assert_eq!(says(made), "EROFS");
    let empty = MOVE_MOUNT_F_EMPTY_PATH;
    assert_eq!(says(t.move_mount(fd, b"", AT_FDCWD, b"/b", empty)), "0");
    assert_eq!(says(t.move_mount(fd, b"", AT_FDCWD, b"/a", empty)), "0");
    t.close(fd).expect("close");
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "0");
    let unused = t
        .fsmount(tree(), 0, MountAttrFlags::empty())
        .expect("fsmount");
    t.close(unused).expect("close");
    assert_eq!(held(&vfs), before);
}

#[test]
fn move_mount_puts_a_mount_beneath_another() {
    let (_vfs, t) = setup();
    marked(&t, "/a");
    assert_eq!(mount(&t, "/b"), "0");
    let beneath = |from: &str, to: &str| {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        says(t.move_mount(AT_FDCWD, from, AT_FDCWD, to, MOVE_MOUNT_BENEATH))
    };
    assert_eq!(beneath("/a", "/c"), "EINVAL");
    assert_eq!(beneath("/a", "/b"), "0");
    assert!(!sees(&t, "/a") && !sees(&t, "/b"));
    assert_eq!(umount(&t, "/b", UmountFlags::empty()), "0");
    assert!(sees(&t, "/b"));
}

#[test]
fn mount_setattr_on_a_tree_changes_all_mounts_or_none() {
    let (_vfs, t) = setup();
    marked(&t, "/a");
    t.dir("/a/d");
    marked(&t, "/a/d");
    let attr = MountAttr {
        attr_set: MOUNT_ATTR_RDONLY,
        ..MountAttr::default()
    };
    let set = |path: &str| says(t.mount_setattr(AT_FDCWD, path.as_bytes(), AT_RECURSIVE, &attr));
    let writer = t.open(b"/a/d/w", O_CREAT | O_WRONLY, 0o644).expect("open");
    assert_eq!(set("/a"), "EBUSY");
    assert_eq!(says(t.mkdir(b"/a/n", 0o755)), "0");
    t.close(writer).expect("close");
    assert_eq!(set("/a"), "0");
    assert_eq!(says(t.mkdir(b"/a/n2", 0o755)), "EROFS");
    assert_eq!(says(t.mkdir(b"/a/d/n", 0o755)), "EROFS");
    assert_eq!(set("/b"), "EINVAL");
    let nothing = MountAttr::default();
    assert_eq!(
        says(t.mount_setattr(AT_FDCWD, b"/nowhere", AtFlags::empty(), &nothing)),
        "0"
    );
}

#[test]
fn pivot_root_moves_tasks_at_the_old_root() {
    let (_vfs, t) = setup();
    marked(&t, "/m");
    t.dir("/m/old");
    let other = t.fork().expect("fork");
    let away = t.fork().expect("fork");
    away.chdir(b"/a").expect("chdir");
    let pivot = |new: &str, old: &str| says(t.pivot_root(new.as_bytes(), old.as_bytes()));
    assert_eq!(pivot("/a", "/a/x"), "EBUSY");
    assert_eq!(pivot("/m", "/a"), "EBUSY");
    assert_eq!(pivot("/nowhere", "/m"), "ENOENT");
    assert_eq!(kind(&t, "/m", MS_SHARED), "0");
    assert_eq!(pivot("/m", "/m/old"), "EINVAL");
    assert_eq!(kind(&t, "/m", MS_PRIVATE), "0");
    assert_eq!(pivot("/m", "/m/old"), "0");
    assert!(sees(&t, "") && sees(&other, ""));
    assert_eq!(t.getcwd().expect("getcwd"), b"/");
    assert_eq!(away.getcwd().expect("getcwd"), b"/old/a");
    assert_eq!(says(other.stat(b"/old/a/x")), "0");
    // Every task has followed: the old root is an ordinary mount.
    drop(away);
    assert_eq!(umount(&t, "/old", UmountFlags::empty()), "0");
    assert_eq!(says(t.stat(b"/old/a")), "ENOENT");
}

#[test]
fn an_idle_task_keeps_the_old_root_until_its_next_call() {
    let (_vfs, t) = setup();
    marked(&t, "/m");
    t.dir("/m/old");
    let other = t.fork().expect("fork");
    assert_eq!(says(t.pivot_root(b"/m", b"/m/old")), "0");
    assert_eq!(umount(&t, "/old", UmountFlags::empty()), "EBUSY");
    assert!(sees(&other, ""));
    assert_eq!(umount(&t, "/old", UmountFlags::empty()), "0");
}

#[test]
fn id_mapped_mounts_are_refused() {
    let (_vfs, t) = setup();
    assert_eq!(mount(&t, "/a"), "0");
    let attr = MountAttr {
        attr_set: MOUNT_ATTR_IDMAP,
        ..MountAttr::default()
    };
    assert_eq!(
        says(t.mount_setattr(AT_FDCWD, b"/a", AtFlags::empty(), &attr)),
        "EINVAL"
    );
}

#[test]
fn setns_enters_a_namespace_at_its_root() {
    let (vfs, t) = setup();
    let guest = t.fork().expect("fork");
    guest.unshare_mounts().expect("unshare");
    marked(&guest, "/a");
    let theirs = guest.namespace();
    t.chdir(b"/b").expect("chdir");
    let nobody = user(&t, NOBODY);
    assert_eq!(says(nobody.set_namespace(&theirs)), "EPERM");
    assert_eq!(says(t.set_namespace(&theirs)), "0");
    assert_eq!(t.getcwd().expect("getcwd"), b"/");
    assert!(sees(&t, "/a"));
    let elsewhere = root(&tasks::vfs());
    assert_eq!(says(elsewhere.set_namespace(&theirs)), "EINVAL");
    drop((guest, t, nobody));
    // Only the handle keeps the namespace.
    let mounts = vfs.usage().mounts;
    drop(theirs);
    assert_eq!(vfs.usage().mounts, mounts - 3);
}

#[test]
fn namespaces_and_their_mounts_have_limits() {
    let limits = openpath_vfs::Limits::default().namespaces_max(2);
    let sysctl = openpath_vfs::Sysctl::default().mount_max(5);
    let vfs = Vfs::builder().limits(limits).sysctl(sysctl);
    let vfs = vfs.build(tree()).expect("a Vfs");
    let t = root(&vfs);
    for dir in ["/a", "/b"] {
        t.dir(dir);
    }
    let guest = t.fork().expect("fork");
    assert_eq!(says(guest.unshare_mounts()), "0");
    assert_eq!(says(t.fork().expect("fork").unshare_mounts()), "ENOSPC");
    assert_eq!(mount(&t, "/a"), "0");
    t.dir("/a/d");
    assert_eq!(kind(&t, "/a", MS_SHARED), "0");
    assert_eq!(bind(&t, "/a", "/b"), "0");
    let before = held(&vfs);
    // One here and one at the peer exceed the limit, and the attempt leaves nothing behind.
    assert_eq!(mount(&t, "/a/d"), "ENOSPC");
    assert_eq!(held(&vfs), before);
    assert_eq!(kind(&t, "/b", MS_PRIVATE), "0");
    assert_eq!(mount(&t, "/a/d"), "0");
    assert_eq!(
        says(t.mount(tree(), b"/b", MountFlags::default())),
        "ENOSPC"
    );
    assert_eq!(Err(Errno::ENOSPC), t.bind(b"/a", b"/a"));
}

#[test]
fn mountinfo_lists_mounts_below_the_root() {
    let (_vfs, t) = setup();
    marked(&t, "/a/x");
    assert_eq!(kind(&t, "/a/x", MS_SHARED), "0");
    t.dir("/a/x/sub dir");
    assert_eq!(bind(&t, "/a/x/sub dir", "/b"), "0");
    assert_eq!(kind(&t, "/b", MS_SLAVE), "0");
    let lines: Vec<String> = t.mountinfo().iter().map(ToString::to_string).collect();
    let rest = |line: &String| {
        let words: Vec<&str> = line.split(' ').skip(3).collect();
        words.join(" ")
    };
    let rests: Vec<String> = lines.iter().map(rest).collect();
    let expected = [
        "/ / rw,relatime - tmpfs none rw",
        "/ /a/x rw,relatime shared:1 - tmpfs none rw",
        "/sub\\040dir /b rw,relatime master:1 - tmpfs none rw",
    ];
    assert_eq!(rests, expected);
    let infos = t.mountinfo();
    assert_eq!(infos[1].parent, infos[0].id);
    assert_eq!(t.statmount(infos[2].unique_id, 0).as_ref(), Ok(&infos[2]));
    let ids: Vec<u64> = infos.iter().map(|info| info.unique_id).collect();
    assert_eq!(t.listmount(LSMT_ROOT, 0, 0, 10), Ok(ids.clone()));
    assert_eq!(t.listmount(LSMT_ROOT, 0, ids[0], 1), Ok(vec![ids[1]]));
    assert_eq!(t.listmount(ids[1], 0, 0, 10), Ok(vec![]));
    assert_eq!(t.statmount(1 << 40, 0), Err(Errno::ENOENT));
    // A task with another root sees only the mounts below it.
    let inside = t.fork().expect("fork");
    inside.chroot(b"/b").expect("chroot");
    let seen = inside.mountinfo();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        rest(&seen[0].to_string()),
        "/sub\\040dir / rw,relatime master:1 - tmpfs none rw"
    );
    inside.set_cred(openpath_vfs::Cred::user(NOBODY, NOBODY, &[]));
    assert_eq!(inside.statmount(ids[1], 0), Err(Errno::EPERM));
}

#[test]
fn mountinfo_shows_the_group_behind_an_unreachable_master() {
    let (_vfs, t) = setup();
    marked(&t, "/a");
    assert_eq!(kind(&t, "/a", MS_SHARED), "0");
    assert_eq!(bind(&t, "/a", "/b"), "0");
    assert_eq!(kind(&t, "/b", MS_SLAVE), "0");
    assert_eq!(kind(&t, "/b", MS_SHARED), "0");
    assert_eq!(bind(&t, "/b", "/c"), "0");
    assert_eq!(kind(&t, "/c", MS_SLAVE), "0");
    let guest = t.fork().expect("fork");
    guest.unshare_mounts().expect("unshare");
    let last = |t: &Task| {
        let infos = t.mountinfo();
        let last = infos.last().expect("a mount");
        (last.master, last.propagate_from)
    };
    assert_eq!(last(&guest), (Some(2), Some(2)));
    assert_eq!(umount(&guest, "/b", UmountFlags::empty()), "0");
    assert_eq!(last(&guest), (Some(2), Some(1)));
    // When the last of the group between is gone, it receives from the one behind.
    assert_eq!(umount(&t, "/b", UmountFlags::empty()), "0");
    assert_eq!(last(&guest), (Some(1), Some(1)));
    assert_eq!(last(&t), (Some(1), Some(1)));
}

#[test]
fn many_mounts_propagate_and_go_together() {
    const MANY: usize = 2_000;
    let (vfs, t) = setup();
    let before = held(&vfs);
    let guest = t.fork().expect("fork");
    guest.unshare_mounts().expect("unshare");
    assert_eq!(mount(&guest, "/a"), "0");
    assert_eq!(kind(&guest, "/a", MS_SHARED), "0");
    guest.set_rlimit_nofile(MANY as u64);
    guest.dir("/a/d");
    // A stack in a shared mount with a peer: each comes and goes twice.
    assert_eq!(bind(&guest, "/a", "/b"), "0");
    for _ in 0..MANY {
        assert_eq!(bind(&guest, "/c", "/a/d"), "0");
    }
    assert_eq!(guest.mountinfo().len(), 3 + 2 * MANY);
    assert_eq!(umount(&guest, "/a", MNT_DETACH), "0");
    assert_eq!(guest.mountinfo().len(), 2);
    // All on one directory, and gone with their namespace.
    for _ in 0..MANY {
        assert_eq!(says(guest.open_tree(AT_FDCWD, b"/c", OPEN_TREE_CLONE)), "0");
    }
    drop(guest);
    assert_eq!(held(&vfs), before);
}
