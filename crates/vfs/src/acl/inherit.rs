// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the access control list of a new file in a directory with a default list
//! (`posix_acl_create_masq`).

use super::{Acl, AclTag};

impl Acl {
    /// The access list of a new file with these mode bits in a directory with this default list,
    /// and the bits that the file then has (`posix_acl_create_masq`).
    #[must_use]
    pub fn inherited(&self, mode_bits: u32) -> (Self, u32) {
        let group = self.group_class();
        let (mut list, mut bits) = (self.clone(), mode_bits);
        for entry in &mut list.entries {
            let shift = match entry.tag {
                AclTag::UserObj => 6,
                tag if tag == group => 3,
                AclTag::Other => 0,
                _ => continue,
            };
            entry.perm &= (mode_bits >> shift & 7) as u16;
            bits = bits & !(7 << shift) | u32::from(entry.perm) << shift;
        }
        (list, bits)
    }
}
