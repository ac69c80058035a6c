// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocates all shared structures in an arena, for the gates that count stores to memory that
//! several tasks may write to.
#![expect(unsafe_code, reason = "raw system calls have no other face")]

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed, compiler_fence};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use super::loaded::variables;

/// A named range of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) name: &'static str,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

impl Span {
    pub(crate) fn holds(&self, at: usize) -> bool {
        (self.start..self.start + self.bytes).contains(&at)
    }
}

const ARENA_BYTES: usize = 1 << 30;
const PAGE: usize = 4096;

thread_local! {
    static IN_ARENA: Cell<bool> = const { Cell::new(false) };
}

/// Start and used bytes of the arena; 0 before it is mapped.
static ARENA_START: AtomicUsize = AtomicUsize::new(0);
static ARENA_USED: AtomicUsize = AtomicUsize::new(0);

/// Whether a block is in the arena, which is never released.
pub(crate) fn arena_holds(at: *mut u8) -> bool {
    let start = ARENA_START.load(Relaxed);
    start != 0 && (start..start + ARENA_BYTES).contains(&(at as usize))
}

/// A block of the arena, if the calling thread allocates there now; null if it is full.
pub(crate) fn arena_alloc(layout: Layout) -> Option<*mut u8> {
    if !IN_ARENA.try_with(Cell::get).unwrap_or(false) {
        return None;
    }
    let room = layout.size() + layout.align();
    let at = ARENA_START.load(Relaxed) + ARENA_USED.fetch_add(room, Relaxed);
    let start = at.next_multiple_of(layout.align());
    let fits = arena_holds((start + layout.size()) as *mut u8);
    Some(if fits { start as *mut u8 } else { null_mut() })
}

/// Runs `build` with every allocation of this thread in memory that may be watched. The memory
/// stays until the process ends.
pub(crate) fn in_arena<T>(build: impl FnOnce() -> T) -> io::Result<T> {
    if ARENA_START.load(Relaxed) == 0 {
        ARENA_START.store(map(0, ARENA_BYTES)?, Relaxed);
    }
    IN_ARENA.set(true);
    let out = build();
    IN_ARENA.set(false);
    Ok(out)
}

/// Fresh memory, at `at` unless that is 0.
pub(crate) fn map(at: usize, bytes: usize) -> io::Result<usize> {
    let mut flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    flags.set(MapFlags::FIXED_NOREPLACE, at != 0);
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping, which never replaces another.
    let got = unsafe { mmap_anonymous(at as *mut c_void, bytes, access, flags) }?;
    match at == 0 || got as usize == at {
        true => Ok(got as usize),
        false => Err(io::Error::other("the address is taken")),
    }
}

/// The arena, this program's variables and `spans`: whole pages that may be shared.
pub(crate) fn shared(spans: Vec<Span>) -> io::Result<Vec<Span>> {
    let used = ARENA_USED.load(Relaxed).next_multiple_of(PAGE);
    let mut all = spans;
    all.push(Span {
        name: "arena",
        start: ARENA_START.load(Relaxed),
        bytes: used.min(ARENA_BYTES),
    });
    all.extend(variables()?);
    all.retain(|span| span.bytes > 0);
    Ok(all)
}

/// Words at addresses that a tracer knows: a store to word `n` means event `n`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks(&'static [AtomicU64; MARKS]);

pub(crate) const MARKS: usize = 8;

impl Marks {
    /// Puts the words at this address, the start of a page.
    pub(crate) fn map(at: usize) -> io::Result<Self> {
        let at = map(at, PAGE)? as *const [AtomicU64; MARKS];
        // SAFETY: a fresh page that is never unmapped; zero is a valid value of its words.
        Ok(Self(unsafe { &*at }))
    }

    /// Stores to word `event`; the compiler moves nothing across it.
    #[inline(always)]
    pub(crate) fn set(self, event: usize) {
        compiler_fence(Ordering::SeqCst);
        self.0[event % MARKS].store(1, Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
}
