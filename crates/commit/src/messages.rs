// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said of a path for which a call failed.

use crate::path_bytes::PathBytes;
use crate::refusal::Refusal;
use crate::text::text_of;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A path for people.
pub(crate) fn text(path: &[u8]) -> String {
    let path = if path.is_empty() { b"/" } else { path };
    text_of(path)
}

/// A path as it is told.
pub(crate) fn told(path: &[u8]) -> PathBytes {
    let path = if path.is_empty() { b"/" } else { path };
    Path::new(OsStr::from_bytes(path)).into()
}

/// A call on a path failed.
pub(crate) fn failed(path: &[u8], why: rustix::io::Errno) -> Refusal {
    Refusal::step(&text(path), std::io::Error::from(why))
}

/// What the plan was made for is not there any more.
pub(crate) fn changed(path: &[u8]) -> Refusal {
    Refusal::new(format!("{} was changed during the commit", text(path)))
}
