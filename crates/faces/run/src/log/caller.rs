// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the caller of a request and its system call, from what `/proc` says of the waiting thread.
//!
//! # Kernel analogue
//! `/proc/TID/syscall`, `/proc/TID/mem`.
//!
//! # Rules
//! R1. The call of a thread that cannot be read is unknown: it has protected itself, or is gone. So
//!     is a call other than those of x86-64 (`int 0x80`, 32-bit programs), where the same numbers
//!     mean other calls.
//! R2. The path is only a claim: it is in memory that other threads of the program can write while
//!     it is read. The arguments in registers are those of the call.
//! R3. A thread that still runs holds up a thread of the server for [`LONG`] at most, and no more
//!     than [`PATIENT_MAX`] at a time; others wait only for [`SHORT`].

use openpath_abi::OFlags;
use openpath_abi::access::{R_OK, W_OK, X_OK};
use openpath_abi::fcntl::{
    AT_FDCWD, O_ACCMODE, O_CREAT, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};
use openpath_fuse::Requester;
use openpath_sync::Word;
use openpath_vfs::Cred;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// The longest path.
const PATH_MAX: usize = 4096;
/// How much of a path is read at once: a read must not cross the end of a page.
const PIECE: u64 = 256;
/// How long the first few callers wait for a thread that still runs, for want of a processor (R3).
const LONG: Duration = Duration::from_secs(1);
const PATIENT_MAX: u64 = 2;
/// How long the others wait.
const SHORT: Duration = Duration::from_millis(10);
/// The first pause between two looks.
const PAUSE: Duration = Duration::from_micros(10);
/// The instruction for a system call on x86-64.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Numbers of calls on x86-64.
mod number {
    pub(super) const OPEN: u64 = 2;
    pub(super) const EXECVE: u64 = 59;
    pub(super) const CREAT: u64 = 85;
    pub(super) const OPENAT: u64 = 257;
    pub(super) const EXECVEAT: u64 = 322;
    pub(super) const OPENAT2: u64 = 437;
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To open, with these flags.
    Open(OFlags),
    /// To execute.
    Execute,
}

impl Purpose {
    /// The access that it needs: of `R_OK`, `W_OK` and `X_OK`.
    pub(super) fn access(self) -> u32 {
        let Self::Open(flags) = self else { return X_OK };
        if flags.contains(O_PATH) {
            return 0;
        }
        let access = match flags & O_ACCMODE {
            O_RDONLY => R_OK,
            O_WRONLY => W_OK,
            _ => R_OK | W_OK,
        };
        if flags.contains(O_TRUNC) {
            access | W_OK
        } else {
            access
        }
    }

    /// Whether it creates a missing file.
    pub(super) fn creates(self) -> bool {
        matches!(self, Self::Open(flags) if flags.contains(O_CREAT) && !flags.contains(O_PATH))
    }

    /// Its text in the log.
    pub(super) fn words(self) -> String {
        let Self::Open(flags) = self else {
            return "execute".to_owned();
        };
        if flags.contains(O_PATH) {
            return "path".to_owned();
        }
        let mut words = match flags & O_ACCMODE {
            O_RDONLY => "read",
            O_WRONLY => "write",
            O_RDWR => "read+write",
            _ => "nothing",
        }
        .to_owned();
        for (flag, word) in [(O_CREAT, "+create"), (O_TRUNC, "+truncate")] {
            if flags.contains(flag) {
                words += word;
            }
        }
        words
    }
}

/// A call that opens or executes a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) purpose: Purpose,
    /// The path from the root of the view on, as the caller's memory has it now (R2).
    pub(super) path: Vec<u8>,
}

/// How many server threads wait for a thread that still runs (R3).
#[derive(Default)]
pub(super) struct LookBudget {
    looking: Word,
}

impl Call {
    /// The call that a thread waits in; `None` if it is another call, or unknown.
    pub(super) fn of(thread: u32, look_budget: &LookBudget) -> Option<Call> {
        let line = look_budget.syscall_line(thread)?;
        let (number, args, next) = parse_syscall(&line)?;
        if !is_native(thread, next) {
            return None;
        }
        let (dir, path, purpose) = match number {
            number::OPEN => (
                AT_FDCWD,
                args[0],
                Purpose::Open(OFlags::from_bits_retain(args[1] as u32)),
            ),
            number::CREAT => (
                AT_FDCWD,
                args[0],
                Purpose::Open(O_CREAT | O_WRONLY | O_TRUNC),
            ),
            number::OPENAT => (
                args[0] as i32,
                args[1],
                Purpose::Open(OFlags::from_bits_retain(args[2] as u32)),
            ),
            number::OPENAT2 => {
                let mut flags = [0; 8];
                memory(thread)?.read_exact_at(&mut flags, args[2]).ok()?;
                let flags = u64::from_le_bytes(flags) as u32;
                (
                    args[0] as i32,
                    args[1],
                    Purpose::Open(OFlags::from_bits_retain(flags)),
                )
            }
            number::EXECVE => (AT_FDCWD, args[0], Purpose::Execute),
            number::EXECVEAT => (args[0] as i32, args[1], Purpose::Execute),
            _ => return None,
        };
        let path = absolute_path(thread, dir, read_string(thread, path)?)?;
        Some(Call { purpose, path })
    }
}

impl LookBudget {
    /// The line of `/proc` about the call of a thread, once the thread waits.
    fn syscall_line(&self, thread: u32) -> Option<String> {
        let line = look(thread)?;
        if !is_running(&line) {
            return Some(line);
        }
        let most = if self.looking.add(1) < PATIENT_MAX {
            LONG
        } else {
            SHORT
        };
        let line = await_still(thread, most);
        self.looking.sub(1);
        line
    }
}

fn look(thread: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()
}

fn is_running(line: &str) -> bool {
    line.starts_with("running")
}

/// As [`look`], once the thread waits; `None` if that takes longer than `most`.
fn await_still(thread: u32, most: Duration) -> Option<String> {
    let begun = Instant::now();
    let mut pause = PAUSE;
    while begun.elapsed() < most {
        std::thread::sleep(pause);
        pause = pause.saturating_mul(2).min(100 * PAUSE);
        let line = look(thread)?;
        if !is_running(&line) {
            return Some(line);
        }
    }
    None
}

/// The number of a call, its arguments, and the address at which the program continues.
fn parse_syscall(line: &str) -> Option<(u64, [u64; 6], u64)> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut values = [0; 8];
    for value in &mut values {
        let digits = words.next()?.strip_prefix("0x")?;
        *value = u64::from_str_radix(digits, 16).ok()?;
    }
    let [args @ .., _stack, next] = values;
    Some((number, args, next))
}

/// Whether the call before the address `next` is one of x86-64 (R1).
fn is_native(thread: u32, next: u64) -> bool {
    let mut code = [0; SYSCALL.len()];
    let at = next.checked_sub(code.len() as u64);
    let read = at.zip(memory(thread));
    read.is_some_and(|(at, memory)| memory.read_exact_at(&mut code, at).is_ok()) && code == SYSCALL
}

fn memory(thread: u32) -> Option<File> {
    File::open(format!("/proc/{thread}/mem")).ok()
}

/// A string in the memory of a thread.
fn read_string(thread: u32, mut at: u64) -> Option<Vec<u8>> {
    let memory = memory(thread)?;
    let mut text = Vec::new();
    while text.len() < PATH_MAX {
        let mut piece = [0; PIECE as usize];
        let room = (PIECE - at % PIECE) as usize;
        let got = memory.read_at(&mut piece[..room], at).ok()?;
        let piece = &piece[..got];
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&piece[..end]);
            return Some(text);
        }
        if got == 0 {
            return None;
        }
        text.extend_from_slice(piece);
        at += got as u64;
    }
    None
}

/// The path from the root of the view on.
fn absolute_path(thread: u32, dir: i32, path: Vec<u8>) -> Option<Vec<u8>> {
    let from = match path.first() {
        Some(b'/') => "root".to_owned(),
        _ if dir == AT_FDCWD => "cwd".to_owned(),
        _ => format!("fd/{dir}"),
    };
    let from = std::fs::read_link(format!("/proc/{thread}/{from}")).ok()?;
    let from = from.as_os_str().as_bytes();
    if path.is_empty() {
        return Some(from.to_vec());
    }
    let from = from.strip_suffix(b"/").unwrap_or(from);
    let path = path.strip_prefix(b"/").unwrap_or(&path);
    Some([from, b"/", path].concat())
}

/// The process and the credentials of a caller.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) cred: Cred,
}

impl Caller {
    /// The caller of a request.
    pub(super) fn of(by: Requester) -> Caller {
        let status = std::fs::read_to_string(format!("/proc/{}/status", by.thread));
        let status = status.unwrap_or_default();
        let field = |name: &str| {
            let mut lines = status.lines();
            let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.unwrap_or_default().trim()
        };
        let groups = field("Groups").split_ascii_whitespace();
        let groups: Vec<u32> = groups.filter_map(|group| group.parse().ok()).collect();
        // Capabilities in another user namespace do not apply to these files.
        let space = |who: &str| std::fs::read_link(format!("/proc/{who}/ns/user")).ok();
        let ours = space(&by.thread.to_string()) == space("self");
        let caps = u64::from_str_radix(field("CapEff"), 16).ok();
        Caller {
            pid: field("Tgid").parse().unwrap_or(by.thread),
            program: field("Name").to_owned(),
            cred: Cred {
                caps: caps.filter(|_| ours).unwrap_or(0),
                ..Cred::user(by.uid, by.gid, &groups)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_the_kernel_writes_them() {
        let line = "257 0xffffff9c 0x7ffe5c 0x241 0x1b6 0x0 0x0 0x7ffe 0x7f2a\n";
        let (number, args, next) = parse_syscall(line).unwrap();
        assert_eq!(
            (number, args[0] as i32, args[2], next),
            (number::OPENAT, AT_FDCWD, 0x241, 0x7f2a)
        );
        assert_eq!(parse_syscall("-1 0x7ffe 0x7f2a\n"), None);
        assert_eq!(parse_syscall("running\n"), None);
        let open = Purpose::Open(OFlags::from_bits_retain(0x241));
        assert_eq!(
            (open.words().as_str(), open.access()),
            ("write+create+truncate", W_OK)
        );
        assert!(open.creates() && !Purpose::Execute.creates());
        assert_eq!(Purpose::Open(O_PATH | O_CREAT).access(), 0);
    }

    #[test]
    fn only_calls_by_the_instruction_of_x86_64_are_native() {
        let here = std::process::id();
        for (code, is) in [
            ([0x0f, 0x05], true),
            ([0xcd, 0x80], false),
            ([0x0f, 0x34], false),
        ] {
            let code: Box<[u8; 2]> = Box::new(code);
            assert_eq!(is_native(here, code.as_ptr().addr() as u64 + 2), is);
        }
        assert!(!is_native(here, 0) && !is_native(here, 8));
    }

    #[test]
    fn running_thread_delays_few_callers_for_long() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (name, named) = std::sync::mpsc::channel();
        let spins = std::thread::spawn(move || {
            name.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                std::hint::spin_loop();
            }
        });
        let thread = named.recv().unwrap().cast_unsigned();
        let look_budget = LookBudget::default();
        look_budget.looking.add(PATIENT_MAX);
        // A caller beyond the first few gives up soon, however late it sees that the thread runs.
        assert_eq!(await_still(thread, SHORT), None);
        assert_eq!(look_budget.syscall_line(thread), None);
        assert_eq!(look_budget.looking.get(), PATIENT_MAX);
        drop(stop);
        spins.join().unwrap();
    }

    #[test]
    fn own_thread_is_identified() {
        let here = rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned();
        let by = Requester {
            thread: here,
            uid: 7,
            gid: 8,
        };
        let caller = Caller::of(by);
        assert_eq!((caller.pid, caller.cred.fsuid), (here, 7));
        assert!(!caller.program.is_empty());
        let cwd = std::env::current_dir().unwrap();
        let whole = absolute_path(here, AT_FDCWD, b"a/b".to_vec()).unwrap();
        assert_eq!(whole, cwd.join("a/b").as_os_str().as_bytes());
        let word = Box::new(*b"in memory\0");
        assert_eq!(
            read_string(here, word.as_ptr().addr() as u64).unwrap(),
            b"in memory"
        );
        assert_eq!(read_string(here, 8), None);
    }
}
