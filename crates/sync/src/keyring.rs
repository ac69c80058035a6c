// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a new session keyring for the calling thread, the programs that it executes and its
//! children.

use std::io;

/// `KEYCTL_JOIN_SESSION_KEYRING`
const JOIN_SESSION_KEYRING: libc::c_int = 1;

/// Replaces the session keyring of the calling thread by a new, empty one without a name. Linux:
/// keyctl(2) `KEYCTL_JOIN_SESSION_KEYRING`.
///
/// # Errors
/// `EDQUOT`: the user has as many keys as `kernel.keys.maxkeys` allows. `ENOSYS`: the kernel has no
/// keys. `ENOMEM`.
pub fn join_new_session_keyring() -> io::Result<()> {
    let no_name = std::ptr::null::<libc::c_char>();
    // SAFETY: without a name the kernel reads no memory of this process, and it writes none.
    let serial = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, no_name) };
    if serial >= 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
