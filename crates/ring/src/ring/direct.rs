// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that end in a direct descriptor.

use super::Ring;
use super::issue::Attempt;
use crate::attempt::{self, Tried};
use crate::op::{Done, File, Op, Where};
use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, F_GETFL, O_ACCMODE, O_PATH, O_RDONLY, O_WRONLY};
use openpath_vfs::{Fd, OpenFile};

impl Ring {
    /// Whether there is this slot at all.
    ///
    /// # Errors
    /// `ENXIO` (there are none), `EINVAL` (no such slot).
    pub(super) fn check_slot(&self, slot: u32) -> Result<(), Errno> {
        self.direct.task().ok_or(Errno::ENXIO)?;
        self.direct.fd(slot).map(drop).ok_or(Errno::EINVAL)
    }

    /// Whether a file is not open, or not for writing or reading: `EBADF` before anything that is
    /// wrong else (`io_assign_file`, `io_rw_init_file`).
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

    /// Opens into a slot at once, if it can be: a stand-in opens, so that the owner needs no
    /// descriptor to spare.
    pub(super) fn open_into_slot(&mut self, op: Op) -> Attempt {
        let Op::Open(at, how, into) = &op else {
            return Attempt::Later(op, None);
        };
        let stand_in = match self.crew.stand_in(&self.task) {
            Ok(stand_in) => stand_in,
            Err(errno) => return Attempt::Answered(Err(errno.into())),
        };
        let acting = &stand_in.task;
        let lent = match at.dir {
            AT_FDCWD => Some(AT_FDCWD),
            fd => self.task.file(fd).and_then(|f| acting.install(&f, 0)).ok(),
        };
        let tried = attempt::open(acting, lent.unwrap_or(-1), &at.path, how);
        let tried = tried.map(|fd| acting.take_file(fd));
        if let Some(fd) = lent.filter(|&fd| fd != AT_FDCWD) {
            let _dir = acting.take_file(fd);
        }
        let answered = match tried {
            Tried::Answer(opened) => {
                let kept = opened.and_then(|file| self.keep_opened(*into, &file?));
                Attempt::Answered(kept.map(Done::of).map_err(Into::into))
            }
            Tried::Later(why) => Attempt::Later(op, why),
        };
        self.crew.relieve(stand_in);
        answered
    }

    /// Keeps a file that was opened for a slot, which is looked at no earlier
    /// (`io_fixed_fd_install`).
    ///
    /// # Errors
    /// `ENXIO`, `EINVAL`, `ENFILE`, `ENOMEM`.
    pub(super) fn keep_opened(&self, place: Where, file: &OpenFile) -> Result<u64, Errno> {
        match self.keep(place, file) {
            Err(Errno::ENXIO) if place == Where::AnySlot => Err(Errno::ENFILE),
            kept => kept,
        }
    }

    /// Keeps the file of a descriptor in a slot as well. A slot that was chosen is emptied even if
    /// there is no such file (`__io_sqe_files_update`).
    ///
    /// # Errors
    /// `ENXIO`, `EINVAL`, `EBADF`, `ENFILE`, `ENOMEM`.
    pub(super) fn keep_too(&self, fd: Fd, place: Where) -> Result<u64, Errno> {
        if let Where::Slot(slot) = place {
            self.check_slot(slot)?;
        }
        // What is open for its path alone is not.
        let flags = self.task.fcntl(fd, F_GETFL, 0);
        let file = match flags {
            Ok(flags) if flags & u64::from(O_PATH) == 0 => self.task.file(fd),
            _ => Err(Errno::EBADF),
        };
        if let (Where::Slot(slot), Err(_)) = (place, &file) {
            self.direct.clear(slot);
        }
        self.keep(place, &file?)
    }

    /// Keeps a file in a slot; what its caller is told of the place.
    ///
    /// # Errors
    /// `ENXIO`, `EINVAL`, `ENFILE`, `ENOMEM`.
    pub(super) fn keep(&self, place: Where, file: &OpenFile) -> Result<u64, Errno> {
        match place {
            Where::Slot(slot) => self.direct.put(slot, file).map(|()| 0),
            _ => self.direct.add(file).map(u64::from),
        }
    }
}
