// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeats a walk in ever slower modes until one decides: lock-free, then with references, then
//! asking the backend for every cached name. The number of repeats is bounded.

use super::{Reason, WalkError, lflag};
use crate::steps::Check;
use crate::task::Core;
use openpath_abi::Errno;

/// The rung of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Without references.
    Fast,
    /// With references.
    Reference,
    /// With references, but without a wait: under `RESOLVE_CACHED`, from where it left fast mode.
    Try,
    /// With references, and every cached entry is asked for at its backend.
    Revalidate,
}

/// The most restarts of a walk: renames that never end must not hold it for ever.
const RESTARTS_MAX: u32 = 1 << 16;
/// How often a steadfast walk that seems to lead out while directories move is repeated before it
/// counts as leading out.
const MOVES_MAX: u32 = 64;

/// Runs `attempt` on the lowest rung that decides (`do_filp_open`, `filename_lookup`).
#[inline(always)]
pub(crate) fn climb<R>(
    core: &Core,
    flags: u32,
    mut attempt: impl FnMut(Mode) -> Result<R, WalkError>,
) -> Result<R, Errno> {
    // `CACHED` means the lock-free rung alone, whatever the switch says.
    if core.lock_free.get() || flags & lflag::CACHED != 0 {
        match attempt(Mode::Fast) {
            Ok(r) => return Ok(r),
            Err(WalkError::Errno(e)) => return Err(e),
            Err(WalkError::Restart | WalkError::Moved) => {}
            Err(WalkError::Stale) => {
                core.give_up(Reason::Stale);
            }
        }
    }
    climb_slowly(core, attempt)
}

#[cold]
#[inline(never)]
fn climb_slowly<R>(
    core: &Core,
    mut attempt: impl FnMut(Mode) -> Result<R, WalkError>,
) -> Result<R, Errno> {
    let (mut mode, mut moved) = (Mode::Reference, 0);
    for _ in 0..RESTARTS_MAX {
        match attempt(mode) {
            Ok(r) => return Ok(r),
            Err(WalkError::Errno(e)) => return Err(e),
            Err(WalkError::Stale) if mode == Mode::Revalidate => return Err(Errno::ESTALE),
            Err(WalkError::Stale) => mode = Mode::Revalidate,
            Err(WalkError::Restart) => {}
            Err(WalkError::Moved) if moved == MOVES_MAX => {
                return Err(core.refused(Check::Beneath, Errno::EXDEV));
            }
            Err(WalkError::Moved) => moved += 1,
        }
    }
    Err(Errno::ESTALE)
}
