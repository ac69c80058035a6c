// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the errors by which a guest ends by itself (`Exit`) or is ended by its host (`Ended`),
//! and gives the exit code of one that returned or exited.

/// The guest called `proc_exit`: its function fails with this error, which is not a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit(pub u32);

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the guest exited with {}", self.0)
    }
}

impl std::error::Error for Exit {}

/// The host ended the guest ([`Interrupt::end`]): its next call fails with this error.
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

/// The exit code of a guest's main function: 0 if it returned, or the argument of `proc_exit`.
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
