// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is told how far copying up is, and may end it.
//!
//! # Kernel analogue
//! overlayfs ends a copy when who waits for it is killed; how far it is nobody says.

use openpath_abi::Errno;

/// Is told how far copying up is; several files may be on their way at once, each in a thread of
/// its own. What is called must be quick: the copy waits for it.
pub trait Copying: Send + Sync {
    /// A file with so many bytes is begun.
    fn begin(&self, bytes: u64);

    /// So many more bytes of it are there, holes among them. Says whether to go on: else the call
    /// that took the copy ends with `EINTR`, and nothing has changed.
    fn moved(&self, bytes: u64) -> bool;

    /// It is done, or given up: of what was begun so much did not move.
    fn end(&self, left: u64);
}

/// One file that is on its way.
pub(crate) struct CopyProgress<'a> {
    observer: Option<&'a dyn Copying>,
    left: u64,
}

impl<'a> CopyProgress<'a> {
    pub(crate) fn begin(observer: Option<&'a dyn Copying>, bytes: u64) -> Self {
        if let Some(observer) = observer {
            observer.begin(bytes);
        }
        Self {
            observer,
            left: bytes,
        }
    }

    /// All of the `size` bytes before `at` are there.
    ///
    /// # Errors
    /// `EINTR`: the rest is not wanted.
    pub(crate) fn reached(&mut self, at: u64, size: u64) -> Result<(), Errno> {
        let left = size.saturating_sub(at).min(self.left);
        let moved = self.left - left;
        self.left = left;
        match self.observer {
            Some(observer) if moved > 0 && !observer.moved(moved) => Err(Errno::EINTR),
            _ => Ok(()),
        }
    }
}

impl Drop for CopyProgress<'_> {
    fn drop(&mut self) {
        if let Some(observer) = self.observer {
            observer.end(self.left);
        }
    }
}
