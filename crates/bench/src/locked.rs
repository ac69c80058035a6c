// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench same-file --locks`: what files pay for locks that they do not have, and what locks cost.
//!
//! * `opens`: the loop by which Linux judged the flag ("fs: track the inode having file locks with
//!   a flag in ->i_opflags"), on inodes that begin at each place of a line, since what the flag is
//!   worth there depends on it; with the flag and with the field read instead; of files without a
//!   lock and of ones that somebody has locked. Before anything is timed, the lines of memory that
//!   two tasks meet at are counted, as an open reads and writes them.
//! * `locks`: a lock and its end, of one thread for which nobody is in the way, and of several that
//!   wait for each other, beside the host kernel.

mod deeds;
mod lines;
mod opens;

use crate::Ask;
use crate::error::Error;
use crate::harness::Steal;
use crate::row::Row;

/// Runs every wanted row.
///
/// # Errors
/// `NotPermitted` or `Setup` if a side cannot be built, `Wrong` if it answers wrongly.
pub fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let steal = Steal::open();
    let mut rows = lines::rows(ask)?;
    rows.extend(opens::rows(ask, &steal)?);
    rows.extend(deeds::rows(ask, &steal)?);
    rows.retain(|row| ask.wants(&row.name));
    Ok(rows)
}
