// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests FIFOs under a scheduler that chooses the interleaving: every wait ends, and the counts of
//! readers and writers return to zero. A lost wake-up is a deadlock, which the scheduler reports.

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

/// The capacity of a pipe of one page.
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

/// Checks that the FIFO is not open, and that its data is gone.
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

/// Shrinks the pipe to one page, so that writers wait.
fn small(task: &Task, fd: i32) {
    use openpath_abi::fcntl::F_SETPIPE_SZ;
    assert_eq!(task.fcntl(fd, F_SETPIPE_SZ, 1), Ok(PAGE as u64));
}

/// Reads to the end; returns the number of bytes.
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
            // The peer that goes on first may be gone before the other looks.
            spawn(move || task.close(open(&task, flags)).expect("close"))
        });
        guests.into_iter().for_each(join);
        assert_at_rest(&vfs);
    });
}

#[test]
fn all_written_data_is_read() {
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
        // The end comes when the last writer is gone.
        drop(keeper);
        writers.into_iter().for_each(join);
        let read: usize = readers.into_iter().map(join).sum();
        assert_eq!(read, 9096);
        assert_at_rest(&vfs);
    });
}

#[test]
fn the_close_of_the_last_reader_ends_a_waiting_write() {
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
fn interrupts_do_not_lose_peers_or_data() {
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
            // A caller that repeats its open meets a waiting reader, or comes after it.
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

/// A thread panics at each point of a read, a write or an open that waits, and others go on.
#[test]
fn a_thread_that_panics_in_a_wait_leaves_nothing() {
    let calls: [fn(&Task, i32); 3] = [
        |task, fd| drop(task.read(fd, &mut [0; 4])),
        |task, fd| drop(task.write(fd, &[1; 2 * PAGE])),
        |task, _| drop(task.open(b"/p", O_RDONLY, 0).map(|fd| task.close(fd))),
    ];
    for call in calls {
        static PANICS: AtomicU64 = AtomicU64::new(0);
        PANICS.store(0, Ordering::Relaxed);
        for point in 0.. {
            let before = PANICS.load(Ordering::Relaxed);
            let scheduler = RandomScheduler::new(20);
            Runner::new(scheduler, config()).run(move || {
                let died = panic_at(point, call);
                PANICS.fetch_add(u64::from(died), Ordering::Relaxed);
            });
            if PANICS.load(Ordering::Relaxed) == before {
                break;
            }
        }
        assert!(PANICS.load(Ordering::Relaxed) > 10, "too few panics");
    }
}

/// One schedule; returns whether the thread panicked.
fn panic_at(point: u64, call: fn(&Task, i32)) -> bool {
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
            assert!(panic.is::<Fault>(), "a panic that was not planted");
        }
        (passed.is_none(), victim)
    });
    // Waits for the same data, and must be woken.
    let other = spawn(move || other.read(other_fd, &mut [0; 4]));
    // Mostly, both wait by then.
    for _ in 0..100 {
        shuttle::thread::yield_now();
    }
    // Or the pipe is full of the victim's data.
    let _some = keeper.write(both, b"abcd");
    interrupter.interrupt();
    let (died, victim) = join(victim);
    // Data that the victim read was not for the other reader, but its wake-up is.
    if keeper.poll(both, POLLIN) == 0 {
        let _some = keeper.write(both, b"abcd");
    }
    assert!(matches!(join(other), Ok(1..=4)));
    // The task works as before; its close would also have woken the other reader.
    victim.close(fd).expect("close");
    died
}
