// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of regular files: by positioned calls on a handle that all openings share.
//!
//! Pages are lent through a buffer: a mapping of a file that someone cuts would end the process.
//! A copy within the tree is left to the host, which shares blocks where it can (reflink).

use crate::node::Node;
use crate::pool::Use;
use crate::sys::errno;
use openpath_abi::limits::MAX_LFS_FILESIZE;
use openpath_abi::{Errno, mode};
use openpath_vfs::{Extent, Inode, Patience};
use rustix::fs::{FallocateFlags, SealFlags, SeekFrom};
use rustix::io::{ReadWriteFlags, retry_on_intr};
use std::io::IoSlice;
use std::sync::Arc;

const WAIT: Patience = Patience::Wait;
/// The offset with which pwritev2(2) moves the handle.
const MOVES: u64 = u64::MAX;
/// How much is shown at once.
const SHOWN: usize = 64 << 10;
/// How much one call copies: it holds up who else wants to write.
const COPIED: u64 = 64 << 20;

impl Node {
    /// # Errors
    /// `EINVAL`: not a regular file, or one that stands for something else.
    pub(crate) fn must_be_file(&self, inode: &Inode) -> Result<(), Errno> {
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
        self.must_be_file(inode)?;
        let handle = self.handle(Use::Read, WAIT)?;
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
        self.must_be_file(inode)?;
        if data.is_empty() {
            return Ok(0);
        }
        let handle = self.handle(Use::Write, WAIT)?;
        let written = retry_on_intr(|| rustix::io::pwrite(&*handle, data, offset));
        self.settle(inode);
        written.map_err(errno)
    }

    /// As `InodeOps::append`.
    pub(crate) fn append_data(
        self: &Arc<Self>,
        inode: &Inode,
        data: &[IoSlice<'_>],
    ) -> Result<Option<(usize, u64)>, Errno> {
        self.must_be_file(inode)?;
        let handle = self.handle(Use::Write, WAIT)?;
        // Overlayfs before Linux 6.7 loses the flag on its way, and writes where the handle stands.
        if rustix::fs::seek(&*handle, SeekFrom::End(0)).is_err() {
            return Ok(None);
        }
        let append = || rustix::io::pwritev2(&*handle, data, MOVES, ReadWriteFlags::APPEND);
        let written = retry_on_intr(append);
        let end = rustix::fs::tell(&*handle);
        self.settle(inode);
        match written {
            // Files of procfs and its kin take no flags.
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(None),
            written => Ok(Some((written.map_err(errno)?, end.map_err(errno)?))),
        }
    }

    /// As `InodeOps::with_pages`.
    pub(crate) fn show_data(
        self: &Arc<Self>,
        inode: &Inode,
        offset: u64,
        len: usize,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        let mut buf = vec![0; len.min(SHOWN)];
        let mut done = 0;
        while done < len {
            let room = buf.len().min(len - done);
            let at = offset.saturating_add(done as u64);
            let read = match self.read_data(inode, &mut buf[..room], at) {
                Err(_) if done > 0 => break,
                read => read?,
            };
            if read == 0 {
                break;
            }
            show(&buf[..read]);
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
        self.must_be_file(inode)?;
        target.must_be_file(to)?;
        let source = self.handle(Use::Read, WAIT)?;
        let file = target.handle(Use::Write, WAIT)?;
        let len = usize::try_from(len.min(COPIED)).unwrap_or(usize::MAX);
        let (mut from, mut at) = (from, at);
        let copied = retry_on_intr(|| {
            rustix::fs::copy_file_range(&*source, Some(&mut from), &*file, Some(&mut at), len)
        });
        target.settle(to);
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
        self.must_be_file(inode)?;
        let handle = self.handle(Use::Write, WAIT)?;
        let flags = FallocateFlags::from_bits_retain(mode);
        let done = retry_on_intr(|| rustix::fs::fallocate(&*handle, flags, offset, len));
        self.settle(inode);
        done.map_err(errno)
    }

    /// As `InodeOps::fsync`.
    pub(crate) fn bring_to_disk(self: &Arc<Self>, data_only: bool) -> Result<(), Errno> {
        if !self.is_file() && !self.is_dir() {
            return Ok(());
        }
        // Through the handle that was written through, which hears of what went wrong.
        let handle = match self.held(Use::Write) {
            Some(handle) => handle,
            None => self.handle(Use::Read, WAIT)?,
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
        self.must_be_file(inode)?;
        let handle = self.handle(Use::Read, WAIT)?;
        let seals = rustix::fs::fcntl_get_seals(&*handle).map_err(errno)?;
        Ok(seals.bits())
    }

    /// As `InodeOps::add_seals`.
    pub(crate) fn put_seals(self: &Arc<Self>, inode: &Inode, seals: u32) -> Result<(), Errno> {
        self.must_be_file(inode)?;
        let handle = self.handle(Use::Write, WAIT)?;
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
        self.must_be_file(inode)?;
        if offset > MAX_LFS_FILESIZE.cast_unsigned() {
            return Err(Errno::ENXIO);
        }
        let handle = self.handle(Use::Read, WAIT)?;
        let from = match extent {
            Extent::Data => SeekFrom::Data(offset),
            Extent::Hole => SeekFrom::Hole(offset),
        };
        // The answer does not depend on where the handle stands. Who appends reads that, and has
        // the inode locked too.
        rustix::fs::seek(&*handle, from).map_err(errno)
    }
}
