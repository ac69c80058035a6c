// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the options of a ring or an [`crate::AsyncTask`]: the sizes of its tables, its share of
//! the workers, and whether it attempts calls inline.

use openpath_abi::Errno;

/// The options of a [`crate::Ring`] or an [`crate::AsyncTask`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RingOptions {
    /// Entries of the submission queue, 1 to 32,768.
    pub entries: u32,
    /// Entries of the completion queue: operations in progress and completions that were not taken,
    /// together. At least `entries`, 65,536 at most; 0 for twice `entries`.
    pub completions: u32,
    /// The most workers at a time, if less than the pool allows.
    pub workers: Option<usize>,
    /// Slots for direct descriptors.
    pub slots: u32,
    /// Whether operations are attempted inline before they go to a worker. Without, every one is
    /// offloaded, as by hosts that cannot know. It never changes a result. Gate: `Ring::attempt`,
    /// `AsyncTask::attempt`.
    pub inline: bool,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            entries: 128,
            completions: 0,
            workers: None,
            slots: 0,
            inline: true,
        }
    }
}

openpath_vfs::setters! {
    RingOptions {
        entries: u32,
        completions: u32,
        workers: Option<usize>,
        slots: u32,
        inline: bool,
    }
}

/// The most entries of a submission queue (`IORING_MAX_ENTRIES`).
const ENTRIES_MAX: u32 = 1 << 15;

impl RingOptions {
    /// The entries of the completion queue, which bound the operations in progress.
    ///
    /// # Errors
    /// `EINVAL`.
    pub(crate) fn completions_max(&self) -> Result<u32, Errno> {
        let entries = self.entries;
        if entries == 0 || entries > ENTRIES_MAX {
            return Err(Errno::EINVAL);
        }
        match self.completions {
            0 => Ok(entries * 2),
            n if n < entries || n > ENTRIES_MAX * 2 => Err(Errno::EINVAL),
            n => Ok(n),
        }
    }
}
