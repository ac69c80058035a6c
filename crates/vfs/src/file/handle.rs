// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines `OpenFile`, an open file that is in no descriptor table and so can pass from one task to
//! another, and `LastFile`, a file without references whose release is put off.

use crate::instance::Shared;
use crate::path::VfsPath;
use crate::task::Core;
use openpath_abi::{Errno, OFlags};
use openpath_sync::{FileRef, LastRef};
use std::sync::Arc;

/// A reference to an open file description, as a message that carries a descriptor holds one
/// (`SCM_RIGHTS`). Any thread may have it; the file stays open for as long as one lives.
pub struct OpenFile {
    vfs: Arc<Shared>,
    file: FileRef,
}

impl OpenFile {
    /// Another owner of a reference that is shared already.
    pub(crate) fn new(vfs: Arc<Shared>, file: FileRef) -> Self {
        Self { vfs, file }
    }

    /// A reference for a table of this `Vfs`.
    ///
    /// # Errors
    /// `EXDEV`: the file is another `Vfs`'s.
    pub(crate) fn lend(&self, core: &Core) -> Result<FileRef, Errno> {
        if Arc::ptr_eq(&self.vfs, &core.vfs) {
            Ok(self.vfs.dcache.store.dup_file(&self.file))
        } else {
            Err(Errno::EXDEV)
        }
    }

    /// The flags it was opened with (`F_GETFL`).
    #[must_use]
    pub fn flags(&self) -> OFlags {
        let file = self.vfs.dcache.store.file(self.file.id());
        OFlags::from_bits_retain(file.flags.get())
    }

    /// Whether both are one open file description (`F_DUPFD_QUERY`).
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.vfs, &other.vfs) && self.file.id() == other.file.id()
    }

    /// The place it is open at, kept on its own: the target of a magic link.
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left.
    pub fn path(&self) -> Result<VfsPath, Errno> {
        let pin = self.vfs.mount_pins.lock().dup(self.file.pin());
        let pin = pin.ok_or(Errno::ENOMEM)?;
        Ok(VfsPath::new(Arc::clone(&self.vfs), pin))
    }
}

impl OpenFile {
    /// Puts this reference back without ending the file. If it was the last one, the file ends with
    /// what this gives, wherever waiting for a backend does no harm.
    #[must_use]
    pub fn put(mut self) -> Option<LastFile> {
        let file = core::mem::replace(&mut self.file, FileRef::none());
        let last = self.vfs.dcache.store.put_file(file)?;
        Some(LastFile {
            vfs: Arc::clone(&self.vfs),
            last: Some(last),
        })
    }
}

/// A file without references, which ends when this is dropped.
pub struct LastFile {
    vfs: Arc<Shared>,
    last: Option<LastRef>,
}

impl Drop for LastFile {
    fn drop(&mut self) {
        if let Some(last) = self.last.take() {
            self.vfs.release_anywhere(last);
        }
    }
}

impl Clone for OpenFile {
    fn clone(&self) -> Self {
        Self {
            vfs: Arc::clone(&self.vfs),
            file: self.vfs.dcache.store.dup_file(&self.file),
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let file = core::mem::replace(&mut self.file, FileRef::none());
        self.vfs.fput(file);
    }
}
