// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the host kernel's calls on file locks.

use openpath_abi::{Errno, Flock};

use super::{Arg, Ret, field, n, raw, u};

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

/// getcpu(2): the processor that the caller runs on.
///
/// # Errors
/// As the kernel's.
pub fn getcpu() -> Result<u32, Errno> {
    let mut b = [0u8; 4];
    raw(
        libc::SYS_getcpu,
        &mut [Arg::Out(&mut b), Arg::Null, Arg::Null],
    )?;
    Ok(u32::from_ne_bytes(b))
}

/// sched_setaffinity(2): binds the caller to this processor.
pub fn stay_on(cpu: u32) -> Ret {
    let mut mask = [0u8; 128];
    let Some(byte) = mask.get_mut(cpu as usize / 8) else {
        return Err(Errno::EINVAL);
    };
    *byte = 1 << (cpu % 8);
    let size = u(mask.len() as u64);
    raw(
        libc::SYS_sched_setaffinity,
        &mut [n(0), size, Arg::In(&mask)],
    )
}
