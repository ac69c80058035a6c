// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles `READDIR` and `READDIRPLUS`, which list the entries of a directory.
//!
//! A directory is opened for the duration of a request, even with [`crate::Opens::Each`]: a
//! position in a listing means the same whenever the directory is opened, whatever is created and
//! removed meanwhile.

use crate::fs::{Entry, FuseFs};
use crate::worker::Worker;
use openpath_abi::fcntl::{O_DIRECTORY, O_NOATIME, O_RDONLY, SEEK_SET};
use openpath_abi::{Errno, OFlags};
use openpath_vfs::DirEntry;

/// How many bytes of entries are read at once.
const BATCH_BYTES: usize = 1 << 15;
/// The most that an entry takes of them, beside its name.
const ENTRY_SIZE: usize = 32;
/// The longest name.
const NAME_MAX: usize = 255;

/// Whether a listing continues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    /// There is no room; the last entry did not fit.
    Full,
}

impl FuseFs {
    /// `READDIR`: passes the entries from a position on to `show`, each with its number. With the
    /// position come the flags of the open directory.
    pub(crate) fn readdir(
        &self,
        w: &mut Worker,
        number: u64,
        from: (u64, OFlags),
        mut show: impl FnMut(u64, &DirEntry) -> More,
    ) -> Result<(), Errno> {
        let mount = self.nodes.mount(number).ok_or(Errno::ESTALE)?;
        self.walk(w, number, from, |_, entry| {
            Ok(show(self.nodes.listed_ino(mount, entry.ino), entry))
        })
    }

    /// `READDIRPLUS`: the same, with the file of each entry, counted as a lookup. `.` and `..` are
    /// passed without, and an entry that was removed meanwhile is skipped.
    ///
    /// # Errors
    /// Those of looking up the first entry. The error of a later one ends the reply; the next
    /// request begins with that entry.
    pub(crate) fn readdirplus(
        &self,
        w: &mut Worker,
        number: u64,
        from: (u64, OFlags),
        mut show: impl FnMut(u64, &DirEntry, Option<&Entry>) -> More,
    ) -> Result<(), Errno> {
        let mount = self.nodes.mount(number).ok_or(Errno::ESTALE)?;
        let dir = self.nodes.path_fd(number)?;
        let mut first = true;
        self.walk(w, number, from, |w, entry| {
            let first = std::mem::take(&mut first);
            if matches!(entry.name.as_slice(), b"." | b"..") {
                return Ok(show(self.nodes.listed_ino(mount, entry.ino), entry, None));
            }
            self.events.track_name(number, &entry.name);
            let found = match self.find(w, dir, (number, &entry.name)) {
                Ok(found) => found,
                Err(Errno::ENOENT | Errno::ESTALE) => return Ok(More::Yes),
                Err(errno) if first => return Err(errno),
                Err(_) => return Ok(More::Full),
            };
            let more = show(found.number, entry, Some(&found));
            if more == More::Full {
                self.forget(w, [(found.number, 1)]);
            }
            Ok(more)
        })
    }

    /// Visits the entries from `offset` on, of a directory that is open with `status`.
    fn walk(
        &self,
        w: &mut Worker,
        number: u64,
        (offset, status): (u64, OFlags),
        mut visit: impl FnMut(&Worker, &DirEntry) -> Result<More, Errno>,
    ) -> Result<(), Errno> {
        let path_fd = self.nodes.path_fd(number)?;
        let flags = O_RDONLY | O_DIRECTORY | status & O_NOATIME;
        let mut offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        loop {
            let batch = w.with_open(path_fd, flags, |w, fd| {
                w.task.lseek(fd, offset, SEEK_SET)?;
                w.task.getdents64(fd, BATCH_BYTES)
            })?;
            let Some(last) = batch.last() else {
                return Ok(());
            };
            offset = last.off;
            let names: usize = batch.iter().map(|entry| entry.name.len()).sum();
            for entry in &batch {
                if visit(w, entry)? == More::Full {
                    return Ok(());
                }
            }
            if names + ENTRY_SIZE * (batch.len() + 1) + NAME_MAX < BATCH_BYTES {
                // Another entry would have fitted, so this was all; the kernel asks again at the
                // end.
                return Ok(());
            }
        }
    }
}
