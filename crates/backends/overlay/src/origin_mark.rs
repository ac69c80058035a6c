// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the mark `origin` of the kernel's overlayfs: a handle of the lower file that it copied up.
//!
//! # Format
//! A version (0), a magic number (0xfb), the length of all, flags, the type of the handle, 16 bytes
//! of the file system's UUID, and the handle as name_to_handle_at(2) returns it. For an ordinary
//! user the mark is empty.

/// Where the handle begins.
const HANDLE: usize = 21;
/// Types of handles (`enum fid_type`), each with its length: where the inode number is differs.
const INO32_GEN: (u8, usize) = (1, 8);
const TMPFS: (u8, usize) = (1, 12);
const INO32_GEN_PARENT: (u8, usize) = (2, 16);
const INO64_GEN: (u8, usize) = (0x81, 12);
const BTRFS: (u8, usize) = (0x4d, 20);

/// The inode number of the lower file in the mark `origin` of the kernel's overlayfs; `None`: the
/// mark has none, or of a file system that is not known here.
#[must_use]
pub fn origin_number(mark: &[u8]) -> Option<u64> {
    let ([0, 0xfb, length, _, kind], handle) = (mark.first_chunk()?, mark.get(HANDLE..)?) else {
        return None;
    };
    if usize::from(*length) != mark.len() {
        return None;
    }
    let short = |at: usize| Some(u32::from_ne_bytes(handle.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(handle.get(at..at + 8)?.try_into().ok()?));
    match (*kind, handle.len()) {
        INO32_GEN | INO32_GEN_PARENT => short(0).map(u64::from),
        TMPFS => Some(u64::from(short(4)?) | u64::from(short(8)?) << 32),
        INO64_GEN | BTRFS => long(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::origin_number as number;

    fn mark(kind: u8, handle: &[u8]) -> Vec<u8> {
        let length = u8::try_from(21 + handle.len()).unwrap();
        [&[0, 0xfb, length, 0, kind], &[0; 16][..], handle].concat()
    }

    #[test]
    fn number_is_read_from_each_known_handle_and_from_no_other() {
        let (ino, generation) = (7u32.to_ne_bytes(), 9u32.to_ne_bytes());
        let long = (5u64 << 32 | 7).to_ne_bytes();
        assert_eq!(number(&mark(1, &[ino, generation].concat())), Some(7));
        let tmpfs = [generation, ino, 5u32.to_ne_bytes()].concat();
        assert_eq!(number(&mark(1, &tmpfs)), Some(5 << 32 | 7));
        let xfs = [&long[..], &generation].concat();
        assert_eq!(number(&mark(0x81, &xfs)), Some(5 << 32 | 7));
        assert_eq!(number(&mark(0x81, &long)), None);
        assert_eq!(number(&mark(3, &xfs)), None);
        let mut wrong = mark(1, &tmpfs);
        wrong.pop();
        for bad in [&b""[..], b"y", &wrong, &mark(1, b"")] {
            assert_eq!(number(bad), None);
        }
    }
}
