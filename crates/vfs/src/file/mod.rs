// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements open files (open file descriptions): position, flags, credentials, and the pin that
//! holds the mount and dentry.
//!
//! # Kernel analogue
//! `struct file`, the open file description; `fdget`, `fget`, `fput`.
//!
//! `object::file` has the words of a file, and `file_ops` the calls on it that a backend or a
//! device takes over.
//!
//! # States
//! Made by an open (`make_file`) -> in descriptor tables and used by calls, each counted ->
//! released by the call that drops the last reference (`crate::release`).
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | flags | the making; `F_SETFL` (one word) | any time |
//! | bits, cred | the making; that it has locks, once | any time |
//! | pos | the position lock if the file is shared | the same |
//! | owner, signal | one word each | any time |
//! | payload | once, while the file is made | a reference |
//!
//! # Rules
//! R1. The walk's pin is the file's pin: nothing is counted on the dentry, the mount or the
//!     credentials.
//! R2. A file open for writing is marked so in its pin word: that is its write access to the inode
//!     and to the mount.
//! R3. The last reference is released by the call that dropped it, with no lock held, before that
//!     call returns.

mod handle;
mod locks;
mod pipe;

pub use handle::{LastFile, OpenFile};

use crate::file_ops::{FileOps, QUICK, TRIED};
use crate::inode::Inode;
use crate::lock_order::FilePosition;
use crate::object::{FileBody, MountData, fbit};
use crate::path::PathIds;
use crate::task::Core;
use openpath_abi::fcntl::{
    O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_EXCL, O_NOCTTY, O_NONBLOCK, O_PATH, O_RDONLY,
    O_RDWR, O_TRUNC, O_WRONLY,
};
use openpath_abi::{Errno, OFlags, caps, mode};
use openpath_sync::{FileRef, Pin, RawGuard, Waiter};

/// The arguments for making a file.
#[derive(Clone, Copy)]
pub(crate) struct NewFileArgs {
    pub(crate) flags: OFlags,
    pub(crate) created: bool,
    /// Other tasks will have it.
    pub(crate) shared: bool,
}

/// An open file in use by a call (`struct fd`): counted, and put back when this is dropped.
pub(crate) struct Filp<'t> {
    pub(crate) core: &'t Core,
    file: FileRef,
}

impl<'t> Filp<'t> {
    /// Wraps a reference for a call.
    #[inline(always)]
    pub(crate) fn hold(core: &'t Core, file: FileRef) -> Self {
        Self { core, file }
    }

    /// The reference itself, to be kept.
    #[inline(always)]
    pub(crate) fn into_ref(mut self) -> FileRef {
        core::mem::replace(&mut self.file, FileRef::none())
    }

    /// The reference.
    #[inline(always)]
    pub(crate) fn file(&self) -> &FileRef {
        &self.file
    }

    /// Its words.
    #[inline(always)]
    pub(crate) fn body(&self) -> &'t FileBody {
        self.core.vfs.dcache.store.file(self.file.id())
    }

    /// The calls that this opening takes over, if any.
    #[inline(always)]
    pub(crate) fn own_ops(&self) -> Option<&dyn FileOps> {
        let store = &self.core.vfs.dcache.store;
        store.file_payload(&self.file).map(|ops| &**ops)
    }

    /// Where it is open.
    #[inline(always)]
    pub(crate) fn path_ids(&self) -> PathIds {
        let pin = self.file.pin();
        PathIds {
            mount: pin.mount(),
            dentry: pin.dentry(),
        }
    }

    /// The number of the credentials it was opened with.
    pub(crate) fn cred_serial(&self) -> u64 {
        self.body().cred.peek()
    }

    #[inline(always)]
    pub(crate) fn inode(&self) -> Result<&Inode, Errno> {
        let store = &self.core.vfs.dcache.store;
        store.dentry_payload(self.file.pin()).ok_or(Errno::EBADF)
    }

    #[inline(always)]
    pub(crate) fn mount(&self) -> Result<&MountData, Errno> {
        let store = &self.core.vfs.dcache.store;
        store.mount_payload(self.file.pin()).ok_or(Errno::EBADF)
    }

    /// The flags it was opened with, less those that only concern opening (`F_GETFL`).
    #[inline(always)]
    pub(crate) fn flags(&self) -> OFlags {
        OFlags::from_bits_retain(self.body().flags.get())
    }

    /// Whether it is only a place (`O_PATH`): nothing can be done to the file through it.
    #[inline(always)]
    pub(crate) fn is_path(&self) -> bool {
        self.flags().contains(O_PATH)
    }

    /// Whether it may be read: access mode 0 or 2.
    pub(crate) fn readable(&self) -> bool {
        !self.is_path() && matches!(self.flags() & O_ACCMODE, O_RDONLY | O_RDWR)
    }

    /// Whether it may be written: access mode 1 or 2.
    pub(crate) fn writable(&self) -> bool {
        !self.is_path() && matches!(self.flags() & O_ACCMODE, O_WRONLY | O_RDWR)
    }

    /// Whether writes go to the end (`O_APPEND`).
    pub(crate) fn appends(&self) -> bool {
        self.flags().contains(O_APPEND)
    }

    /// The sleeper of its calls; `None`: they do not wait (`O_NONBLOCK`).
    pub(crate) fn waiter(&self) -> Option<&'t Waiter> {
        (!self.flags().contains(O_NONBLOCK)).then_some(&self.core.sleeper)
    }

    /// Where the next read or write begins.
    #[inline(always)]
    pub(crate) fn pos(&self) -> i64 {
        self.body().pos.get().cast_signed()
    }

    #[inline(always)]
    pub(crate) fn set_pos(&self, pos: i64) {
        self.body().pos.set(pos.cast_unsigned());
    }

    /// Keeps other calls from moving the position until what this returns is dropped, if there can
    /// be others (`fdget_pos`).
    #[inline(always)]
    pub(crate) fn hold_pos(&self) -> Option<RawGuard<'t, FilePosition>> {
        if !self.core.vfs.dcache.store.is_file_shared(&self.file) {
            return None;
        }
        let kind = self.inode().map_or(0, Inode::kind);
        matches!(kind, mode::S_IFREG | mode::S_IFDIR).then(|| self.body().pos_lock.lock())
    }
}

/// Whether a file of this kind signals its owner about input and output (`fasync`): FIFOs, and
/// anonymous files.
pub(crate) fn signals(kind: u32) -> bool {
    matches!(kind, 0 | mode::S_IFIFO)
}

/// The start of a relative path.
#[derive(Clone, Copy)]
pub(crate) enum PathStart<'a> {
    /// The working directory.
    Cwd,
    /// An open file.
    File(&'a Filp<'a>),
    /// A descriptor that is not open: an error only for a path that needs it.
    Bad,
}

impl Core {
    /// A file that takes over the walk's pin (or, with the switch off, takes a second one and lets
    /// that go).
    #[inline(always)]
    pub(crate) fn make_file(&self, pin: Pin, args: NewFileArgs) -> FileRef {
        let pin = if self.vfs.config.tuning.reference_hand_over {
            pin
        } else {
            second_pin(self, pin)
        };
        if self.vfs.config.limits.files_max != u64::MAX {
            self.vfs.files.add(1);
        }
        const OPENING: OFlags =
            OFlags::union_of(&[O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, O_CLOEXEC, QUICK, TRIED]);
        let flags = args.flags & !OPENING;
        self.pins.open_file(pin, args.shared, |body| {
            body.flags.poke(flags.bits());
            body.bits.poke(u32::from(args.created) * fbit::CREATED);
            body.pos.poke(0);
            body.cred.poke(self.cred_serial());
            body.owner.poke(0);
            body.signal.poke(0);
        })
    }

    /// Puts a reference back; the last one ends the file (`fput`).
    #[inline(always)]
    pub(crate) fn put_file(&self, file: FileRef) {
        if let Some(last) = self.pins.put_file(file) {
            self.vfs.release_here(&self.pins, last);
        }
    }

    /// Whether one more file may be open in the whole `Vfs`; `CAP_SYS_ADMIN` may always
    /// (`alloc_empty_file`).
    ///
    /// # Errors
    /// `ENFILE`.
    #[inline(always)]
    pub(crate) fn check_files_max(&self) -> Result<(), Errno> {
        let limit = self.vfs.config.limits.files_max;
        if limit == u64::MAX || self.vfs.files.get() < limit {
            return Ok(());
        }
        if self.cred().capable(caps::CAP_SYS_ADMIN) {
            Ok(())
        } else {
            Err(Errno::ENFILE)
        }
    }
}

/// The handover before pins moved: the file takes a reference of its own and the walk drops its
/// one.
#[cold]
fn second_pin(core: &Core, pin: Pin) -> Pin {
    match core.pins.dup(&pin) {
        Some(own) => {
            let store = &core.vfs.dcache.store;
            if store.is_writing(&pin) {
                core.pins.mark_writing(&own);
            } else if store.is_opened(&pin) {
                core.pins.mark_opened(&own);
            }
            core.pins.release(pin);
            own
        }
        None => pin,
    }
}

impl Drop for Filp<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let file = core::mem::replace(&mut self.file, FileRef::none());
        self.core.put_file(file);
    }
}
