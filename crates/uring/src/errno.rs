// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts errors of `rustix` to the error numbers of openpath.

use openpath_abi::Errno;

/// The host's error as an [`Errno`].
pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::checked(error.raw_os_error()).unwrap_or(Errno::EIO)
}
