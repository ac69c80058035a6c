// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process gives up right before it becomes the command.
//!
//! Namespaces decide what the command can name. The modules here take away what it could reach
//! without a name: the caller's terminal, and this program's own processes.

mod own;
mod terminal;

use crate::Refusal;

pub(crate) use own::{outlive_limits, protect};
pub(crate) use terminal::check as check_terminal;

/// Confines the calling process, which must have one thread, and all that it starts.
///
/// # Errors
/// The kernel cannot do one of the steps: the command must not run then.
pub(crate) fn apply() -> Result<(), Refusal> {
    terminal::apply()
}
