// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the inotify event of a removed name's end is sent when the slot of its dentry is
//! reused, if a walk was its last user. Linux sends it at the end of the walk.

use super::backend::{At, scene};
use openpath_abi::inotify::{IN_DELETE_SELF, IN_DONT_FOLLOW, IN_IGNORED, IN_NONBLOCK};
use openpath_abi::{Errno, mode};
use openpath_vfs::{Caching, Cred, Fd, Pressure, Task};
use std::thread;

/// The mask of the next event, if there is one.
fn event(task: &Task, fd: Fd) -> Option<u32> {
    let mut event = [0; 16];
    match task.read(fd, &mut event) {
        Ok(len) => {
            assert_eq!(len, event.len());
            let mask = event[4..8].try_into().expect("four bytes");
            Some(u32::from_ne_bytes(mask))
        }
        Err(errno) => {
            assert_eq!(errno, Errno::EAGAIN);
            None
        }
    }
}

#[test]
fn the_event_of_a_names_end_comes_when_its_slot_is_reused() {
    let s = scene(Caching::Keep, false);
    let link = s.world.inode(mode::S_IFLNK | 0o777);
    s.world.put(&s.root, "link", &link);
    let fd = s.task.inotify_init1(IN_NONBLOCK).expect("an instance");
    let mask = IN_DELETE_SELF | IN_DONT_FOLLOW;
    s.task
        .inotify_add_watch(fd, b"/link", mask)
        .expect("watched");
    drop(link);
    let reader = s.vfs.task(Cred::root()).expect("a task");
    let gate = s.world.close_gate(At::Readlink);
    let reads = thread::spawn(move || {
        let text = reader.readlink(b"/link");
        (reader, text)
    });
    gate.wait();
    s.task.unlink(b"/link").expect("removed");
    assert_eq!(event(&s.task, fd), None, "the name is in use");
    gate.open();
    let (_reader, text) = reads.join().expect("a thread");
    assert_eq!(text.as_deref(), Ok(&b"f"[..]));
    // Linux sends the event here.
    assert_eq!(event(&s.task, fd), None);
    s.vfs.pressure(Pressure::Critical);
    let told = event(&s.task, fd);
    assert_eq!(told, Some(IN_DELETE_SELF));
    assert_eq!(event(&s.task, fd), Some(IN_IGNORED));
}
