// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a directory that others moved is one directory for renames, although its old and its
//! new name are both cached.

use super::backend::{Scene, scene};
use openpath_abi::Errno;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::rename::RENAME_EXCHANGE;
use openpath_vfs::Caching;

/// `/d/x`, which others moved to `/y`, with a file and a directory in it. Both places are cached.
fn moved() -> Scene {
    let s = scene(Caching::Keep, false);
    let d = s.world.dir(&s.root, "d");
    let x = s.world.dir(&d, "x");
    s.world.file(&x, "a");
    s.world.dir(&x, "sub");
    s.task.stat(b"/d/x/a").expect("before");
    s.world.take(&d, "x");
    s.world.put(&s.root, "y", &x);
    s.task.stat(b"/y/a").expect("after");
    s.task.stat(b"/d/x/a").expect("not invalidated yet");
    s
}

#[test]
fn a_file_moves_between_both_places_of_the_directory() {
    let s = moved();
    let ino = s.task.stat(b"/y/a").map(|st| st.ino);
    assert_eq!(s.task.rename(b"/d/x/a", b"/y/b"), Ok(()));
    assert_eq!(s.task.stat(b"/y/b").map(|st| st.ino), ino);
    assert_eq!(s.task.stat(b"/d/x/a").err(), Some(Errno::ENOENT));
}

#[test]
fn the_directory_moves_neither_into_itself_nor_onto_its_ancestor() {
    let s = moved();
    assert_eq!(s.task.rename(b"/d/x", b"/y/z"), Err(Errno::EINVAL));
    assert_eq!(s.task.rename(b"/y/sub", b"/d/x"), Err(Errno::ENOTEMPTY));
    let (old, new) = (b"/y/sub", b"/d/x");
    assert_eq!(
        s.task
            .renameat2(AT_FDCWD, old, AT_FDCWD, new, RENAME_EXCHANGE),
        Err(Errno::EINVAL)
    );
}
