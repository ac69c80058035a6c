// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a descriptor is opened again with current permissions, and that an `O_PATH`
//! descriptor has extended attributes. The expected answers are those of Linux 6.18 for
//! `/proc/self/fd/N` and the `*at` calls on a tmpfs.

use crate::world::*;
use openpath_abi::fcntl::*;
use openpath_abi::{AtFlags, Errno, XattrFlags, mode};
use openpath_vfs::Task;

fn open_path(task: &Task, path: &[u8]) -> i32 {
    task.open(path, O_PATH | O_NOFOLLOW, 0).expect("a place")
}

#[test]
fn reopen_checks_the_current_permissions() {
    let vfs = world();
    let (root, user) = (root(&vfs), user(&vfs, 1000, &[], &[]));
    root.touch("/f", 0o600, (1000, 1000));
    let fd = open_path(&user, b"/f");
    let open = user.reopen(fd, O_RDWR).expect("the owner may open it");
    assert_eq!(user.write(open, b"text"), Ok(4));
    root.chmod(b"/f", 0o000).expect("changed");
    assert_eq!(user.reopen(fd, O_RDONLY), Err(Errno::EACCES));
    assert_eq!(user.reopen(fd, O_PATH).map(|_| ()), Ok(()));
    // Each is an open file of its own.
    root.chmod(b"/f", 0o600).expect("changed");
    let again = user.reopen(open, O_RDONLY).expect("opened");
    let mut buf = [0; 8];
    assert_eq!(user.read(again, &mut buf), Ok(4));
    assert_eq!(user.read(open, &mut buf), Ok(0));
    assert_eq!(user.reopen(BAD, O_RDONLY), Err(Errno::EBADF));
}

#[test]
fn reopen_works_on_an_unlinked_file() {
    let vfs = world();
    let task = root(&vfs);
    task.touch("/f", 0o644, (0, 0));
    let fd = open_path(&task, b"/f");
    let open = task.reopen(fd, O_WRONLY).expect("opened");
    assert_eq!(task.write(open, b"gone"), Ok(4));
    task.close(open).expect("closed");
    task.unlink(b"/f").expect("removed");
    let open = task.reopen(fd, O_RDWR).expect("opened");
    let mut buf = [0; 8];
    assert_eq!(task.read(open, &mut buf), Ok(4));
    let cut = task.reopen(fd, O_WRONLY | O_TRUNC).expect("cut");
    assert_eq!(task.fstat(cut).map(|s| (s.size, s.nlink)), Ok((0, 0)));
    task.dir("/d", 0o755, (0, 0));
    let dir = open_path(&task, b"/d");
    task.rmdir(b"/d").expect("removed");
    let open = task.reopen(dir, O_RDONLY | O_DIRECTORY).expect("opened");
    assert_eq!(task.getdents64(open, 4096), Err(Errno::ENOENT));
    assert_eq!(
        task.reopen(cut, O_RDONLY | O_DIRECTORY),
        Err(Errno::ENOTDIR)
    );
}

#[test]
fn reopen_refuses_links_and_sockets() {
    let vfs = world();
    let task = root(&vfs);
    task.link_to("/l", "f");
    task.node("/s", mode::S_IFSOCK | 0o644, 0);
    let (link, socket) = (open_path(&task, b"/l"), open_path(&task, b"/s"));
    assert_eq!(task.reopen(link, O_RDONLY), Err(Errno::ELOOP));
    assert_eq!(task.reopen(socket, O_RDONLY), Err(Errno::ENXIO));
}

#[test]
fn an_o_path_descriptor_has_extended_attributes() {
    let vfs = world();
    let task = root(&vfs);
    task.touch("/f", 0o644, (0, 0));
    task.link_to("/l", "f");
    let (file, link) = (open_path(&task, b"/f"), open_path(&task, b"/l"));
    let (empty, name) = (AT_EMPTY_PATH, b"trusted.n".as_slice());
    assert_eq!(
        task.fsetxattr(file, name, b"1", XattrFlags::empty()),
        Err(Errno::EBADF)
    );
    assert_eq!(
        task.setxattrat(file, b"", empty, name, b"1", XattrFlags::empty()),
        Ok(())
    );
    assert_eq!(
        task.setxattrat(link, b"", empty, name, b"22", XattrFlags::empty()),
        Ok(())
    );
    assert_eq!(task.getxattrat(file, b"", empty, name), Ok(b"1".to_vec()));
    assert_eq!(task.lgetxattr(b"/l", name), Ok(b"22".to_vec()));
    let root = open_path(&task, b"/");
    let by = |flags| task.getxattrat(root, b"l", flags, name);
    assert_eq!(by(AtFlags::empty()), Ok(b"1".to_vec()));
    assert_eq!(by(AT_SYMLINK_NOFOLLOW), Ok(b"22".to_vec()));
    assert_eq!(by(AT_SYMLINK_FOLLOW), Err(Errno::EINVAL));
    assert_eq!(
        task.getxattrat(file, b"", AtFlags::empty(), name),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        task.listxattrat(link, b"", empty),
        Ok(b"trusted.n\0".to_vec())
    );
    assert_eq!(task.removexattrat(link, b"", empty, name), Ok(()));
    assert_eq!(task.listxattrat(link, b"", empty), Ok(Vec::new()));
    assert_eq!(
        task.removexattrat(link, b"", empty, name),
        Err(Errno::ENODATA)
    );
}
