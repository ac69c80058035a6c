// SPDX-License-Identifier: MIT OR Apache-2.0
//! Says whether a file belongs to the user of this process.

/// Whether a file with this owner belongs to the user of this process.
pub(crate) fn is_own(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}
