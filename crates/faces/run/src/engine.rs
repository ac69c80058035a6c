// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines what can serve a view (this program through FUSE, or the kernel's overlayfs), and parses
//! its name.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What serves a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Engine {
    /// This program, through FUSE: every rule holds, and changes of the real tree are seen at once.
    Fuse,
    /// The kernel's overlayfs, which is quicker: over the whole view for root without rules of
    /// names, else over a part, and this program serves the rest.
    Kernel,
    /// The kernel's overlayfs if it can hold what the plan asks for, else this program.
    #[default]
    Auto,
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fuse" => Ok(Engine::Fuse),
            "kernel" => Ok(Engine::Kernel),
            "auto" => Ok(Engine::Auto),
            _ => Err(format!(
                "`{text}` is not an engine: write auto, kernel or fuse"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Engine;

    #[test]
    fn engine_names_are_parsed_and_serialised_alike() {
        for (name, engine) in [
            ("fuse", Engine::Fuse),
            ("kernel", Engine::Kernel),
            ("auto", Engine::Auto),
        ] {
            assert_eq!(name.parse(), Ok(engine));
            assert_eq!(
                serde_json::to_string(&engine).unwrap(),
                format!("\"{name}\"")
            );
        }
        assert!(
            "Kernel"
                .parse::<Engine>()
                .unwrap_err()
                .contains("auto, kernel or fuse")
        );
    }
}
