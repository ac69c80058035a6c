// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements what closes many descriptors: close_range(2), the close-on-exec descriptors at
//! execve(2), and the end of a table.

use crate::fd_table::FdTable;
use crate::file::Filp;
use crate::task::{Core, Task};
use openpath_abi::Errno;
use openpath_abi::fcntl::{CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE};
use openpath_sync::FileRef;

impl FdTable {
    /// Takes out the file at the lowest installed descriptor from `first` to `last` of all or of
    /// those that close on exec; the descriptor, and whether the table may have locks on it.
    fn take_next(
        &self,
        core: &Core,
        first: u32,
        last: u32,
        cloexec_only: bool,
    ) -> Option<(u32, FileRef, bool)> {
        let mut map = self.table.lock();
        let mut from = first;
        loop {
            let slot = if cloexec_only {
                map.next_cloexec(from)
            } else {
                map.next_open(from)
            };
            let slot = slot.filter(|&slot| slot <= last)?;
            if let Some(file) = map.take_out(&core.vfs.dcache.store, slot) {
                map.free(slot);
                self.table.claimed.poke(map.count());
                return Some((slot, file, self.has_noted()));
            }
            // Reserved: its open puts a file there or frees it.
            from = slot.checked_add(1)?;
        }
    }

    /// Lets go of the table; the last to do so closes every file, in order (`put_files_struct`).
    pub(crate) fn leave(self, core: &Core) {
        let Some((mut slots, map)) = self.table.into_inner() else {
            return;
        };
        let mut closed = ClosedFiles::new(core, self.number);
        let locks = slots.noted.get() != 0;
        for slot in map.open_in(0, u32::MAX) {
            if let Some(file) = slots.take_out(&core.vfs.dcache.store, slot) {
                closed.add(file, locks);
            }
        }
    }
}

/// Files that one call closes. Each opening is told at once. Where a watch exists, the files end
/// when the call does, the last one first, as the kernel's deferred releases do (`task_work_run`).
struct ClosedFiles<'t> {
    core: &'t Core,
    /// The table they were in.
    table: u64,
    kept: Vec<Filp<'t>>,
}

impl<'t> ClosedFiles<'t> {
    fn new(core: &'t Core, table: u64) -> Self {
        Self {
            core,
            table,
            kept: Vec::new(),
        }
    }

    fn add(&mut self, file: FileRef, locks: bool) {
        let file = Filp::hold(self.core, file);
        let _told = file.flush(locks.then_some(self.table));
        if self.core.vfs.notify.is_active() {
            self.kept.push(file);
        }
    }
}

impl Drop for ClosedFiles<'_> {
    fn drop(&mut self) {
        while self.kept.pop().is_some() {}
    }
}

impl Core {
    /// Closes the installed descriptors from `first` to `last`, or those of them that close on
    /// exec.
    pub(super) fn close_each(&self, first: u32, last: u32, cloexec_only: bool) {
        let mut closed = ClosedFiles::new(self, self.fds().number());
        let mut from = first;
        loop {
            let taken = self.fds().take_next(self, from, last, cloexec_only);
            let Some((slot, file, locks)) = taken else {
                return;
            };
            closed.add(file, locks);
            // A descriptor that another task opens behind us stays, as in Linux.
            from = slot.saturating_add(1);
        }
    }
}

impl Task {
    /// Closes every descriptor from `first` to `last`, or with `CLOSE_RANGE_CLOEXEC` marks them to
    /// be closed on exec; with `CLOSE_RANGE_UNSHARE` in a table of this task's own. Linux:
    /// close_range(2).
    ///
    /// # Errors
    /// `EINVAL` (flags, `first` above `last`), `ENOMEM`.
    pub fn close_range(&self, first: u32, last: u32, flags: u32) -> Result<(), Errno> {
        if flags & !(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) != 0 || first > last {
            return Err(Errno::EINVAL);
        }
        let core = &self.core;
        let marks = flags & CLOSE_RANGE_CLOEXEC != 0;
        if flags & CLOSE_RANGE_UNSHARE != 0 && core.fds().is_shared() {
            // Descriptors that are closed at once need not be copied.
            let hole = if marks { None } else { Some((first, last)) };
            core.unshare_fds(hole)?;
        }
        if marks {
            let fds = core.fds();
            fds.table.lock().set_cloexec_range(first, last);
        } else {
            core.close_each(first, last, false);
        }
        Ok(())
    }

    /// Closes the descriptors that are marked close-on-exec, in a table of this task's own, when a
    /// program replaces another. Linux: execve(2), as far as it concerns descriptors.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn exec(&self) -> Result<(), Errno> {
        self.unshare_files()?;
        self.core.close_each(0, u32::MAX, true);
        Ok(())
    }
}
