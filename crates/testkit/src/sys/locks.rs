// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls flock(2), and fcntl(2) with a `struct flock`, on the host's kernel.

use openpath_abi::{Errno, Flock};

use super::{Arg, Ret, field, n, raw};

calls! {
    /// flock(2).
    flock = SYS_flock(fd: i, op: w);
}

/// fcntl(2) of a command that takes a `struct flock`; returns the structure as the kernel left it.
///
/// # Errors
/// As the kernel's.
pub fn fcntl_lock(fd: i32, cmd: u32, ask: &Flock) -> Result<Flock, Errno> {
    let mut b = [0u8; 32];
    b[..2].copy_from_slice(&ask.kind.to_ne_bytes());
    b[2..4].copy_from_slice(&ask.whence.to_ne_bytes());
    b[8..16].copy_from_slice(&ask.start.to_ne_bytes());
    b[16..24].copy_from_slice(&ask.len.to_ne_bytes());
    b[24..28].copy_from_slice(&ask.pid.to_ne_bytes());
    raw(libc::SYS_fcntl, &mut [n(fd), n(cmd), Arg::Out(&mut b)])?;
    Ok(Flock {
        kind: i16::from_ne_bytes(field(&b, 0)),
        whence: i16::from_ne_bytes(field(&b, 2)),
        start: i64::from_ne_bytes(field(&b, 8)),
        len: i64::from_ne_bytes(field(&b, 16)),
        pid: i32::from_ne_bytes(field(&b, 24)),
    })
}
