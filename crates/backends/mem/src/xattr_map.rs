// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the extended attributes of one inode: `user.`, `trusted.` and `security.` names with
//! values.
//!
//! # Kernel analogue
//! `simple_xattr`: kept in the order of their names and listed from the last to the first. While
//! the number of inodes is limited, each takes 40 bytes, its name and its value of the room for
//! inodes; a new value needs its own room before the old one is released. The core keeps access
//! control lists ([`openpath_vfs::Inode::put_acls`]); they are charged here, like the attributes
//! that show them.

use crate::space::{Byte, Charge, Payer};
use openpath_abi::xattr::{XATTR_CREATE, XATTR_REPLACE};
use openpath_abi::{Errno, XattrFlags};
use openpath_vfs::{Acl, AclKind, Acls};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The attributes of one inode that has some.
pub(crate) struct Xattrs {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    charge: Charge<Byte>,
}

impl Xattrs {
    /// No attributes.
    pub(crate) fn none(payer: &Payer) -> Self {
        Self {
            values: BTreeMap::new(),
            charge: Charge::none(payer),
        }
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.values.get(name).map(|value| &**value)
    }

    /// The names, in the order in which they are listed.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.values.keys().rev().map(|name| &**name)
    }

    /// What an attribute takes of the room for inodes.
    fn room(&self, name: &[u8], value: &[u8]) -> u64 {
        let head = self.charge.payer.space.xattr_head();
        head + name.len() as u64 + value.len() as u64
    }

    /// What an access control list takes: as much as the attribute that shows it.
    fn room_of_acl(&self, kind: AclKind, acl: Option<&Arc<Acl>>) -> u64 {
        let head = self.charge.payer.space.xattr_head();
        acl.map_or(0, |acl| {
            head + kind.name().len() as u64 + acl.value_len() as u64
        })
    }

    /// # Errors
    /// In this order: `ENOSPC`, `EDQUOT`, `EEXIST`, `ENODATA`.
    pub(crate) fn set(
        &mut self,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        let needed = self.room(name, value);
        self.charge.take(needed)?;
        let old = self.values.get_mut(name);
        let refused = match old {
            Some(_) if flags.contains(XATTR_CREATE) => Some(Errno::EEXIST),
            None if flags.contains(XATTR_REPLACE) => Some(Errno::ENODATA),
            _ => None,
        };
        if let Some(refused) = refused {
            self.charge.give(needed);
            return Err(refused);
        }
        match old {
            Some(old) => {
                let old = std::mem::replace(old, value.into());
                self.charge.give(self.room(name, &old));
            }
            None => {
                self.values.insert(name.into(), value.into());
            }
        }
        Ok(())
    }

    /// # Errors
    /// `ENODATA`.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Result<(), Errno> {
        let value = self.values.remove(name).ok_or(Errno::ENODATA)?;
        self.charge.give(self.room(name, &value));
        Ok(())
    }

    /// Charges a list in place of another.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn charge_acl(
        &mut self,
        kind: AclKind,
        before: Option<&Arc<Acl>>,
        after: Option<&Arc<Acl>>,
    ) -> Result<(), Errno> {
        let (freed, needed) = (
            self.room_of_acl(kind, before),
            self.room_of_acl(kind, after),
        );
        self.charge.take(needed)?;
        self.charge.give(freed);
        Ok(())
    }

    /// Charges the lists of a new inode.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn charge_acls(&mut self, acls: &Acls) -> Result<(), Errno> {
        let kinds = [AclKind::Access, AclKind::Default].into_iter();
        let needed = kinds
            .map(|kind| self.room_of_acl(kind, acls.get(kind)))
            .sum();
        self.charge.take(needed)
    }
}
