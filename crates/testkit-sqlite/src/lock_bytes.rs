// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the bytes that SQLite locks: those of a database file (`file`) and of its `-shm` file
//! (`shm`).

use rusqlite::ffi;

/// The byte of a writer that waits for readers to finish. The locks begin here, a gigabyte into the
/// file.
pub(crate) const PENDING: i64 = 0x4000_0000;
/// The byte of a connection that prepares a write.
pub(crate) const RESERVED: i64 = PENDING + 1;
/// The first byte that readers lock.
pub(crate) const SHARED: i64 = PENDING + 2;
/// The number of bytes that readers lock.
pub(crate) const SHARED_LEN: i64 = 510;

/// The first locked byte of the file `-shm`, after the two headers of the index and the checkpoint
/// data.
pub(crate) const FIRST_SLOT: i64 = 120;
/// The byte that live connections lock; SQLite calls it the dead-man switch.
pub(crate) const ALIVE: (i64, i64) = (FIRST_SLOT + SLOTS, 1);
const SLOTS: i64 = ffi::SQLITE_SHM_NLOCK as i64;
