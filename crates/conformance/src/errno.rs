// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the error numbers of errno(3) on x86-64 Linux.

use std::fmt;

/// An error number of the kernel, above zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Errno(pub i32);

/// The errors of an open and of the calls around it.
const NAMES: &[(i32, &str)] = &[
    (1, "EPERM"),
    (2, "ENOENT"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (36, "ENAMETOOLONG"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (75, "EOVERFLOW"),
    (95, "EOPNOTSUPP"),
    (110, "ETIMEDOUT"),
    (116, "ESTALE"),
    (122, "EDQUOT"),
];

impl Errno {
    /// The answer to a try that would have to wait.
    pub const EAGAIN: Errno = Errno(11);
    /// The answer for a name that is known not to exist.
    pub const ENOENT: Errno = Errno(2);

    /// Refusals that further cached names cannot change: `EACCES`, `EXDEV`, `ENOTDIR`,
    /// `ENAMETOOLONG`.
    pub const REFUSALS: [Errno; 4] = [Errno(13), Errno(18), Errno(20), Errno(36)];

    /// The number with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Errno> {
        let found = NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(number, _)| Errno(*number))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}
