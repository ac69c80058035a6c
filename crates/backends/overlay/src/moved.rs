// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out which lower file a file of the upper tree was before it was renamed.
//!
//! # Rules
//! R1. A copy that this overlay made shows the number of its lower file, by the mark `ino`.
//! R2. A copy that the overlay of the kernel made has a handle of its lower file, by the mark
//!     `origin`. The inode number in it may have another file by now, and it names no device. So
//!     the handle counts only in a directory that is marked as impure, as the kernel marks each
//!     into which it renames a copy.
//! R3. The lower file must have that number on the device of the directory, one name, and an
//!     earlier birth than the copy. No other hidden file may have the number, and no other file of
//!     the upper tree the handle. In doubt the file is a new one.

use crate::marks::ORIGIN;
use crate::merged_lookup::MergedLookup;
use crate::node::Node;
use crate::origin_mark::origin_number;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Inode, WaitMode};
use std::collections::HashMap;
use std::sync::Arc;

/// The bits of a shown number that are the inode's own. The others tell layer and device.
const OWN_BITS: u64 = (1 << 48) - 1;

/// The other bits of the numbers in a lower directory (R3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device(u64);

/// The lower file that a file of the upper tree was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The file with the number that it shows (R1).
    Number(u64),
    /// The file with the number in its handle, if that is certain (R2, R3).
    Handle(u64),
}

impl Source {
    /// The number that the lower file shows.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(number) | Self::Handle(number) => number,
        }
    }
}

/// A new file that may be a moved lower one.
pub(crate) struct NewFile {
    pub(crate) at: usize,
    pub(crate) source: Source,
    pub(crate) upper: Arc<Inode>,
}

impl Node {
    /// The device of this directory's lower one; without one, that of the directory above.
    pub(crate) fn lower_device(&self, above: Option<Device>) -> Option<Device> {
        match self.lowers().first() {
            Some(lower) => {
                let shown = self.fs.number(Some(lower.layer), lower.inode.ino());
                Some(Device(shown & !OWN_BITS))
            }
            None => above,
        }
    }

    /// Which lower file a file in this directory of the upper tree was, if that is known.
    pub(crate) fn source_of(
        &self,
        result: &MergedLookup,
        upper: &Inode,
        device: Option<Device>,
    ) -> Result<Option<Source>, Errno> {
        let own = self.fs.number(None, upper.ino());
        let number = result.number.map(Source::Number);
        // Only a file without the mark `ino` shows its own number.
        if result.number.is_some_and(|shown| shown != own) || self.impure.get() == 0 {
            return Ok(number);
        }
        let (Some(Device(bits)), true) = (device, mode::is_reg(upper.mode())) else {
            return Ok(number);
        };
        let handle = self.fs.options.marks.get(upper, ORIGIN)?;
        let handle = handle.and_then(|mark| origin_number(&mark));
        let handle = handle.filter(|inode| inode & !OWN_BITS == 0);
        Ok(handle.map(|inode| Source::Handle(inode | bits)).or(number))
    }
}

/// The lower files that their names do not show, by the number that they show.
pub(crate) struct HiddenByNumber {
    /// The index of the last one with each number, and whether it is the only one.
    all: HashMap<u64, (usize, bool)>,
    /// The upper file with a handle, by the number in it; `None`: there are several.
    copies: HashMap<u64, Option<u64>>,
}

impl HiddenByNumber {
    /// Of numbers in the order of their indices, those that can move; and of the new files.
    pub(crate) fn new(
        hidden: impl Iterator<Item = (usize, u64)>,
        moved: &[NewFile],
    ) -> HiddenByNumber {
        let mut all = HashMap::new();
        for (at, number) in hidden {
            let known = all.entry(number).or_insert((at, true));
            *known = (at, known.0 == at);
        }
        let mut copies = HashMap::new();
        for file in moved {
            if let Source::Handle(number) = file.source {
                let ino = file.upper.ino();
                let known = copies.entry(number).or_insert(Some(ino));
                *known = known.filter(|known| *known == ino);
            }
        }
        HiddenByNumber { all, copies }
    }

    /// The index of the hidden file that a new one was; `lower` gives it by its index.
    pub(crate) fn source<'l>(
        &self,
        new: &NewFile,
        lower: impl FnOnce(usize) -> &'l Arc<Inode>,
    ) -> Result<Option<usize>, Errno> {
        let Some((at, is_only)) = self.all.get(&new.source.number()).copied() else {
            return Ok(None);
        };
        let Source::Handle(number) = new.source else {
            return Ok(Some(at));
        };
        let is_only_copy = self.copies.get(&number).is_some_and(Option::is_some);
        let is_it = is_only && is_only_copy && can_be_origin(lower(at), &new.upper)?;
        Ok(is_it.then_some(at))
    }
}

/// Whether a lower file with the number in the handle of a copy can be what was copied (R3).
fn can_be_origin(lower: &Inode, copy: &Inode) -> Result<bool, Errno> {
    lower.ops().refresh(lower, WaitMode::Wait)?;
    let attr = lower.attr();
    let born = lower.btime();
    let is_older = born != Timespec::default() && born < copy.btime();
    Ok(mode::is_reg(attr.mode) && attr.nlink == 1 && is_older)
}
