// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that end in a direct descriptor.

use super::Ring;
use super::issue::Attempt;
use crate::attempt::{self, Tried};
use crate::op::{Done, How, Op, Where};
use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, O_CLOEXEC};
use openpath_vfs::OpenFile;

impl Ring {
    /// Whether a file may be opened into a slot at all (`__io_open_prep`, `io_fixed_fd_install`).
    ///
    /// # Errors
    /// `EINVAL` (`O_CLOEXEC`), `ENXIO` (there are none), `EINVAL` (no such slot), `ENFILE`.
    pub(super) fn check_slot(&self, place: Where, how: &How) -> Result<(), Errno> {
        if how.flags() & u64::from(O_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        match place {
            Where::Fd => Ok(()),
            Where::AnySlot if self.direct.task().is_none() => Err(Errno::ENFILE),
            Where::AnySlot => Ok(()),
            Where::Slot(_) if self.direct.task().is_none() => Err(Errno::ENXIO),
            Where::Slot(slot) => self.direct.fd(slot).map(drop).ok_or(Errno::EINVAL),
        }
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
                let kept = opened.and_then(|file| self.keep(*into, &file?));
                Attempt::Answered(kept.map(Done::of).map_err(Into::into))
            }
            Tried::Later(why) => Attempt::Later(op, why),
        };
        self.crew.relieve(stand_in);
        answered
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
