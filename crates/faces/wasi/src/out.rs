// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest is told of a path that leads out: `EPERM`, where the walk says `EXDEV`.

use openpath_abi::Errno;
use openpath_abi::fcntl::AT_SYMLINK_NOFOLLOW;
use openpath_vfs::{Beneath, Fd};

/// The errno for what a walk met that may not leave its directory.
pub(crate) fn of_walk(errno: Errno) -> Errno {
    match errno {
        Errno::EXDEV => Errno::EPERM,
        errno => errno,
    }
}

/// The errno for what a call with two paths met: whether one of them leads out, or they are in
/// different mounts, which stays `EXDEV`.
pub(crate) fn of_two(beneath: Beneath<'_>, errno: Errno, paths: [(Fd, &[u8]); 2]) -> Errno {
    let leads_out = |(dir, path): (Fd, &[u8])| {
        beneath.fstatat(dir, path, AT_SYMLINK_NOFOLLOW) == Err(Errno::EXDEV)
    };
    if errno == Errno::EXDEV && paths.into_iter().any(leads_out) {
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
