// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists a directory of the host, with the host's order and positions.
//!
//! # Rules
//! R1. All opens of a directory share one handle. It is moved to the caller's position before each
//!     listing, under the directory's `HostListing` lock.

use crate::node::Node;
use crate::options::Ownership;
use crate::pool::HandleKind;
use crate::sys::errno;
use openpath_abi::Errno;
use openpath_vfs::{ListedEntry, WaitMode};
use rustix::fs::{FileType, RawDir, SeekFrom};
use std::sync::Arc;

/// The size of the buffer for one call.
const BUFFER_SIZE: usize = 32 << 10;

/// One entry of the host, until it is emitted.
struct Entry {
    name: Vec<u8>,
    ino: u64,
    kind: u8,
    next: i64,
}

impl Node {
    /// As `InodeOps::readdir`.
    pub(crate) fn list(
        self: &Arc<Self>,
        from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        if !self.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let mut from = from.max(0).cast_unsigned();
        let mut buf = Vec::with_capacity(BUFFER_SIZE);
        loop {
            let entries = self.batch(from, &mut buf)?;
            let Some(last) = entries.last() else {
                return Ok(());
            };
            from = last.next.cast_unsigned();
            for entry in &entries {
                let is_self = entry.name == b"." || entry.name == b"..";
                let listed = ListedEntry {
                    name: &entry.name,
                    ino: entry.ino,
                    kind: entry.kind,
                    next: entry.next,
                };
                if !is_self && !emit(listed) {
                    return Ok(());
                }
            }
        }
    }

    /// What one call of the host lists from a position on.
    fn batch(self: &Arc<Self>, from: u64, buf: &mut Vec<u8>) -> Result<Vec<Entry>, Errno> {
        let handle = self.handle(HandleKind::Read, WaitMode::Wait)?;
        let _locked = self.listing.lock();
        rustix::fs::seek(&*handle, SeekFrom::Start(from)).map_err(errno)?;
        let mut entries = Vec::new();
        let mut raw = RawDir::new(&*handle, buf.spare_capacity_mut());
        while let Some(entry) = raw.next() {
            let entry = entry.map_err(errno)?;
            entries.push(Entry {
                name: entry.file_name().to_bytes().to_vec(),
                ino: self.tree.number_on(self.id.dev, entry.ino()),
                kind: self.kind(entry.file_type()),
                next: entry.next_entry_cookie().cast_signed(),
            });
            if raw.is_buffer_empty() {
                break;
            }
        }
        Ok(entries)
    }
}

impl Node {
    /// The type of an entry, as far as the host's type tells.
    fn kind(&self, file_type: FileType) -> u8 {
        let kept = matches!(self.tree.options.ownership, Ownership::Xattr { .. });
        match file_type {
            // It may stand for a device, a FIFO or a socket.
            FileType::RegularFile if kept => openpath_abi::dirent::DT_UNKNOWN,
            other => kind(other),
        }
    }
}

fn kind(file_type: FileType) -> u8 {
    use openpath_abi::dirent as d;
    match file_type {
        FileType::RegularFile => d::DT_REG,
        FileType::Directory => d::DT_DIR,
        FileType::Symlink => d::DT_LNK,
        FileType::Fifo => d::DT_FIFO,
        FileType::Socket => d::DT_SOCK,
        FileType::CharacterDevice => d::DT_CHR,
        FileType::BlockDevice => d::DT_BLK,
        FileType::Unknown => d::DT_UNKNOWN,
    }
}
