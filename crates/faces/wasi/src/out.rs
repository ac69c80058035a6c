// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest is told of a path that leads out: `EPERM`, where the walk says `EXDEV`.

use openpath_abi::fcntl::AT_SYMLINK_NOFOLLOW;
use openpath_abi::{AtFlags, Errno};
use openpath_vfs::{Beneath, Fd};

/// The errno for what a walk met that may not leave its directory.
pub(crate) fn of_walk(errno: Errno) -> Errno {
    match errno {
        Errno::EXDEV => Errno::EPERM,
        errno => errno,
    }
}

/// The errno for what a call with two paths met: whether one of them leads out, or they are in
/// different mounts, which stays `EXDEV`. `at_flags`: how the call goes on at the end of the first.
pub(crate) fn of_two(
    beneath: Beneath<'_>,
    errno: Errno,
    [first, second]: [(Fd, &[u8]); 2],
    at_flags: AtFlags,
) -> Errno {
    let leads_out = |(dir, path): (Fd, &[u8]), at_flags| {
        beneath.fstatat(dir, path, at_flags) == Err(Errno::EXDEV)
    };
    let is_out = || leads_out(first, at_flags) || leads_out(second, AT_SYMLINK_NOFOLLOW);
    if errno == Errno::EXDEV && is_out() {
        return Errno::EPERM;
    }
    errno
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_is_not_permitted() {
        assert_eq!(of_walk(Errno::EXDEV), Errno::EPERM);
        assert_eq!(of_walk(Errno::ENOENT), Errno::ENOENT);
    }
}
