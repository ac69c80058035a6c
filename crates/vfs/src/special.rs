// SPDX-License-Identifier: MIT OR Apache-2.0
//! FIFOs, sockets and devices: opening them, and the data of the null and zero devices.

use crate::inode::Inode;
use openpath_abi::fcntl::{O_ACCMODE, O_NONBLOCK, O_RDONLY, O_WRONLY};
use openpath_abi::{Errno, mode, stat};

/// The null device.
pub(crate) const NULL: u64 = stat::makedev(1, 3);
/// The zero device.
pub(crate) const ZERO: u64 = stat::makedev(1, 5);

/// Opens a special file.
///
/// # Errors
/// `ENXIO`: a socket, a device without a driver, a FIFO for writing when nobody reads. `EINVAL`: a
/// FIFO neither for reading nor for writing.
pub(crate) fn open(inode: &Inode, flags: u32) -> Result<(), Errno> {
    match inode.kind() {
        mode::S_IFIFO => open_fifo(flags),
        mode::S_IFCHR if matches!(inode.rdev(), NULL | ZERO) => Ok(()),
        _ => Err(Errno::ENXIO),
    }
}

/// Opens a FIFO that nobody else has open: a writer that will not wait is refused, and no opener
/// waits.
fn open_fifo(flags: u32) -> Result<(), Errno> {
    match flags & O_ACCMODE {
        O_ACCMODE => Err(Errno::EINVAL),
        O_WRONLY => Err(Errno::ENXIO),
        O_RDONLY if flags & O_NONBLOCK == 0 => Err(Errno::EAGAIN),
        _ => Ok(()),
    }
}

/// Reads from an open special file. `writes`: it is open for writing too.
///
/// # Errors
/// `EAGAIN`: a FIFO whose reader is its only writer.
pub(crate) fn read(inode: &Inode, buf: &mut [u8], writes: bool) -> Result<usize, Errno> {
    match (inode.kind(), inode.rdev()) {
        (mode::S_IFCHR, ZERO) => {
            buf.fill(0);
            Ok(buf.len())
        }
        (mode::S_IFIFO, _) if writes && !buf.is_empty() => Err(Errno::EAGAIN),
        _ => Ok(0),
    }
}

/// Writes to an open special file: devices take everything.
///
/// # Errors
/// `EAGAIN`: a FIFO, which has no room.
pub(crate) fn write(inode: &Inode, data: &[u8]) -> Result<usize, Errno> {
    if inode.kind() == mode::S_IFIFO && !data.is_empty() {
        return Err(Errno::EAGAIN);
    }
    Ok(data.len())
}
