// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that threads which change files at the same time leave inotify events in a possible order:
//! create and delete alternate, both events of a move share a cookie, and every watch ends once.

use crate::tasks::{self, Short, root, tree, vfs};
use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR};
use openpath_abi::inotify::{
    IN_ALL_EVENTS, IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_IGNORED, IN_MOVED_FROM, IN_MOVED_TO,
    IN_NONBLOCK, IN_ONESHOT, IN_OPEN, IN_Q_OVERFLOW,
};
use openpath_abi::{Errno, poll};
use openpath_vfs::{Fd, Limits, Task, Vfs};
use std::collections::HashMap;
use std::thread;

/// One event from a read.
struct Event {
    wd: i32,
    mask: u32,
    cookie: u32,
    name: String,
}

/// The events of one read; none if the queue is empty.
fn some_events(task: &Task, fd: Fd) -> Vec<Event> {
    let mut buf = [0; 4096];
    let done = match task.read(fd, &mut buf) {
        Ok(done) => done,
        Err(errno) => {
            assert_eq!(errno, Errno::EAGAIN);
            0
        }
    };
    let mut rest = &buf[..done];
    let mut events = Vec::new();
    while !rest.is_empty() {
        let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().expect("four"));
        let end = 16 + word(12) as usize;
        let name: Vec<u8> = rest[16..end].iter().copied().filter(|&b| b != 0).collect();
        events.push(Event {
            wd: word(0).cast_signed(),
            mask: word(4),
            cookie: word(8),
            name: String::from_utf8(name).expect("text"),
        });
        rest = &rest[end..];
    }
    events
}

fn all_events(task: &Task, fd: Fd) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let some = some_events(task, fd);
        if some.is_empty() {
            return events;
        }
        events.extend(some);
    }
}

#[test]
fn events_of_a_name_alternate_between_create_and_delete() {
    let vfs = vfs();
    let task = root(&vfs);
    task.dir("d");
    let fd = task.inotify_init1(IN_NONBLOCK).expect("an instance");
    let mask = IN_CREATE | IN_DELETE;
    assert_eq!(task.inotify_add_watch(fd, b"d", mask), Ok(1));
    let churn = |seed: usize| {
        let task = root(&vfs);
        for i in 0..600 {
            let path = format!("d/{}", (i * 7 + seed) % 3);
            if i % 2 == seed % 2 {
                if let Ok(file) = task.open(path.as_bytes(), O_CREAT | O_RDWR, 0o644) {
                    task.close(file).expect("open");
                }
            } else {
                let _gone_already = task.unlink(path.as_bytes());
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| churn(0));
        scope.spawn(|| churn(1));
    });
    let mut there: HashMap<String, bool> = HashMap::new();
    for event in all_events(&task, fd) {
        assert_ne!(event.mask, IN_Q_OVERFLOW);
        let made = event.mask == IN_CREATE;
        let before = there.insert(event.name.clone(), made);
        let before = before.unwrap_or(false);
        assert_ne!(
            before, made,
            "{}: two events of one kind in a row",
            event.name
        );
    }
    for (name, is_there) in there {
        assert_eq!(task.has(&format!("d/{name}")), is_there, "{name}");
    }
}

#[test]
fn both_events_of_a_move_share_a_unique_cookie() {
    let vfs = vfs();
    let task = root(&vfs);
    task.dir("d");
    task.dir("e");
    let fd = task.inotify_init1(IN_NONBLOCK).expect("an instance");
    for dir in [b"d", b"e"] {
        let mask = IN_MOVED_FROM | IN_MOVED_TO;
        task.inotify_add_watch(fd, dir, mask).expect("a watch");
    }
    let juggle = |name: &str| {
        let task = root(&vfs);
        let paths = [format!("d/{name}"), format!("e/{name}")];
        task.put(&paths[0], b"");
        for i in 0..300 {
            let (from, to) = (&paths[i % 2], &paths[(i + 1) % 2]);
            task.rename(from.as_bytes(), to.as_bytes()).expect("a move");
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| juggle("one"));
        scope.spawn(|| juggle("two"));
    });
    let mut halves: HashMap<u32, Vec<Event>> = HashMap::new();
    for event in all_events(&task, fd) {
        halves.entry(event.cookie).or_default().push(event);
    }
    assert_eq!(halves.len(), 600);
    for pair in halves.values() {
        let masks: Vec<u32> = pair.iter().map(|half| half.mask).collect();
        assert_eq!(masks, [IN_MOVED_FROM, IN_MOVED_TO]);
        assert!(pair[0].name == pair[1].name && pair[0].wd != pair[1].wd);
    }
}

#[test]
fn a_read_of_events_waits_for_another_task() {
    let vfs = vfs();
    let task = root(&vfs);
    task.put("f", b"");
    let (send, taken) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let reader = root(&vfs);
            let fd = reader.inotify_init1(0).expect("an instance");
            reader
                .inotify_add_watch(fd, b"f", IN_OPEN)
                .expect("a watch");
            assert_eq!(reader.poll(fd, poll::POLLIN), 0);
            send.send(()).expect("a listener");
            let events = some_events(&reader, fd);
            assert_eq!((events.len(), events[0].mask), (1, IN_OPEN));
        });
        taken.recv().expect("a reader");
        thread::sleep(std::time::Duration::from_millis(10));
        let file = task.open(b"f", O_RDONLY, 0).expect("a file");
        task.close(file).expect("open");
    });
}

/// Watches that are added, fire once, are removed and lose their inodes, in several threads.
#[test]
fn every_watch_ends_once() {
    let limits = Limits::default().max_queued_events(1 << 20);
    let vfs = Vfs::builder().limits(limits).build(tree());
    let vfs = vfs.expect("a Vfs");
    let task = root(&vfs);
    task.dir("d");
    let fd = task.inotify_init1(IN_NONBLOCK).expect("an instance");
    let group = task.file(fd).expect("an open file");
    let churn = |name: &str| {
        let task = root(&vfs);
        let path = format!("d/{name}");
        for i in 0..400 {
            task.put(&path, b"");
            if i % 3 == 0 {
                let moved = format!("d/{name}-{i}");
                task.rename(path.as_bytes(), moved.as_bytes())
                    .expect("a move");
                task.unlink(moved.as_bytes()).expect("a file");
            } else {
                let file = task.open(path.as_bytes(), O_RDONLY, 0).expect("a file");
                task.unlink(path.as_bytes()).expect("a file");
                task.close(file).expect("open");
            }
        }
    };
    let watch = |oneshot: u32| {
        let task = root(&vfs);
        let fd = task.install(&group, O_RDONLY).expect("a descriptor");
        let mut given = Vec::new();
        for i in 0..800 {
            let path: &[u8] = [&b"d/one"[..], b"d/two", b"d"][i % 3];
            if let Ok(wd) = task.inotify_add_watch(fd, path, IN_ALL_EVENTS | oneshot) {
                given.push(wd);
                if i % 5 == 0 {
                    let _spent = task.inotify_rm_watch(fd, wd);
                }
            }
        }
        given
    };
    let mut given: Vec<i32> = thread::scope(|scope| {
        let churns = [scope.spawn(|| churn("one")), scope.spawn(|| churn("two"))];
        let watches = [scope.spawn(|| watch(IN_ONESHOT)), scope.spawn(|| watch(0))];
        for done in churns {
            done.join().expect("a churn");
        }
        let given = watches.map(|done| done.join().expect("a watcher"));
        given.concat()
    });
    given.sort_unstable();
    given.dedup();
    for &wd in &given {
        let _ended_already = task.inotify_rm_watch(fd, wd);
    }
    let mut ended: HashMap<i32, u32> = HashMap::new();
    for event in all_events(&task, fd) {
        assert!(!ended.contains_key(&event.wd), "{} after its end", event.wd);
        if event.mask == IN_IGNORED {
            ended.insert(event.wd, 1);
        }
        assert!(event.mask != IN_DELETE_SELF || event.name.is_empty());
    }
    assert_eq!(ended.len(), given.len());
}

#[test]
fn inotify_limits_apply_per_user() {
    let limits = Limits::default().max_user_instances(2).max_user_watches(1);
    let vfs = Vfs::builder().limits(limits).build(tree());
    let task = root(&vfs.expect("a Vfs"));
    task.dir("d");
    task.put("f", b"");
    let fd = task.inotify_init1(0).expect("an instance");
    let other = task.inotify_init1(0).expect("an instance");
    assert_eq!(task.inotify_init1(0), Err(Errno::EMFILE));
    assert_eq!(task.inotify_add_watch(fd, b"d", IN_OPEN), Ok(1));
    assert_eq!(task.inotify_add_watch(fd, b"d", IN_CREATE), Ok(1));
    let full = task.inotify_add_watch(other, b"f", IN_OPEN);
    assert_eq!(full, Err(Errno::ENOSPC));
    task.close(fd).expect("open");
    assert_eq!(task.inotify_add_watch(other, b"f", IN_OPEN), Ok(2));
    task.inotify_init1(0).expect("no room for another instance");
    let stranger = tasks::user(&task, tasks::NOBODY);
    stranger
        .inotify_init1(0)
        .expect("another user has its own limit");
}
