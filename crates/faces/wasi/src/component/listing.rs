// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the resource `directory-entry-stream`.
//!
//! # Rules
//! R1. A listing is read as it is asked for, [`PIECE`] bytes at a time, so that a directory of any
//!     size costs the same. What comes and goes meanwhile is seen or not, as getdents64(2) has it.
//! R2. A call that is dropped takes nothing with it: who reads puts it on the listing's shelf, with
//!     its lock held until it is there, and an entry is let go of when it is told.
//!
//! # Locks
//! A shelf's, which is held while a worker reads. The guest's thread does not wait for it, but
//! where calls that may wait are made in place.

use super::FilesCtx;
use super::bindings::wasi::filesystem::types::{
    DescriptorType, DirectoryEntry, ErrorCode, HostDirectoryEntryStream,
};
use super::descriptor::{Listing, Shelf, kind};
use super::error::Error;
use super::files::Files;
use super::host::Result;
use openpath_abi::fcntl::AT_SYMLINK_NOFOLLOW;
use openpath_abi::{Errno, dirent};
use openpath_vfs::{DirEntry, Fd, Task};
use std::sync::{Arc, PoisonError, TryLockError};
use wasmtime::component::Resource;

/// Bytes of a listing that are read at a time, as the getdents64(2) of libc asks for.
const PIECE: usize = 1 << 15;

impl Listing {
    /// Of an open directory, which is the listing's own.
    pub(super) fn new(fd: Fd) -> Self {
        Self {
            fd,
            shelf: Arc::default(),
            next: None,
        }
    }

    /// What the shelf has next, or that it is over; nothing where that is to be read, or is being.
    fn at_hand(&self) -> Option<Option<DirEntry>> {
        let mut shelf = match self.shelf.try_lock() {
            Ok(shelf) => shelf,
            Err(TryLockError::Poisoned(whole)) => whole.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let names = |entry: &DirEntry| !matches!(&entry.name[..], b"." | b"..");
        let next = shelf.batch.find(names);
        (next.is_some() || shelf.is_over).then_some(next)
    }

    /// Brings the next entry to where it is told from; whether there is one.
    ///
    /// # Errors
    /// Those of getdents64(2).
    async fn advance(&mut self, files: &mut Files) -> std::result::Result<bool, Errno> {
        while self.next.is_none() {
            if let Some(next) = self.at_hand() {
                self.next = next;
                break;
            }
            let shelf = Arc::clone(&self.shelf);
            let read = move |task: &Task, [fd, _]: [Fd; 2]| {
                // R2
                let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
                shelf.fill(|| task.getdents64(fd, PIECE))
            };
            files.make([Some(self.fd), None], read).await?;
        }
        Ok(self.next.is_some())
    }

    /// The type of an entry; of one whose tree does not say, as the entry itself says it.
    async fn kind_of(&self, files: &mut Files, entry: &DirEntry) -> DescriptorType {
        if entry.kind != dirent::DT_UNKNOWN {
            return kind(u32::from(entry.kind) << 12);
        }
        let stat = files.fstatat(self.fd, &entry.name, AT_SYMLINK_NOFOLLOW);
        stat.await
            .map_or(DescriptorType::Unknown, |stat| kind(stat.mode))
    }

    /// The next entry and its type.
    ///
    /// # Errors
    /// As [`Listing::advance`].
    async fn tell(
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

impl Shelf {
    /// Reads what follows, unless something is there or nothing does.
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
        let Some((entry, type_)) = listing.tell(self.files).await? else {
            return Ok(None);
        };
        let name = String::from_utf8(entry.name);
        let name = name.map_err(|_| Error::Code(ErrorCode::IllegalByteSequence))?;
        Ok(Some(DirectoryEntry { type_, name }))
    }

    async fn drop(&mut self, listing: Resource<Listing>) -> wasmtime::Result<()> {
        let listing = self.table.delete(listing)?;
        self.files.give_up(listing.fd).await;
        Ok(())
    }
}
