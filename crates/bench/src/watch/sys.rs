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

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every store.
    Stores,
    /// Every access, loads as well as stores.
    Accesses,
    /// Nothing: the first store is reported on standard error, with its address and its code, and
    /// ends the process with [`STORE_SEEN`].
    NoStore,
}

/// The accesses, in order.
pub(crate) struct Log {
    spans: Vec<Span>,
    kind: Kind,
    entries: Vec<AtomicUsize>,
    count: AtomicUsize,
    open: [AtomicUsize; OPEN_MAX],
}

/// One access.
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
    /// Accesses seen so far.
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

    /// Closes the watched memory, or opens it; returns whether that succeeded.
    fn protect(&self, closed: bool) -> bool {
        let access = if closed { self.closed() } else { OPEN };
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
    let out = match log.protect(true) {
        true => Ok(body(&log)),
        false => Err(io::Error::last_os_error()),
    };
    log.protect(false);
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

/// Sets or clears the trap after the next instruction.
fn step(context: *mut c_void, on: bool) {
    // SAFETY: the kernel hands a valid context to a handler with SA_SIGINFO.
    unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        let flags = &mut context.uc_mcontext.gregs[libc::REG_EFL as usize];
        *flags = if on { *flags | TRAP } else { *flags & !TRAP };
    }
}

/// Whether a fault was a store's.
fn is_store(context: *mut c_void) -> bool {
    // SAFETY: the kernel hands a valid context to a handler with SA_SIGINFO.
    let code =
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize] };
    code & FAULT_STORE != 0
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
        let store = if is_store(context) { STORE } else { 0 };
        place.store(at | store, Relaxed);
    }
    let page = at & !(PAGE - 1);
    slot.store(page, Relaxed);
    protect(page, PAGE, OPEN);
    step(context, true);
}

/// Reports the first forbidden store and ends the process.
fn report(log: &Log, at: usize) -> ! {
    // The report allocates and writes variables; if it hangs, the alarm ends the process.
    // SAFETY: no argument is an address.
    unsafe { libc::alarm(REPORT_S) };
    log.protect(false);
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
    step(context, false);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of words in memory of its own.
    fn page() -> Span {
        // SAFETY: a fresh private mapping that stays.
        let at = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(null_mut(), 2 * PAGE, access, kind, -1, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        Span::new("page", at as usize, 2 * PAGE)
    }

    #[test]
    fn every_store_is_logged_and_executed() {
        let span = page();
        let word = |at: usize| (span.start + 8 * at) as *const AtomicUsize;
        // SAFETY: words of the page, which stays.
        let word = |at: usize| unsafe { &*word(at) };
        let seen = watched(vec![span.clone()], Kind::Stores, |log| {
            word(1).store(7, Relaxed);
            word(600).fetch_add(2, Relaxed);
            let first = log.count();
            assert_eq!(word(1).load(Relaxed), 7);
            word(1).store(8, Relaxed);
            (first, log.accesses(first), log.count())
        });
        let (first, later, all) = seen.unwrap();
        let (at, store) = (span.start + 8, true);
        assert_eq!((first, all, later), (2, 3, vec![Access { at, store }]));
        assert_eq!((word(1).load(Relaxed), word(600).load(Relaxed)), (8, 2));
        word(2).store(1, Relaxed);
    }

    #[test]
    fn loads_are_logged_apart_from_stores() {
        let span = page();
        // SAFETY: a word of the page, which stays.
        let word = unsafe { &*((span.start + 64) as *const AtomicUsize) };
        word.store(5, Relaxed);
        let seen = watched(vec![span.clone()], Kind::Accesses, |log| {
            let value = word.load(Relaxed);
            word.store(value + 1, Relaxed);
            (value, log.accesses(0))
        });
        let at = span.start + 64;
        let access = |store| Access { at, store };
        assert_eq!(seen.unwrap(), (5, vec![access(false), access(true)]));
        assert_eq!(word.load(Relaxed), 6);
    }
}
