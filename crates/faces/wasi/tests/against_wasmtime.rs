// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests preview1 against wasmtime-wasi: random sequences of calls on files and paths, over
//! openpath in memory, over openpath on a directory of the host, and over wasmtime-wasi on another.
//! Every answer must be the same, except for those in `known`, each with its id in docs/WASI.md.

#[path = "against/known.rs"]
mod known;
mod sides;

use openpath_host::{HostFs, HostOptions};
use openpath_mem::{MemFs, MemOptions};
use sides::{Makers, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Where a test puts data in a guest's memory.
const PATH: u32 = 1024;
const OTHER: u32 = 2048;
const DATA: u32 = 4096;
const RESULT: u32 = 512;
const IOVS: u32 = 256;
/// A descriptor that is never open.
const NEVER: u32 = 9999;
/// Every right except those to read and to write.
const NEITHER: u64 = ((1 << 30) - 1) & !(1 << 1 | 1 << 6);

const PATHS: &[&str] = &[
    "a", "b", "d", "d/a", "d/b", "d/e", "e", "l", "l/a", "k", "..", "d/..", "d/../..", "../x",
    "/a", "/", "a/", "d/", "d/.", ".", "./a", "", "d/../a", "l/", "d/e/../a", "x/y", "a/b", "d//a",
];
const TARGETS: &[&str] = &[
    "a", "d", "..", "../..", "/", "/tmp", "nowhere", "l", "d/a", "",
];

/// Random numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.next(from.len() as u64) as usize]
    }
}

/// One call.
#[derive(Clone, Debug)]
enum Op {
    Open(usize, u32, &'static str, u16, u64, u16),
    Close(usize),
    Read(usize, u32, Option<u64>),
    Write(usize, Vec<u8>, Option<u64>),
    Seek(usize, i64, u32),
    Tell(usize),
    SetSize(usize, u64),
    Filestat(usize),
    Fdstat(usize),
    SetFlags(usize, u32),
    SetTimes(usize, u64, u64, u32),
    Sync(usize, bool),
    Advise(usize, u32),
    Renumber(usize, usize),
    Prestat(usize),
    Readdir(usize, u32),
    Mkdir(usize, &'static str),
    Rmdir(usize, &'static str),
    Unlink(usize, &'static str),
    Rename(usize, &'static str, usize, &'static str),
    Link(usize, &'static str, usize, &'static str),
    Symlink(&'static str, usize, &'static str),
    Readlink(usize, &'static str, u32),
    Stat(usize, u32, &'static str),
    PathTimes(usize, u32, &'static str, u64, u32),
}

fn draw(n: &mut Numbers, slots: usize) -> Op {
    let any = |n: &mut Numbers| n.next(slots as u64) as usize;
    // Mostly the preopened directory.
    let dir = |n: &mut Numbers| {
        if n.next(3) > 0 {
            3
        } else {
            n.next(slots as u64) as usize
        }
    };
    match n.next(38) {
        0..=7 => {
            let oflags = [0, 0, 1, 1, 2, 5, 8, 9, 4, 3][n.next(10) as usize];
            let access = [1 << 1, 1 << 6, 1 << 1 | 1 << 6][n.next(3) as usize];
            let fdflags = [0, 0, 0, 1, 4][n.next(5) as usize];
            let follow = n.next(2) as u32;
            Op::Open(dir(n), follow, n.pick(PATHS), oflags, access, fdflags)
        }
        8 => Op::Close(any(n)),
        9 => Op::Read(any(n), n.next(64) as u32, None),
        10 => Op::Read(any(n), n.next(64) as u32, Some(n.next(40))),
        11 | 12 => Op::Write(any(n), vec![b'x'; n.next(40) as usize], None),
        13 => Op::Write(any(n), vec![b'y'; n.next(40) as usize], Some(n.next(60))),
        14 => Op::Seek(any(n), n.next(60).cast_signed() - 20, n.next(3) as u32),
        15 => Op::Tell(any(n)),
        16 => Op::SetSize(any(n), n.next(100)),
        17 => Op::Filestat(any(n)),
        18 => Op::Fdstat(any(n)),
        19 => Op::SetFlags(any(n), n.next(8) as u32),
        20 => Op::SetTimes(any(n), n.next(1 << 40), n.next(1 << 40), n.next(16) as u32),
        21 => Op::Sync(any(n), n.next(2) == 0),
        22 => Op::Advise(any(n), n.next(6) as u32),
        23 => Op::Renumber(any(n), any(n)),
        24 => Op::Prestat(any(n)),
        25 => Op::Readdir(dir(n), 40 + n.next(200) as u32),
        26 | 27 => Op::Mkdir(dir(n), n.pick(PATHS)),
        28 => Op::Rmdir(dir(n), n.pick(PATHS)),
        29 => Op::Unlink(dir(n), n.pick(PATHS)),
        30 | 31 => Op::Rename(dir(n), n.pick(PATHS), dir(n), n.pick(PATHS)),
        32 => Op::Link(dir(n), n.pick(PATHS), dir(n), n.pick(PATHS)),
        33 => Op::Symlink(n.pick(TARGETS), dir(n), n.pick(PATHS)),
        34 => Op::Readlink(dir(n), n.pick(PATHS), n.next(8) as u32),
        35 | 36 => Op::Stat(dir(n), n.next(2) as u32, n.pick(PATHS)),
        _ => Op::PathTimes(dir(n), n.next(2) as u32, n.pick(PATHS), n.next(1 << 40), 4),
    }
}

/// A guest, and what the test knows about its descriptors.
struct Run {
    side: Box<dyn Side>,
    fds: Vec<u32>,
    /// The rights that each was opened with.
    rights: Vec<u64>,
}

/// The error code, and the comparable part of the result.
type Answer = (Option<u16>, Vec<u8>);

impl Run {
    fn new(side: Box<dyn Side>) -> Self {
        Self {
            side,
            fds: vec![0, 1, 2, 3, NEVER],
            rights: vec![u64::MAX; 5],
        }
    }

    fn fd(&self, slot: usize) -> u64 {
        u64::from(self.fds[slot])
    }

    fn path(&mut self, at: u32, path: &str) -> [u64; 2] {
        self.side.put(at, path.as_bytes());
        [u64::from(at), path.len() as u64]
    }

    fn plain(&mut self, name: &str, args: &[u64]) -> Answer {
        (self.side.call(name, args), Vec::new())
    }

    /// Calls a function, and reads these places of the result.
    fn with(&mut self, name: &str, args: &[u64], places: &[(u32, usize)]) -> Answer {
        let code = self.side.call(name, args);
        let mut bytes = Vec::new();
        if code == Some(0) {
            for &(at, len) in places {
                bytes.extend(self.side.get(RESULT + at, len));
            }
        }
        (code, bytes)
    }

    /// The comparable part of a record that describes a file: no size of directories.
    fn described(&mut self, name: &str, args: &[u64]) -> Answer {
        let (code, mut bytes) = self.with(name, args, &[(16, 1), (24, 8), (32, 8), (48, 8)]);
        if code == Some(0) {
            // Modification times that no call has set are the time of the run.
            let mtim = bytes.split_off(17);
            let set = u64::from_le_bytes(mtim.try_into().expect("8 bytes")) < 1 << 40;
            bytes.push(u8::from(set));
            if bytes[0] == 3 {
                bytes.truncate(1);
            }
        }
        (code, bytes)
    }

    #[allow(clippy::too_many_lines, reason = "one arm a call")]
    fn apply(&mut self, op: &Op) -> Answer {
        let at = u64::from(RESULT);
        match op.clone() {
            Op::Open(slot, follow, path, oflags, access, fdflags) => {
                let [p, len] = self.path(PATH, path);
                let rights = NEITHER | access;
                let args = [
                    self.fd(slot),
                    u64::from(follow),
                    p,
                    len,
                    u64::from(oflags),
                    rights,
                    (1 << 30) - 1,
                    u64::from(fdflags),
                    at,
                ];
                let code = self.side.call("path_open", &args);
                if code == Some(0) {
                    let fd = self.side.get(RESULT, 4);
                    self.fds
                        .push(u32::from_le_bytes(fd.try_into().expect("4 bytes")));
                    self.rights.push(rights);
                }
                (code, Vec::new())
            }
            Op::Close(slot) => {
                let answer = self.plain("fd_close", &[self.fd(slot)]);
                if answer.0 == Some(0) {
                    self.fds[slot] = NEVER;
                }
                answer
            }
            Op::Read(slot, len, offset) => self.data(slot, &vec![0; len as usize], offset, true),
            Op::Write(slot, data, offset) => self.data(slot, &data, offset, false),
            Op::Seek(slot, offset, whence) => {
                let args = [self.fd(slot), offset.cast_unsigned(), u64::from(whence), at];
                self.with("fd_seek", &args, &[(0, 8)])
            }
            Op::Tell(slot) => self.with("fd_tell", &[self.fd(slot), at], &[(0, 8)]),
            Op::SetSize(slot, size) => self.plain("fd_filestat_set_size", &[self.fd(slot), size]),
            Op::Filestat(slot) => self.described("fd_filestat_get", &[self.fd(slot), at]),
            Op::Fdstat(slot) => self.with("fd_fdstat_get", &[self.fd(slot), at], &[(0, 1), (2, 2)]),
            Op::SetFlags(slot, flags) => {
                self.plain("fd_fdstat_set_flags", &[self.fd(slot), u64::from(flags)])
            }
            Op::SetTimes(slot, atim, mtim, how) => {
                let args = [self.fd(slot), atim, mtim, u64::from(how)];
                self.plain("fd_filestat_set_times", &args)
            }
            Op::Sync(slot, data) => {
                let name = if data { "fd_datasync" } else { "fd_sync" };
                self.plain(name, &[self.fd(slot)])
            }
            Op::Advise(slot, advice) => {
                self.plain("fd_advise", &[self.fd(slot), 0, 10, u64::from(advice)])
            }
            Op::Renumber(from, to) => {
                let answer = self.plain("fd_renumber", &[self.fd(from), self.fd(to)]);
                if answer.0 == Some(0) && self.fds[from] != self.fds[to] {
                    self.fds[from] = NEVER;
                    self.rights[to] = self.rights[from];
                }
                answer
            }
            Op::Prestat(slot) => {
                let known = self.with("fd_prestat_get", &[self.fd(slot), at], &[(0, 1), (4, 4)]);
                let name = self.with("fd_prestat_dir_name", &[self.fd(slot), at, 64], &[(0, 2)]);
                (
                    known.0,
                    [known.1, name.1, vec![name.0.unwrap_or(999) as u8]].concat(),
                )
            }
            Op::Readdir(slot, room) => self.list(slot, room),
            Op::Mkdir(slot, path) => self.named("path_create_directory", slot, path),
            Op::Rmdir(slot, path) => self.named("path_remove_directory", slot, path),
            Op::Unlink(slot, path) => self.named("path_unlink_file", slot, path),
            Op::Rename(slot, old, new_slot, new) => {
                let ([p, len], [q, new_len]) = (self.path(PATH, old), self.path(OTHER, new));
                let args = [self.fd(slot), p, len, self.fd(new_slot), q, new_len];
                self.plain("path_rename", &args)
            }
            Op::Link(slot, old, new_slot, new) => {
                let ([p, len], [q, new_len]) = (self.path(PATH, old), self.path(OTHER, new));
                let args = [self.fd(slot), 0, p, len, self.fd(new_slot), q, new_len];
                self.plain("path_link", &args)
            }
            Op::Symlink(target, slot, path) => {
                let ([t, tlen], [p, len]) = (self.path(OTHER, target), self.path(PATH, path));
                self.plain("path_symlink", &[t, tlen, self.fd(slot), p, len])
            }
            Op::Readlink(slot, path, room) => {
                let [p, len] = self.path(PATH, path);
                let args = [self.fd(slot), p, len, at, u64::from(room), at + 256];
                self.side.put(RESULT, &[0; 16]);
                self.with("path_readlink", &args, &[(0, 8), (256, 4)])
            }
            Op::Stat(slot, flags, path) => {
                let [p, len] = self.path(PATH, path);
                let args = [self.fd(slot), u64::from(flags), p, len, at];
                self.described("path_filestat_get", &args)
            }
            Op::PathTimes(slot, flags, path, mtim, how) => {
                let [p, len] = self.path(PATH, path);
                let args = [
                    self.fd(slot),
                    u64::from(flags),
                    p,
                    len,
                    0,
                    mtim,
                    u64::from(how),
                ];
                self.plain("path_filestat_set_times", &args)
            }
        }
    }

    fn named(&mut self, name: &str, slot: usize, path: &str) -> Answer {
        let [p, len] = self.path(PATH, path);
        self.plain(name, &[self.fd(slot), p, len])
    }

    fn data(&mut self, slot: usize, data: &[u8], offset: Option<u64>, read: bool) -> Answer {
        self.side.put(DATA, data);
        let iov = [DATA.to_le_bytes(), (data.len() as u32).to_le_bytes()].concat();
        self.side.put(IOVS, &iov);
        let (name, mut args) = (
            match (read, offset) {
                (true, None) => "fd_read",
                (true, Some(_)) => "fd_pread",
                (false, None) => "fd_write",
                (false, Some(_)) => "fd_pwrite",
            },
            vec![self.fd(slot), u64::from(IOVS), 1],
        );
        args.extend(offset);
        args.push(u64::from(RESULT));
        let (code, mut bytes) = self.with(name, &args, &[(0, 4)]);
        bytes.extend(self.side.get(DATA, data.len()));
        (code, bytes)
    }

    /// Everything that a directory lists, in pieces of this size.
    fn list(&mut self, slot: usize, room: u32) -> Answer {
        let (mut cookie, mut found) = (0, BTreeSet::new());
        loop {
            let args = [
                self.fd(slot),
                u64::from(DATA),
                u64::from(room),
                cookie,
                u64::from(RESULT),
            ];
            let code = self.side.call("fd_readdir", &args);
            if code != Some(0) {
                return (code, Vec::new());
            }
            let used = self.side.get(RESULT, 4);
            let used = u32::from_le_bytes(used.try_into().expect("4 bytes"));
            let bytes = self.side.get(DATA, used as usize);
            let (mut rest, before) = (&bytes[..], cookie);
            while let Some((head, tail)) = rest.split_at_checked(24) {
                let len = u32::from_le_bytes(head[16..20].try_into().expect("4 bytes")) as usize;
                let Some((name, tail)) = tail.split_at_checked(len) else {
                    break;
                };
                cookie = u64::from_le_bytes(head[..8].try_into().expect("8 bytes"));
                assert!(
                    found.insert((name.to_vec(), head[20])),
                    "listed twice: {name:?}"
                );
                rest = tail;
            }
            if used < room {
                return (
                    code,
                    found
                        .into_iter()
                        .flat_map(|(n, k)| [n, vec![k]].concat())
                        .collect(),
                );
            }
            assert_ne!(before, cookie, "a piece of {room} bytes holds no name");
        }
    }
}

/// A directory of the host, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let shm = PathBuf::from("/dev/shm");
        let place = if shm.is_dir() {
            shm
        } else {
            std::env::temp_dir()
        };
        let place = place.join(format!("openpath-wasi-{}-{name}", std::process::id()));
        let _left_over = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).expect("cannot create a directory");
        Self(place)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _goes_if_it_can = std::fs::remove_dir_all(&self.0);
    }
}

/// Unexpected differences, by call and codes: one such call, and the sequence that leads there.
type Found = BTreeMap<String, [String; 2]>;

/// Runs one sequence on both.
fn sequence(makers: &Makers, seed: u64, host: bool, seen: &mut known::Seen, found: &mut Found) {
    let name = |side: &str| format!("{side}-{host}");
    let (mine, other) = (Scratch::new(&name("ours")), Scratch::new(&name("theirs")));
    let tree = if host {
        HostFs::open(&mine.0, HostOptions::default()).expect("a tree")
    } else {
        MemFs::new(MemOptions::default())
    };
    let mut ours = Run::new(makers.ours(tree, "/p"));
    std::fs::create_dir(other.0.join("p")).expect("a directory");
    let mut theirs = Run::new(makers.theirs(&other.0.join("p")));
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut log = String::new();
    for _ in 0..60 {
        let op = draw(&mut numbers, ours.fds.len());
        let (mine, other) = (ours.apply(&op), theirs.apply(&op));
        log.push_str(&format!("  {op:?} = {mine:?}\n"));
        if mine == other {
            continue;
        }
        if !seen.note(&op, &ours.rights, [mine.0, other.0]) {
            let what = format!("{op:?}");
            let call = what.split('(').next().unwrap_or_default();
            let text = format!("seed {seed}:\n{log}  theirs: {other:?}");
            let key = format!("{call}: {:?}, theirs {:?}", mine.0, other.0);
            found.entry(key).or_insert([what, text]);
            return;
        }
        // A call that only one side carried out makes the trees differ.
        if mine.0 == Some(0) || other.0 == Some(0) {
            return;
        }
    }
}

/// The number of sequences, by default or from the environment.
fn rounds() -> u64 {
    let asked = std::env::var("OPENPATH_WASI_ROUNDS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(1500)
}

fn compare(host: bool) {
    let makers = Makers::new();
    let (mut seen, mut found) = (known::Seen::default(), Found::new());
    for seed in 1..=rounds() {
        sequence(&makers, seed, host, &mut seen, &mut found);
    }
    let list = found.iter().map(|(key, [op, _])| format!("{key}, as {op}"));
    let list: Vec<_> = list.collect();
    let one = found.values().next().map_or("", |[_, text]| text);
    assert!(found.is_empty(), "{}\n{one}", list.join("\n"));
    // A row of `known` that no sequence meets is obsolete.
    if rounds() >= known::ENOUGH {
        assert_eq!(seen.unmet(), [""; 0]);
    }
}

#[test]
fn in_memory_openpath_answers_as_wasmtime_wasi() {
    compare(false);
}

#[test]
fn on_the_host_openpath_answers_as_wasmtime_wasi() {
    compare(true);
}
