// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out the kernel's Landlock version, and puts the calling thread, the programs that it
//! executes and its children into a Landlock domain, which can forbid signals and abstract sockets
//! to the outside.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd, OwnedFd};

/// What a process in a domain may not do to the outside of that domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LandlockScope {
    /// Connect and send to abstract UNIX sockets.
    pub abstract_sockets: bool,
    /// Send signals.
    pub signals: bool,
}

/// `struct landlock_ruleset_attr` up to the field that Linux 6.12 added.
#[repr(C)]
struct Ruleset {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `LANDLOCK_CREATE_RULESET_VERSION`
const VERSION: u32 = 1;

/// The Landlock version of the kernel; `None` if it has none, or Landlock is turned off or refused.
/// Scopes came with version 6.
#[must_use]
pub fn landlock_version() -> Option<u32> {
    let none = std::ptr::null::<Ruleset>();
    // SAFETY: with this flag the kernel takes no attribute, and reads no memory.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Puts the calling thread into a new domain. It restricts only the scope, and what every Landlock
/// domain restricts: tracing processes outside of it. Linux: landlock_restrict_self(2)
///
/// # Errors
/// `ENOMSG`: the scope is empty. `EINVAL`, `E2BIG` from the first call: the kernel has no scopes.
/// `EPERM`: neither `CAP_SYS_ADMIN` nor `no_new_privs`. `E2BIG`: the thread is in 16 domains
/// already.
pub fn enter_landlock_domain(scope: LandlockScope) -> io::Result<()> {
    let ruleset = Ruleset {
        handled_access_fs: 0,
        handled_access_net: 0,
        scoped: u64::from(scope.abstract_sockets) | u64::from(scope.signals) << 1,
    };
    let size = size_of::<Ruleset>();
    // SAFETY: the kernel reads `size` bytes of `ruleset`, which lives until it returns.
    let made = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const ruleset,
            size,
            0_u32,
        )
    };
    let made = i32::try_from(made).map_err(io::Error::other)?;
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor for this call, and nothing else owns it.
    let made = unsafe { <OwnedFd as FromRawFd>::from_raw_fd(made) };
    // SAFETY: a system call without pointers; the descriptor is open until it returns.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, made.as_raw_fd(), 0_u32) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
