// SPDX-License-Identifier: MIT OR Apache-2.0
//! Declares the modules of the subcommands of `openpath`. `mount` also has `umount`, and `views`
//! has `list` and `discard`.

pub(crate) mod bench;
pub(crate) mod commit;
pub(crate) mod completions;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod locks;
pub(crate) mod man;
pub(crate) mod mount;
pub(crate) mod ring;
pub(crate) mod run;
pub(crate) mod stats;
pub(crate) mod version;
pub(crate) mod views;
