// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the environment variable with which a measurement runs the server without keeping a CPU
//! awake and without pinning threads.
//!
//! `OPENPATH_FUSE_TUNING`, read when a session starts: with `cpu=none` no thread keeps a CPU awake
//! ([`crate::keep_awake`]), and so none is pinned ([`crate::affinity`]).

use std::ffi::OsStr;

/// The variable.
const VARIABLE: &str = "OPENPATH_FUSE_TUNING";

/// Whether one of two CPUs may be kept awake.
pub(crate) fn may_keep_awake() -> bool {
    allows_keep_awake(std::env::var_os(VARIABLE).as_deref())
}

fn allows_keep_awake(word: Option<&OsStr>) -> bool {
    word.is_none_or(|word| word != "cpu=none")
}

#[cfg(test)]
mod tests {
    use super::allows_keep_awake;

    #[test]
    fn one_word_switches_it_off() {
        assert!(!allows_keep_awake(Some("cpu=none".as_ref())));
        assert!(allows_keep_awake(None) && allows_keep_awake(Some("".as_ref())));
    }
}
