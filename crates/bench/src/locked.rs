// SPDX-License-Identifier: MIT OR Apache-2.0
//! `same-file --locks`: what files pay for locks that they do not have, and what locks cost.
//!
//! * `opens`: the loop by which Linux judged the flag ("fs: track the inode having file locks with
//!   a flag in ->i_opflags"), on inodes that begin at each place of a line, since what the flag is
//!   worth there depends on it; with the flag and with the field read instead; of files without a
//!   lock and of locked ones. Before anything is timed, the lines of memory that
//!   two tasks meet at are counted, as an open reads and writes them.
//! * `locks`: a lock and its end, of one thread without contention, and of several that
//!   wait for each other, beside the host kernel.

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
