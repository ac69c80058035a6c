// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an invalidated name is looked up at its next use, and that no other name is.

use super::backend::{Scene, scene};
use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_abi::{Errno, OpenHow, mode, resolve};
use openpath_vfs::{Caching, Cred, Inode, Reason};
use std::sync::Arc;

fn kept() -> (Scene, Arc<Inode>, Arc<Inode>) {
    let s = scene(Caching::Keep, false);
    let d = s.world.dir(&s.root, "directory-with-a-name");
    let e = s.world.dir(&d, "another-one");
    let f = s.world.file(&e, "file-in-it");
    // Three times, so that the path cache has it.
    for _ in 0..3 {
        assert_eq!(s.task.stat(PATH).map(|st| st.ino), Ok(f.ino()));
        assert_eq!(s.task.stat(GONE).err(), Some(Errno::ENOENT));
    }
    s.world.lookups();
    (s, d, e)
}

const PATH: &[u8] = b"/directory-with-a-name/another-one/file-in-it";
const GONE: &[u8] = b"/directory-with-a-name/another-one/none-of-it";

#[test]
fn an_invalidated_name_is_looked_up_once() {
    let (s, _, e) = kept();
    let other = s.world.file(&e, "file-in-it");
    s.task.stat(PATH).expect("not invalidated yet");
    assert_eq!(s.world.lookups(), 0);
    s.tree.forget_name(&e, b"file-in-it");
    for _ in 0..3 {
        assert_eq!(s.task.stat(PATH).map(|st| st.ino), Ok(other.ino()));
    }
    assert_eq!(s.world.lookups(), 1);
    assert_eq!(s.task.stat(GONE).err(), Some(Errno::ENOENT));
    assert_eq!(s.world.lookups(), 0, "the other name is still known");
    s.tree.forget_name(&e, b"file-in-it");
    assert_eq!(s.task.stat(PATH).map(|st| st.ino), Ok(other.ino()));
    assert_eq!(s.world.lookups(), 1, "confirmed");
}

#[test]
fn an_absent_name_is_looked_up_after_its_invalidation() {
    let (s, _, e) = kept();
    let new = s.world.file(&e, "none-of-it");
    s.tree.forget_name(&e, b"none-of-it");
    assert_eq!(s.task.stat(GONE).map(|st| st.ino), Ok(new.ino()));
}

#[test]
fn paths_through_an_invalidated_directory_are_walked_again() {
    let (s, d, e) = kept();
    // Another directory takes the whole directory's place.
    let other = s.world.dir(&d, "another-one");
    let f = s.world.file(&other, "file-in-it");
    s.tree.forget_name(&d, b"another-one");
    for _ in 0..3 {
        assert_eq!(s.task.stat(PATH).map(|st| st.ino), Ok(f.ino()));
    }
    // The old one returns under another name, and names in it are still invalid.
    s.world.put(&d, "back", &e);
    let back = b"/directory-with-a-name/back/file-in-it";
    s.task.stat(back).expect("the old directory");
    s.world.take(&e, "file-in-it");
    s.tree.forget_name(&e, b"file-in-it");
    assert_eq!(s.task.stat(back).err(), Some(Errno::ENOENT));
}

#[test]
fn a_task_in_a_directory_that_others_moved_sees_its_invalidations() {
    let (s, d, e) = kept();
    s.task
        .chdir(b"/directory-with-a-name/another-one")
        .expect("chdir");
    s.world.take(&d, "another-one");
    s.world.put(&d, "moved", &e);
    s.tree.forget_name(&d, b"another-one");
    s.tree.forget_name(&d, b"moved");
    let watcher = s.task.fork().expect("a second task");
    watcher
        .stat(b"/directory-with-a-name/moved/file-in-it")
        .expect("stat");
    assert_eq!(
        s.task.stat(b"/directory-with-a-name/another-one").err(),
        Some(Errno::ENOENT)
    );
    s.task
        .stat(b"file-in-it")
        .expect("relative to its directory");
    s.world.take(&e, "file-in-it");
    s.tree.forget_name(&e, b"file-in-it");
    assert_eq!(s.task.stat(b"file-in-it").err(), Some(Errno::ENOENT));
    let by_path = watcher.stat(b"/directory-with-a-name/moved/file-in-it");
    assert_eq!(by_path.err(), Some(Errno::ENOENT));
}

#[test]
fn all_names_of_a_directory_or_a_tree_can_be_invalidated() {
    let (s, _, e) = kept();
    s.world.take(&e, "file-in-it");
    s.world.file(&e, "none-of-it");
    s.tree.forget_names_of(&e);
    assert_eq!(s.task.stat(PATH).err(), Some(Errno::ENOENT));
    s.task.stat(GONE).expect("it exists");
    assert_eq!(s.world.lookups(), 2);
    s.tree.forget_all();
    s.task.stat(GONE).expect("it exists");
    assert_eq!(s.world.lookups(), 3);
    s.task.stat(GONE).expect("it exists");
    assert_eq!(s.world.lookups(), 0);
}

#[test]
fn a_walk_checks_changed_permissions_again() {
    let (s, d, _) = kept();
    s.task.set_cred(Cred::user(1000, 1000, &[]));
    s.task.stat(PATH).expect("stat");
    d.update(|attr| attr.mode = mode::S_IFDIR | 0o700);
    s.tree.forget_permission(&d);
    assert_eq!(s.task.stat(PATH).err(), Some(Errno::EACCES));
    d.update(|attr| attr.mode = mode::S_IFDIR | 0o711);
    s.tree.forget_permission(&d);
    s.task.stat(PATH).expect("stat");
    assert_eq!(s.world.lookups(), 0, "no name was invalidated");
}

#[test]
fn a_cached_open_of_an_invalidated_name_fails_with_eagain() {
    let (s, _, e) = kept();
    let how = OpenHow {
        flags: u64::from(O_RDONLY),
        mode: 0,
        resolve: resolve::RESOLVE_CACHED,
    };
    s.task.openat2(AT_FDCWD, PATH, &how).expect("cached");
    s.tree.forget_name(&e, b"file-in-it");
    assert_eq!(s.task.openat2(AT_FDCWD, PATH, &how), Err(Errno::EAGAIN));
    assert_eq!(s.task.last_reason(), Some(Reason::Revalidate));
    s.task.stat(PATH).expect("stat");
    s.task.openat2(AT_FDCWD, PATH, &how).expect("cached");
}

#[test]
fn an_unmounted_tree_has_nothing_to_invalidate() {
    let (world, tree) = super::backend::tree(Caching::Keep, false);
    let root = Arc::clone(tree.root());
    world.file(&root, "f");
    tree.forget_name(&root, b"f");
    tree.forget_all();
    tree.forget_permission(&root);
}
