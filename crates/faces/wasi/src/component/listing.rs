// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the resource `directory-entry-stream`.
//!
//! # Rules
//! R1. A listing is read as it is asked for, [`PIECE`] bytes at a time, so that a directory of any
//!     size costs the same. What comes and goes meanwhile is seen or not, as getdents64(2) has it.

use super::FilesCtx;
use super::bindings::wasi::filesystem::types::{
    DescriptorType, DirectoryEntry, ErrorCode, HostDirectoryEntryStream,
};
use super::descriptor::{Listing, kind};
use super::error::Error;
use super::files::Files;
use super::host::Result;
use openpath_abi::fcntl::AT_SYMLINK_NOFOLLOW;
use openpath_abi::{Errno, dirent};
use openpath_vfs::{DirEntry, Fd};
use wasmtime::component::Resource;

/// Bytes of a listing that are read at a time, as the getdents64(2) of libc asks for.
const PIECE: usize = 1 << 15;

impl Listing {
    /// Of an open directory, which is the listing's own.
    pub(super) fn new(fd: Fd) -> Self {
        Self {
            fd,
            batch: Vec::new().into_iter(),
            is_over: false,
        }
    }

    /// The next entry.
    ///
    /// # Errors
    /// Those of getdents64(2).
    async fn next(&mut self, files: &mut Files) -> std::result::Result<Option<DirEntry>, Errno> {
        loop {
            if let Some(entry) = self.batch.find(|e| !matches!(&e.name[..], b"." | b"..")) {
                return Ok(Some(entry));
            }
            if self.is_over {
                return Ok(None);
            }
            let batch = files.getdents64(self.fd, PIECE).await?;
            self.is_over = batch.is_empty();
            self.batch = batch.into_iter();
        }
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
}

impl HostDirectoryEntryStream for FilesCtx<'_> {
    async fn read_directory_entry(
        &mut self,
        listing: Resource<Listing>,
    ) -> Result<Option<DirectoryEntry>> {
        let listing = self.table.get_mut(&listing)?;
        let Some(entry) = listing.next(self.files).await? else {
            return Ok(None);
        };
        let type_ = listing.kind_of(self.files, &entry).await;
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
