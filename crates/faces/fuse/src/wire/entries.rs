// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries of a listing in an answer (`fuse_dirent`, `fuse_direntplus`).

use super::Answer;
use super::attributes::{ENTRY_SIZE, Holds, Shown, entry, no_entry};
use openpath_vfs::DirEntry;

/// What stands before a name.
const HEAD: usize = 24;
/// Where the next one begins.
const ALIGN: usize = 8;

/// Whether an entry of so many bytes beside its name fits in an answer of `room` bytes.
fn fits(answer: &Answer<'_>, room: usize, more: usize, name: &[u8]) -> bool {
    let len = (more + HEAD + name.len()).next_multiple_of(ALIGN);
    answer.len() + len <= room.min(super::ONCE_MAX)
}

fn put(answer: &mut Answer<'_>, number: u64, listed: &DirEntry) {
    answer.u64(number);
    answer.u64(listed.off.cast_unsigned());
    answer.u32(listed.name.len() as u32);
    answer.u32(u32::from(listed.kind));
    answer.bytes(&listed.name);
    answer.zeros(listed.name.len().next_multiple_of(ALIGN) - listed.name.len());
}

/// Adds an entry; whether there was room.
pub(crate) fn plain(answer: &mut Answer<'_>, room: usize, number: u64, listed: &DirEntry) -> bool {
    if !fits(answer, room, 0, &listed.name) {
        return false;
    }
    put(answer, number, listed);
    true
}

/// Adds an entry with what it leads to, if that is said; whether there was room.
pub(crate) fn plus(
    answer: &mut Answer<'_>,
    room: usize,
    number: u64,
    listed: &DirEntry,
    found: Option<(&Shown<'_>, Holds)>,
) -> bool {
    if !fits(answer, room, ENTRY_SIZE, &listed.name) {
        return false;
    }
    match found {
        Some((shown, holds)) => entry(answer, shown, holds),
        None => no_entry(answer, std::time::Duration::ZERO),
    }
    put(answer, number, listed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use openpath_abi::dirent::DT_REG;

    #[test]
    fn entries_are_aligned_and_end_where_there_is_no_room() {
        let mut room = [0; 256];
        let mut answer = Answer::new(&mut room, 1);
        let listed = DirEntry {
            ino: 5,
            off: 3,
            kind: DT_REG,
            name: b"abc".to_vec(),
        };
        assert!(plain(&mut answer, 64, 5, &listed));
        assert_eq!(answer.len(), 32);
        assert!(plain(&mut answer, 64, 5, &listed));
        assert!(!plain(&mut answer, 64, 5, &listed));
        assert_eq!(answer.len(), 64);
        assert!(!plus(&mut answer, 200, 5, &listed, None));
        assert!(plus(&mut answer, 224, 5, &listed, None));
        assert_eq!(answer.len(), 224);
    }
}
