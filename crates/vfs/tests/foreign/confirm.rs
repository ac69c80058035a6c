// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in a tree that revalidates, each use of a name and each request for attributes asks
//! the backend. A name that leads elsewhere takes its mounts away but leaves open files as they
//! are.

use super::backend::{Scene, scene, tree};
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_FDCWD, O_APPEND, O_CREAT, O_RDONLY, O_RDWR, SEEK_END};
use openpath_abi::rename::RENAME_NOREPLACE;
use openpath_abi::{Errno, StatxMask, mode};
use openpath_vfs::{Caching, MountFlags, Task};
use std::sync::Arc;

#[test]
fn each_use_of_a_name_is_revalidated_even_if_absent() {
    let s = scene(Caching::Confirm, false);
    let d = s.world.dir(&s.root, "d");
    let f = s.world.file(&d, "f");
    for _ in 0..3 {
        assert_eq!(s.task.stat(b"/d/f").map(|st| st.ino), Ok(f.ino()));
        assert_eq!(s.world.lookups(), 2);
        assert_eq!(s.task.stat(b"/d/none").err(), Some(Errno::ENOENT));
        assert_eq!(s.world.lookups(), 2);
    }
    let other = s.world.file(&d, "f");
    assert_eq!(s.task.stat(b"/d/f").map(|st| st.ino), Ok(other.ino()));
    let none = s.world.file(&d, "none");
    assert_eq!(s.task.stat(b"/d/none").map(|st| st.ino), Ok(none.ino()));
    s.world.take(&d, "f");
    assert_eq!(s.task.open(b"/d/f", O_RDONLY, 0), Err(Errno::ENOENT));
}

#[test]
fn an_open_file_stays_the_same_when_its_name_leads_elsewhere() {
    let s = scene(Caching::Confirm, false);
    let f = s.world.file(&s.root, "f");
    let fd = s.task.open(b"/f", O_RDONLY, 0).expect("open");
    let other = s.world.file(&s.root, "f");
    assert_eq!(s.task.stat(b"/f").map(|st| st.ino), Ok(other.ino()));
    assert_eq!(s.task.fstat(fd).map(|st| st.ino), Ok(f.ino()));
    s.task.close(fd).expect("close");
    s.vfs.collect();
    assert_eq!(s.vfs.usage().pending_free, 0);
}

#[test]
fn changes_of_a_directory_revalidate_its_names() {
    let s = scene(Caching::Confirm, false);
    s.world.file(&s.root, "f");
    s.task.stat(b"/f").expect("cached");
    s.world.take(&s.root, "f");
    assert_eq!(s.task.unlink(b"/f"), Err(Errno::ENOENT));
    assert_eq!(s.task.stat(b"/g").err(), Some(Errno::ENOENT));
    s.world.file(&s.root, "g");
    assert_eq!(s.task.mkdir(b"/g", 0o755), Err(Errno::EEXIST));
    s.task.mkdir(b"/made", 0o755).expect("mkdir");
    s.world.take(&s.root, "made");
    assert_eq!(
        s.task.stat(b"/made").err(),
        Some(Errno::ENOENT),
        "our own new name is revalidated too"
    );
    s.task.rename(b"/g", b"/h").expect("rename");
    s.world.take(&s.root, "h");
    assert_eq!(s.task.stat(b"/h").err(), Some(Errno::ENOENT));
}

#[test]
fn attributes_by_a_descriptor_are_refreshed() {
    let s = scene(Caching::Confirm, false);
    s.world.file(&s.root, "f");
    let fd = s.task.open(b"/f", O_RDWR | O_APPEND, 0).expect("open");
    s.world.refreshed();
    let size = s.task.fstat(fd).map(|st| st.size);
    assert_eq!(s.world.refreshed(), 1);
    assert_eq!(s.task.fstat(fd).map(|st| st.size), size.map(|n| n + 1));
    s.task
        .statx(fd, b"", AT_EMPTY_PATH, StatxMask::empty())
        .expect("statx");
    s.task.lseek(fd, 0, SEEK_END).expect("lseek");
    s.task.fchmod(fd, 0o600).expect("fchmod");
    assert_eq!(s.world.refreshed(), 4);
    // Without a lookup on the way.
    s.task.stat(b"/").expect("stat");
    assert_eq!(s.world.refreshed(), 1);
    s.task.stat(b"/f").expect("stat");
    assert_eq!(
        s.world.refreshed(),
        1,
        "only the root is asked; the lookup brings the file's attributes"
    );
}

#[test]
fn permission_to_search_uses_the_current_mode() {
    let s = scene(Caching::Confirm, false);
    let d = s.world.dir(&s.root, "d");
    s.world.file(&d, "f");
    s.task.set_cred(openpath_vfs::Cred::user(1000, 1000, &[]));
    s.task.stat(b"/d/f").expect("stat");
    d.update(|attr| attr.mode = mode::S_IFDIR | 0o700);
    assert_eq!(s.task.stat(b"/d/f").err(), Some(Errno::EACCES));
    d.update(|attr| attr.mode = mode::S_IFDIR | 0o755);
    s.task.stat(b"/d/f").expect("stat");
}

/// Mounts a tree with a file at `/d/e`; returns how many mounts there are.
fn mount_below(s: &Scene) -> u32 {
    let d = s.world.dir(&s.root, "d");
    s.world.dir(&d, "e");
    let (inner, upper) = tree(Caching::Keep, false);
    inner.file(upper.root(), "inside");
    s.task
        .mount(Arc::clone(&upper), b"/d/e", MountFlags::default())
        .expect("mount");
    s.task.stat(b"/d/e/inside").expect("mounted");
    s.vfs.usage().mounts
}

#[test]
fn a_mount_goes_when_its_name_leads_elsewhere() {
    let s = scene(Caching::Confirm, false);
    let mounts = mount_below(&s);
    s.world.dir(&s.root, "d");
    assert_eq!(s.task.stat(b"/d/e").err(), Some(Errno::ENOENT));
    assert_eq!(s.vfs.usage().mounts, mounts - 1);
}

#[test]
fn change_that_finds_another_directory_takes_the_mounts_below_away() {
    type Change = fn(&Task) -> Errno;
    let changes: [(&str, Change); 5] = [
        ("mkdir", |task| task.mkdir(b"/d", 0o755).unwrap_err()),
        ("unlink", |task| task.unlink(b"/d").unwrap_err()),
        ("rename from", |task| {
            let flags = RENAME_NOREPLACE;
            task.renameat2(AT_FDCWD, b"/d", AT_FDCWD, b"/f", flags)
                .unwrap_err()
        }),
        ("rename to", |task| task.rename(b"/f", b"/d").unwrap_err()),
        ("open", |task| {
            task.open(b"/d", O_CREAT | O_RDWR, 0o600).unwrap_err()
        }),
    ];
    for (change, carry_out) in changes {
        let s = scene(Caching::Confirm, false);
        s.world.file(&s.root, "f");
        let mounts = mount_below(&s);
        s.world.dir(&s.root, "d");
        let errno = carry_out(&s.task);
        assert!(
            matches!(errno, Errno::EEXIST | Errno::EISDIR),
            "{change}: {errno}"
        );
        assert_eq!(s.vfs.usage().mounts, mounts - 1, "{change}");
        assert_eq!(s.task.stat(b"/d/e").err(), Some(Errno::ENOENT), "{change}");
        s.vfs.collect();
        assert_eq!(s.vfs.usage().pending_free, 0, "{change}");
    }
}

#[test]
fn a_revalidating_tree_is_asked_above_one_that_does_not_revalidate() {
    let s = scene(Caching::Keep, false);
    s.world.dir(&s.root, "m");
    let (world, upper) = tree(Caching::Confirm, false);
    let f = world.file(upper.root(), "f");
    s.task
        .mount(Arc::clone(&upper), b"/m", MountFlags::default())
        .expect("mount");
    for _ in 0..3 {
        assert_eq!(s.task.stat(b"/m/f").map(|st| st.ino), Ok(f.ino()));
        assert_eq!(world.lookups(), 1);
        s.task.stat(b"/m").expect("stat");
        assert!(world.refreshed() > 0);
    }
    s.task.chdir(b"/m").expect("chdir");
    world.take(upper.root(), "f");
    assert_eq!(s.task.stat(b"f").err(), Some(Errno::ENOENT));
    assert_eq!(s.task.stat(b"../m/f").err(), Some(Errno::ENOENT));
}

#[test]
fn a_change_does_not_revalidate_a_name_that_is_mounted_on() {
    let s = scene(Caching::Confirm, false);
    s.world.dir(&s.root, "d");
    let (_, upper) = tree(Caching::Keep, false);
    s.task
        .mount(upper, b"/d", MountFlags::default())
        .expect("mount");
    s.world.file(&s.root, "d");
    assert_eq!(s.task.unlink(b"/d"), Err(Errno::EISDIR));
    assert_eq!(s.task.rename(b"/d", b"/e"), Err(Errno::EBUSY));
    s.task.lstat(b"/d").expect("a directory of the same name");
    assert_eq!(s.task.unlink(b"/d"), Ok(()));
}
