// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests behaviour of preview1 that openpath alone decides: rights only become fewer, bad addresses
//! change nothing, listings lose no name, waits and descriptors have limits, and no path leads out.

mod sides;

use openpath_mem::{MemFs, MemOptions};
use openpath_wasi::{GuestLimits, OpenpathWasi};
use sides::{Makers, Side};
use std::time::Duration;

const PATH: u32 = 1024;
const IOVS: u32 = 256;
const RESULT: u32 = 512;
const DATA: u32 = 4096;
const ALL: u64 = (1 << 30) - 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 6;
const CREAT: u64 = 1;
const DIRECTORY: u64 = 2;
/// Codes.
const BADF: Option<u16> = Some(8);
const INTR: Option<u16> = Some(27);
const INVAL: Option<u16> = Some(28);
const MFILE: Option<u16> = Some(33);
const NOTSOCK: Option<u16> = Some(57);
const PERM: Option<u16> = Some(63);
const NOT_CAPABLE: Option<u16> = Some(76);
/// The guest ended.
const ENDED: Option<u16> = None;
const OK: Option<u16> = Some(0);

fn side() -> Box<dyn Side> {
    Makers::new().ours(MemFs::new(MemOptions::default()), "/p")
}

/// Opens `path` below 3 with these `oflags`, `fdflags` and rights.
fn open_as(
    side: &mut dyn Side,
    path: &[u8],
    (oflags, fdflags): (u64, u64),
    rights: [u64; 2],
) -> Result<u64, Option<u16>> {
    side.put(PATH, path);
    let [base, inheriting] = rights;
    let (at, len) = (u64::from(PATH), path.len() as u64);
    let args = [
        3,
        0,
        at,
        len,
        oflags,
        base,
        inheriting,
        fdflags,
        u64::from(RESULT),
    ];
    match side.call("path_open", &args) {
        OK => Ok(number(side, RESULT)),
        code => Err(code),
    }
}

fn open(side: &mut dyn Side, path: &[u8], oflags: u64) -> u64 {
    open_as(side, path, (oflags, 0), [ALL, ALL]).expect("a descriptor")
}

fn number(side: &mut dyn Side, at: u32) -> u64 {
    let bytes = side.get(at, 4).try_into().expect("4 bytes");
    u64::from(u32::from_le_bytes(bytes))
}

/// Writes `data`, split into this many buffers.
fn write(side: &mut dyn Side, fd: u64, data: &[u8], buffers: u32) -> Option<u16> {
    side.put(DATA, data);
    let each = data.len() as u32 / buffers.max(1);
    for n in 0..buffers {
        let iov = [(DATA + n * each).to_le_bytes(), each.to_le_bytes()].concat();
        side.put(IOVS + 8 * (n % 16), &iov);
    }
    side.call(
        "fd_write",
        &[fd, u64::from(IOVS), u64::from(buffers), u64::from(RESULT)],
    )
}

#[test]
fn rights_are_enforced_and_only_become_fewer() {
    let mut side = side();
    let side = side.as_mut();
    let file = open(side, b"f", CREAT);
    assert_eq!(write(side, file, b"data", 1), OK);
    let at = u64::from(RESULT);
    assert_eq!(side.call("fd_fdstat_set_rights", &[file, READ, 0]), OK);
    assert_eq!(write(side, file, b"data", 1), NOT_CAPABLE);
    assert_eq!(side.call("fd_tell", &[file, at]), NOT_CAPABLE);
    assert_eq!(
        side.call("fd_fdstat_set_rights", &[file, READ | WRITE, 0]),
        NOT_CAPABLE
    );
    assert_eq!(
        side.call("fd_fdstat_set_rights", &[file, 1 << 40, 0]),
        INVAL
    );
    // A descriptor passes on no more than its inheriting rights.
    side.put(PATH, b"d");
    assert_eq!(
        side.call("path_create_directory", &[3, u64::from(PATH), 1]),
        OK
    );
    let dir = open_as(side, b"d", (DIRECTORY, 0), [ALL & !WRITE, READ]).expect("a directory");
    side.put(PATH, b"x");
    let mut ask = |base: u64| {
        side.call(
            "path_open",
            &[
                dir,
                0,
                u64::from(PATH),
                1,
                CREAT,
                base,
                0,
                0,
                u64::from(RESULT),
            ],
        )
    };
    assert_eq!(ask(WRITE), NOT_CAPABLE);
    assert_eq!(ask(READ), OK);
}

#[test]
fn all_buffers_are_written_and_too_many_are_refused() {
    let mut side = side();
    let side = side.as_mut();
    let file = open(side, b"f", CREAT);
    assert_eq!(write(side, file, b"abcdefgh", 4), OK);
    assert_eq!(number(side, RESULT), 8);
    assert_eq!(write(side, file, b"", 1025), INVAL);
    let iov = [0u32.to_le_bytes(), (1u32 << 12).to_le_bytes()].concat();
    for n in 0..1024 {
        side.put(16384 + 8 * n, &iov);
    }
    let args = [file, 16384, 1024, u64::from(RESULT)];
    assert_eq!(side.call("fd_write", &args), OK);
    assert_eq!(number(side, RESULT), 1 << 22);
}

#[test]
fn bad_addresses_end_the_guest_and_change_nothing() {
    let makers = Makers::new();
    let tree = MemFs::new(MemOptions::default());
    let guest = OpenpathWasi::builder()
        .mount("/", tree)
        .preopen("/", "/")
        .build();
    let guest = guest.expect("a guest");
    let watch = guest.task().fork().expect("a task");
    let mut side = makers.guest(guest);
    let side = side.as_mut();
    side.put(PATH, b"f");
    let (path, far) = (u64::from(PATH), 1u64 << 31);
    let make = |at: u64, len: u64, result: u64| [3, 0, at, len, CREAT, ALL, ALL, 0, result];
    for args in [
        make(path, 1, far),
        make(path, 1, 513),
        make(far, 1, 512),
        make(path, u64::from(u32::MAX), 512),
        make(u64::from(u32::MAX), 1, 512),
    ] {
        assert_eq!(side.call("path_open", &args), ENDED);
    }
    assert!(watch.stat(b"/f").is_err());
    let file = open(side, b"f", CREAT);
    assert_eq!(side.call("fd_write", &[file, far, 1, 512]), ENDED);
    side.put(IOVS, &[0xff; 8]);
    assert_eq!(
        side.call("fd_write", &[file, u64::from(IOVS), 1, 512]),
        ENDED
    );
    assert_eq!(side.call("fd_filestat_get", &[file, (2 << 16) - 32]), ENDED);
    assert_eq!(side.call("fd_readdir", &[3, 0, 1 << 20, 0, 512]), ENDED);
    assert_eq!(side.call("poll_oneoff", &[0, far, 1, 512]), ENDED);
    assert_eq!(watch.stat(b"/f").map(|stat| stat.size), Ok(0));
}

#[test]
fn a_large_directory_is_listed_once_while_names_come_and_go() {
    let mut side = side();
    let side = side.as_mut();
    for n in 0..3000 {
        let file = open(side, format!("name-{n:05}").as_bytes(), CREAT);
        assert_eq!(side.call("fd_close", &[file]), OK);
    }
    let (mut cookie, mut names, mut round) = (0, Vec::new(), 0);
    loop {
        let args = [3, u64::from(DATA), 700, cookie, u64::from(RESULT)];
        assert_eq!(side.call("fd_readdir", &args), OK);
        let used = number(side, RESULT) as usize;
        let bytes = side.get(DATA, used);
        let mut rest = &bytes[..];
        while let Some((head, tail)) = rest.split_at_checked(24) {
            let len = u32::from_le_bytes(head[16..20].try_into().expect("4 bytes")) as usize;
            let Some((name, tail)) = tail.split_at_checked(len) else {
                break;
            };
            cookie = u64::from_le_bytes(head[..8].try_into().expect("8 bytes"));
            names.push(String::from_utf8_lossy(name).into_owned());
            rest = tail;
        }
        if used < 700 {
            break;
        }
        // A listed name goes, and a new one comes.
        let gone = names[names.len() / 2].clone();
        if gone.starts_with("name-") {
            side.put(PATH, gone.as_bytes());
            side.call("path_unlink_file", &[3, u64::from(PATH), gone.len() as u64]);
        }
        round += 1;
        open(side, format!("more-{round:05}").as_bytes(), CREAT);
        if round > 900 {
            break;
        }
    }
    let mut old: Vec<_> = names
        .iter()
        .filter(|name| name.starts_with("name-"))
        .collect();
    assert_eq!(old.len(), 3000);
    old.dedup();
    old.sort();
    old.dedup();
    assert_eq!(old.len(), 3000);
}

#[test]
fn names_need_not_be_utf8() {
    let mut side = side();
    let side = side.as_mut();
    open(side, b"\xff\xfe", CREAT);
    let args = [3, u64::from(DATA), 4096, 2, u64::from(RESULT)];
    assert_eq!(side.call("fd_readdir", &args), OK);
    assert_eq!(number(side, RESULT), 26);
    assert_eq!(side.get(DATA + 24, 2), b"\xff\xfe");
    assert_eq!(open_as(side, b"a\0b", (CREAT, 0), [ALL, ALL]), Err(INVAL));
}

#[test]
fn the_tasks_limit_bounds_descriptors() {
    let makers = Makers::new();
    let tree = MemFs::new(MemOptions::default());
    let guest = OpenpathWasi::builder()
        .mount("/", tree)
        .preopen("/", "/")
        .build();
    let guest = guest.expect("a guest");
    guest.task().set_rlimit_nofile(10);
    let mut side = makers.guest(guest);
    let side = side.as_mut();
    let first = open(side, b"f", CREAT);
    let opened = (0..20).map_while(|_| open_as(side, b"f", (0, 0), [READ, 0]).ok());
    assert_eq!(opened.count(), 8);
    assert_eq!(open_as(side, b"f", (0, 0), [READ, 0]), Err(MFILE));
    assert_eq!(side.call("fd_close", &[first]), OK);
    assert_eq!(open_as(side, b"f", (0, 0), [READ, 0]), Ok(first));
}

#[test]
fn synchronisation_flags_of_an_open_are_reported() {
    let mut side = side();
    let side = side.as_mut();
    let (dsync, sync) = (1 << 1, 1 << 4);
    for flags in [dsync, sync, dsync | sync | 1] {
        let file = open_as(side, b"f", (CREAT, flags), [ALL, ALL]).expect("a descriptor");
        assert_eq!(side.call("fd_fdstat_get", &[file, u64::from(RESULT)]), OK);
        assert_eq!(u64::from(side.get(RESULT + 2, 1)[0]), flags);
    }
    let file = open(side, b"f", 0);
    assert_eq!(side.call("fd_allocate", &[file, 0, 1000]), OK);
    assert_eq!(side.call("fd_allocate", &[file, 0, 0]), INVAL);
    assert_eq!(side.call("fd_filestat_get", &[file, u64::from(RESULT)]), OK);
    assert_eq!(number(side, RESULT + 32), 1000);
    assert_eq!(side.call("sock_shutdown", &[file, 0]), NOTSOCK);
    assert_eq!(side.call("sock_shutdown", &[77, 0]), BADF);
}

#[test]
fn no_path_leads_out() {
    let mut side = side();
    let side = side.as_mut();
    side.put(PATH, b"../p");
    side.put(PATH + 100, b"l");
    let (path, link) = (u64::from(PATH), u64::from(PATH + 100));
    assert_eq!(side.call("path_symlink", &[path, 4, 3, link, 1]), OK);
    for out in [&b"/"[..], b"..", b"../p", b"l", b"l/x", b"/p/f"] {
        side.put(PATH, out);
        let len = out.len() as u64;
        let follow = [3, 1, path, len, u64::from(RESULT)];
        assert_eq!(side.call("path_filestat_get", &follow), PERM);
        let open = [3, 1, path, len, 0, READ, 0, 0, u64::from(RESULT)];
        assert_eq!(side.call("path_open", &open), PERM);
    }
    side.put(PATH, b"/etc");
    assert_eq!(side.call("path_symlink", &[path, 4, 3, link, 1]), PERM);
}

/// A subscription to a clock.
fn clock(userdata: u64, id: u32, timeout: u64, absolute: bool) -> Vec<u8> {
    let mut record = vec![0; 48];
    record[..8].copy_from_slice(&userdata.to_le_bytes());
    record[16..20].copy_from_slice(&id.to_le_bytes());
    record[24..32].copy_from_slice(&timeout.to_le_bytes());
    record[40] = u8::from(absolute);
    record
}

#[test]
fn a_wait_ends_by_the_first_ready_subscription() {
    let mut side = side();
    let side = side.as_mut();
    let at = u64::from(RESULT);
    assert_eq!(side.call("clock_time_get", &[1, 0, at]), OK);
    let before = u64::from_le_bytes(side.get(RESULT, 8).try_into().expect("8 bytes"));
    let long = 3_600_000_000_000;
    side.put(
        DATA,
        &[clock(7, 1, long, false), clock(8, 0, 2_000_000, false)].concat(),
    );
    assert_eq!(
        side.call("poll_oneoff", &[u64::from(DATA), 8192, 2, at]),
        OK
    );
    assert_eq!(number(side, RESULT), 1);
    assert_eq!(side.get(8192, 1), [8]);
    assert_eq!(side.call("clock_time_get", &[1, 0, at]), OK);
    let after = u64::from_le_bytes(side.get(RESULT, 8).try_into().expect("8 bytes"));
    assert!(after - before >= 2_000_000);
    // A past moment, and a file, which is always ready.
    let file = open(side, b"f", CREAT);
    let mut read = vec![0; 48];
    read[0] = 9;
    read[8] = 1;
    read[16] = file as u8;
    side.put(DATA, &[clock(7, 0, 1, true), read].concat());
    assert_eq!(
        side.call("poll_oneoff", &[u64::from(DATA), 8192, 2, at]),
        OK
    );
    assert_eq!(number(side, RESULT), 2);
    assert_eq!([side.get(8192, 1), side.get(8192 + 32, 1)], [[7], [9]]);
    // The end of an empty file.
    assert_eq!(side.get(8192 + 32 + 24, 1), [1]);
    // Events overwrite subscriptions, which were read before.
    side.put(DATA, &[clock(7, 0, 1, true), clock(8, 0, 1, true)].concat());
    let over = u64::from(DATA) + 32;
    assert_eq!(
        side.call("poll_oneoff", &[u64::from(DATA), over, 2, at]),
        OK
    );
    assert_eq!(number(side, RESULT), 2);
    assert_eq!([side.get(DATA + 32, 1), side.get(DATA + 64, 1)], [[7], [8]]);
    for bad in [clock(1, 2, 0, false), clock(1, 9, 0, false)] {
        side.put(DATA, &bad);
        assert_eq!(
            side.call("poll_oneoff", &[u64::from(DATA), 8192, 1, at]),
            INVAL
        );
    }
    assert_eq!(
        side.call("poll_oneoff", &[u64::from(DATA), 8192, 0, at]),
        INVAL
    );
}

#[test]
fn a_wait_is_bounded_and_can_be_interrupted() {
    let makers = Makers::new();
    let guest = |wait: Duration| {
        let tree = MemFs::new(MemOptions::default());
        let limits = GuestLimits::default().wait(wait).subscriptions(2);
        let guest = OpenpathWasi::builder().mount("/", tree).limits(limits);
        guest.build().expect("a guest")
    };
    let mut side = makers.guest(guest(Duration::from_millis(1)));
    side.put(DATA, &clock(1, 1, u64::MAX, false));
    let args = [u64::from(DATA), 8192, 1, u64::from(RESULT)];
    assert_eq!(side.call("poll_oneoff", &args), INTR);
    let many = [u64::from(DATA), 8192, 3, u64::from(RESULT)];
    assert_eq!(side.call("poll_oneoff", &many), INVAL);
    let patient = guest(Duration::from_secs(3600));
    let interrupt = patient.interrupt();
    let mut side = makers.guest(patient);
    side.put(DATA, &clock(1, 1, u64::MAX, false));
    interrupt.interrupt();
    assert_eq!(side.call("poll_oneoff", &args), INTR);
}

/// A link that leads out is `EPERM`, whichever call follows it.
#[test]
fn a_hard_link_through_a_link_that_leads_out_fails_with_eperm() {
    let mut side = side();
    let side = side.as_mut();
    for (target, name) in [(&b"../out"[..], &b"up"[..]), (b"f", b"in")] {
        side.put(DATA, target);
        side.put(PATH, name);
        let (at, len) = (u64::from(DATA), target.len() as u64);
        let args = [at, len, 3, u64::from(PATH), name.len() as u64];
        assert_eq!(side.call("path_symlink", &args), OK);
    }
    open(side, b"f", CREAT);
    let mut link = |follow: u64, old: &[u8], new: &[u8]| {
        side.put(PATH, old);
        side.put(DATA, new);
        let (old_len, new_len) = (old.len() as u64, new.len() as u64);
        let (old, new) = (u64::from(PATH), u64::from(DATA));
        side.call("path_link", &[3, follow, old, old_len, 3, new, new_len])
    };
    assert_eq!(link(1, b"up", b"a"), PERM);
    assert_eq!(link(1, b"in", b"b"), OK);
    assert_eq!(link(0, b"up", b"c"), OK);
    assert_eq!(link(1, b"in", b"../d"), PERM);
}
