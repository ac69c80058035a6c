// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logs every store to memory, or every access: the pages are read-only, or closed; each access
//! that faults is logged and then executed as a single step. Or the first store ends the process.
//!
//! # States of a page
//! Read-only or closed -> open for the one instruction that faulted -> as before.
//!
//! # Rules
//! R1. Only the logging thread runs meanwhile; a store of another one would be logged too.
//! R2. One log at a time: another one waits, because the handlers belong to the process.
//! R3. What the handlers read is never closed: the program's variables and their own stack.
#![expect(unsafe_code, reason = "raw system calls have no other face")]

use std::backtrace::Backtrace;
use std::ffi::{c_int, c_void};
use std::io::{self, Write as _};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::gate::sys::{Span, leave_arena};

const PAGE: usize = 4096;
/// The processor's flag for a trap after one instruction.
const TRAP: i64 = 0x100;
/// How many pages one instruction may write.
const OPEN_MAX: usize = 4;
/// How many stores are kept; further ones are only counted.
const KEPT_MAX: usize = 1 << 20;

/// Seconds that a backtrace may take; a fault may come while a lock that it needs is held.
const REPORT_S: u32 = 20;
/// The exit status of a process that stored to memory where no store is expected.
pub(crate) const STORE_SEEN: i32 = 91;

/// In an entry of the log: the access was a store.
const STORE: usize = 1 << 63;
/// In the processor's error code of a fault: the access was a store.
const FAULT_STORE: i64 = 1 << 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stores,
    Accesses,
    /// Nothing: the first store is reported on standard error, with its address and its code, and
    /// ends the process with [`STORE_SEEN`].
    NoStore,
}

pub(crate) struct Log {
    spans: Vec<Span>,
    kind: Kind,
    entries: Vec<AtomicUsize>,
    count: AtomicUsize,
    open: [AtomicUsize; OPEN_MAX],
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
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
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
    for (signal, action) in before {
        // SAFETY: the action is one that sigaction returned before.
        unsafe { libc::sigaction(signal, &raw const action, null_mut()) };
    }
    CURRENT.store(null_mut(), Relaxed);
    out
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
    let log = log.filter(|log| log.spans.iter().any(|span| span.place(at).is_some()));
    let slot = log.and_then(|log| log.open.iter().find(|page| page.load(Relaxed) == 0));
    let (Some(log), Some(slot)) = (log, slot) else {
        // A fault of another kind ends the process.
        // SAFETY: no pointer.
        unsafe { libc::_exit(2) };
    };
    if log.kind == Kind::NoStore {
        report(log, at);
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

/// Reports the first forbidden store and ends the process.
fn report(log: &Log, at: usize) -> ! {
    // The report allocates and writes variables; if it hangs, the alarm ends the process.
    // SAFETY: no argument is an address.
    unsafe { libc::alarm(REPORT_S) };
    log.protect(OPEN);
    leave_arena();
    let place = log.spans.iter().find_map(|span| span.place(at));
    let place = place.unwrap_or_default();
    let trace = Backtrace::force_capture();
    let _ = writeln!(io::stderr(), "{at:#018x} {place}\n{trace}");
    // SAFETY: it ends the process without running any of its code.
    unsafe { libc::_exit(STORE_SEEN) }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages of words in memory of their own, which stays.
    fn page() -> (Span, &'static [AtomicUsize; 2 * PAGE / 8]) {
        // SAFETY: a fresh private mapping of words, for which zero is valid.
        let words: &[AtomicUsize; 2 * PAGE / 8] = unsafe {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(null_mut(), 2 * PAGE, OPEN, kind, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            &*at.cast()
        };
        let span = Span {
            name: "page",
            start: std::ptr::from_ref(words).addr(),
            bytes: 2 * PAGE,
        };
        (span, words)
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
}
