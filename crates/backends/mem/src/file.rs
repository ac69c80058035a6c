// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on a regular file (reading, writing, allocating, seeking, sealing), and
//! changes of the attributes of any file, its length among them.
//!
//! # Kernel analogue
//! `shmem_file_read_iter`, `shmem_file_write_iter`, `shmem_setattr`, `shmem_fallocate`,
//! `shmem_file_llseek`.

use crate::data::Data;
use crate::node::Node;
use crate::page_map::{PAGE_64, RemovedPages};
use crate::seal::Seals;
use openpath_abi::falloc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE};
use openpath_abi::limits::MAX_LFS_FILESIZE;
use openpath_abi::{Errno, Timespec};
use openpath_vfs::{Extent, Inode, SetAttr};

/// The largest size.
const SIZE_MAX: u64 = MAX_LFS_FILESIZE.cast_unsigned();

/// How many of `len` bytes at `offset` come before `end`.
pub(crate) fn bytes_before(end: u64, offset: u64, len: usize) -> usize {
    let left = end.saturating_sub(offset);
    usize::try_from(left).unwrap_or(usize::MAX).min(len)
}

/// The result of a write of at least one byte, which stored `done` bytes before `last`. Without an
/// error there, seals refused the rest.
///
/// # Errors
/// `EPERM` (sealed), and those of `last`.
pub(crate) fn write_result(done: usize, last: Result<(), Errno>) -> Result<usize, Errno> {
    if done != 0 {
        return Ok(done);
    }
    last.and(Err(Errno::EPERM))
}

impl Data {
    /// How many of `len` bytes may be written at `offset`.
    ///
    /// # Errors
    /// `EFBIG`.
    pub(crate) fn writable_len(offset: u64, len: usize) -> Result<usize, Errno> {
        match bytes_before(SIZE_MAX, offset, len) {
            0 => Err(Errno::EFBIG),
            room => Ok(room),
        }
    }

    /// Updates attributes after a write that stored `written` bytes at `offset`. Times change even
    /// if none were stored, as in the kernel.
    pub(crate) fn update_attr(&self, inode: &Inode, offset: u64, written: usize, now: Timespec) {
        let end = offset + written as u64;
        inode.update(|a| {
            a.mtime = now;
            a.ctime = now;
            a.blocks = self.sectors();
            if written != 0 {
                a.size = a.size.max(end);
            }
        });
    }

    /// Makes the file end at `size`; returns the pages past it. Pages that are preallocated past
    /// the end survive growth.
    ///
    /// # Errors
    /// `EPERM` (sealed).
    fn resize(&mut self, inode: &Inode, size: u64) -> Result<RemovedPages, Errno> {
        let old = inode.size();
        self.seals.may_resize(old, size)?;
        let removed = if size <= old {
            self.zero_range(size..u64::MAX)
        } else {
            RemovedPages::default()
        };
        inode.update(|a| {
            a.size = size;
            a.blocks = self.sectors();
        });
        Ok(removed)
    }
}

impl Node {
    /// As `InodeOps::read_at`.
    pub(crate) fn read_data(
        &self,
        inode: &Inode,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let data = self.data().ok_or(Errno::EINVAL)?.read();
        let len = bytes_before(inode.size(), offset, buf.len());
        data.read(&mut buf[..len], offset);
        Ok(len)
    }

    /// As `InodeOps::with_pages`. The data is locked for reading while it is lent.
    pub(crate) fn lend_data(
        &self,
        inode: &Inode,
        offset: u64,
        len: usize,
        lend: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        let data = self.data().ok_or(Errno::EOPNOTSUPP)?.read();
        let len = bytes_before(inode.size(), offset, len);
        data.for_each_piece(offset, len, lend);
        Ok(len)
    }

    /// As `InodeOps::write_at`.
    pub(crate) fn write_data(
        &self,
        inode: &Inode,
        bytes: &[u8],
        offset: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        let data = self.data().ok_or(Errno::EINVAL)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let len = Data::writable_len(offset, bytes.len())?;
        let mut data = data.write();
        let admitted = data.seals.admitted(inode.size(), offset, len);
        let (written, refused) = data.write(&bytes[..admitted], offset);
        data.update_attr(inode, offset, written, now);
        write_result(written, refused)
    }

    /// As `InodeOps::setattr`.
    ///
    /// # Errors
    /// In this order: `EINVAL` (a length, but no regular file), `EFBIG`, `EPERM` (sealed).
    pub(crate) fn set_attributes(&self, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        let Some(data) = self.data() else {
            if change.size.is_some() {
                return Err(Errno::EINVAL);
            }
            inode.apply(change);
            return Ok(());
        };
        if change.size.is_none() && change.mode.is_none() {
            inode.apply(change);
            return Ok(());
        }
        if change.size.is_some_and(|size| size > SIZE_MAX) {
            return Err(Errno::EFBIG);
        }
        let mut data = data.write();
        if let Some(mode) = change.mode {
            data.seals.may_change_mode(inode.mode(), mode)?;
        }
        let removed = match change.size {
            Some(size) => Some(data.resize(inode, size)?),
            None => None,
        };
        inode.apply(change);
        drop(data);
        drop(removed);
        Ok(())
    }

    /// As `InodeOps::fallocate`: tmpfs allocates and punches, and knows no other mode.
    ///
    /// # Errors
    /// In this order: `EOPNOTSUPP`, `EPERM` (sealed), `ENOSPC`, `EDQUOT`.
    pub(crate) fn allocate(
        &self,
        inode: &Inode,
        mode: u32,
        offset: u64,
        len: u64,
        now: Timespec,
    ) -> Result<(), Errno> {
        let data = self.data().ok_or(Errno::EOPNOTSUPP)?;
        let keep_size = mode & FALLOC_FL_KEEP_SIZE != 0;
        let punch = mode & FALLOC_FL_PUNCH_HOLE != 0;
        if mode & !(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE) != 0 || punch && !keep_size {
            return Err(Errno::EOPNOTSUPP);
        }
        let end = offset.saturating_add(len);
        if end > SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        let mut data = data.write();
        let mut removed = None;
        let size = inode.size();
        if punch {
            data.seals.may_punch()?;
            removed = Some(data.zero_range(offset..end));
        } else {
            data.seals.may_resize(size, size.max(end))?;
            let numbers = offset / PAGE_64..end.div_ceil(PAGE_64);
            if numbers.end - numbers.start > self.space().blocks.most() {
                return Err(Errno::ENOSPC);
            }
            data.preallocate(numbers)?;
        }
        inode.update(|a| {
            a.mtime = now;
            a.ctime = now;
            a.blocks = data.sectors();
            if !keep_size {
                a.size = a.size.max(end);
            }
        });
        drop(data);
        drop(removed);
        Ok(())
    }

    /// As `InodeOps::seek_extent`.
    pub(crate) fn seek_data(
        &self,
        inode: &Inode,
        offset: u64,
        extent: Extent,
    ) -> Result<u64, Errno> {
        let data = self.data().ok_or(Errno::EINVAL)?.read();
        let size = inode.size();
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        let number = offset / PAGE_64;
        match extent {
            Extent::Data => {
                let found = data.next_data(number).ok_or(Errno::ENXIO)? * PAGE_64;
                if found >= size {
                    return Err(Errno::ENXIO);
                }
                Ok(found.max(offset))
            }
            Extent::Hole => Ok((data.next_hole(number) * PAGE_64).clamp(offset, size)),
        }
    }

    /// As `InodeOps::seals`.
    pub(crate) fn get_seals(&self) -> Result<u32, Errno> {
        let data = self.data().ok_or(Errno::EINVAL)?.read();
        Ok(data.seals.bits())
    }

    /// As `InodeOps::add_seals`. An unknown seal is `EINVAL`, before any `EPERM`.
    pub(crate) fn put_seals(&self, inode: &Inode, seals: u32) -> Result<(), Errno> {
        let data = self.data().ok_or(Errno::EINVAL)?;
        if !Seals::are_valid(seals) {
            return Err(Errno::EINVAL);
        }
        data.write().seals.add(seals, inode.mode())
    }
}
