// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that file flags (lsattr, chattr) that are set through an overlay go to a copy in the upper
//! tree and never to a lower tree, and that setting them needs the owner or a capability.
//!
//! Divergence: L96

mod common;

use common::Stack;
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_vfs::Task;
use openpath_vfs::fileattr::{
    FS_APPEND_FL, FS_IMMUTABLE_FL, FS_IOC_FSSETXATTR, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS,
};

fn flags(task: &Task, path: &[u8]) -> Result<u32, Errno> {
    let fd = task.open(path, O_RDONLY, 0)?;
    let mut arg = [0; 4];
    let done = task.ioctl(fd, FS_IOC_GETFLAGS, &mut arg);
    task.close(fd)?;
    done.map(|_| u32::from_ne_bytes(arg))
}

fn set(task: &Task, path: &[u8], flags: u32) -> Result<i64, Errno> {
    let fd = task.open(path, O_RDONLY, 0)?;
    let done = task.ioctl(fd, FS_IOC_SETFLAGS, &mut flags.to_ne_bytes());
    task.close(fd)?;
    done
}

#[test]
fn flags_are_set_after_copy_up_and_never_in_a_lower_tree() {
    let stack = Stack::new(1);
    let below = &stack.below[0];
    let made = below.open(b"/f", O_CREAT | O_RDWR, 0o666).expect("a file");
    below.write(made, b"data").expect("written");
    below.close(made).expect("closed");
    let (_vfs, above) = stack.mount();
    assert_eq!(flags(&above, b"/f"), Ok(0));
    assert_eq!(set(&above, b"/f", 0x4), Err(Errno::EOPNOTSUPP));
    assert_eq!(set(&above, b"/f", FS_IMMUTABLE_FL), Ok(0));
    assert_eq!(flags(&above, b"/f"), Ok(FS_IMMUTABLE_FL));
    assert_eq!(above.open(b"/f", O_WRONLY, 0), Err(Errno::EPERM));
    assert_eq!(above.unlink(b"/f"), Err(Errno::EPERM));
    assert_eq!(flags(below, b"/f"), Ok(0));
    let fd = below.open(b"/f", O_WRONLY, 0).expect("free beneath");
    below.close(fd).expect("closed");
    assert_eq!(set(&above, b"/f", FS_APPEND_FL), Ok(0));
    assert_eq!(flags(&above, b"/f"), Ok(FS_APPEND_FL));
    assert_eq!(set(&above, b"/f", 0), Ok(0));
    assert_eq!(above.unlink(b"/f"), Ok(()));
}

#[test]
fn flags_need_their_owner_and_a_capability() {
    let (_vfs, task) = Stack::new(1).mount();
    let made = task.open(b"/f", O_CREAT | O_RDWR, 0o644).expect("a file");
    let mut other = [0; 28];
    other[0] = 0x08;
    assert_eq!(task.ioctl(made, FS_IOC_FSSETXATTR, &mut other), Ok(0));
    assert_eq!(flags(&task, b"/f"), Ok(FS_IMMUTABLE_FL));
    other[4] = 1;
    let sized = task.ioctl(made, FS_IOC_FSSETXATTR, &mut other);
    assert_eq!(sized, Err(Errno::EOPNOTSUPP));
    let short = task.ioctl(made, FS_IOC_SETFLAGS, &mut [0; 3]);
    assert_eq!(short, Err(Errno::EFAULT));
    assert_eq!(set(&task, b"/f", 0), Ok(0));
    task.fchown(made, 1000, 1000).expect("given away");
    task.set_cred(openpath_vfs::Cred::user(1001, 1001, &[]));
    assert_eq!(set(&task, b"/f", 0), Err(Errno::EPERM));
    task.set_cred(openpath_vfs::Cred::user(1000, 1000, &[]));
    assert_eq!(set(&task, b"/f", 0), Ok(0));
    assert_eq!(set(&task, b"/f", FS_IMMUTABLE_FL), Err(Errno::EPERM));
    assert_eq!(flags(&task, b"/f"), Ok(0));
}
