// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a guest that asked for it, or that its host asked for.

/// A guest called `proc_exit`: what the call of its function fails with. It is no fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit(pub u32);

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the guest exited with {}", self.0)
    }
}

impl std::error::Error for Exit {}

/// The host ended a guest ([`Interrupt::end`]): what its next call fails with.
///
/// [`Interrupt::end`]: crate::Interrupt::end
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended;

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the host has ended the guest")
    }
}

impl std::error::Error for Ended {}

/// What a guest's main function ended with: 0 if it returned, else what it told `proc_exit`.
///
/// # Errors
/// The trap that ended it.
pub fn exit_code<R>(ended: wasmtime::Result<R>) -> wasmtime::Result<u32> {
    match ended {
        Ok(_) => Ok(0),
        Err(error) => match error.downcast_ref::<Exit>() {
            Some(exit) => Ok(exit.0),
            None => Err(error),
        },
    }
}
