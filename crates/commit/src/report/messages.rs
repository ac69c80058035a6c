// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats paths for messages, and builds the two refusals that concern one path: a call on it
//! failed, or it was changed during the commit.

use crate::report::path_bytes::PathBytes;
use crate::report::printable::printable;
use crate::report::refusal::{Refusal, RefusalKind};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path as text.
pub(crate) fn shown(path: &[u8]) -> String {
    let path = if path.is_empty() { b"/" } else { path };
    printable(path)
}

/// A path as callers get it: the root is `/`.
pub(crate) fn public_path(path: &[u8]) -> PathBytes {
    let path = if path.is_empty() { b"/" } else { path };
    Path::new(OsStr::from_bytes(path)).into()
}

/// A call on a path failed.
pub(crate) fn failed(path: &[u8], why: rustix::io::Errno) -> Refusal {
    Refusal::step(&shown(path), std::io::Error::from(why))
}

/// The file that the plan saw is not there any more.
pub(crate) fn changed_meanwhile(path: &[u8]) -> Refusal {
    Refusal::new(
        RefusalKind::Conflict,
        format!("{} was changed during the commit", shown(path)),
    )
}
