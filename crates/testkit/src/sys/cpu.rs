// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks the host's kernel which processor the caller runs on, and binds the caller to one.

use openpath_abi::Errno;

use super::{Arg, Ret, n, raw, u};

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
