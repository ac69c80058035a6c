// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers that many requests have in common, and the handles of open files.

use crate::convert::errno;
use fuser::{FileHandle, ReplyEmpty, ReplyWrite, ReplyXattr};
use openpath_abi::Errno;
use openpath_vfs::Fd;

/// The descriptor in a handle: none in 0.
pub(crate) fn fd_of(handle: FileHandle) -> Option<Fd> {
    let number = handle.0.checked_sub(1)?;
    Fd::try_from(number).ok()
}

/// The handle that a descriptor goes into.
pub(crate) fn handle_of(fd: Option<Fd>) -> FileHandle {
    FileHandle(fd.map_or(0, |fd| u64::from(fd.cast_unsigned()) + 1))
}

/// Answers with nothing but that it is done.
pub(crate) fn done(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(errno(e)),
    }
}

/// Answers how much was written.
pub(crate) fn written(result: Result<usize, Errno>, reply: ReplyWrite) {
    match result {
        // No request is larger than its 32 bits.
        Ok(n) => reply.written(n as u32),
        Err(e) => reply.error(errno(e)),
    }
}

/// Answers with a value, or its size if that is what is asked for.
pub(crate) fn value(result: Result<Vec<u8>, Errno>, room: u32, reply: ReplyXattr) {
    match result {
        Ok(value) if room == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > room as usize => reply.error(errno(Errno::ERANGE)),
        Ok(value) => reply.data(&value),
        Err(e) => reply.error(errno(e)),
    }
}
