// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the host kernel's calls on extended attributes.

use std::ffi::CString;

use openpath_abi::Errno;

use super::{Arg, Ret, filled, n, path, raw, u};

/// The object of an extended attribute: a path that is followed, one that is not, or a descriptor.
#[derive(Clone, Copy, Debug)]
pub enum XattrOf<'a> {
    /// The path, links followed.
    Path(&'a [u8]),
    /// The path, last link not followed.
    LPath(&'a [u8]),
    /// The descriptor.
    Fd(i32),
}

/// Chooses the call of a family by its object, and makes its first argument.
fn xattr_call(of: XattrOf<'_>, nrs: [libc::c_long; 3], rest: &mut [Arg<'_>]) -> Ret {
    let (nr, name, fd) = match of {
        XattrOf::Path(p) => (nrs[0], path(p), 0),
        XattrOf::LPath(p) => (nrs[1], path(p), 0),
        XattrOf::Fd(fd) => (nrs[2], CString::default(), fd),
    };
    let first = if nr == nrs[2] {
        n(fd)
    } else {
        Arg::Path(&name)
    };
    let mut args = vec![first];
    for a in rest {
        args.push(match a {
            Arg::Num(v) => Arg::Num(*v),
            Arg::Path(p) => Arg::Path(p),
            Arg::In(b) => Arg::In(b),
            Arg::Out(b) => Arg::Out(b),
            Arg::Null => Arg::Null,
        });
    }
    raw(nr, &mut args)
}

/// setxattr(2) and its relatives.
pub fn setxattr(of: XattrOf<'_>, key: &[u8], value: &[u8], flags: u32) -> Ret {
    let nrs = [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr];
    let (key, len) = (path(key), u(value.len() as u64));
    xattr_call(
        of,
        nrs,
        &mut [Arg::Path(&key), Arg::In(value), len, n(flags)],
    )
}

/// getxattr(2) and its relatives, the whole value.
///
/// # Errors
/// As the kernel's.
pub fn getxattr(of: XattrOf<'_>, key: &[u8]) -> Result<Vec<u8>, Errno> {
    let nrs = [libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr];
    let key = path(key);
    filled(65536, |b| {
        let len = u(b.len() as u64);
        xattr_call(of, nrs, &mut [Arg::Path(&key), Arg::Out(b), len])
    })
}

/// listxattr(2) and its relatives, the whole list.
///
/// # Errors
/// As the kernel's.
pub fn listxattr(of: XattrOf<'_>) -> Result<Vec<u8>, Errno> {
    let nrs = [
        libc::SYS_listxattr,
        libc::SYS_llistxattr,
        libc::SYS_flistxattr,
    ];
    filled(65536, |b| {
        let len = u(b.len() as u64);
        xattr_call(of, nrs, &mut [Arg::Out(b), len])
    })
}
