// SPDX-License-Identifier: MIT OR Apache-2.0
//! What serves a view: this program through FUSE, or the kernel's overlayfs.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What serves a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Engine {
    /// This program, through FUSE: every rule holds, and changes of the real tree are seen at once.
    #[default]
    Fuse,
    /// The kernel's overlayfs: quicker, for root alone and without rules of names.
    Kernel,
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fuse" => Ok(Engine::Fuse),
            "kernel" => Ok(Engine::Kernel),
            _ => Err(format!("`{text}` is not an engine: write fuse or kernel")),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Fuse => "fuse",
            Engine::Kernel => "kernel",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Engine;

    #[test]
    fn engine_names_are_parsed_printed_and_serialised_alike() {
        for engine in [Engine::Fuse, Engine::Kernel] {
            assert_eq!(engine.to_string().parse(), Ok(engine));
            assert_eq!(
                serde_json::to_string(&engine).unwrap(),
                format!("\"{engine}\"")
            );
        }
        assert!(
            "Kernel"
                .parse::<Engine>()
                .unwrap_err()
                .contains("fuse or kernel")
        );
    }
}
