// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the value of `security.capability`, the one extended attribute that the kernel reads
//! itself (file capabilities), and converts it for a reader.

use std::borrow::Cow;

/// The value of `security.capability` (`struct vfs_ns_cap_data`).
pub(super) enum Capability<'a> {
    /// The form without an owner.
    V2(&'a [u8]),
    /// The form with one: the root user of a user namespace.
    V3(&'a [u8]),
}

impl<'a> Capability<'a> {
    const V2_LEN: usize = 20;
    const V3_LEN: usize = 24;

    /// `None` if it is neither form.
    pub(super) fn of(value: &'a [u8]) -> Option<Self> {
        // The top byte of the first word is the version, the rest of the word flags.
        match (value.len(), value.get(3)) {
            (Self::V2_LEN, Some(2)) => Some(Self::V2(value)),
            (Self::V3_LEN, Some(3)) => Some(Self::V3(value)),
            _ => None,
        }
    }

    /// As a reader in the first user namespace sees it (`cap_inode_getsecurity`): that of its own
    /// root user in the form without an owner.
    pub(super) fn shown(&self) -> Cow<'a, [u8]> {
        match *self {
            Self::V3(value) if value.ends_with(&[0; 4]) => {
                let mut v2 = value[..Self::V2_LEN].to_vec();
                v2[3] = 2;
                Cow::Owned(v2)
            }
            Self::V2(value) | Self::V3(value) => Cow::Borrowed(value),
        }
    }
}
