// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask index`: writes the index in `docs/LINUX.md` from the headings in `docs/linux`.

use super::Done;
use std::fs;
use std::process::ExitCode;
use xtask::tidy::{Tree, index};

/// Writes the page, if it differs.
pub(crate) fn run() -> Done {
    let root = super::root();
    let tree = Tree::load(&root)?;
    let Some((path, text)) = index(&tree) else {
        eprintln!("index: the page or its marks are missing; see `cargo xtask tidy`");
        return Ok(ExitCode::FAILURE);
    };
    fs::write(root.join(path), text)?;
    Ok(ExitCode::SUCCESS)
}
