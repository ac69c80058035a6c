// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the errno of a path that leads out of its directory: the engine's walk fails with
//! `EXDEV`, and guests of preview1 and components get `EPERM`.

use openpath_abi::fcntl::AT_SYMLINK_NOFOLLOW;
use openpath_abi::{AtFlags, Errno};
use openpath_vfs::{Beneath, Fd};

/// The errno of a confined walk that failed.
pub(crate) fn walk_errno(errno: Errno) -> Errno {
    match errno {
        Errno::EXDEV => Errno::EPERM,
        errno => errno,
    }
}

/// The errno of a failed call with two paths: `EPERM` if one of them leads out, and `EXDEV` if they
/// are in different mounts. `at_flags` says whether the call follows a link at the end of the
/// first.
pub(crate) fn two_paths_errno(
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
        assert_eq!(walk_errno(Errno::EXDEV), Errno::EPERM);
        assert_eq!(walk_errno(Errno::ENOENT), Errno::ENOENT);
    }
}
