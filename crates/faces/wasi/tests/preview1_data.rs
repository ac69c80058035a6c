// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that reads and writes of preview1 fill the listed buffers, wait only where no data is
//! there, can be interrupted, and that flags of descriptors are kept.

mod sides;

use openpath_abi::mode::S_IFIFO;
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::Interrupter;
use openpath_wasi::{Clocks, Guest, GuestLimits, Input, Interrupt, OpenpathWasi};
use sides::{Makers, Side};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const PATH: u32 = 1024;
const IOVS: u32 = 256;
const RESULT: u32 = 512;
const DATA: u32 = 4096;
const EVENTS: u32 = 8192;
const ALL: u64 = (1 << 30) - 1;
const CREAT: u64 = 1;
/// Codes.
const OK: Option<u16> = Some(0);
const AGAIN: Option<u16> = Some(6);
const BADF: Option<u16> = Some(8);
const INTR: Option<u16> = Some(27);
const INVAL: Option<u16> = Some(28);
/// Flags of descriptors.
const APPEND: u64 = 1;
const DSYNC: u64 = 1 << 1;
const NONBLOCK: u64 = 1 << 2;
const RSYNC: u64 = 1 << 3;
const SYNC: u64 = 1 << 4;

/// A guest with a FIFO `pipe` in its directory 3.
fn guest(with: impl FnOnce(openpath_wasi::Builder) -> openpath_wasi::Builder) -> Guest {
    let tree = MemFs::new(MemOptions::default());
    let guest = with(OpenpathWasi::builder())
        .mount("/", tree)
        .preopen("/", "/")
        .build()
        .expect("a guest");
    let made = guest.task().mknod(b"/pipe", S_IFIFO | 0o644, 0);
    made.expect("a FIFO");
    guest
}

fn side(guest: Guest) -> Box<dyn Side> {
    Makers::new().guest(guest)
}

fn open(side: &mut dyn Side, path: &[u8], fdflags: u64) -> u64 {
    side.put(PATH, path);
    let (at, len) = (u64::from(PATH), path.len() as u64);
    let args = [3, 0, at, len, CREAT, ALL, ALL, fdflags, u64::from(RESULT)];
    assert_eq!(side.call("path_open", &args), OK);
    number(side)
}

fn number(side: &dyn Side) -> u64 {
    let bytes = side.get(RESULT, 4).try_into().expect("4 bytes");
    u64::from(u32::from_le_bytes(bytes))
}

/// Writes a list of buffers into the guest's memory.
fn list(side: &mut dyn Side, spans: &[(u32, u32)]) {
    for (n, (at, len)) in (0..).zip(spans) {
        let iov = [at.to_le_bytes(), len.to_le_bytes()].concat();
        side.put(IOVS + 8 * n, &iov);
    }
}

/// Reads or writes these buffers; returns the number of bytes.
fn data(
    side: &mut dyn Side,
    name: &str,
    fd: u64,
    spans: &[(u32, u32)],
) -> Result<u64, Option<u16>> {
    list(side, spans);
    let count = spans.len() as u64;
    let args = match name {
        "fd_pread" | "fd_pwrite" => vec![fd, u64::from(IOVS), count, 0, u64::from(RESULT)],
        _ => vec![fd, u64::from(IOVS), count, u64::from(RESULT)],
    };
    match side.call(name, &args) {
        OK => Ok(number(side)),
        code => Err(code),
    }
}

/// Runs a call that must not wait: a long wait is interrupted and fails the test.
fn assert_no_wait<R>(interrupt: Interrupt, call: impl FnOnce() -> R) -> R {
    let waited = AtomicBool::new(false);
    let (done, wait) = mpsc::channel::<()>();
    let came = std::thread::scope(|scope| {
        let waited = &waited;
        scope.spawn(move || {
            let late = Err(mpsc::RecvTimeoutError::Timeout);
            while wait.recv_timeout(Duration::from_secs(20)) == late {
                waited.store(true, Ordering::Relaxed);
                interrupt.interrupt();
            }
        });
        let came = call();
        drop(done);
        came
    });
    assert!(!waited.load(Ordering::Relaxed), "the call waited");
    came
}

#[test]
fn a_read_that_overwrites_its_list_fills_the_listed_buffers() {
    let text: Vec<u8> = (100..140).collect();
    // The list itself, and two other buffers.
    let spans = [(IOVS, 24), (DATA + 64, 3), (DATA + 128, 40)];
    for (path, name) in [
        (&b"f"[..], "fd_read"),
        (b"f", "fd_pread"),
        (b"pipe", "fd_read"),
    ] {
        let mut side = side(guest(|builder| builder));
        let side = side.as_mut();
        let fd = open(side, path, 0);
        side.put(DATA, &text);
        assert_eq!(data(side, "fd_write", fd, &[(DATA, 40)]), Ok(40));
        if path == b"f" {
            let start = [fd, 0, 0, u64::from(RESULT)];
            assert_eq!(side.call("fd_seek", &start), OK);
        }
        assert_eq!(data(side, name, fd, &spans), Ok(40), "{name}");
        assert_eq!(side.get(IOVS, 24), text[..24]);
        assert_eq!(side.get(DATA + 64, 3), text[24..27]);
        assert_eq!(side.get(DATA + 128, 13), text[27..]);
    }
}

#[test]
fn a_call_moves_at_most_max_rw_count_bytes() {
    let limits = GuestLimits::default().buffers(1 << 14);
    let mut side = side(guest(|builder| builder.limits(limits)));
    let side = side.as_mut();
    // All of memory, 2^14 times, is 2 GiB; the list fills all of memory too.
    let iov = [0u32.to_le_bytes(), (1u32 << 17).to_le_bytes()].concat();
    side.put(0, &iov.repeat(1 << 14));
    assert_eq!(side.call("fd_write", &[1, 0, 1 << 14, 512]), OK);
    assert_eq!(number(side), 0x7fff_f000);
}

#[test]
fn a_read_that_has_data_waits_for_no_more() {
    let guest = guest(|builder| builder);
    let interrupt = guest.interrupt();
    let mut side = side(guest);
    let side = side.as_mut();
    let fd = open(side, b"pipe", 0);
    side.put(DATA, b"abcdefg");
    assert_eq!(data(side, "fd_write", fd, &[(DATA, 7)]), Ok(7));
    let spans = [
        (DATA + 64, 0),
        (DATA + 64, 2),
        (DATA + 80, 3),
        (DATA + 96, 9),
    ];
    let read = assert_no_wait(interrupt.clone(), || data(side, "fd_read", fd, &spans));
    assert_eq!(read, Ok(7));
    assert_eq!(side.get(DATA + 64, 2), b"ab");
    assert_eq!(side.get(DATA + 80, 3), b"cde");
    assert_eq!(side.get(DATA + 96, 3), b"fg\0");
    // Exactly one buffer of data, with room for more in the next.
    assert_eq!(data(side, "fd_write", fd, &[(DATA, 2)]), Ok(2));
    let read = assert_no_wait(interrupt, || data(side, "fd_read", fd, &spans));
    assert_eq!(read, Ok(2));
}

/// Returns two bytes per read, and counts the reads.
struct TwoBytesPerRead(Arc<AtomicUsize>);

impl Read for TwoBytesPerRead {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.fetch_add(1, Ordering::Relaxed);
        buf[..2].copy_from_slice(b"xy");
        Ok(2)
    }
}

#[test]
fn standard_input_is_read_once_for_all_buffers() {
    let times = Arc::<AtomicUsize>::default();
    let input = Input::reader(TwoBytesPerRead(Arc::clone(&times)));
    let mut side = side(guest(|builder| builder.stdin(input)));
    let spans = [(DATA, 2), (DATA + 64, 100)];
    assert_eq!(data(side.as_mut(), "fd_read", 0, &spans), Ok(2));
    assert_eq!(times.load(Ordering::Relaxed), 1);
}

/// A subscription to the monotonic clock.
fn clock(timeout: u64) -> Vec<u8> {
    let mut record = vec![0; 48];
    record[16] = 1;
    record[24..32].copy_from_slice(&timeout.to_le_bytes());
    record
}

fn sleep(side: &mut dyn Side, timeout: u64) -> Option<u16> {
    side.put(DATA, &clock(timeout));
    let args = [u64::from(DATA), u64::from(EVENTS), 1, u64::from(RESULT)];
    side.call("poll_oneoff", &args)
}

#[test]
fn an_interrupt_ends_one_wait() {
    let guest = guest(|builder| builder);
    let interrupt = guest.interrupt();
    let pending: Interrupter = guest.task().interrupter();
    let mut side = side(guest);
    let side = side.as_mut();
    let fd = open(side, b"pipe", 0);
    // In a wait for time; none is left for data.
    interrupt.interrupt();
    interrupt.interrupt();
    assert_eq!(sleep(side, u64::MAX), INTR);
    assert!(!pending.withdraw(), "a read would end too");
    // In a wait for data; none is left for time.
    interrupt.interrupt();
    assert_eq!(data(side, "fd_read", fd, &[(DATA, 1)]), Err(INTR));
    assert_eq!(sleep(side, 1_000_000), OK);
    // While it waits.
    let asleep = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            interrupt.interrupt();
        });
        sleep(side, u64::MAX)
    });
    assert_eq!(asleep, INTR);
    assert!(!pending.withdraw());
    assert_eq!(sleep(side, 1_000_000), OK);
}

/// Clocks that stand still.
struct FixedClocks;

impl Clocks for FixedClocks {
    fn realtime(&self) -> u64 {
        1
    }
    fn monotonic(&self) -> u64 {
        1
    }
}

#[test]
fn the_hosts_clock_measures_the_limit_of_a_wait() {
    let limits = GuestLimits::default().wait(Duration::from_millis(20));
    let guest = guest(|builder| builder.limits(limits).clock(Arc::new(FixedClocks)));
    let interrupt = guest.interrupt();
    let mut side = side(guest);
    let asleep = assert_no_wait(interrupt, || sleep(side.as_mut(), 1_000));
    assert_eq!(asleep, INTR);
}

/// The flags of a descriptor.
fn flags(side: &mut dyn Side, fd: u64) -> u64 {
    assert_eq!(side.call("fd_fdstat_get", &[fd, u64::from(RESULT)]), OK);
    u64::from(side.get(RESULT + 2, 1)[0])
}

#[test]
fn settable_flags_are_set_and_synchronisation_flags_stay() {
    let mut side = side(guest(|builder| builder));
    let side = side.as_mut();
    let set =
        |side: &mut dyn Side, fd: u64, flags: u64| side.call("fd_fdstat_set_flags", &[fd, flags]);
    let fd = open(side, b"f", 0);
    side.put(DATA, b"abc");
    assert_eq!(data(side, "fd_write", fd, &[(DATA, 3)]), Ok(3));
    assert_eq!(set(side, fd, APPEND), OK);
    assert_eq!(flags(side, fd), APPEND);
    assert_eq!(side.call("fd_seek", &[fd, 0, 0, u64::from(RESULT)]), OK);
    assert_eq!(data(side, "fd_write", fd, &[(DATA, 3)]), Ok(3));
    assert_eq!(side.call("fd_tell", &[fd, u64::from(RESULT)]), OK);
    assert_eq!(number(side), 6);
    for promise in [DSYNC, RSYNC, SYNC, DSYNC | APPEND, SYNC | NONBLOCK] {
        assert_eq!(set(side, fd, promise), INVAL, "{promise}");
        assert_eq!(flags(side, fd), APPEND);
    }
    assert_eq!(set(side, fd, NONBLOCK), OK);
    assert_eq!(flags(side, fd), NONBLOCK);
    assert_eq!(set(side, fd, 0), OK);
    assert_eq!(flags(side, fd), 0);
    // The flags from fcntl(2) can be set again, with more.
    let synced = open(side, b"g", DSYNC);
    assert_eq!(set(side, synced, DSYNC | APPEND), OK);
    assert_eq!(flags(side, synced), DSYNC | APPEND);
    assert_eq!(set(side, synced, 0), OK);
    assert_eq!(flags(side, synced), DSYNC);
    assert_eq!(set(side, synced, SYNC), INVAL);
    let pipe = open(side, b"pipe", 0);
    assert_eq!(set(side, pipe, NONBLOCK), OK);
    assert_eq!(data(side, "fd_read", pipe, &[(DATA, 1)]), Err(AGAIN));
    for none in [0, 1, 3, 99] {
        assert_eq!(set(side, none, 0), BADF, "{none}");
    }
    assert_eq!(set(side, fd, 1 << 5), INVAL);
}
