// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `random_get`, which fills a guest's buffer with random bytes.

use crate::guest::Guest;
use crate::memory::{Memory, Outcome};

pub(super) fn random_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    buf: u32,
    len: u32,
) -> Outcome {
    guest.random.fill(memory.bytes_mut(buf, len)?)?;
    Ok(())
}
