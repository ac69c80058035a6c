// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that calls on FIFOs and pipes that need not wait answer as Linux 6.18 does, and that every
//! wait can be interrupted. `io/fifo_host.rs` compares waiting calls with the running kernel.

#[path = "support/world.rs"]
mod world;

use openpath_abi::fcntl::*;
use openpath_abi::inotify::*;
use openpath_abi::poll::*;
use openpath_abi::{AtFlags, Errno, TimeSet, UmountFlags, mode};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, Limits, MountFlags, Task, Vfs};
use std::thread;
use std::time::Duration;
use world::*;

const FIONREAD: u32 = 0x541b;
const ALL: u32 = 0x3ff;
const IN: u32 = POLLIN | POLLRDNORM;
const OUT: u32 = POLLOUT | POLLWRNORM;

fn fifo() -> (Vfs, Task) {
    let vfs = world();
    let task = root(&vfs);
    task.node("/p", mode::S_IFIFO | 0o666, 0);
    (vfs, task)
}

fn waiting(task: &Task, fd: Fd) -> i32 {
    let mut arg = [0; 4];
    task.ioctl(fd, FIONREAD, &mut arg).expect("FIONREAD");
    i32::from_ne_bytes(arg)
}

#[test]
fn nonblocking_calls_see_peers_by_poll_and_errors() {
    let (_vfs, task) = fifo();
    assert_eq!(
        task.open(b"/p", O_WRONLY | O_NONBLOCK, 0),
        Err(Errno::ENXIO)
    );
    assert_eq!(task.open(b"/p", O_ACCMODE, 0), Err(Errno::EINVAL));
    assert_eq!(task.open(b"/p", O_RDWR | O_DIRECT, 0), Err(Errno::EINVAL));
    let reader = task.get("/p", "RD|NONBLOCK");
    let mut buf = [0; 8];
    assert_eq!(task.read(reader, &mut buf), Ok(0), "no writer yet");
    assert_eq!(task.poll(reader, ALL), 0, "no writer has hung up yet");
    let writer = task.get("/p", "WR|NONBLOCK");
    assert_eq!(task.read(reader, &mut buf), Err(Errno::EAGAIN));
    assert_eq!((task.poll(reader, ALL), task.poll(writer, ALL)), (0, OUT));
    assert_eq!(task.write(writer, b"hello"), Ok(5));
    assert_eq!((task.poll(reader, ALL), waiting(&task, writer)), (IN, 5));
    task.close(writer).expect("close");
    assert_eq!(task.poll(reader, ALL), IN | POLLHUP);
    assert_eq!(
        (task.read(reader, &mut buf), &buf[..5]),
        (Ok(5), &b"hello"[..])
    );
    assert_eq!(
        (task.read(reader, &mut buf), task.poll(reader, ALL)),
        (Ok(0), POLLHUP)
    );
    let writer = task.get("/p", "WR|NONBLOCK");
    task.close(reader).expect("close");
    assert_eq!(task.poll(writer, ALL), OUT | POLLERR);
    assert_eq!(task.write(writer, b"a"), Err(Errno::EPIPE));
    assert_eq!(task.write(writer, b""), Ok(0));
    assert_eq!(task.lseek(writer, 0, SEEK_SET), Err(Errno::ESPIPE));
    assert_eq!(task.pwrite(writer, b"a", 0), Err(Errno::ESPIPE));
    assert_eq!(task.fallocate(writer, 0, 0, 1), Err(Errno::ESPIPE));
    assert_eq!(task.ftruncate(writer, 0), Err(Errno::EINVAL));
    assert_eq!(task.fsync(writer), Err(Errno::EINVAL));
}

#[test]
fn unread_data_is_dropped_with_the_last_descriptor() {
    let (_vfs, task) = fifo();
    let both = task.get("/p", "RW");
    assert_eq!(task.write(both, b"lost"), Ok(4));
    let other = task.get("/p", "RD|NONBLOCK");
    task.close(both).expect("close");
    assert_eq!(waiting(&task, other), 4);
    task.close(other).expect("close");
    let again = task.get("/p", "RD|NONBLOCK");
    assert_eq!(waiting(&task, again), 0);
    assert_eq!(task.poll(again, ALL), 0);
}

#[test]
fn a_page_is_written_whole_or_not_at_all() {
    let (_vfs, task) = fifo();
    let fd = task.get("/p", "RW|NONBLOCK");
    assert_eq!(task.write(fd, &[1; 70_000]), Ok(65_536));
    assert_eq!(task.write(fd, b"a"), Err(Errno::EAGAIN));
    assert_eq!(task.read(fd, &mut [0; 4095]), Ok(4095));
    assert_eq!(
        task.write(fd, b"a"),
        Err(Errno::EAGAIN),
        "a slot is in use while a byte is"
    );
    assert_eq!(task.read(fd, &mut [0; 2]), Ok(2));
    assert_eq!(
        task.write(fd, &[2; 4097]),
        Ok(4096),
        "more than a page may be split"
    );
    assert_eq!(task.poll(fd, ALL), IN);
    assert_eq!(waiting(&task, fd), 65_535);
}

#[test]
fn pipes_keep_packets_apart_and_can_be_resized() {
    let (vfs, task) = fifo();
    let (read, write) = task
        .pipe2(O_DIRECT | O_NONBLOCK | O_CLOEXEC)
        .expect("a pipe");
    assert_eq!(task.fcntl(read, F_GETFL, 0), Ok(u64::from(O_NONBLOCK)));
    let flags = O_WRONLY | O_NONBLOCK | O_DIRECT;
    assert_eq!(task.fcntl(write, F_GETFL, 0), Ok(u64::from(flags)));
    assert_eq!(task.fcntl(write, F_GETFD, 0), Ok(1));
    for n in 0..16 {
        assert_eq!(task.write(write, &[n; 3]), Ok(3));
    }
    assert_eq!(
        task.write(write, b"a"),
        Err(Errno::EAGAIN),
        "packets are counted, not bytes"
    );
    let mut buf = [9; 8];
    assert_eq!(
        (task.read(read, &mut buf[..2]), &buf[..3]),
        (Ok(2), &[0, 0, 9][..])
    );
    assert_eq!(
        (task.read(read, &mut buf), &buf[..4]),
        (Ok(3), &[1, 1, 1, 9][..])
    );
    assert_eq!(task.fcntl(read, F_GETPIPE_SZ, 0), Ok(65_536));
    assert_eq!(task.fcntl(read, F_SETPIPE_SZ, 4096 * 13), Ok(65_536));
    assert_eq!(task.fcntl(read, F_SETPIPE_SZ, 4096 * 8), Err(Errno::EBUSY));
    assert_eq!(
        task.fcntl(read, F_SETPIPE_SZ, (1 << 31) + 1),
        Err(Errno::EINVAL)
    );
    assert_eq!(task.fcntl(read, F_SETPIPE_SZ, 1 << 31), Err(Errno::ENOMEM));
    assert_eq!(
        task.fcntl(read, F_SETPIPE_SZ, 1 << 21),
        Ok(1 << 21),
        "CAP_SYS_RESOURCE"
    );
    assert_eq!(task.fcntl(read, F_SETPIPE_SZ, 4096 * 14), Ok(65_536));
    let one = user(&vfs, 1000, &[], &[]);
    let fd = one.get("/p", "RW");
    assert_eq!(one.fcntl(fd, F_SETPIPE_SZ, 1 << 20), Ok(1 << 20));
    assert_eq!(
        one.fcntl(fd, F_SETPIPE_SZ, (1 << 20) + 1),
        Err(Errno::EPERM)
    );
    assert_eq!(one.fcntl(fd, F_SETPIPE_SZ, 0), Ok(4096));
    for wrong in [O_EXCL | O_CREAT, O_APPEND, O_RDWR, O_SYNC] {
        assert_eq!(one.pipe2(wrong), Err(Errno::EINVAL));
    }
    assert_eq!(one.pipe2(O_EXCL), Err(Errno::ENOPKG));
}

#[test]
fn pipe_pages_are_limited_per_user_and_returned() {
    let limits = Limits::default()
        .pipe_user_pages_soft(32)
        .pipe_user_pages_hard(34);
    let vfs = Vfs::builder().limits(limits);
    let vfs = vfs
        .build(MemFs::new(MemOptions::default()))
        .expect("a world");
    let one = user(&vfs, 1000, &[], &[]);
    let sizes: Vec<_> = (0..3)
        .map(|_| {
            one.pipe2(O_RDONLY)
                .and_then(|(fd, _)| one.fcntl(fd, F_GETPIPE_SZ, 0))
        })
        .collect();
    assert_eq!(sizes, [Ok(65_536), Ok(65_536), Ok(8192)]);
    assert_eq!(one.pipe2(O_RDONLY), Err(Errno::ENFILE));
    root(&vfs).node("/p", mode::S_IFIFO | 0o666, 0);
    assert_eq!(one.open(b"/p", O_RDWR, 0), Err(Errno::ENOMEM));
    assert_eq!(one.fcntl(0, F_SETPIPE_SZ, 1 << 17), Err(Errno::EPERM));
    one.close(2).and_then(|()| one.close(3)).expect("close");
    assert!(one.open(b"/p", O_RDWR, 0).is_ok());
    let free = vfs.usage().pins;
    drop(one);
    assert!(vfs.usage().pins < free);
    let again = user(&vfs, 1000, &[], &[]);
    assert!(
        again.pipe2(O_RDONLY).is_ok(),
        "a dropped task returns its pages"
    );
}

#[test]
fn a_fifo_moves_times_and_sends_events() {
    let (_vfs, task) = fifo();
    let queue = task.inotify_init1(IN_NONBLOCK).expect("inotify");
    task.inotify_add_watch(queue, b"/p", IN_ALL_EVENTS)
        .expect("a watch");
    let old = [TimeSet::At(OLD), TimeSet::At(OLD)];
    task.utimensat(AT_FDCWD, Some(b"/p"), old, AtFlags::empty())
        .expect("utimensat");
    let fd = task.get("/p", "RW|NONBLOCK");
    let times = || {
        task.lstat(b"/p")
            .map(|s| (s.atime == OLD, s.mtime == OLD))
            .expect("lstat")
    };
    assert_eq!(task.read(fd, &mut [0; 4]), Err(Errno::EAGAIN));
    assert_eq!(times(), (true, true));
    assert_eq!(task.write(fd, b"ab"), Ok(2));
    assert_eq!(times(), (true, false));
    assert_eq!(task.read(fd, &mut [0; 4]), Ok(2));
    assert_eq!(times(), (false, false));
    task.close(fd).expect("close");
    let mut buf = [0; 400];
    let told = task.read(queue, &mut buf).expect("events");
    let masks = buf[..told]
        .chunks(16)
        .map(|e| u32::from_ne_bytes([e[4], e[5], e[6], e[7]]));
    let expected = [IN_ATTRIB, IN_OPEN, IN_MODIFY, IN_ACCESS, IN_CLOSE_WRITE];
    assert_eq!(masks.collect::<Vec<_>>(), expected);
}

#[test]
fn a_read_only_mount_without_devices_has_fifos() {
    let (_vfs, task) = fifo();
    task.dir("/m", 0o755, (0, 0));
    task.bind(b"/", b"/m").expect("bind");
    let flags = MountFlags::READ_ONLY | MountFlags::NO_DEV;
    task.remount_bind(b"/m", flags).expect("remount");
    let fd = task.get("/m/p", "RW|NONBLOCK");
    let before = task.lstat(b"/p").expect("lstat").mtime;
    assert_eq!(task.write(fd, b"ab"), Ok(2));
    assert_eq!(task.lstat(b"/p").expect("lstat").mtime, before);
    // Another path to the same FIFO.
    let other = task.get("/p", "RD|NONBLOCK");
    assert_eq!(task.read(other, &mut [0; 9]), Ok(2));
}

#[test]
fn sendfile_fills_a_pipe_page_by_page() {
    let (_vfs, task) = fifo();
    task.data("/f", &[7; 10_000]);
    let (from, to) = (task.get("/f", "RD"), task.get("/p", "RW|NONBLOCK"));
    let mut at = 4000;
    assert_eq!(task.sendfile(to, from, Some(&mut at), 5000), Ok(5000));
    assert_eq!((at, waiting(&task, to)), (9000, 5000));
    assert_eq!(
        task.fcntl(to, F_SETPIPE_SZ, 8192),
        Err(Errno::EBUSY),
        "three pages were touched"
    );
    assert_eq!(task.write(to, b"a"), Ok(1));
    assert_eq!(task.fcntl(to, F_SETPIPE_SZ, 4096 * 4), Ok(4096 * 4));
    assert_eq!(task.sendfile(to, from, None, 1), Err(Errno::EAGAIN));
    assert_eq!(task.sendfile(from, to, None, 1), Err(Errno::EBADF));
    let out = task.get("/f", "RW");
    assert_eq!(task.sendfile(out, to, None, 1), Err(Errno::EINVAL));
    assert_eq!(task.read(to, &mut [0; 9000]), Ok(5001));
    assert_eq!(
        task.sendfile(to, from, None, 100_000),
        Ok(10_000),
        "to the end of the file"
    );
    assert_eq!(task.lseek(from, 0, SEEK_CUR), Ok(10_000));
    // The pipe holds a copy. Divergence: L17
    let writer = task.get("/f", "WR");
    assert_eq!(task.write(writer, &[8; 100]), Ok(100));
    let mut buf = [0; 1];
    assert_eq!((task.read(to, &mut buf), buf), (Ok(1), [7]));
}

/// Starts a task that waits in `call`, interrupts it, and returns the result of the call.
fn interrupted<T: Send + 'static>(
    task: Task,
    call: impl FnOnce(&Task) -> T + Send + 'static,
) -> (T, Task) {
    let interrupter = task.interrupter();
    let waits = thread::spawn(move || (call(&task), task));
    thread::sleep(Duration::from_millis(20));
    assert!(!waits.is_finished(), "the call did not wait");
    interrupter.interrupt();
    let done = waits.join().expect("a thread");
    assert!(!interrupter.withdraw(), "the interrupt was not used up");
    done
}

#[test]
fn every_wait_can_be_interrupted() {
    let (vfs, task) = fifo();
    let (end, guest) = interrupted(root(&vfs), |task| task.open(b"/p", O_RDONLY, 0));
    assert_eq!((end, guest.descriptors()), (Err(Errno::EINTR), vec![]));
    assert_eq!(
        task.open(b"/p", O_WRONLY | O_NONBLOCK, 0),
        Err(Errno::ENXIO),
        "the interrupted opener still counts"
    );
    let (end, guest) = interrupted(guest, |task| task.open(b"/p", O_WRONLY, 0));
    assert_eq!(end, Err(Errno::EINTR));
    let reader = task.get("/p", "RD|NONBLOCK");
    assert_eq!(task.poll(reader, ALL), 0, "no writer has come and gone");
    let fd = guest.get("/p", "RW");
    let (end, guest) = interrupted(guest, move |task| task.read(fd, &mut [0; 4]));
    assert_eq!(end, Err(Errno::EINTR));
    let (end, guest) = interrupted(guest, move |task| task.write(fd, &[1; 100_000]));
    assert_eq!(end, Ok(65_536), "the bytes written are not reported");
    let (end, guest) = interrupted(guest, move |task| task.write(fd, b"a"));
    assert_eq!(end, Err(Errno::EINTR));
    let (end, guest) = interrupted(guest, |task| {
        let queue = task.inotify_init1(0).expect("inotify");
        task.read(queue, &mut [0; 100])
    });
    assert_eq!(end, Err(Errno::EINTR));
    // An interrupt before the wait ends it too, and leaves a call that need not wait alone.
    guest.interrupter().interrupt();
    assert_eq!(guest.read(fd, &mut [0; 65_536]), Ok(65_536));
    assert_eq!(guest.read(fd, &mut [0; 4]), Err(Errno::EINTR));
    guest.interrupter().interrupt();
    assert!(guest.interrupter().withdraw() && !guest.interrupter().withdraw());
}

#[test]
fn a_waiting_opener_holds_neither_a_lock_nor_a_walk() {
    let (vfs, task) = fifo();
    let guest = root(&vfs);
    let interrupter = guest.interrupter();
    let waits = thread::spawn(move || guest.open(b"/p", O_RDONLY, 0));
    thread::sleep(Duration::from_millis(20));
    // The name, its directory and the mounts can change meanwhile.
    task.rename(b"/p", b"/q").expect("rename");
    task.dir("/m", 0o755, (0, 0));
    task.mount(
        MemFs::new(MemOptions::default()),
        b"/m",
        MountFlags::default(),
    )
    .expect("mount");
    task.umount(b"/m", UmountFlags::empty()).expect("umount");
    assert!(Vfs::stalled_walks(Duration::from_millis(10)).is_empty());
    task.unlink(b"/q").expect("unlink");
    assert!(!waits.is_finished());
    interrupter.interrupt();
    assert_eq!(waits.join().expect("a thread"), Err(Errno::EINTR));
    assert_eq!(vfs.task(Cred::root()).map(|t| t.descriptors()), Ok(vec![]));
}
