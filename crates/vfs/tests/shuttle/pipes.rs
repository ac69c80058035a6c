// SPDX-License-Identifier: MIT OR Apache-2.0
//! FIFOs under a scheduler that chooses: whoever waits is let go on, and what is counted is counted
//! off. A lost wake-up is a deadlock, which the scheduler reports.

use crate::backend::build;
use crate::{config, explore, explore_often, join, spawn};
use openpath_abi::fcntl::{O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_abi::poll::{POLLERR, POLLHUP, POLLIN};
use openpath_abi::{Errno, OFlags, mode};
use openpath_mem::{MemFs, MemOptions};
use openpath_sync::fault::{self, Fault};
use openpath_vfs::{Cred, Task, Vfs};
use shuttle::Runner;
use shuttle::scheduler::RandomScheduler;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pipe of one page holds.
const PAGE: usize = 4096;

fn world() -> Vfs {
    let vfs = build(MemFs::new(MemOptions::default()));
    let task = guest(&vfs);
    task.mknod(b"/p", mode::S_IFIFO | 0o666, 0).expect("mknod");
    task.stat(b"/p").expect("stat");
    drop(task);
    vfs
}

fn guest(vfs: &Vfs) -> Task {
    vfs.task(Cred::root()).expect("a task")
}

/// Nobody has the FIFO open, and what was in it is gone.
fn assert_at_rest(vfs: &Vfs) {
    let task = guest(vfs);
    let writes = task.open(b"/p", O_WRONLY | O_NONBLOCK, 0);
    assert_eq!(writes, Err(Errno::ENXIO), "a reader is left");
    let fd = task.open(b"/p", O_RDONLY | O_NONBLOCK, 0).expect("open");
    assert_eq!(task.read(fd, &mut [0; 4]), Ok(0), "a writer is left");
}

fn open(task: &Task, flags: OFlags) -> i32 {
    task.open(b"/p", flags, 0).expect("open")
}

/// A pipe of one page, so that writers wait.
fn small(task: &Task, fd: i32) {
    use openpath_abi::fcntl::F_SETPIPE_SZ;
    assert_eq!(task.fcntl(fd, F_SETPIPE_SZ, 1), Ok(PAGE as u64));
}

/// Reads to the end; how many bytes.
fn drain(task: &Task, fd: i32) -> usize {
    let mut all = 0;
    loop {
        match task.read(fd, &mut [0; 3000]).expect("read") {
            0 => return all,
            some => all += some,
        }
    }
}

#[test]
fn readers_and_writers_meet() {
    explore_often(2, || {
        let vfs = world();
        let guests = [O_RDONLY, O_WRONLY].map(|flags| {
            let task = guest(&vfs);
            // The one that is let through may be gone before the other looks.
            spawn(move || task.close(open(&task, flags)).expect("close"))
        });
        guests.into_iter().for_each(join);
        assert_at_rest(&vfs);
    });
}

#[test]
fn everything_written_is_read_by_someone() {
    explore_often(2, || {
        let vfs = world();
        let keeper = guest(&vfs);
        let both = open(&keeper, O_RDWR);
        small(&keeper, both);
        let writers = [5000, 4096].map(|len| {
            let task = guest(&vfs);
            let fd = open(&task, O_WRONLY);
            spawn(move || assert_eq!(task.write(fd, &vec![1; len]), Ok(len)))
        });
        let readers = [(); 2].map(|()| {
            let task = guest(&vfs);
            let fd = open(&task, O_RDONLY);
            spawn(move || drain(&task, fd))
        });
        // The end comes when the last writer has gone.
        drop(keeper);
        writers.into_iter().for_each(join);
        let read: usize = readers.into_iter().map(join).sum();
        assert_eq!(read, 9096);
        assert_at_rest(&vfs);
    });
}

#[test]
fn the_last_reader_ends_a_write_that_waits() {
    explore(|| {
        let vfs = world();
        let (reader, writer) = (guest(&vfs), guest(&vfs));
        let read_end = open(&reader, O_RDONLY | O_NONBLOCK);
        let write_end = open(&writer, O_WRONLY);
        small(&reader, read_end);
        let writer = spawn(move || {
            let written = writer.write(write_end, &[1; 2 * PAGE]);
            (written, writer)
        });
        let read = spawn(move || {
            let read = reader.read(read_end, &mut [0; PAGE]);
            reader.close(read_end).expect("close");
            read
        });
        let (read, (written, writer)) = (join(read), join(writer));
        let fits = matches!(
            (read, written),
            (Err(Errno::EAGAIN), Err(Errno::EPIPE) | Ok(PAGE)) | (Ok(PAGE), Ok(PAGE | 8192))
        );
        assert!(fits, "read {read:?}, written {written:?}");
        let ready = writer.poll(write_end, 0);
        assert_eq!(ready & (POLLERR | POLLHUP), POLLERR);
        drop(writer);
        assert_at_rest(&vfs);
    });
}

#[test]
fn interrupts_against_peers_and_data() {
    explore_often(2, || {
        let vfs = world();
        let reader = guest(&vfs);
        let interrupter = reader.interrupter();
        let left = reader.interrupter();
        let reader = spawn(move || match reader.open(b"/p", O_RDONLY, 0) {
            Ok(fd) => reader.read(fd, &mut [0; 4]).map_err(|e| (e, true)),
            Err(errno) => Err((errno, false)),
        });
        let interrupter = spawn(move || interrupter.interrupt());
        let writer = guest(&vfs);
        let writer = spawn(move || {
            let mut written = Err(Errno::ENXIO);
            // Who asks again and again meets a reader that waits, or comes after it.
            for _ in 0..3 {
                if let Ok(fd) = writer.open(b"/p", O_WRONLY | O_NONBLOCK, 0) {
                    written = writer.write(fd, b"abcd");
                    break;
                }
            }
            written
        });
        let (read, written) = (join(reader), join(writer));
        join(interrupter);
        match read {
            Ok(0) => assert!(written != Ok(4) || left.withdraw()),
            Ok(some) => assert_eq!((some, written), (4, Ok(4))),
            Err((errno, _)) => {
                assert_eq!((errno, left.withdraw()), (Errno::EINTR, false));
            }
        }
        assert_at_rest(&vfs);
    });
}

/// A thread dies at each step of a read, a write or an open that waits: others go on.
#[test]
fn a_thread_that_dies_in_a_wait_takes_nothing_with_it() {
    let calls: [fn(&Task, i32); 3] = [
        |task, fd| drop(task.read(fd, &mut [0; 4])),
        |task, fd| drop(task.write(fd, &[1; 2 * PAGE])),
        |task, _| drop(task.open(b"/p", O_RDONLY, 0).map(|fd| task.close(fd))),
    ];
    for call in calls {
        static DIED: AtomicU64 = AtomicU64::new(0);
        DIED.store(0, Ordering::Relaxed);
        for point in 0.. {
            let before = DIED.load(Ordering::Relaxed);
            let scheduler = RandomScheduler::new(20);
            Runner::new(scheduler, config()).run(move || {
                let died = die_at(point, call);
                DIED.fetch_add(u64::from(died), Ordering::Relaxed);
            });
            if DIED.load(Ordering::Relaxed) == before {
                break;
            }
        }
        assert!(DIED.load(Ordering::Relaxed) > 10, "nobody died");
    }
}

/// One schedule; whether the thread died.
fn die_at(point: u64, call: fn(&Task, i32)) -> bool {
    let vfs = world();
    let keeper = guest(&vfs);
    let both = open(&keeper, O_RDWR | O_NONBLOCK);
    small(&keeper, both);
    let (victim, other) = (guest(&vfs), guest(&vfs));
    let (fd, other_fd) = (open(&victim, O_RDWR), open(&other, O_RDWR));
    let interrupter = victim.interrupter();
    let victim = spawn(move || {
        fault::arm(point);
        let ended = catch_unwind(AssertUnwindSafe(|| call(&victim, fd)));
        let passed = fault::disarm();
        if let Err(panic) = ended {
            assert!(panic.is::<Fault>(), "another panic than the planted one");
        }
        (passed.is_none(), victim)
    });
    // Waits for the same, and is not forgotten.
    let other = spawn(move || other.read(other_fd, &mut [0; 4]));
    // Mostly both wait by then.
    for _ in 0..100 {
        shuttle::thread::yield_now();
    }
    // Or the pipe is full of what the victim wrote.
    let _some = keeper.write(both, b"abcd");
    interrupter.interrupt();
    let (died, victim) = join(victim);
    // What the victim has read was not for the other one; what it was woken for is.
    if keeper.poll(both, POLLIN) == 0 {
        let _some = keeper.write(both, b"abcd");
    }
    assert!(matches!(join(other), Ok(1..=4)));
    // The guest is as good as before; its close would have woken the other one too.
    victim.close(fd).expect("close");
    died
}
