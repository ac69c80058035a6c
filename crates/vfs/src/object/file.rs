// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the fields of an open file: flags, position, credentials, and the owner that its signals
//! go to. `file` has the rules for them.

use crate::file_ops::FileOps;
use crate::lock_order::FilePosition;
use openpath_sync::{RawLock, Word, Word32, file_item};

/// Bits that a file is made with.
pub(crate) mod fbit {
    /// The open that made it created the file (`FMODE_CREATED`).
    pub(crate) const CREATED: u32 = 1;
    /// It has, or had, locks of its own.
    pub(crate) const LOCKED: u32 = 1 << 1;
}

file_item! {
    /// The words of an open file.
    pub(crate) struct FileBody: Box<dyn FileOps> {
        /// The flags that `F_GETFL` returns.
        pub(crate) flags: Word32,
        /// [`fbit`].
        pub(crate) bits: Word32,
        /// The position of the next read, write or listing; an `i64`.
        pub(crate) pos: Word,
        /// The number of the credentials it was opened with.
        pub(crate) cred: Word,
        /// The process to signal (`F_SETOWN`): a positive number, or 0.
        pub(crate) owner: Word32,
        /// What the owner is (`F_OWNER_*`), and from bit 8 on the signal (`F_SETSIG`).
        pub(crate) signal: Word32,
        /// Orders calls that move `pos`.
        pub(crate) pos_lock: RawLock<FilePosition>,
    }
}
