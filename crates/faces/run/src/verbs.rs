// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the hidden subcommands by which this program executes itself again. That of the server
//! is [`openpath_commit::SERVE`].

/// Makes this program a helper ([`crate::enter`]); the command and its arguments follow.
pub const ENTER: &str = "run-enter";
/// Makes this program [`crate::exec_relayed`]; the view and the command follow.
pub const JOIN: &str = "run-join";
/// Makes this program the first process of a pid namespace ([`fn@crate::init`]).
pub const INIT: &str = "run-init";
/// Makes this program the command ([`crate::become_command`]); it and its arguments follow.
pub const COMMAND: &str = "run-command";
