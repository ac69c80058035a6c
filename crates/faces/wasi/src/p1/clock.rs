// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time: `clock_*`.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};

/// The clock on the wall (`clockid`).
pub(super) const REALTIME: u32 = 0;
/// The clock that never goes back.
pub(super) const MONOTONIC: u32 = 1;
/// The last clock that has a number: the thread's processor time.
const LAST: u32 = 3;

pub(super) fn clock_res_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    id: u32,
    result: u32,
) -> Outcome {
    memory.check(result, 8, 8)?;
    known(id)?;
    memory.put_u64(result, guest.clocks.resolution())?;
    Ok(())
}

pub(super) fn clock_time_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    id: u32,
    _precision: u64,
    result: u32,
) -> Outcome {
    memory.check(result, 8, 8)?;
    known(id)?;
    let now = if id == REALTIME {
        guest.clocks.realtime()
    } else {
        guest.clocks.monotonic()
    };
    memory.put_u64(result, now)?;
    Ok(())
}

/// Whether a guest may read this clock: processor time is the host's own affair.
fn known(id: u32) -> Result<(), Code> {
    match id {
        REALTIME | MONOTONIC => Ok(()),
        ..=LAST => Err(Code::Badf),
        _ => Err(Code::Inval),
    }
}
