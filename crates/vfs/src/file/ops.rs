// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one opening of a file does its own way.

use openpath_abi::Errno;

/// The state that a backend keeps for one open file, and the calls it takes over
/// (`struct file_operations` where they differ from the inode's).
///
/// A call that answers `None` is served by the inode. Every call may come from several threads at
/// once; a panic in one becomes `EIO`.
pub trait FileOps: Send + Sync + 'static {
    /// For who made it and meets it again: itself.
    fn as_any(&self) -> &dyn core::any::Any;

    /// Reads, at `offset` or (`None`) from where the file is. `wait`: it may wait for data.
    fn read(
        &self,
        _buf: &mut [u8],
        _offset: Option<u64>,
        _wait: bool,
    ) -> Option<Result<usize, Errno>> {
        None
    }

    /// Writes, at `offset` or (`None`) where the file is. `wait`: it may wait for room.
    fn write(
        &self,
        _data: &[u8],
        _offset: Option<u64>,
        _wait: bool,
    ) -> Option<Result<usize, Errno>> {
        None
    }

    /// Which of the `POLL*` events there are now.
    fn poll(&self) -> Option<u32> {
        None
    }

    /// A request of the device or file system; what it leaves in `arg` goes back to the caller.
    fn ioctl(&self, _request: u32, _arg: &mut [u8]) -> Option<Result<i64, Errno>> {
        None
    }

    /// A descriptor of the file is closed; others may be open.
    ///
    /// # Errors
    /// What close(2) is to return: the descriptor is gone all the same.
    fn flush(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// The last reference is gone: called once, with no lock held, before the call that dropped it
    /// returns.
    fn release(&self) {}
}
