// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tenant: whom the tasks of a `Vfs` work for, and what all of them together may use.
//!
//! # Kernel analogue
//! A memory control group, as far as names and files go. Where that kills or throttles, a tenant
//! pushes out its own cached names, or is told `EDQUOT`.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | limits | never | one load |
//! | bytes, inodes | compare-and-swap against the limit | one load |
//!
//! # Guarantees
//! G1. A charge that is refused charges nothing.

use openpath_abi::Errno;
use openpath_sync::Word;

/// What the tasks of one tenant may use together. The default is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantLimits {
    /// Cached names that exist.
    pub positive_max: u32,
    /// Cached names that do not exist.
    pub negative_max: u32,
    /// Bytes of files that the tenant made.
    pub bytes_max: u64,
    /// Files of any type that the tenant made.
    pub inodes_max: u64,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self {
            positive_max: u32::MAX,
            negative_max: u32::MAX,
            bytes_max: u64::MAX,
            inodes_max: u64::MAX,
        }
    }
}

/// What a tenant uses and did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TenantStats {
    /// Bytes charged.
    pub bytes: u64,
    /// Files charged.
    pub inodes: u64,
}

/// A group of tasks with limits of its own. See the module head.
#[derive(Debug)]
pub struct Tenant {
    limits: TenantLimits,
    bytes: Word,
    inodes: Word,
}

impl Tenant {
    pub(crate) fn new(limits: TenantLimits) -> Self {
        Self {
            limits,
            bytes: Word::new(0),
            inodes: Word::new(0),
        }
    }

    /// What its tasks may use together.
    #[must_use]
    pub fn limits(&self) -> TenantLimits {
        self.limits
    }

    /// What it uses and did so far.
    #[must_use]
    pub fn stats(&self) -> TenantStats {
        TenantStats {
            bytes: self.bytes.get(),
            inodes: self.inodes.get(),
        }
    }

    /// Charges bytes of a file to it; a backend does, before it takes them.
    ///
    /// # Errors
    /// `EDQUOT` beyond [`TenantLimits::bytes_max`].
    pub fn charge_bytes(&self, bytes: u64) -> Result<(), Errno> {
        charge(&self.bytes, bytes, self.limits.bytes_max)
    }

    /// Takes back a charge of bytes.
    pub fn uncharge_bytes(&self, bytes: u64) {
        self.bytes.sub(bytes);
    }

    /// Charges one file to it; a backend does, before it makes it.
    ///
    /// # Errors
    /// `EDQUOT` beyond [`TenantLimits::inodes_max`].
    pub fn charge_inode(&self) -> Result<(), Errno> {
        charge(&self.inodes, 1, self.limits.inodes_max)
    }

    /// Takes back the charge of one file.
    pub fn uncharge_inode(&self) {
        self.inodes.sub(1);
    }
}

/// Adds `more` to `used`, unless that goes beyond `max`.
fn charge(used: &Word, more: u64, max: u64) -> Result<(), Errno> {
    loop {
        let now = used.get();
        let next = now.checked_add(more).filter(|&next| next <= max);
        let next = next.ok_or(Errno::EDQUOT)?;
        if used.swap_if(now, next) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_beyond_the_limit_charges_nothing() {
        let tenant = Tenant::new(TenantLimits {
            bytes_max: 10,
            inodes_max: 1,
            ..TenantLimits::default()
        });
        assert_eq!(tenant.charge_bytes(10), Ok(()));
        assert_eq!(tenant.charge_bytes(1), Err(Errno::EDQUOT));
        assert_eq!(tenant.charge_bytes(u64::MAX), Err(Errno::EDQUOT));
        tenant.uncharge_bytes(4);
        assert_eq!(tenant.charge_bytes(4), Ok(()));
        assert_eq!(tenant.charge_inode(), Ok(()));
        assert_eq!(tenant.charge_inode(), Err(Errno::EDQUOT));
        let stats = tenant.stats();
        assert_eq!((stats.bytes, stats.inodes), (10, 1));
        tenant.uncharge_inode();
        assert_eq!(tenant.charge_inode(), Ok(()));
    }
}
