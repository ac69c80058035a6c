// SPDX-License-Identifier: MIT OR Apache-2.0
//! Switches for measuring parts of the server against each other with one binary.
//!
//! `OPENPATH_FUSE_TUNING` is a list with commas, read when a session starts:
//!
//! | word | effect |
//! |---|---|
//! | `cpu=both` | the default: keep one of two CPUs awake, and pin readers to the caller's |
//! | `cpu=none` | neither |
//! | `cpu=keep-awake` | only keep one of two CPUs awake |
//! | `cpu=affinity` | only pin, on any number of CPUs |
//! | `clone` | each thread reads a clone of the device's descriptor (`FUSE_DEV_IOC_CLONE`) |

/// The variable.
const VARIABLE: &str = "OPENPATH_FUSE_TUNING";

/// What is switched on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuning {
    /// One of two CPUs is kept awake.
    pub(crate) keep_awake: bool,
    /// Threads that read the device follow their caller's CPU.
    pub(crate) affinity: bool,
    /// Threads that read the device have a descriptor of their own.
    pub(crate) clone: bool,
}

impl Tuning {
    /// As the environment says.
    pub(crate) fn from_env() -> Self {
        Self::parse(&std::env::var(VARIABLE).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let has = |word: &str| text.split(',').any(|part| part.trim() == word);
        Self {
            keep_awake: !has("cpu=none") && !has("cpu=affinity"),
            affinity: !has("cpu=none") && !has("cpu=keep-awake"),
            clone: has("clone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tuning;

    #[test]
    fn words_switch_parts_on_and_off() {
        let parsed = |text| {
            let Tuning {
                keep_awake,
                affinity,
                clone,
            } = Tuning::parse(text);
            (keep_awake, affinity, clone)
        };
        assert_eq!(parsed(""), (true, true, false));
        assert_eq!(parsed("cpu=both"), (true, true, false));
        assert_eq!(parsed("cpu=none,clone"), (false, false, true));
        assert_eq!(parsed("cpu=keep-awake"), (true, false, false));
        assert_eq!(parsed("clone, cpu=affinity"), (false, true, true));
    }
}
