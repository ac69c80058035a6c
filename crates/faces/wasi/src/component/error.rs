// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the errors of the component's calls: an error code of `wasi:filesystem`, or a trap.
//!
//! # Rules
//! R1. The mapping is total: an errno without a code becomes `io`, as in wasmtime-wasi.

use super::bindings::wasi::filesystem::types::ErrorCode;
use openpath_abi::Errno;
use wasmtime::component::ResourceTableError;

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The guest gets this code.
    Code(ErrorCode),
    /// The guest ends: it used an invalid handle, or the table has no room for one.
    Trap(wasmtime::Error),
}

impl Error {
    /// The code that `convert-error-code` returns to the guest.
    ///
    /// # Errors
    /// The trap.
    pub(super) fn into_code(self) -> wasmtime::Result<ErrorCode> {
        match self {
            Self::Code(code) => Ok(code),
            Self::Trap(trap) => Err(trap),
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::Code(code(errno))
    }
}

impl From<ErrorCode> for Error {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<ResourceTableError> for Error {
    fn from(error: ResourceTableError) -> Self {
        Self::Trap(error.into())
    }
}

/// The code of an errno.
pub(super) fn code(errno: Errno) -> ErrorCode {
    match errno {
        Errno::EACCES => ErrorCode::Access,
        Errno::EAGAIN => ErrorCode::WouldBlock,
        Errno::EALREADY => ErrorCode::Already,
        Errno::EBADF => ErrorCode::BadDescriptor,
        Errno::EBUSY => ErrorCode::Busy,
        Errno::EDEADLK => ErrorCode::Deadlock,
        Errno::EDQUOT => ErrorCode::Quota,
        Errno::EEXIST => ErrorCode::Exist,
        Errno::EFBIG => ErrorCode::FileTooLarge,
        Errno::EILSEQ => ErrorCode::IllegalByteSequence,
        Errno::EINPROGRESS => ErrorCode::InProgress,
        Errno::EINTR => ErrorCode::Interrupted,
        Errno::EINVAL => ErrorCode::Invalid,
        Errno::EISDIR => ErrorCode::IsDirectory,
        Errno::ELOOP => ErrorCode::Loop,
        Errno::EMLINK => ErrorCode::TooManyLinks,
        Errno::EMSGSIZE => ErrorCode::MessageSize,
        Errno::ENAMETOOLONG => ErrorCode::NameTooLong,
        Errno::ENODEV => ErrorCode::NoDevice,
        Errno::ENOENT => ErrorCode::NoEntry,
        Errno::ENOLCK => ErrorCode::NoLock,
        Errno::ENOMEM => ErrorCode::InsufficientMemory,
        Errno::ENOSPC => ErrorCode::InsufficientSpace,
        Errno::ENOTDIR => ErrorCode::NotDirectory,
        Errno::ENOTEMPTY => ErrorCode::NotEmpty,
        Errno::ENOTRECOVERABLE => ErrorCode::NotRecoverable,
        Errno::EOPNOTSUPP | Errno::ENOSYS => ErrorCode::Unsupported,
        Errno::ENOTTY => ErrorCode::NoTty,
        Errno::ENXIO => ErrorCode::NoSuchDevice,
        Errno::EOVERFLOW => ErrorCode::Overflow,
        Errno::EPERM => ErrorCode::NotPermitted,
        Errno::EPIPE => ErrorCode::Pipe,
        Errno::EROFS => ErrorCode::ReadOnly,
        Errno::ESPIPE => ErrorCode::InvalidSeek,
        Errno::ETXTBSY => ErrorCode::TextFileBusy,
        Errno::EXDEV => ErrorCode::CrossDevice,
        _ => ErrorCode::Io,
    }
}
