// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines `RENAME_*`, the flags of renameat2(2).

use crate::flags::flags;

flags! {
    /// Flags of renameat2(2).
    RenameFlags(u32):
        RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT
}

/// The new name must be absent.
pub const RENAME_NOREPLACE: RenameFlags = RenameFlags::from_bits_retain(0x1);
/// Swap the two names.
pub const RENAME_EXCHANGE: RenameFlags = RenameFlags::from_bits_retain(0x2);
/// Leave a whiteout in the old place.
pub const RENAME_WHITEOUT: RenameFlags = RenameFlags::from_bits_retain(0x4);
