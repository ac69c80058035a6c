// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests inotify groups, watches and queues without a task: events are merged and read as in Linux,
//! limits hold for each user, and threads that race lose no last event of a watch.

use super::group::{Instance, NotifyGroup};
use crate::Limits;
use crate::file_ops::{FileOps, Io};
use crate::inode::{Attr, Inode, InodeOps, flag};
use crate::instance::{Shared, Vfs};
use crate::mark::InodeEvent;
use crate::superblock::{SuperBlock, SuperBlockOps, SuperBlockOptions};
use openpath_abi::inotify::{
    IN_ALL_EVENTS, IN_ATTRIB, IN_DELETE_SELF, IN_IGNORED, IN_MODIFY, IN_ONESHOT, IN_OPEN,
    IN_Q_OVERFLOW,
};
use openpath_abi::poll::{POLLIN, POLLRDNORM};
use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_sync::Waiter;
use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

struct Nothing;

impl InodeOps for Nothing {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl SuperBlockOps for Nothing {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Err(Errno::ENOSYS)
    }
}

fn inode(kind: u32) -> Arc<Inode> {
    let attr = Attr {
        mode: kind | 0o755,
        nlink: 1,
        ..Attr::default()
    };
    Inode::new(1, 0, attr, Timespec::default(), Box::new(Nothing))
}

/// A `Vfs` with a tree of one directory, and room for few events.
struct World {
    vfs: Vfs,
    sb: Arc<SuperBlock>,
}

impl World {
    fn new(limits: Limits) -> Self {
        let root = inode(mode::S_IFDIR);
        let sb = SuperBlock::new(root, Box::new(Nothing), SuperBlockOptions::default());
        let vfs = Vfs::builder().limits(limits).build(Arc::clone(&sb));
        let vfs = vfs.expect("a Vfs");
        Self { vfs, sb }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.vfs.0
    }

    fn group(&self, uid: u32) -> Instance {
        Instance::new(
            NotifyGroup::new(self.shared(), &self.shared().config.limits, uid).expect("a group"),
        )
    }

    fn watch(&self, of: &Instance, inode: &Arc<Inode>, mask: u32) -> Result<i32, Errno> {
        let group = of.group();
        let limit = self.shared().config.limits.max_user_watches;
        group.watch(
            (&self.shared().notify, limit),
            Arc::clone(inode),
            &self.sb,
            mask,
        )
    }
}

fn small() -> Limits {
    Limits {
        dentries_max: 64,
        mounts_max: 8,
        pins_max: 1 << 10,
        path_cache_entries: 0,
        max_user_instances: 2,
        max_user_watches: 3,
        max_queued_events: 4,
        ..Limits::default()
    }
}

fn event(mask: u32, name: &[u8]) -> InodeEvent<'_> {
    InodeEvent {
        mask,
        name,
        ..InodeEvent::default()
    }
}

/// The events there are: watch, mask, name.
fn events(of: &Instance) -> Vec<(i32, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut buf = [0; 4096];
    while let Some(Ok(done)) = of.read(&mut buf, &Io::default()) {
        let mut rest = &buf[..done];
        while !rest.is_empty() {
            let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().expect("four"));
            let len = word(12) as usize;
            let name: Vec<u8> = rest[16..16 + len]
                .iter()
                .copied()
                .filter(|&b| b != 0)
                .collect();
            found.push((word(0).cast_signed(), word(4), name));
            rest = &rest[16 + len..];
        }
    }
    found
}

#[test]
fn a_full_queue_says_once_that_more_was_lost() {
    let (world, file) = (World::new(small()), inode(mode::S_IFREG));
    let group = world.group(0);
    assert_eq!(world.watch(&group, &file, IN_ALL_EVENTS), Ok(1));
    for _ in 0..5 {
        file.tell(event(IN_OPEN, b""));
        file.tell(event(IN_MODIFY, b""));
    }
    let masks: Vec<u32> = events(&group).iter().map(|e| e.1).collect();
    assert_eq!(
        masks,
        [IN_OPEN, IN_MODIFY, IN_OPEN, IN_MODIFY, IN_Q_OVERFLOW]
    );
    file.tell(event(IN_OPEN, b""));
    assert_eq!(events(&group), [(1, IN_OPEN, Vec::new())]);
}

#[test]
fn the_same_again_is_one_event_but_not_after_the_end_of_a_watch() {
    let (world, file) = (World::new(small()), inode(mode::S_IFREG));
    let group = world.group(0);
    world.watch(&group, &file, IN_ALL_EVENTS).expect("a watch");
    for name in [&b"a"[..], b"a", b"b", b"b", b"a"] {
        file.tell(event(IN_ATTRIB, name));
    }
    let names: Vec<Vec<u8>> = events(&group).into_iter().map(|e| e.2).collect();
    assert_eq!(names, [b"a", b"b", b"a"]);
    let queue = group.group().queue();
    queue.push(7, IN_IGNORED, 0, b"");
    queue.push(7, IN_IGNORED, 0, b"");
    assert_eq!(events(&group).len(), 2);
}

#[test]
fn names_are_padded_and_a_buffer_takes_whole_events() {
    let (world, dir) = (World::new(small()), inode(mode::S_IFDIR));
    let group = world.group(0);
    world.watch(&group, &dir, IN_ALL_EVENTS).expect("a watch");
    for len in [15usize, 16, 255] {
        let name = vec![b'n'; len];
        dir.tell(event(IN_OPEN, &name));
        let size = 16 + (len + 1).next_multiple_of(16);
        let mut arg = [0; 4];
        assert_eq!(group.ioctl(0x541b, &mut arg), Some(Ok(0)));
        assert_eq!(u32::from_ne_bytes(arg) as usize, size);
        let mut buf = vec![0xff; size + 3];
        assert_eq!(
            group.read(&mut buf[..size - 1], &Io::default()),
            Some(Err(Errno::EINVAL))
        );
        assert_eq!(group.read(&mut buf, &Io::default()), Some(Ok(size)));
        assert!(buf[16..16 + len] == name && buf[16 + len..size].iter().all(|&b| b == 0));
    }
    assert_eq!(
        group.read(&mut [], &Io::default()),
        Some(Err(Errno::EAGAIN))
    );
    assert_eq!(group.ioctl(1, &mut []), Some(Err(Errno::ENOTTY)));
    assert_eq!(group.ioctl(0x541b, &mut []), Some(Err(Errno::EFAULT)));
}

#[test]
fn limits_count_for_each_user_and_are_given_back() {
    let (world, file) = (World::new(small()), inode(mode::S_IFREG));
    let shared = world.shared();
    let (one, two) = (world.group(7), world.group(7));
    assert_eq!(
        NotifyGroup::new(shared, &shared.config.limits, 7).err(),
        Some(Errno::EMFILE)
    );
    let other = world.group(8);
    let files = [inode(mode::S_IFREG), inode(mode::S_IFREG)];
    assert_eq!(world.watch(&one, &files[0], IN_OPEN), Ok(1));
    assert_eq!(world.watch(&one, &files[1], IN_OPEN), Ok(2));
    assert_eq!(world.watch(&two, &file, IN_OPEN), Ok(1));
    assert_eq!(world.watch(&one, &file, IN_OPEN), Err(Errno::ENOSPC));
    assert_eq!(world.watch(&other, &file, IN_OPEN), Ok(1));
    drop(two);
    assert!(file.flags() & flag::WATCHED != 0, "the other still watches");
    assert_eq!(
        world.watch(&one, &file, IN_OPEN),
        Ok(4),
        "the number was used up"
    );
    drop((one, other));
    assert!(!shared.notify.is_active());
    assert_eq!(file.flags() & flag::WATCHED, 0);
    assert_eq!(Arc::strong_count(&file), 1);
    assert!(NotifyGroup::new(shared, &shared.config.limits, 7).is_ok());
}

#[test]
fn one_shot_tells_once_however_many_threads_emit() {
    let (world, file) = (
        World::new(Limits {
            max_queued_events: 100,
            ..small()
        }),
        inode(mode::S_IFREG),
    );
    let group = world.group(0);
    for round in 1..200 {
        let wd = world.watch(&group, &file, IN_OPEN | IN_ONESHOT);
        assert_eq!(wd, Ok(round));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| file.tell(event(IN_OPEN, b"")));
            }
        });
        let masks: Vec<u32> = events(&group).iter().map(|e| e.1).collect();
        assert_eq!(masks, [IN_OPEN, IN_IGNORED]);
    }
    assert!(!world.shared().notify.is_active());
}

#[test]
fn a_watch_that_ends_while_others_emit_ends_with_one_last_event() {
    let (world, file) = (
        World::new(Limits {
            max_queued_events: 100,
            ..small()
        }),
        inode(mode::S_IFREG),
    );
    let group = world.group(0);
    for round in 1..200 {
        let wd = world.watch(&group, &file, IN_ALL_EVENTS).expect("a watch");
        assert_eq!(wd, round);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..8 {
                    file.tell(event(IN_OPEN, b""));
                    file.tell(event(IN_MODIFY, b""));
                }
            });
            scope.spawn(|| file.tell_last(event(IN_DELETE_SELF, b"")));
            scope.spawn(|| group.group().unwatch(wd));
        });
        let found = events(&group);
        let ends = found.iter().filter(|e| e.1 == IN_IGNORED).count();
        assert_eq!((ends, found.last().map(|e| e.1)), (1, Some(IN_IGNORED)));
    }
    assert_eq!(group.group().unwatch(1), Err(Errno::EINVAL));
}

#[test]
fn groups_that_go_while_others_emit_leave_nothing() {
    let (world, file) = (World::new(small()), inode(mode::S_IFREG));
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2000 {
                file.tell(event(IN_OPEN, b""));
                file.tell(event(IN_MODIFY, b""));
            }
        });
        scope.spawn(|| {
            for _ in 0..300 {
                let group = world.group(0);
                world
                    .watch(&group, &file, IN_ALL_EVENTS | IN_ONESHOT)
                    .expect("a watch");
            }
        });
    });
    assert!(!world.shared().notify.is_active());
    assert_eq!(
        (file.flags() & flag::WATCHED, Arc::strong_count(&file)),
        (0, 1)
    );
}

#[test]
fn a_reader_waits_for_what_another_thread_tells() {
    let (world, file) = (World::new(small()), inode(mode::S_IFREG));
    let group = world.group(0);
    world.watch(&group, &file, IN_ALL_EVENTS).expect("a watch");
    assert_eq!(group.poll(), Some(0));
    let (say, heard) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let (say, group) = (say.clone(), &group);
            scope.spawn(move || {
                let (mut buf, sleeper) = ([0; 16], Waiter::default());
                let waiting = Io {
                    wait: Some(&sleeper),
                    ..Io::default()
                };
                say.send(group.read(&mut buf, &waiting))
                    .expect("a listener");
            });
        }
        let early = heard.recv_timeout(Duration::from_millis(20));
        assert!(early.is_err(), "nothing was told yet");
        for _ in 0..2 {
            file.tell(event(IN_OPEN, b""));
            assert_eq!(heard.recv(), Ok(Some(Ok(16))));
        }
    });
    file.tell(event(IN_OPEN, b""));
    assert_eq!(group.poll(), Some(POLLIN | POLLRDNORM));
}

#[test]
fn what_an_unmounted_tree_had_is_told_and_forgotten() {
    let (world, root) = (World::new(small()), inode(mode::S_IFDIR));
    let group = world.group(0);
    world.watch(&group, &root, IN_OPEN).expect("a watch");
    let other = SuperBlock::new(
        inode(mode::S_IFDIR),
        Box::new(Nothing),
        SuperBlockOptions::default(),
    );
    world.shared().tell_unmounted(&other);
    assert_eq!(events(&group), []);
    world.shared().tell_unmounted(&world.sb);
    let masks: Vec<u32> = events(&group).iter().map(|e| e.1).collect();
    assert_eq!(masks, [0x4000_2000, IN_IGNORED]);
    assert!(!world.shared().notify.is_active());
}

#[test]
fn numbers_go_round() {
    let (world, file) = (World::new(small()), inode(mode::S_IFREG));
    let group = world.group(0);
    let dir = inode(mode::S_IFDIR);
    assert_eq!(world.watch(&group, &file, IN_OPEN), Ok(1));
    group.group().skip_to(i32::MAX - 1);
    assert_eq!(world.watch(&group, &dir, IN_OPEN), Ok(i32::MAX));
    let third = inode(mode::S_IFREG);
    assert_eq!(world.watch(&group, &third, IN_OPEN), Ok(2));
}
