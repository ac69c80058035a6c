// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives the kernel's ring, and owns everything that its entries point to.
//!
//! # Rules
//! * The memory that an entry points to is on the heap, and is kept under the entry's number until
//!   its last completion, or for ever if that does not come.

#![expect(
    unsafe_code,
    reason = "what the kernel's ring reads and writes must outlive the operation"
)]

use super::{Act, Answer, Entry};
use io_uring::types::{self, CancelBuilder, DestinationSlot, Fd, Fixed, TimeoutFlags, Timespec};
use io_uring::{IoUring, cqueue, opcode as op, squeue};
use openpath_abi::Errno;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_ring::{Cancel, Destination, File};
use std::collections::HashMap;
use std::ffi::CString;
use std::io;

/// The ring has the first descriptor; those of a scene follow.
pub(super) const SHIFT: i32 = 1;

/// The memory that an entry points to.
#[derive(Default)]
struct Kept {
    paths: Vec<CString>,
    bufs: Vec<Vec<u8>>,
    vecs: Vec<libc::iovec>,
    time: Box<Timespec>,
    how: Box<types::OpenHow>,
    statx: Vec<libc::statx>,
    fds: Box<[i32; 1]>,
    /// What to report besides the result.
    tells: Tells,
}

#[derive(Default, Clone, Copy)]
enum Tells {
    #[default]
    Nothing,
    Bytes,
    Attributes,
    Descriptor,
    /// A slot; whether the entry chose it.
    Slot(bool),
}

/// A ring of this thread.
pub(super) struct KernelRing {
    ring: IoUring,
    kept: HashMap<u64, Kept>,
}

fn real(fd: i32) -> i32 {
    if fd < 0 { fd } else { fd + SHIFT }
}

impl Kept {
    fn path(&mut self, path: &str) -> *const libc::c_char {
        self.paths.push(CString::new(path).unwrap_or_default());
        self.paths
            .last()
            .map_or(std::ptr::null(), |path| path.as_ptr())
    }

    fn buf(&mut self, bytes: Vec<u8>) -> *mut u8 {
        let len = bytes.len();
        self.bufs.push(bytes);
        let Some(buf) = self.bufs.last_mut() else {
            return std::ptr::null_mut();
        };
        let base = buf.as_mut_ptr();
        let vec = libc::iovec {
            iov_base: base.cast(),
            iov_len: len,
        };
        self.vecs.push(vec);
        base
    }

    fn time(&mut self, ms: u64) -> *const Timespec {
        let nsec = u32::try_from(ms % 1000).unwrap_or(0) * 1_000_000;
        *self.time = Timespec::new().sec(ms / 1000).nsec(nsec);
        &raw const *self.time
    }
}

/// The destination slot of an open.
fn slot(place: Destination) -> Option<DestinationSlot> {
    match place {
        Destination::Fd => None,
        Destination::AnySlot => Some(DestinationSlot::auto_target()),
        Destination::Slot(slot) => DestinationSlot::try_from_slot_target(slot).ok(),
    }
}

fn cancel(which: Cancel) -> CancelBuilder {
    match which {
        Cancel::UserData(data) => CancelBuilder::user_data(data),
        Cancel::File(File::Fd(fd)) => CancelBuilder::fd(Fd(real(fd))),
        Cancel::File(File::Slot(slot)) => CancelBuilder::fd(Fixed(slot)),
        Cancel::Any => CancelBuilder::any(),
    }
}

/// An operation on a file: by descriptor or by slot.
macro_rules! on {
    ($file:expr, |$fd:ident| $make:expr) => {
        match $file {
            File::Fd(fd) => {
                let $fd = Fd(real(*fd));
                $make
            }
            File::Slot(slot) => {
                let $fd = Fixed(*slot);
                $make
            }
        }
    };
}

const CWD: Fd = Fd(AT_FDCWD);

impl KernelRing {
    /// Makes a ring like ours: used by one thread, which does deferred work when it enters the
    /// kernel.
    ///
    /// # Errors
    /// Those of io_uring_setup(2).
    pub(super) fn new(entries: u32, slots: u32) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = builder.setup_submit_all().build(entries)?;
        ring.submitter().register_files_sparse(slots)?;
        let kept = HashMap::new();
        Ok(Self { ring, kept })
    }

    /// Submits these entries.
    ///
    /// # Errors
    /// Those of io_uring_enter(2).
    pub(super) fn submit(&mut self, entries: &[Entry]) -> io::Result<usize> {
        for entry in entries {
            let mut kept = Kept::default();
            let built = build(&entry.act, &mut kept);
            let flags = squeue::Flags::from_bits_retain(entry.flags);
            let built = built.user_data(entry.data).flags(flags);
            self.kept.insert(entry.data, kept);
            // SAFETY: everything that the entry points to is on the heap, in `kept`, which stays in
            // the map until the last completion of the entry has come, and else is never freed.
            if unsafe { self.ring.submission().push(&built) }.is_err() {
                self.kept.remove(&entry.data);
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
        self.ring.submit()
    }

    /// Waits up to `ms` for one more completion, and takes all that are there.
    ///
    /// # Errors
    /// Those of io_uring_enter(2), except the time-out.
    pub(super) fn take(&mut self, ms: u64) -> io::Result<Vec<Answer>> {
        let time = Timespec::new().sec(ms / 1000);
        let time = time.nsec(u32::try_from(ms % 1000).unwrap_or(0) * 1_000_000);
        let args = types::SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &args) {
            Err(e) if e.raw_os_error() != Some(libc::ETIME) => return Err(e),
            _ => {}
        }
        let came: Vec<cqueue::Entry> = self.ring.completion().collect();
        Ok(came.iter().map(|came| self.answer(came)).collect())
    }

    fn answer(&mut self, came: &cqueue::Entry) -> Answer {
        let more = cqueue::more(came.flags());
        let data = came.user_data();
        let kept = if more { None } else { self.kept.remove(&data) };
        let kept = kept.unwrap_or_default();
        let raw = came.result();
        let mut result = u64::try_from(raw).map_err(|_| Errno::from_raw(-raw));
        let mut seen = Vec::new();
        match (kept.tells, &mut result) {
            (Tells::Bytes, Ok(done)) => {
                let bytes = kept.bufs.iter().flatten().copied().map(u64::from);
                seen = bytes.take(usize::try_from(*done).unwrap_or(0)).collect();
            }
            (Tells::Attributes, Ok(_)) => {
                seen.extend(kept.statx.iter().flat_map(|s| {
                    let size = if s.stx_mode & 0o170_000 == 0o40_000 {
                        0
                    } else {
                        s.stx_size
                    };
                    let links = if size == 0 { 0 } else { s.stx_nlink };
                    [u64::from(s.stx_mode), u64::from(links), size]
                }));
            }
            (Tells::Descriptor, Ok(fd)) => *fd -= u64::from(SHIFT.unsigned_abs()),
            // The number of updates, and the chosen slot. L23
            (Tells::Slot(chosen), Ok(n)) => {
                let slot = if chosen { 0 } else { kept.fds[0] };
                *n = u64::try_from(slot).unwrap_or(u64::MAX);
            }
            _ => {}
        }
        Answer {
            data,
            result,
            more,
            seen,
        }
    }

    /// The numbers of the entries in flight.
    pub(super) fn under_way(&self) -> Vec<u64> {
        self.kept.keys().copied().collect()
    }
}

impl Drop for KernelRing {
    fn drop(&mut self) {
        // The kernel may still write to memory of incomplete entries.
        std::mem::forget(std::mem::take(&mut self.kept));
    }
}

/// The kernel's form of an entry.
fn build(act: &Act, kept: &mut Kept) -> squeue::Entry {
    match act {
        Act::Nop => op::Nop::new().build(),
        Act::Open(path, flags, mode, into) => {
            if *into == Destination::Fd {
                kept.tells = Tells::Descriptor;
            }
            let open = op::OpenAt::new(CWD, kept.path(path)).flags(flags.cast_signed());
            open.mode(*mode).file_index(slot(*into)).build()
        }
        Act::Open2(path, flags, resolve, into) => {
            if *into == Destination::Fd {
                kept.tells = Tells::Descriptor;
            }
            *kept.how = types::OpenHow::new().flags(*flags).resolve(*resolve);
            let how = &raw const *kept.how;
            let open = op::OpenAt2::new(CWD, kept.path(path), how);
            open.file_index(slot(*into)).build()
        }
        Act::Close(file) => on!(file, |fd| op::Close::new(fd).build()),
        Act::Read(..) | Act::Readv(..) | Act::Write(..) | Act::Writev(..) => moves(act, kept),
        Act::Sync(file, data) => {
            let flags = if *data {
                types::FsyncFlags::DATASYNC
            } else {
                types::FsyncFlags::empty()
            };
            on!(file, |fd| op::Fsync::new(fd).flags(flags).build())
        }
        Act::Truncate(file, len) => {
            on!(file, |fd| op::Ftruncate::new(fd, len.cast_unsigned())
                .build())
        }
        Act::Allocate(file, how, offset, len) => on!(file, |fd| {
            let allocate = op::Fallocate::new(fd, len.cast_unsigned());
            let allocate = allocate.offset(offset.cast_unsigned());
            allocate.mode(how.cast_signed()).build()
        }),
        Act::Statx(..)
        | Act::Unlink(..)
        | Act::Rename(..)
        | Act::Mkdir(..)
        | Act::Symlink(..)
        | Act::Link(..) => names(act, kept),
        _ => control(act, kept),
    }
}

fn moves(act: &Act, kept: &mut Kept) -> squeue::Entry {
    let vecs = |kept: &Kept| {
        (
            kept.vecs.as_ptr(),
            u32::try_from(kept.vecs.len()).unwrap_or(0),
        )
    };
    match act {
        Act::Read(file, len, offset) => {
            kept.tells = Tells::Bytes;
            let buf = kept.buf(vec![0; *len as usize]);
            on!(file, |fd| {
                op::Read::new(fd, buf, *len)
                    .offset(offset.cast_unsigned())
                    .build()
            })
        }
        Act::Readv(file, lens, offset) => {
            kept.tells = Tells::Bytes;
            for len in lens {
                kept.buf(vec![0; *len as usize]);
            }
            let (vecs, n) = vecs(kept);
            on!(file, |fd| {
                op::Readv::new(fd, vecs, n)
                    .offset(offset.cast_unsigned())
                    .build()
            })
        }
        Act::Write(file, byte, len, offset) => {
            let buf = kept.buf(vec![*byte; *len as usize]);
            on!(file, |fd| {
                op::Write::new(fd, buf, *len)
                    .offset(offset.cast_unsigned())
                    .build()
            })
        }
        Act::Writev(file, pieces, offset) => {
            for (byte, len) in pieces {
                kept.buf(vec![*byte; *len as usize]);
            }
            let (vecs, n) = vecs(kept);
            on!(file, |fd| {
                op::Writev::new(fd, vecs, n)
                    .offset(offset.cast_unsigned())
                    .build()
            })
        }
        _ => op::Nop::new().build(),
    }
}

fn names(act: &Act, kept: &mut Kept) -> squeue::Entry {
    match act {
        Act::Statx(path, flags) => {
            kept.tells = Tells::Attributes;
            // SAFETY: a structure of plain numbers.
            kept.statx.push(unsafe { std::mem::zeroed() });
            let into = kept.statx.as_mut_ptr().cast();
            let statx = op::Statx::new(CWD, kept.path(path), into);
            statx.flags(flags.cast_signed()).mask(0x7ff).build()
        }
        Act::Unlink(path, flags) => op::UnlinkAt::new(CWD, kept.path(path))
            .flags(flags.cast_signed())
            .build(),
        Act::Rename(old, new, flags) => {
            let (old, new) = (kept.path(old), kept.path(new));
            op::RenameAt::new(CWD, old, CWD, new).flags(*flags).build()
        }
        Act::Mkdir(path, mode) => op::MkDirAt::new(CWD, kept.path(path)).mode(*mode).build(),
        Act::Symlink(target, path) => {
            let (target, path) = (kept.path(target), kept.path(path));
            op::SymlinkAt::new(CWD, target, path).build()
        }
        Act::Link(old, new, flags) => {
            let (old, new) = (kept.path(old), kept.path(new));
            op::LinkAt::new(CWD, old, CWD, new)
                .flags(flags.cast_signed())
                .build()
        }
        _ => op::Nop::new().build(),
    }
}

fn control(act: &Act, kept: &mut Kept) -> squeue::Entry {
    match act {
        Act::Timeout(ms, count) => op::Timeout::new(kept.time(*ms)).count(*count).build(),
        Act::Ticks(ms, times) => {
            let time = op::Timeout::new(kept.time(*ms)).count(*times);
            time.flags(TimeoutFlags::MULTISHOT).build()
        }
        Act::Pause(ms) => {
            let time = op::Timeout::new(kept.time(*ms));
            time.flags(TimeoutFlags::ETIME_SUCCESS).build()
        }
        Act::LinkTimeout(ms) => op::LinkTimeout::new(kept.time(*ms)).build(),
        Act::TimeoutRemove(of) => op::TimeoutRemove::new(*of).build(),
        Act::TimeoutUpdate(of, ms) => op::TimeoutUpdate::new(*of, kept.time(*ms)).build(),
        Act::Cancel(which) => op::AsyncCancel2::new(cancel(*which)).build(),
        Act::CancelAll(which) => op::AsyncCancel2::new(cancel(*which).all()).build(),
        Act::Install(slot, cloexec) => {
            kept.tells = Tells::Descriptor;
            // Without IORING_FIXED_FD_NO_CLOEXEC the descriptor is closed on exec.
            let flags = u32::from(!cloexec);
            op::FixedFdInstall::new(Fixed(*slot), flags).build()
        }
        Act::Keep(fd, place) => {
            kept.fds[0] = real(*fd);
            let fds = kept.fds.as_ptr();
            let offset = match place {
                Destination::Slot(slot) => {
                    kept.tells = Tells::Slot(true);
                    slot.cast_signed()
                }
                _ => {
                    kept.tells = Tells::Slot(false);
                    // IORING_FILE_INDEX_ALLOC
                    -1
                }
            };
            op::FilesUpdate::new(fds, 1).offset(offset).build()
        }
        _ => op::Nop::new().build(),
    }
}
