// SPDX-License-Identifier: MIT OR Apache-2.0
//! Installs a seccomp filter for the calling thread, the programs that it executes and its
//! children.

use std::io;

/// An instruction of classic BPF: operation, jump if true, jump if false, constant. Linux: `struct
/// sock_filter`.
pub type BpfInstruction = (u16, u8, u8, u32);

/// Adds a filter to the calling thread; it does not enable speculation mitigations. Linux:
/// seccomp(2) `SECCOMP_SET_MODE_FILTER`.
///
/// # Errors
/// `EINVAL`: the program is invalid, or the kernel has no filters. `EACCES`: neither
/// `CAP_SYS_ADMIN` nor `no_new_privs`. `ENOMEM`.
pub fn install_seccomp_filter(program: &[BpfInstruction]) -> io::Result<()> {
    let filter = |&(code, jt, jf, k): &BpfInstruction| libc::sock_filter { code, jt, jf, k };
    let mut filters: Vec<libc::sock_filter> = program.iter().map(filter).collect();
    let len = u16::try_from(filters.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len,
        filter: filters.as_mut_ptr(),
    };
    // SAFETY: the kernel copies `len` instructions out of `filters`, which lives until it returns,
    // and checks them; it writes to no memory of this process.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
