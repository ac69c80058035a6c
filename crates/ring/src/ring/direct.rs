// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens files into direct descriptors, stores files there, and checks the files of operations.
//!
//! Direct descriptors are those of `io_uring` (`IOSQE_FIXED_FILE`): a ring has a table of slots of
//! its own ([`crate::direct`]), and an operation names a file by its slot instead of by a
//! descriptor of the task.
//!
//! | method | stores or checks |
//! |---|---|
//! | `open_into_slot` | tries to open a file without waiting, and stores it |
//! | `store_opened` | stores a file that a worker or `open_into_slot` opened |
//! | `store_fd` | stores the file of a descriptor, which stays open (`IORING_OP_FILES_UPDATE`) |
//! | `store` | what both end in: a chosen slot, or the lowest free one |
//! | `is_closed` | whether an operation must fail with `EBADF`, before it does anything |

use super::Ring;
use super::issue::OpAttempt;
use crate::attempt::{self, Attempted};
use crate::op::{Destination, Done, File, Op};
use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, F_GETFL, O_ACCMODE, O_PATH, O_RDONLY, O_WRONLY};
use openpath_vfs::{Fd, OpenFile};

impl Ring {
    /// Checks that the slot exists.
    ///
    /// # Errors
    /// `ENXIO` (there are none), `EINVAL` (no such slot).
    pub(super) fn check_slot(&self, slot: u32) -> Result<(), Errno> {
        self.direct.task().ok_or(Errno::ENXIO)?;
        self.direct.fd(slot).map(drop).ok_or(Errno::EINVAL)
    }

    /// Whether a file is not open, or not for this access: `EBADF` before any other error
    /// (`io_assign_file`, `io_rw_init_file`).
    pub(super) fn is_closed(&self, file: Option<File>, writes: Option<bool>) -> bool {
        let found = self.table_of(file);
        let Some((task, fd)) = found.filter(|_| file.is_some()) else {
            return file.is_some();
        };
        let lacks = match writes {
            None => return task.data_wait(fd).is_none(),
            Some(true) => O_RDONLY,
            Some(false) => O_WRONLY,
        };
        let flags = task.fcntl(fd, F_GETFL, 0);
        let lacks = [u64::from(lacks), u64::from(O_ACCMODE)];
        flags.is_ok_and(|f| lacks.contains(&(f & u64::from(O_ACCMODE))))
            || task.data_wait(fd).is_none()
    }

    /// Opens into a slot inline, if possible, by a proxy task: so the owner needs no free
    /// descriptor.
    pub(super) fn open_into_slot(&mut self, op: Op) -> OpAttempt {
        let Op::Open(at, how, into) = &op else {
            return OpAttempt::WouldBlock(op, None);
        };
        let proxy = match self.client.proxy(&self.task) {
            Ok(proxy) => proxy,
            Err(errno) => return OpAttempt::Answered(Err(errno.into())),
        };
        let acting = &proxy.task;
        let borrowed = match at.dir {
            AT_FDCWD => Some(AT_FDCWD),
            fd => self
                .task
                .file(fd)
                .and_then(|f| acting.install(&f, O_RDONLY))
                .ok(),
        };
        let attempted = attempt::open(acting, borrowed.unwrap_or(-1), &at.path, how);
        let attempted = attempted.map(|fd| acting.take_file(fd));
        if let Some(fd) = borrowed.filter(|&fd| fd != AT_FDCWD) {
            let _dir = acting.take_file(fd);
        }
        let answered = match attempted {
            Attempted::Answered(opened) => {
                let kept = opened.and_then(|file| self.store_opened(*into, &file?));
                OpAttempt::Answered(kept.map(Done::of).map_err(Into::into))
            }
            Attempted::WouldBlock(why) => OpAttempt::WouldBlock(op, why),
        };
        self.client.return_proxy(proxy);
        answered
    }

    /// Stores a file that was opened for a slot, which is checked only now (`io_fixed_fd_install`).
    ///
    /// # Errors
    /// `ENXIO`, `EINVAL`, `ENFILE`, `ENOMEM`.
    pub(super) fn store_opened(&self, place: Destination, file: &OpenFile) -> Result<u64, Errno> {
        match self.store(place, file) {
            Err(Errno::ENXIO) if place == Destination::AnySlot => Err(Errno::ENFILE),
            kept => kept,
        }
    }

    /// Stores the file of a descriptor in a slot as well. A chosen slot is emptied even if there is
    /// no such file (`__io_sqe_files_update`).
    ///
    /// # Errors
    /// `ENXIO`, `EINVAL`, `EBADF`, `ENFILE`, `ENOMEM`.
    pub(super) fn store_fd(&self, fd: Fd, place: Destination) -> Result<u64, Errno> {
        if let Destination::Slot(slot) = place {
            self.check_slot(slot)?;
        }
        // A file that is open with `O_PATH` is not stored.
        let flags = self.task.fcntl(fd, F_GETFL, 0);
        let file = match flags {
            Ok(flags) if flags & u64::from(O_PATH) == 0 => self.task.file(fd),
            _ => Err(Errno::EBADF),
        };
        if let (Destination::Slot(slot), Err(_)) = (place, &file) {
            self.direct.clear(slot);
        }
        self.store(place, &file?)
    }

    /// Stores a file in a slot; returns the result for the caller.
    ///
    /// # Errors
    /// `ENXIO`, `EINVAL`, `ENFILE`, `ENOMEM`.
    pub(super) fn store(&self, place: Destination, file: &OpenFile) -> Result<u64, Errno> {
        match place {
            Destination::Slot(slot) => self.direct.put(slot, file).map(|()| 0),
            _ => self.direct.add(file).map(u64::from),
        }
    }
}
