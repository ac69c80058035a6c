// SPDX-License-Identifier: MIT OR Apache-2.0
//! A switch for measuring the server with and without what it does about CPUs.
//!
//! `OPENPATH_FUSE_TUNING`, read when a session starts: with `cpu=none` no thread keeps a CPU awake
//! ([`crate::keep_awake`]), and so none is pinned ([`crate::affinity`]).

/// The variable.
const VARIABLE: &str = "OPENPATH_FUSE_TUNING";

/// Whether one of two CPUs may be kept awake.
pub(crate) fn may_keep_awake() -> bool {
    std::env::var_os(VARIABLE).is_none_or(|word| word != "cpu=none")
}
