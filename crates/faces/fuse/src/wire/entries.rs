// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the entries of a directory listing into a reply (`fuse_dirent`, `fuse_direntplus`).

use super::ReplyBuilder;
use super::attributes::{ENTRY_SIZE, NodeAttr, Validity, entry, negative_entry};
use openpath_vfs::DirEntry;

/// The bytes before a name.
const HEAD: usize = 24;
/// The alignment of entries.
const ALIGN: usize = 8;

/// Whether an entry with `more` bytes beside header and name fits in a reply of `room` bytes.
fn fits(reply: &ReplyBuilder<'_>, room: usize, more: usize, name: &[u8]) -> bool {
    let len = (more + HEAD + name.len()).next_multiple_of(ALIGN);
    reply.len() + len <= room.min(super::ONCE_MAX)
}

fn put(reply: &mut ReplyBuilder<'_>, number: u64, listed: &DirEntry) {
    reply.u64(number);
    reply.u64(listed.off.cast_unsigned());
    reply.u32(listed.name.len() as u32);
    reply.u32(u32::from(listed.kind));
    reply.bytes(&listed.name);
    reply.zeros(listed.name.len().next_multiple_of(ALIGN) - listed.name.len());
}

/// Adds an entry; returns whether it fitted.
pub(crate) fn dirent(
    reply: &mut ReplyBuilder<'_>,
    room: usize,
    number: u64,
    listed: &DirEntry,
) -> bool {
    if !fits(reply, room, 0, &listed.name) {
        return false;
    }
    put(reply, number, listed);
    true
}

/// Adds an entry, with its file if that is given; returns whether it fitted.
pub(crate) fn direntplus(
    reply: &mut ReplyBuilder<'_>,
    room: usize,
    number: u64,
    listed: &DirEntry,
    found: Option<(&NodeAttr<'_>, Validity)>,
) -> bool {
    if !fits(reply, room, ENTRY_SIZE, &listed.name) {
        return false;
    }
    match found {
        Some((node, validity)) => entry(reply, node, validity),
        None => negative_entry(reply, std::time::Duration::ZERO),
    }
    put(reply, number, listed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use openpath_abi::dirent::DT_REG;

    #[test]
    fn entries_are_aligned_and_stop_when_the_reply_is_full() {
        let mut room = [0; 256];
        let mut reply = ReplyBuilder::new(&mut room, 1);
        let listed = DirEntry {
            ino: 5,
            off: 3,
            kind: DT_REG,
            name: b"abc".to_vec(),
        };
        assert!(dirent(&mut reply, 64, 5, &listed));
        assert_eq!(reply.len(), 32);
        assert!(dirent(&mut reply, 64, 5, &listed));
        assert!(!dirent(&mut reply, 64, 5, &listed));
        assert_eq!(reply.len(), 64);
        assert!(!direntplus(&mut reply, 200, 5, &listed, None));
        assert!(direntplus(&mut reply, 224, 5, &listed, None));
        assert_eq!(reply.len(), 224);
    }
}
