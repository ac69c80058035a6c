// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on open directories: `fd_readdir`, `fd_prestat_*`.
//!
//! # Rules
//! R1. A cookie is a position in the engine's listing (getdents64(2)), which stays valid while
//!     names come and go. Each call starts at its cookie, wherever the one before ended.
//! R2. A buffer is filled to its end: a truncated last record shows the guest that there is more. A
//!     large directory is listed in pieces, of which the host holds one.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};
use crate::types::{Filetype, rights};
use openpath_abi::fcntl::SEEK_SET;

/// Bytes before a name (`dirent`).
const HEAD: usize = 24;
/// Bytes that the engine lists at a time: a few hundred names, or the longest one.
const PIECE: usize = 1 << 14;
/// The smallest request: it fits a name of any length.
const LEAST: usize = 512;

pub(super) fn fd_readdir(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    buf: u32,
    len: u32,
    cookie: u64,
    result: u32,
) -> Outcome {
    memory.check(result, 4, 4)?;
    let dir = guest.table.directory(fd, rights::FD_READDIR)?;
    let mut left = memory.bytes_mut(buf, len)?;
    let cookie = i64::try_from(cookie).map_err(|_| Code::Inval)?;
    guest.task.lseek(dir, cookie, SEEK_SET)?;
    while !left.is_empty() {
        let entries = guest.task.getdents64(dir, left.len().clamp(LEAST, PIECE))?;
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            let mut head = [0; HEAD];
            head[..8].copy_from_slice(&entry.off.to_le_bytes());
            head[8..16].copy_from_slice(&entry.ino.to_le_bytes());
            head[16..20].copy_from_slice(&(entry.name.len() as u32).to_le_bytes());
            head[20] = Filetype::of_entry(entry.kind) as u8;
            left = append(append(left, &head), &entry.name);
            if left.is_empty() {
                break;
            }
        }
    }
    let used = len - left.len() as u32;
    memory.put_u32(result, used)?;
    Ok(())
}

/// Copies as much of `bytes` as fits into `room`; returns the rest of `room`.
fn append<'m>(room: &'m mut [u8], bytes: &[u8]) -> &'m mut [u8] {
    let fits = bytes.len().min(room.len());
    let (to, left) = room.split_at_mut(fits);
    to.copy_from_slice(&bytes[..fits]);
    left
}

pub(super) fn fd_prestat_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    result: u32,
) -> Outcome {
    memory.check(result, 8, 4)?;
    let name = guest.table.preopen_name(fd).ok_or(Code::Badf)?;
    // Kind 0 (a directory), and the length of its name.
    let len = u32::try_from(name.len()).map_err(|_| Code::Overflow)?;
    memory.put_u32(result, 0)?;
    memory.put_u32(result + 4, len)?;
    Ok(())
}

pub(super) fn fd_prestat_dir_name(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    path: u32,
    len: u32,
) -> Outcome {
    guest.table.get(fd)?;
    let name = guest.table.preopen_name(fd).ok_or(Code::Notdir)?;
    if name.len() > len as usize {
        return Err(Code::NameTooLong.into());
    }
    memory.put(path, name, 1)?;
    Ok(())
}
