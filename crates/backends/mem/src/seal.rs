// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements seals: changes that a file refuses to every caller.
//!
//! # Kernel analogue
//! `F_ADD_SEALS` and `F_GET_SEALS` of memfd_create(2). A new file is sealed against seals, unless
//! [`crate::MemOptions::sealable`] is set. There is no mmap(2) here, so `F_SEAL_WRITE` is never
//! `EBUSY`.

use crate::page_map::PAGE_64;
use openpath_abi::Errno;
use openpath_abi::fcntl::{
    F_SEAL_EXEC, F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE,
};

/// Seals that refuse writes and punches.
const NO_WRITE: u32 = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
/// All seals.
const ALL: u32 = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | NO_WRITE | F_SEAL_EXEC;
/// Seals that are added for a program that cannot lose its execute permission.
const WITH_EXEC: u32 = F_SEAL_SHRINK | F_SEAL_GROW | NO_WRITE;
const EXECUTE: u32 = 0o111;

/// The seals of one file.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seals(u32);

impl Seals {
    /// The seals of a new file, which further seals can be added to or not.
    pub(crate) fn new(sealable: bool) -> Self {
        Self(if sealable { 0 } else { F_SEAL_SEAL })
    }

    /// Whether all of these are known seals.
    pub(crate) fn are_valid(seals: u32) -> bool {
        seals & !ALL == 0
    }

    /// The seals as `F_GET_SEALS` returns them.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    fn has(self, any: u32) -> bool {
        self.0 & any != 0
    }

    /// How much of a write of `len` bytes at `offset` is admitted. A write is checked page by page,
    /// so one that would grow the file ends at the file's last whole page.
    pub(crate) fn admitted(self, size: u64, offset: u64, len: usize) -> usize {
        if self.has(NO_WRITE) {
            return 0;
        }
        if self.has(F_SEAL_GROW) && offset + len as u64 > size {
            let whole = (size - size % PAGE_64).saturating_sub(offset);
            // Less than `len`.
            return whole as usize;
        }
        len
    }

    /// # Errors
    /// `EPERM`.
    pub(crate) fn may_punch(self) -> Result<(), Errno> {
        refused_if(self.has(NO_WRITE))
    }

    /// # Errors
    /// `EPERM`.
    pub(crate) fn may_resize(self, from: u64, to: u64) -> Result<(), Errno> {
        let shrinks = to < from && self.has(F_SEAL_SHRINK);
        let grows = to > from && self.has(F_SEAL_GROW);
        refused_if(shrinks || grows)
    }

    /// # Errors
    /// `EPERM`.
    pub(crate) fn may_change_mode(self, from: u32, to: u32) -> Result<(), Errno> {
        refused_if(self.has(F_SEAL_EXEC) && (from ^ to) & EXECUTE != 0)
    }

    /// # Errors
    /// `EPERM`: sealed against seals.
    pub(crate) fn add(&mut self, seals: u32, mode: u32) -> Result<(), Errno> {
        refused_if(self.has(F_SEAL_SEAL))?;
        let is_program = seals & F_SEAL_EXEC != 0 && mode & EXECUTE != 0;
        self.0 |= seals | if is_program { WITH_EXEC } else { 0 };
        Ok(())
    }
}

fn refused_if(refused: bool) -> Result<(), Errno> {
    if refused { Err(Errno::EPERM) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_write_under_a_seal_ends_at_a_page() {
        let seals = Seals(F_SEAL_GROW);
        for (size, offset, len, admitted) in [
            (6000, 0, 6000, 6000),
            (6000, 0, 6001, 4096),
            (6000, 5950, 100, 0),
            (6000, 9000, 1, 0),
            (8192, 100, 8192, 8092),
            (8192, 8192, 1, 0),
            (0, 0, 1, 0),
        ] {
            let got = seals.admitted(size, offset, len);
            assert_eq!(got, admitted, "{len} at {offset} of {size}");
        }
    }
}
