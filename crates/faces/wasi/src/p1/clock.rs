// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on clocks: `clock_*`.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};

/// The wall clock (`clockid`).
pub(super) const REALTIME: u32 = 0;
/// The monotonic clock.
pub(super) const MONOTONIC: u32 = 1;
/// The last defined clock: the thread's processor time.
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

/// Checks that a guest may read this clock; it may not read processor times.
fn known(id: u32) -> Result<(), Code> {
    match id {
        REALTIME | MONOTONIC => Ok(()),
        ..=LAST => Err(Code::Badf),
        _ => Err(Code::Inval),
    }
}
