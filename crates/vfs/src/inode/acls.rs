// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the access control lists of an inode for the core's permission checks, and applies changes
//! of lists and mode.
//!
//! # States
//! None: no bit in the flags word, and nothing is read. Some: a bit for each list, and the lists
//! behind a lock of their own. Unread: a bit of its own, and that of an access list; the first use
//! has the backend read them, and then there are none or some.
//!
//! # Rules
//! R1. A check that sees no bit takes no lock: files without a list pay only the load of the flags.
//! R2. Between two changes of list and mode no user has more rights than before or after both: a
//!     list is set before its mode, and removed after it.
//! R3. A list that the backend has not read denies all but the owner. Directories are searched
//!     where no backend may be called, so their lists are never unread.

use super::{Inode, flag};
use crate::acl::{Acl, AclEntry, AclKind, AclTag, Acls, SetAcl};
use std::sync::Arc;

/// The bits of the flags word that say which lists there are.
const ACLS: u64 = flag::ACL | flag::DEFAULT_ACL;

impl Inode {
    /// The lists now.
    #[must_use]
    pub fn acls(&self) -> Acls {
        if self.flags() & ACLS == 0 {
            return Acls::default();
        }
        if self.are_acls_unread() {
            return self.read_acls();
        }
        self.rare().acls.read().clone()
    }

    /// Whether the lists are still to be read ([`flag::ACLS_UNREAD`]).
    #[must_use]
    pub fn are_acls_unread(&self) -> bool {
        self.flags() & flag::ACLS_UNREAD != 0
    }

    /// Has the lists read when they are first needed: for backends, of files that are no
    /// directories (R3).
    pub fn defer_acls(&self) {
        debug_assert!(!self.is_dir(), "a directory's lists are read at once");
        self.set_flags(flag::ACL | flag::ACLS_UNREAD);
    }

    /// The lists, read by the backend; where it cannot, those of R3.
    #[cold]
    fn read_acls(&self) -> Acls {
        let read = self.shielded(|ops| {
            ops.read_acls(self);
            Ok(())
        });
        if read.is_ok() && !self.are_acls_unread() {
            return match self.flags() & ACLS {
                0 => Acls::default(),
                _ => self.rare().acls.read().clone(),
            };
        }
        let entry = |tag, perm: u32| AclEntry {
            tag,
            perm: (perm & 7) as u16,
        };
        let entries = vec![
            entry(AclTag::UserObj, self.mode() >> 6),
            entry(AclTag::GroupObj, 0),
            entry(AclTag::Other, 0),
        ];
        Acls {
            access: Some(Arc::new(Acl::new(entries))),
            default: None,
        }
    }

    /// Replaces the lists: for backends, which keep two changes apart.
    pub fn put_acls(&self, acls: Acls) {
        if acls.is_empty() && self.flags() & ACLS == 0 {
            return;
        }
        let bit = |is: bool, bit: u64| if is { bit } else { 0 };
        let bits =
            bit(acls.access.is_some(), flag::ACL) | bit(acls.default.is_some(), flag::DEFAULT_ACL);
        let gone = (ACLS | flag::ACLS_UNREAD) & !bits;
        if acls.is_empty() && self.rare.get().is_none() {
            // There was no list before, at most an unread one.
            self.clear_flags(gone);
        } else {
            let mut held = self.rare().acls.write();
            let before = std::mem::replace(&mut *held, acls);
            self.set_flags(bits);
            self.clear_flags(gone);
            drop(held);
            drop(before);
        }
        let seq = self.attr.seq.change();
        self.note_searchable(self.mode());
        drop(seq);
    }

    /// Applies a change of a list to the core: list, mode and time (R2).
    pub fn apply_acl(&self, change: &SetAcl<'_>) {
        let mut acls = self.acls();
        acls.set(change.kind, change.acl.cloned());
        let comes = change.kind == AclKind::Default || change.acl.is_some();
        if comes {
            self.put_acls(acls.clone());
        }
        self.update(|a| {
            a.mode = change.mode.unwrap_or(a.mode);
            a.ctime = change.now;
        });
        if !comes {
            self.put_acls(acls);
        }
    }

    /// The access list follows a new mode (`posix_acl_chmod`).
    pub(super) fn note_mode_in_acl(&self, mode_bits: u32) {
        if self.flags() & flag::ACL == 0 {
            return;
        }
        let mut acls = self.acls();
        acls.access = acls.access.map(|acl| Arc::new(acl.after_chmod(mode_bits)));
        self.put_acls(acls);
    }
}
