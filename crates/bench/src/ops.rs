// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the measured operations.
//!
//! A burst returns how many results were not the expected ones, so that neither side can be
//! measured failing.

use crate::calls::wrong;
use crate::common::*;

/// The operation on each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// Open of a name that does not exist.
    FailedOpen,
    /// Open for reading, and close.
    OpenClose,
    /// Open with O_CREAT, for reading and writing, of a file that exists, and close.
    CreatExisting,
    /// The same for reading only: no writer is counted.
    CreatReadOnly,
    Stat,
    Lstat,
    /// statx by path, basic fields.
    Statx,
    /// Open of a file that the caller may not read; never measured as root.
    #[value(name = "denied-open")]
    Denied,
    DupClose,
    /// Open with these flags, and close.
    #[value(skip)]
    Open(OFlags),
    /// Create with these flags, close, unlink.
    #[value(skip)]
    CreateUnlink(OFlags),
}

/// The name of a value, as it is typed.
pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    let named = value.to_possible_value();
    named.map_or(String::new(), |named| named.get_name().to_owned())
}

impl Op {
    /// Whether it walks to the absent names.
    pub(crate) fn wants_missing(self) -> bool {
        self == Op::FailedOpen
    }

    /// Runs `ops` operations; returns the number of wrong results.
    pub(crate) fn burst(self, side: &impl Calls, ops: u64, paths: &mut Ring<'_>) -> u64 {
        match self {
            Op::FailedOpen => wrong(ops, paths, move |path| refused(side, path, Errno::ENOENT)),
            Op::Denied => wrong(ops, paths, move |path| refused(side, path, Errno::EACCES)),
            Op::OpenClose => wrong(ops, paths, move |path| side.open_close(path, O_RDONLY)),
            Op::CreatExisting => wrong(ops, paths, move |path| {
                side.open_close(path, O_RDWR | O_CREAT)
            }),
            Op::CreatReadOnly => wrong(ops, paths, move |path| side.open_close(path, O_CREAT)),
            Op::Open(flags) => wrong(ops, paths, move |path| side.open_close(path, flags)),
            Op::CreateUnlink(flags) => wrong(ops, paths, move |path| {
                side.open_close(path, flags) && side.unlink(path)
            }),
            Op::Stat => wrong(ops, paths, move |path| side.stat(path).is_ok()),
            Op::Lstat => wrong(ops, paths, move |path| side.lstat(path).is_ok()),
            Op::Statx => wrong(ops, paths, move |path| side.statx(path).is_ok()),
            Op::DupClose => {
                let Ok(fd) = side.open(paths.next(), O_RDONLY, 0) else {
                    return ops;
                };
                let wrong = wrong_of(ops, || side.dup_close(fd));
                wrong + u64::from(!side.close(fd))
            }
        }
    }

    /// The same where every operation must fail with EACCES.
    pub(crate) fn barred(self, side: &impl Calls, ops: u64, paths: &mut Ring<'_>) -> u64 {
        wrong(ops, paths, move |path| {
            let open = |flags| side.open(path, flags, 0o644).map(drop);
            let done = match self {
                Op::FailedOpen | Op::OpenClose | Op::Denied | Op::DupClose => open(O_RDONLY),
                Op::CreatExisting => open(O_RDWR | O_CREAT),
                Op::CreatReadOnly => open(O_CREAT),
                Op::Open(flags) | Op::CreateUnlink(flags) => open(flags),
                Op::Stat => side.stat(path),
                Op::Lstat => side.lstat(path),
                Op::Statx => side.statx(path),
            };
            done == Err(Errno::EACCES)
        })
    }
}

#[inline(always)]
fn refused(side: &impl Calls, path: &CStr, errno: Errno) -> bool {
    side.open(path, O_RDONLY, 0).err() == Some(errno)
}
