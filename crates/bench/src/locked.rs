// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `same-file --locks`: the cost of the lock check for files without locks, and of locks.
//!
//! * `opens`: the loop by which Linux judged the flag ("fs: track the inode having file locks with
//!   a flag in ->i_opflags"). The inodes begin at each offset of a line, because the value of the
//!   flag depends on it there. It runs with the flag and with the field read instead, on files
//!   without a lock and on locked ones. Before that, the lines of memory that two tasks share are
//!   counted, as an open reads and writes them.
//! * `locks`: a lock and its unlock, of one thread without contention, and of several that wait for
//!   each other, beside the host kernel.

mod lines;
mod locks;
mod opens;

use crate::cmd::Ask;
use crate::error::Error;
use crate::page::Page;
use crate::row::Row;

pub(crate) fn page() -> Page {
    let about = include_str!("pages/locks.md");
    Page::new("Locks of files", about, "same-file --locks")
}

/// Runs every wanted row.
pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut rows = lines::rows(ask)?;
    rows.extend(opens::rows(ask)?);
    rows.extend(locks::rows(ask)?);
    Ok(rows)
}
