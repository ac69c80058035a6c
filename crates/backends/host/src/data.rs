// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads, writes, copies, allocates, syncs and seals the data of regular files, by descriptors of
//! the host that all open files of an inode share.
//!
//! A caller that wants pages in place (`InodeOps::with_pages`) gets a buffer: a mapping would end
//! the process if another program truncated the file. A copy within the tree is left to the host,
//! which shares blocks where it can (reflink).

use crate::node::Node;
use crate::pool::HandleKind;
use crate::sys::errno;
use openpath_abi::limits::MAX_LFS_FILESIZE;
use openpath_abi::{Errno, mode};
use openpath_vfs::{Extent, Inode, WaitMode};
use rustix::fs::{FallocateFlags, SealFlags, SeekFrom};
use rustix::io::{ReadWriteFlags, retry_on_intr};
use std::io::IoSlice;
use std::sync::Arc;

const WAIT: WaitMode = WaitMode::Wait;
/// The offset with which pwritev2(2) uses and moves the handle's own position.
const AT_FILE_POSITION: u64 = u64::MAX;
/// How much is lent at once.
const LEND_SIZE: usize = 64 << 10;
/// The most that one call copies: other writers wait for it.
const COPY_MAX: u64 = 64 << 20;

impl Node {
    /// # Errors
    /// `EINVAL`: not a regular file, or one that stands for something else.
    pub(crate) fn check_regular(&self, inode: &Inode) -> Result<(), Errno> {
        if self.is_file() && inode.kind() == mode::S_IFREG {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// As `InodeOps::read_at`.
    pub(crate) fn read_data(
        self: &Arc<Self>,
        inode: &Inode,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        self.check_regular(inode)?;
        let handle = self.handle(HandleKind::Read, WAIT)?;
        #[cfg(test)]
        crate::stall::pass(&*handle, b"", WAIT)?;
        retry_on_intr(|| rustix::io::pread(&*handle, &mut *buf, offset)).map_err(errno)
    }

    /// As `InodeOps::write_at`.
    pub(crate) fn write_data(
        self: &Arc<Self>,
        inode: &Inode,
        data: &[u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        self.check_regular(inode)?;
        if data.is_empty() {
            return Ok(0);
        }
        let handle = self.handle(HandleKind::Write, WAIT)?;
        let written = retry_on_intr(|| rustix::io::pwrite(&*handle, data, offset));
        self.refresh_after_change(inode);
        written.map_err(errno)
    }

    /// As `InodeOps::append`.
    pub(crate) fn append_data(
        self: &Arc<Self>,
        inode: &Inode,
        data: &[IoSlice<'_>],
    ) -> Result<Option<(usize, u64)>, Errno> {
        self.check_regular(inode)?;
        let handle = self.handle(HandleKind::Write, WAIT)?;
        // Overlayfs before Linux 6.7 loses the flag on its way, and writes at the handle's
        // position.
        if rustix::fs::seek(&*handle, SeekFrom::End(0)).is_err() {
            return Ok(None);
        }
        let append =
            || rustix::io::pwritev2(&*handle, data, AT_FILE_POSITION, ReadWriteFlags::APPEND);
        let written = retry_on_intr(append);
        let end = rustix::fs::tell(&*handle);
        self.refresh_after_change(inode);
        match written {
            // Files of procfs and similar file systems take no flags.
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(None),
            written => Ok(Some((written.map_err(errno)?, end.map_err(errno)?))),
        }
    }

    /// As `InodeOps::with_pages`.
    pub(crate) fn lend_data(
        self: &Arc<Self>,
        inode: &Inode,
        offset: u64,
        len: usize,
        lend: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        let mut buf = vec![0; len.min(LEND_SIZE)];
        let mut done = 0;
        while done < len {
            let part = buf.len().min(len - done);
            let at = offset.saturating_add(done as u64);
            let read = match self.read_data(inode, &mut buf[..part], at) {
                Err(_) if done > 0 => break,
                read => read?,
            };
            if read == 0 {
                break;
            }
            lend(&buf[..read]);
            done += read;
        }
        Ok(done)
    }

    /// As `InodeOps::copy_range`.
    pub(crate) fn copy_data(
        self: &Arc<Self>,
        (inode, from): (&Inode, u64),
        (to, at): (&Inode, u64),
        len: u64,
    ) -> Result<usize, Errno> {
        let target = self.sibling(to)?;
        self.check_regular(inode)?;
        target.check_regular(to)?;
        let source = self.handle(HandleKind::Read, WAIT)?;
        let file = target.handle(HandleKind::Write, WAIT)?;
        let len = usize::try_from(len.min(COPY_MAX)).unwrap_or(usize::MAX);
        let (mut from, mut at) = (from, at);
        let copied = retry_on_intr(|| {
            rustix::fs::copy_file_range(&*source, Some(&mut from), &*file, Some(&mut at), len)
        });
        target.refresh_after_change(to);
        match copied.map_err(errno) {
            Err(Errno::EXDEV | Errno::ENOSYS | Errno::EINVAL) => Err(Errno::EOPNOTSUPP),
            copied => copied,
        }
    }

    /// As `InodeOps::fallocate`.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        inode: &Inode,
        mode: u32,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        self.check_regular(inode)?;
        let handle = self.handle(HandleKind::Write, WAIT)?;
        let flags = FallocateFlags::from_bits_retain(mode);
        let done = retry_on_intr(|| rustix::fs::fallocate(&*handle, flags, offset, len));
        self.refresh_after_change(inode);
        done.map_err(errno)
    }

    /// As `InodeOps::fsync`.
    pub(crate) fn fsync_file(self: &Arc<Self>, data_only: bool) -> Result<(), Errno> {
        if !self.is_file() && !self.is_dir() {
            return Ok(());
        }
        // The handle that was written through reports the errors of writeback.
        let handle = match self.held_handle(HandleKind::Write) {
            Some(handle) => handle,
            None => self.handle(HandleKind::Read, WAIT)?,
        };
        let done = if data_only {
            rustix::fs::fdatasync(&*handle)
        } else {
            rustix::fs::fsync(&*handle)
        };
        done.map_err(errno)
    }

    /// As `InodeOps::seals`.
    pub(crate) fn get_seals(self: &Arc<Self>, inode: &Inode) -> Result<u32, Errno> {
        self.check_regular(inode)?;
        let handle = self.handle(HandleKind::Read, WAIT)?;
        let seals = rustix::fs::fcntl_get_seals(&*handle).map_err(errno)?;
        Ok(seals.bits())
    }

    /// As `InodeOps::add_seals`.
    pub(crate) fn put_seals(self: &Arc<Self>, inode: &Inode, seals: u32) -> Result<(), Errno> {
        self.check_regular(inode)?;
        let handle = self.handle(HandleKind::Write, WAIT)?;
        let seals = SealFlags::from_bits_retain(seals);
        rustix::fs::fcntl_add_seals(&*handle, seals).map_err(errno)
    }

    /// As `InodeOps::seek_extent`.
    pub(crate) fn seek_data(
        self: &Arc<Self>,
        inode: &Inode,
        offset: u64,
        extent: Extent,
    ) -> Result<u64, Errno> {
        self.check_regular(inode)?;
        if offset > MAX_LFS_FILESIZE.cast_unsigned() {
            return Err(Errno::ENXIO);
        }
        let handle = self.handle(HandleKind::Read, WAIT)?;
        let from = match extent {
            Extent::Data => SeekFrom::Data(offset),
            Extent::Hole => SeekFrom::Hole(offset),
        };
        // The answer does not depend on the handle's position. An append reads that position, and
        // has the inode locked too.
        rustix::fs::seek(&*handle, from).map_err(errno)
    }
}
