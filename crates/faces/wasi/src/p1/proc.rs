// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `proc_exit`, which ends a guest of preview1, `proc_raise`, which always fails, and
//! `sched_yield`.

use crate::errno::Code;
use crate::exit::Exit;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};

/// Ends the guest with this code, whatever it is.
pub(super) fn proc_exit(code: u32) -> wasmtime::Result<()> {
    tracing::debug!(code, "a guest exited");
    Err(wasmtime::Error::new(Exit(code)))
}

/// Fails: there are no signals.
pub(super) fn proc_raise(_: &mut Guest, _: &mut Memory<'_>, _signal: u32) -> Outcome {
    Err(Code::Notsup.into())
}

pub(super) fn sched_yield(_: &mut Guest, _: &mut Memory<'_>) -> Outcome {
    std::thread::yield_now();
    Ok(())
}
