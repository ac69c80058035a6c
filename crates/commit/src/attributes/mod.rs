// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the metadata of one file, as statx(2) and listxattr(2) report it and as records store
//! it, and reads the clocks that its times are compared with.
//!
//! What an upper tree hides in attributes belongs to [`crate::scan`].

pub(crate) mod acl;
pub(crate) mod clock;
pub(crate) mod file_stat;
pub(crate) mod own_attr;
pub(crate) mod owner;
pub(crate) mod xattrs;
