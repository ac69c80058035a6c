// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask readme`: the commands of the README that need the checkout, or with `--wasi`
//! those of WebAssembly guests.
//!
//! The first line of a block says where it runs: `sh` in a scratch directory, by the tests of the
//! command; `sh checkout` and `sh wasi` here; `sh test` by CI.

use super::{Done, pass_on, root};
use std::io;
use std::process::{Command, ExitCode};

/// Runs all blocks of this kind, in order; the first that fails ends it.
pub(crate) fn run(wasi: bool) -> Done {
    let text = std::fs::read_to_string(root().join("README.md"))?;
    let fence = if wasi {
        "```sh wasi\n"
    } else {
        "```sh checkout\n"
    };
    let blocks: Vec<&str> = blocks(&text, fence).collect();
    if blocks.is_empty() {
        return Err(io::Error::other("the README has no such block"));
    }
    for block in blocks {
        eprint!("== {block}");
        let mut shell = Command::new("sh");
        let code = pass_on(shell.args(["-ec", block]).current_dir(root()))?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The blocks that this fence opens.
fn blocks<'a>(text: &'a str, fence: &str) -> impl Iterator<Item = &'a str> {
    text.split(fence)
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(block, _)| block)
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn blocks_of_one_kind_are_found_in_order() {
        let text = "a\n```sh\nx\n```\n```sh checkout\ny\n```\n\n```sh checkout\nz\n```\n";
        let found: Vec<&str> = blocks(text, "```sh checkout\n").collect();
        assert_eq!(found, ["y\n", "z\n"]);
    }
}
