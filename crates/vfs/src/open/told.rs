// SPDX-License-Identifier: MIT OR Apache-2.0
//! An open that is explained: up to what would change something, and no further.

use super::how::{self, OpenOp};
use super::{admit, enter, grant, tmpfile};
use crate::explain::Step;
use crate::file::Fd;
use crate::task::{At, Core};
use crate::walk::{self, Fail, Mode, Text, Walk};
use openpath_abi::fcntl::{O_PATH, O_TMPFILE_ONLY};
use openpath_abi::{Errno, OpenHow};

/// What open(2) and openat(2) make of their flags.
///
/// # Errors
/// `EINVAL`, `EAGAIN`.
pub(crate) fn lenient_op(core: &Core, flags: u32, mode: u32) -> Result<OpenOp, Errno> {
    let profile = core.vfs.config.profile;
    how::build(&how::lenient(flags, mode, profile), profile)
}

/// What openat2(2) makes of its argument.
///
/// # Errors
/// `EINVAL`, `EAGAIN`.
pub(crate) fn strict_op(core: &Core, how: &OpenHow) -> Result<OpenOp, Errno> {
    how::build(&how::strict(how), core.vfs.config.profile)
}

/// Goes the way of an open whose arguments were checked, and stops before it opens.
///
/// # Errors
/// Those of the open, but for what a backend says to a change, or of its own to an open.
#[cold]
pub(crate) fn told(core: &Core, dirfd: Fd, path: &[u8], op: &OpenOp) -> Result<(), Errno> {
    admit(core, path, op)?;
    let base = core.base(dirfd);
    let at = base.at();
    if op.has(O_PATH) {
        let (pin, _) = walk::lookup(core, at, path, op.lookup)?;
        core.pins.release(pin);
        return Ok(());
    }
    if op.has(O_TMPFILE_ONLY) {
        return tmpfile::open(core, at, path, op).map(drop);
    }
    walk::climb(core, op.lookup, |mode| attempt(core, at, path, op, mode))
}

/// One attempt, as `open_once` makes it.
fn attempt(core: &Core, at: At<'_>, path: &[u8], op: &OpenOp, mode: Mode) -> Result<(), Fail> {
    let mut walk = Walk::begin(core, at, path, op.lookup, mode)?;
    let mut text = Text::new(path);
    let created = enter(&mut walk, &mut text, op);
    text.done(core);
    let created = created?;
    let (pin, sample) = walk.complete()?;
    let ended = grant::Ended {
        sample,
        walked: walk.flags,
        created,
    };
    let would = grant::would_open(core, &pin, ended, op);
    core.pins.release(pin);
    let would = would?;
    core.tell(|| Step::Would(would));
    Ok(())
}
