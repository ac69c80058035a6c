// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask tidy`: the rules of the house over the whole tree.

use super::Done;
use std::process::ExitCode;
use xtask::tidy::{Level, Tree, check};

/// Prints what the rules find; fails if one of the findings does.
pub(crate) fn run() -> Done {
    let tree = Tree::load(&super::root())?;
    let findings = check(&tree);
    for finding in &findings {
        eprintln!("{finding}");
    }
    let fails = findings
        .iter()
        .filter(|finding| finding.level == Level::Fail)
        .count();
    let warns = findings.len() - fails;
    eprintln!(
        "tidy: {} files, {fails} errors, {warns} warnings",
        tree.len()
    );
    Ok(if fails == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
