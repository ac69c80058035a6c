// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines `RESOLVE_*`, the restrictions on the walk of openat2(2).

use crate::flags::flags;

flags! {
    /// Restrictions on a walk.
    ResolveFlags(u64):
        RESOLVE_NO_XDEV RESOLVE_NO_MAGICLINKS RESOLVE_NO_SYMLINKS RESOLVE_BENEATH RESOLVE_IN_ROOT
        RESOLVE_CACHED RESOLVE_ALL
}

/// Cross no mount: `EXDEV`.
pub const RESOLVE_NO_XDEV: ResolveFlags = ResolveFlags::from_bits_retain(0x1);
/// Follow no magic link: `ELOOP`.
pub const RESOLVE_NO_MAGICLINKS: ResolveFlags = ResolveFlags::from_bits_retain(0x2);
/// Follow no symbolic link at all: `ELOOP`.
pub const RESOLVE_NO_SYMLINKS: ResolveFlags = ResolveFlags::from_bits_retain(0x4);
/// Never leave the directory descriptor: `EXDEV`.
pub const RESOLVE_BENEATH: ResolveFlags = ResolveFlags::from_bits_retain(0x8);
/// The directory descriptor is the root: `/` and `..` stop there.
pub const RESOLVE_IN_ROOT: ResolveFlags = ResolveFlags::from_bits_retain(0x10);
/// Answer from the cache alone: `EAGAIN`.
pub const RESOLVE_CACHED: ResolveFlags = ResolveFlags::from_bits_retain(0x20);
/// Every bit above; any other is `EINVAL`.
pub const RESOLVE_ALL: ResolveFlags = ResolveFlags::union_of(&[
    RESOLVE_NO_XDEV,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    RESOLVE_BENEATH,
    RESOLVE_IN_ROOT,
    RESOLVE_CACHED,
]);
