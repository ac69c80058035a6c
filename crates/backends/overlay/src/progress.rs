// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports the progress of copy-up to an observer, which can cancel it.
//!
//! # Kernel analogue
//! overlayfs cancels a copy when the waiting task is killed; it does not report progress.

use openpath_abi::Errno;

/// An observer of copy-ups. Several files may be copied at once, each by a thread of its own. The
/// methods must be quick: the copy waits for them.
pub trait CopyUpObserver: Send + Sync {
    /// The copy of a file with so many bytes begins.
    fn begin(&self, bytes: u64);

    /// So many more bytes were copied, holes among them. Returns whether to continue: if not, the
    /// call that needs the copy fails with `EINTR`, and nothing has changed.
    fn moved(&self, bytes: u64) -> bool;

    /// The copy is done or failed; so many of its bytes were not copied.
    fn end(&self, left: u64);
}

/// The copy of one file.
pub(crate) struct CopyProgress<'a> {
    observer: Option<&'a dyn CopyUpObserver>,
    left: u64,
}

impl<'a> CopyProgress<'a> {
    pub(crate) fn begin(observer: Option<&'a dyn CopyUpObserver>, bytes: u64) -> Self {
        if let Some(observer) = observer {
            observer.begin(bytes);
        }
        Self {
            observer,
            left: bytes,
        }
    }

    /// Reports that all of the `size` bytes before `at` are copied.
    ///
    /// # Errors
    /// `EINTR`: the copy is cancelled.
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
