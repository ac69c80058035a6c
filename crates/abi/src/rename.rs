// SPDX-License-Identifier: MIT OR Apache-2.0
//! `RENAME_*`: flags of renameat2(2).

/// The new name must be absent.
pub const RENAME_NOREPLACE: u32 = 0x1;
/// Swap the two names.
pub const RENAME_EXCHANGE: u32 = 0x2;
/// Leave a whiteout in the old place.
pub const RENAME_WHITEOUT: u32 = 0x4;
