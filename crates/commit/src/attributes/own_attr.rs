// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the extended attributes in which the upper tree of an ordinary user keeps what the host
//! does not, as the backend `host` writes them, and parses the one with owner and mode.

/// The prefix of the backend's own attributes.
pub(crate) const OWN: &[u8] = b"user.openpath.";
/// The prefix of attributes that a command has set with the one above.
pub(crate) const ESCAPED: &[u8] = b"user.openpath.openpath.";
/// The attribute that keeps owner and mode.
pub(crate) const KEPT: &[u8] = b"user.openpath.attr";

/// Mode, owner, group and device number as they are kept.
pub(crate) fn parse(value: &[u8]) -> Option<(u32, u32, u32, u64)> {
    let text = std::str::from_utf8(value).ok()?;
    let mut numbers = text.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (mode, uid, gid, rdev) = (next()?, next()?, next()?, next()?);
    let short = |number: u64| u32::try_from(number).ok();
    Some((short(mode)?, short(uid)?, short(gid)?, rdev))
}

#[cfg(test)]
mod tests {
    #[test]
    fn owner_and_mode_are_read_as_the_back_end_writes_them() {
        assert_eq!(
            super::parse(b"33188 1000 100 0"),
            Some((33188, 1000, 100, 0))
        );
        for wrong in ["", "1 2 3", "1 2 x 4", "-1 2 3 4", "1 4294967296 3 4"] {
            assert_eq!(super::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
