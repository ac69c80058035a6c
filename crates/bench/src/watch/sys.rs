// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logs every store to memory, or every access: the pages are read-only, or closed; each access
//! that faults is logged and then executed as a single step. Or only the first store is reported.
//! And it steps through all instructions, to count those that lock their line.
//!
//! # States of a page
//! Read-only or closed -> open for the one instruction that faulted -> as before.
//!
//! # Rules
//! R1. Only the logging thread runs meanwhile; a store of another one would be logged too.
//! R2. One use at a time: another one waits, because the handlers belong to the process.
//! R3. What the handlers read is never closed: the program's variables and their own stack.
#![expect(unsafe_code, reason = "raw system calls have no other face")]

use std::backtrace::Backtrace;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, compiler_fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::gate::sys::Span;

const PAGE: usize = 4096;
/// The processor's flag for a trap after one instruction.
const TRAP: i64 = 0x100;
/// How many pages one instruction may write.
const OPEN_MAX: usize = 4;
/// How many stores are kept; further ones are only counted.
const KEPT_MAX: usize = 1 << 20;

/// Seconds that a backtrace may take; a fault may come while a lock that it needs is held.
const REPORT_S: u32 = 20;

/// In an entry of the log: the access was a store.
const STORE: usize = 1 << 63;
/// In the processor's error code of a fault: the access was a store.
const FAULT_STORE: i64 = 1 << 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stores,
    Accesses,
    /// Nothing: the first store is reported, with its address and its code, and ends the watch.
    NoStore,
}

pub(crate) struct Log {
    spans: Vec<Span>,
    kind: Kind,
    entries: Vec<AtomicUsize>,
    count: AtomicUsize,
    open: [AtomicUsize; OPEN_MAX],
    report: OnceLock<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) at: usize,
    pub(crate) store: bool,
}

/// The log that the handlers write; null if there is none.
static CURRENT: AtomicPtr<Log> = AtomicPtr::new(null_mut());
/// R2.
static TURN: Mutex<()> = Mutex::new(());

impl Log {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// The accesses from number `first` on.
    pub(crate) fn accesses(&self, first: usize) -> Vec<Access> {
        let end = self.count().min(KEPT_MAX);
        let entries = self.entries.get(first..end).unwrap_or_default();
        let access = |entry: &AtomicUsize| {
            let entry = entry.load(Relaxed);
            Access {
                at: entry & !STORE,
                store: entry & STORE != 0,
            }
        };
        entries.iter().map(access).collect()
    }

    /// The report of the first store, if there must be none.
    pub(crate) fn report(&self) -> Option<String> {
        self.report.get().cloned()
    }

    /// The page protection between accesses.
    fn closed(&self) -> c_int {
        match self.kind {
            Kind::Accesses => libc::PROT_NONE,
            Kind::Stores | Kind::NoStore => libc::PROT_READ,
        }
    }

    /// Gives the watched memory this protection; returns whether that succeeded.
    fn protect(&self, access: c_int) -> bool {
        let mut spans = self.spans.iter();
        spans.all(|span| protect(span.start, span.bytes, access))
    }
}

/// Runs `body` and logs what `kind` says of the accesses to `spans`.
pub(crate) fn watched<T>(
    spans: Vec<Span>,
    kind: Kind,
    body: impl FnOnce(&Log) -> T,
) -> io::Result<T> {
    let kept = if kind == Kind::NoStore { 0 } else { KEPT_MAX };
    let log = Log {
        spans,
        kind,
        entries: (0..kept).map(|_| AtomicUsize::new(0)).collect(),
        count: AtomicUsize::new(0),
        open: Default::default(),
        report: OnceLock::new(),
    };
    let _turn = turn();
    CURRENT.store(std::ptr::from_ref(&log).cast_mut(), Relaxed);
    let before = [
        (libc::SIGSEGV, handle(libc::SIGSEGV, on_fault)?),
        (libc::SIGTRAP, handle(libc::SIGTRAP, on_step)?),
    ];
    let out = match log.protect(log.closed()) {
        true => Ok(body(&log)),
        false => Err(io::Error::last_os_error()),
    };
    log.protect(OPEN);
    before
        .iter()
        .for_each(|(signal, action)| restore(*signal, action));
    CURRENT.store(null_mut(), Relaxed);
    out
}

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handle(
    signal: c_int,
    handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void),
) -> io::Result<libc::sigaction> {
    // SAFETY: a zeroed sigaction is valid, and the handler has the three-argument signature.
    unsafe {
        let (mut action, mut old): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        if libc::sigaction(signal, &raw const action, &raw mut old) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(old)
    }
}

fn restore(signal: c_int, action: &libc::sigaction) {
    // SAFETY: the action is one that sigaction returned before.
    unsafe { libc::sigaction(signal, action, null_mut()) };
}

/// The page protection of an open page.
const OPEN: c_int = libc::PROT_READ | libc::PROT_WRITE;

fn protect(start: usize, bytes: usize, access: c_int) -> bool {
    // SAFETY: whole pages that were readable and writable before, and will be again.
    unsafe { libc::mprotect(start as *mut c_void, bytes, access) == 0 }
}

/// A register of the interrupted code.
fn register<'a>(context: *mut c_void, number: c_int) -> &'a mut i64 {
    // SAFETY: the kernel hands a valid context to a handler with SA_SIGINFO, which alone uses it.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    &mut context.uc_mcontext.gregs[number as usize]
}

extern "C" fn on_fault(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid siginfo; the log outlives the handler.
    let (at, log) = unsafe { ((*info).si_addr() as usize, CURRENT.load(Relaxed).as_ref()) };
    let log = log.filter(|log| log.spans.iter().any(|span| span.holds(at)));
    let slot = log.and_then(|log| log.open.iter().find(|page| page.load(Relaxed) == 0));
    let (Some(log), Some(slot)) = (log, slot) else {
        // A fault of another kind ends the process.
        // SAFETY: no pointer.
        unsafe { libc::_exit(2) };
    };
    if log.kind == Kind::NoStore {
        return report(log, at);
    }
    let number = log.count.fetch_add(1, Relaxed);
    if let Some(place) = log.entries.get(number) {
        let is_store = *register(context, libc::REG_ERR) & FAULT_STORE != 0;
        place.store(at | if is_store { STORE } else { 0 }, Relaxed);
    }
    let page = at & !(PAGE - 1);
    slot.store(page, Relaxed);
    protect(page, PAGE, OPEN);
    *register(context, libc::REG_EFL) |= TRAP;
}

/// Reports the first forbidden store, and ends the watch.
fn report(log: &Log, at: usize) {
    // The report allocates and writes variables; if it hangs, the alarm ends the process.
    // SAFETY: no argument is an address.
    unsafe { libc::alarm(REPORT_S) };
    if !log.protect(OPEN) {
        // The store would fault for ever.
        // SAFETY: no pointer.
        unsafe { libc::_exit(2) };
    }
    let span = log.spans.iter().find(|span| span.holds(at));
    let place = span.map(|span| format!("{}+{:#x}", span.name, at - span.start));
    let (place, trace) = (place.unwrap_or_default(), Backtrace::force_capture());
    let _first = log.report.set(format!("{at:#018x} {place}\n{trace}"));
    // SAFETY: as above.
    unsafe { libc::alarm(0) };
}

extern "C" fn on_step(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the log outlives the handler.
    if let Some(log) = unsafe { CURRENT.load(Relaxed).as_ref() } {
        for slot in &log.open {
            let page = slot.swap(0, Relaxed);
            if page != 0 {
                protect(page, PAGE, log.closed());
            }
        }
    }
    *register(context, libc::REG_EFL) &= !TRAP;
}

/// Whether instructions are stepped through, and how many of them locked their line.
static STEPPING: AtomicBool = AtomicBool::new(false);
static LOCKED: AtomicU64 = AtomicU64::new(0);

/// Steps through `body`; returns how many instructions locked their line, a few of this function
/// among them.
pub(crate) fn count_locked<T>(body: impl FnOnce() -> T) -> io::Result<(T, u64)> {
    let _turn = turn();
    let before = handle(libc::SIGTRAP, on_instruction)?;
    LOCKED.store(0, Relaxed);
    STEPPING.store(true, Relaxed);
    // The handler sets the flag for the next trap.
    // SAFETY: no argument is an address.
    unsafe { libc::raise(libc::SIGTRAP) };
    let out = body();
    STEPPING.store(false, Relaxed);
    compiler_fence(SeqCst);
    restore(libc::SIGTRAP, &before);
    Ok((out, LOCKED.load(Relaxed)))
}

extern "C" fn on_instruction(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let next = *register(context, libc::REG_RIP) as usize as *const u8;
    // SAFETY: the instruction that the processor executes next, of which no byte is read twice.
    let locks = is_locked((0..).map(|at| unsafe { *next.add(at) }));
    LOCKED.fetch_add(locks.into(), Relaxed);
    let flags = register(context, libc::REG_EFL);
    match STEPPING.load(Relaxed) {
        true => *flags |= TRAP,
        false => *flags &= !TRAP,
    }
}

/// Whether an instruction locks its line: a lock prefix, or an exchange with memory. It reads no
/// byte behind the instruction.
fn is_locked(mut code: impl Iterator<Item = u8>) -> bool {
    const PREFIXES: [u8; 10] = [0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65];
    let prefix = |byte: &u8| PREFIXES.contains(byte) || (0x40..=0x4f).contains(byte);
    match code.find(|byte| !prefix(byte)) {
        Some(0xf0) => true,
        Some(0x86 | 0x87) => code.next().is_some_and(|modrm| modrm >> 6 != 3),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages of words in memory of their own, which stays.
    fn page() -> (Span, &'static [AtomicUsize; 2 * PAGE / 8]) {
        let (name, bytes) = ("page", 2 * PAGE);
        let start = crate::gate::sys::map(0, bytes).unwrap();
        // SAFETY: a fresh private mapping of words, for which zero is valid.
        let words = unsafe { &*(start as *const [AtomicUsize; 2 * PAGE / 8]) };
        (Span { name, start, bytes }, words)
    }

    #[test]
    fn every_store_is_logged_and_executed() {
        let (span, word) = page();
        let at = span.start + 8;
        let seen = watched(vec![span], Kind::Stores, |log| {
            word[1].store(7, Relaxed);
            word[600].fetch_add(2, Relaxed);
            let first = log.count();
            assert_eq!(word[1].load(Relaxed), 7);
            word[1].store(8, Relaxed);
            (first, log.accesses(first), log.count())
        });
        let later = vec![Access { at, store: true }];
        assert_eq!(seen.unwrap(), (2, later, 3));
        assert_eq!((word[1].load(Relaxed), word[600].load(Relaxed)), (8, 2));
        word[2].store(1, Relaxed);
    }

    #[test]
    fn loads_are_logged_apart_from_stores() {
        let (span, word) = page();
        let at = span.start + 64;
        word[8].store(5, Relaxed);
        let seen = watched(vec![span], Kind::Accesses, |log| {
            let value = word[8].load(Relaxed);
            word[8].store(value + 1, Relaxed);
            (value, log.accesses(0))
        });
        let both = [false, true].map(|store| Access { at, store });
        assert_eq!(seen.unwrap(), (5, both.into()));
        assert_eq!(word[8].load(Relaxed), 6);
    }

    #[test]
    fn locked_instructions_are_recognised_and_counted() {
        for (code, locks) in [
            (&[0xf0, 0x48, 0x0f, 0xc1, 0x07][..], true), // lock xadd [rdi], rax
            (&[0x3e, 0xf0, 0xff, 0x07], true),           // ds lock inc [rdi]
            (&[0x48, 0x87, 0x07], true),                 // xchg [rdi], rax
            (&[0x48, 0x87, 0xc7], false),                // xchg rdi, rax
            (&[0x48, 0x89, 0x07, 0xf0], false),          // mov [rdi], rax; the next is locked
            (&[0x66, 0x90], false),
        ] {
            assert_eq!(is_locked(code.iter().copied()), locks, "{code:x?}");
        }
        let word = AtomicUsize::new(0);
        let count = |times: usize| {
            let add = || (0..times).map(|_| word.fetch_add(1, Relaxed)).max();
            count_locked(add).unwrap().1
        };
        assert_eq!(count(50) - count(0), 50);
    }
}
