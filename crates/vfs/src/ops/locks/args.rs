// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts a caller's `struct flock` to a range and kind of lock, checks the access mode that the
//! lock needs, and converts a held lock back.
//!
//! # Kernel analogue
//! `flock64_to_posix_lock`, `check_fmode_for_setlk`, `posix_lock_to_flock64`.

use crate::file::Filp;
use crate::lock::HeldLock;
use crate::lock_call::{LockKind, Range};
use openpath_abi::fcntl::{SEEK_CUR, SEEK_END, SEEK_SET};
use openpath_abi::{Errno, Flock};

/// The bytes that a request means.
///
/// # Errors
/// `EINVAL` (whence), `EOVERFLOW` (begins past the largest offset), `EINVAL` (begins before the
/// file), `EOVERFLOW` (ends past it), `EINVAL` (ends before the file).
fn range_of(file: &Filp<'_>, ask: &Flock) -> Result<Range, Errno> {
    let base = match u32::try_from(ask.whence) {
        Ok(SEEK_SET) => 0,
        Ok(SEEK_CUR) => file.pos(),
        Ok(SEEK_END) => {
            let target = file.target()?;
            target.confirm()?;
            target.inode.size().cast_signed()
        }
        _ => return Err(Errno::EINVAL),
    };
    let start = base.checked_add(ask.start).ok_or(Errno::EOVERFLOW)?;
    if start < 0 {
        return Err(Errno::EINVAL);
    }
    let (start, end) = match ask.len {
        0 => (start, i64::MAX),
        len if len > 0 => (start, start.checked_add(len - 1).ok_or(Errno::EOVERFLOW)?),
        len => (start.checked_add(len).ok_or(Errno::EINVAL)?, start - 1),
    };
    if start < 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Range { start, end })
}

/// The range and kind of a request; without a kind it is an unlock.
///
/// # Errors
/// Those of [`range_of`]; `EINVAL` (no such kind).
pub(super) fn meant(file: &Filp<'_>, ask: &Flock) -> Result<(Range, Option<LockKind>), Errno> {
    let range = range_of(file, ask)?;
    Ok((range, LockKind::of(ask.kind)?))
}

/// Whether a lock of this kind may be had by way of the file.
///
/// # Errors
/// `EBADF`: not open for reading, or for writing.
pub(super) fn allows(file: &Filp<'_>, kind: Option<LockKind>) -> Result<(), Errno> {
    let allowed = match kind {
        Some(LockKind::Read) => file.readable(),
        Some(LockKind::Write) => file.writable(),
        None => true,
    };
    if allowed { Ok(()) } else { Err(Errno::EBADF) }
}

/// A lock as `struct flock`; a backend may have named any range.
pub(super) fn told(held: &HeldLock) -> Flock {
    let Range { start, end } = held.range;
    Flock {
        kind: LockKind::raw(Some(held.kind)),
        whence: 0,
        start,
        len: if end == i64::MAX {
            0
        } else {
            end.saturating_sub(start).saturating_add(1)
        },
        pid: if held.owner.is_table() { held.pid } else { -1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock_call::LockOwner;

    #[test]
    fn any_range_can_be_told() {
        let len = |start, end| {
            let held = HeldLock {
                owner: LockOwner::Table(1),
                range: Range { start, end },
                kind: LockKind::Read,
                pid: 1,
            };
            told(&held).len
        };
        assert_eq!(len(3, 3), 1);
        assert_eq!((len(3, i64::MAX), len(0, i64::MAX - 1)), (0, i64::MAX));
        assert_eq!(len(i64::MIN, i64::MAX - 1), i64::MAX);
        assert_eq!(len(5, 4), 0);
    }
}
