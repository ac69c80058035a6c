// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the memory that several tasks may write to, for the gates that count stores to it: the
//! program's variables, and an arena in which all shared structures are allocated.
#![expect(unsafe_code, reason = "raw system calls have no other face")]

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed, compiler_fence};

/// A named range of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) name: &'static str,
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

impl Span {
    /// `name+offset` of an address that lies in it.
    pub(crate) fn place(&self, at: usize) -> Option<String> {
        let inside = (self.start..self.start + self.bytes).contains(&at);
        inside.then(|| format!("{}+{:#x}", self.name, at - self.start))
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

/// Ends [`in_arena`] for the calling thread, if a fault interrupted it.
pub(crate) fn leave_arena() {
    IN_ARENA.set(false);
}

/// Fresh memory, at `at` unless that is 0.
fn map(at: usize, bytes: usize) -> io::Result<usize> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let flags = flags
        | if at == 0 {
            0
        } else {
            libc::MAP_FIXED_NOREPLACE
        };
    // SAFETY: a fresh mapping, which never replaces another.
    let got = unsafe { libc::mmap(at as *mut c_void, bytes, access, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    match at == 0 || got as usize == at {
        true => Ok(got as usize),
        false => Err(io::Error::other("the address is taken")),
    }
}

/// The arena, this program's variables and `spans`: whole pages that may be shared.
pub(crate) fn shared(spans: Vec<Span>) -> Vec<Span> {
    let used = ARENA_USED.load(Relaxed).next_multiple_of(PAGE);
    let mut all = spans;
    all.push(Span {
        name: "arena",
        start: ARENA_START.load(Relaxed),
        bytes: used.min(ARENA_BYTES),
    });
    all.extend(variables());
    all.retain(|span| span.bytes > 0);
    all
}

#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// Its file; empty for the program itself.
    pub(crate) name: String,
    /// The offset added to its file's addresses.
    pub(crate) bias: usize,
    /// Start and end of its code.
    pub(crate) code: (usize, usize),
    /// Whole pages of variables, without those that are read-only by now.
    variables: Vec<(usize, usize)>,
}

/// All loaded objects, the program first.
pub(crate) fn objects() -> Vec<Object> {
    let mut out: Vec<Object> = Vec::new();
    // SAFETY: the callback gets the pointer to `out`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note_object), (&raw mut out).cast()) };
    out
}

unsafe extern "C" fn note_object(
    info: *mut libc::dl_phdr_info,
    _: usize,
    out: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid description, and `out` is the vector of `objects`.
    let (info, out) = unsafe { (&*info, &mut *out.cast::<Vec<Object>>()) };
    // SAFETY: the description's table of segments, and its name if there is one.
    let (segments, name) = unsafe {
        let name = (!info.dlpi_name.is_null()).then(|| CStr::from_ptr(info.dlpi_name));
        let segments = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        (segments, name.unwrap_or_default())
    };
    let bias = info.dlpi_addr as usize;
    let range = |segment: &libc::Elf64_Phdr| {
        let start = bias + segment.p_vaddr as usize;
        (start, start + segment.p_memsz as usize)
    };
    let find = |kind| segments.iter().find(|segment| segment.p_type == kind);
    let loaded = |flag| {
        let wanted =
            move |s: &&libc::Elf64_Phdr| s.p_type == libc::PT_LOAD && s.p_flags & flag != 0;
        segments.iter().filter(wanted).map(range)
    };
    let fixed = find(libc::PT_GNU_RELRO).map_or((0, 0), range);
    let pages = |(start, end): (usize, usize)| {
        let read_only = (start..end).contains(&fixed.0);
        let begin = if read_only { fixed.1 } else { start };
        (begin & !(PAGE - 1), end.next_multiple_of(PAGE))
    };
    let variables = loaded(libc::PF_W).map(pages);
    out.push(Object {
        name: name.to_string_lossy().into_owned(),
        bias,
        code: loaded(libc::PF_X).next().unwrap_or_default(),
        variables: variables.filter(|(a, b)| a < b).collect(),
    });
    0
}

/// The program's own variables: where a `static` of the engine would be.
fn variables() -> Vec<Span> {
    let program = objects().into_iter().next();
    let ranges = program.map_or_else(Vec::new, |program| program.variables);
    let span = |(start, end)| Span {
        name: "variables",
        start,
        bytes: end - start,
    };
    ranges.into_iter().map(span).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_names_its_addresses() {
        let (name, start, bytes) = ("names", 0x1000, 0x10);
        let span = Span { name, start, bytes };
        assert_eq!(span.place(0x100f).as_deref(), Some("names+0xf"));
        assert_eq!((span.place(0xfff), span.place(0x1010)), (None, None));
    }

    #[test]
    fn program_has_code_and_variables() {
        static SOME: AtomicU64 = AtomicU64::new(1);
        SOME.store(2, Relaxed);
        let program = objects().into_iter().next().unwrap();
        let here = objects as *const () as usize;
        assert!((program.code.0..program.code.1).contains(&here));
        assert!(!variables().is_empty());
    }
}
