// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the resource `directory-entry-stream` of `wasi:filesystem`, which lists a directory.
//!
//! # Rules
//! R1. A directory is read on demand, [`PIECE`] bytes at a time, so that its size does not matter.
//!     Names that come or go meanwhile are listed or not, as with getdents64(2).
//! R2. A call that is dropped loses no entry: a worker puts what it read into the listing, under
//!     the lock that it took before the read, and an entry is removed only when it is returned.
//!
//! # Locks
//! The lock of a listing, which a worker holds while it reads. The guest's thread does not wait for
//! it, unless calls are made in place.

use super::FilesCtx;
use super::bindings::wasi::filesystem::types::{
    DescriptorType, DirectoryEntry, ErrorCode, HostDirectoryEntryStream,
};
use super::descriptor::{Listing, ReadAhead, kind};
use super::error::Error;
use super::files::Files;
use super::host::Result;
use openpath_abi::fcntl::AT_SYMLINK_NOFOLLOW;
use openpath_abi::{Errno, dirent};
use openpath_vfs::{DirEntry, Fd, Task};
use std::sync::{Arc, PoisonError, TryLockError};
use wasmtime::component::Resource;

/// Bytes of one read of the directory, as in the readdir(3) of glibc.
const PIECE: usize = 1 << 15;

impl Listing {
    /// The listing of an open directory, which it owns.
    pub(super) fn new(fd: Fd) -> Self {
        Self {
            fd,
            read_ahead: Arc::default(),
            next: None,
        }
    }

    /// The next entry, or `Some(None)` at the end. `None` if the directory must be read, or is
    /// being read.
    fn buffered(&self) -> Option<Option<DirEntry>> {
        let mut read_ahead = match self.read_ahead.try_lock() {
            Ok(read_ahead) => read_ahead,
            Err(TryLockError::Poisoned(whole)) => whole.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let names = |entry: &DirEntry| !matches!(&entry.name[..], b"." | b"..");
        let next = read_ahead.batch.find(names);
        (next.is_some() || read_ahead.is_over).then_some(next)
    }

    /// Makes sure that `next` holds an entry; returns whether there is one.
    ///
    /// # Errors
    /// Those of getdents64(2).
    async fn advance(&mut self, files: &mut Files) -> std::result::Result<bool, Errno> {
        while self.next.is_none() {
            if let Some(next) = self.buffered() {
                self.next = next;
                break;
            }
            let read_ahead = Arc::clone(&self.read_ahead);
            let read = move |task: &Task, [fd, _]: [Fd; 2]| {
                // R2
                let mut read_ahead = read_ahead.lock().unwrap_or_else(PoisonError::into_inner);
                read_ahead.fill(|| task.getdents64(fd, PIECE))
            };
            files.make([Some(self.fd), None], read).await?;
        }
        Ok(self.next.is_some())
    }

    /// The type of an entry; if the directory does not know it, the type of the file.
    async fn kind_of(&self, files: &mut Files, entry: &DirEntry) -> DescriptorType {
        if entry.kind != dirent::DT_UNKNOWN {
            return kind(u32::from(entry.kind) << 12);
        }
        let stat = files.fstatat(self.fd, &entry.name, AT_SYMLINK_NOFOLLOW);
        stat.await
            .map_or(DescriptorType::Unknown, |stat| kind(stat.mode))
    }

    /// Returns the next entry and its type.
    ///
    /// # Errors
    /// As [`Listing::advance`].
    async fn next_entry(
        &mut self,
        files: &mut Files,
    ) -> std::result::Result<Option<(DirEntry, DescriptorType)>, Errno> {
        self.advance(files).await?;
        let Some(entry) = &self.next else {
            return Ok(None);
        };
        let kind = self.kind_of(files, entry).await;
        Ok(self.next.take().map(|entry| (entry, kind)))
    }
}

impl ReadAhead {
    /// Reads the next batch, unless there are entries or the directory is at its end.
    fn fill(
        &mut self,
        read: impl FnOnce() -> std::result::Result<Vec<DirEntry>, Errno>,
    ) -> std::result::Result<(), Errno> {
        if self.batch.len() == 0 && !self.is_over {
            let batch = read()?;
            self.is_over = batch.is_empty();
            self.batch = batch.into_iter();
        }
        Ok(())
    }
}

impl HostDirectoryEntryStream for FilesCtx<'_> {
    async fn read_directory_entry(
        &mut self,
        listing: Resource<Listing>,
    ) -> Result<Option<DirectoryEntry>> {
        let listing = self.table.get_mut(&listing)?;
        let Some((entry, type_)) = listing.next_entry(self.files).await? else {
            return Ok(None);
        };
        let name = String::from_utf8(entry.name);
        let name = name.map_err(|_| Error::Code(ErrorCode::IllegalByteSequence))?;
        Ok(Some(DirectoryEntry { type_, name }))
    }

    async fn drop(&mut self, listing: Resource<Listing>) -> wasmtime::Result<()> {
        let listing = self.table.delete(listing)?;
        self.files.close_unheld(listing.fd).await;
        Ok(())
    }
}
