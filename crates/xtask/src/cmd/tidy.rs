// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask tidy`: checks the whole tree and new commits by the rules of this repository
//! that no compiler knows.

use super::Done;
use std::process::{Command, ExitCode};
use xtask::tidy::{Level, Tree, check, check_subject};

/// The last commit before the rule of subjects.
const BEFORE_SUBJECTS: &str = "c0a73a8";

/// Prints all findings; fails if one has the level to fail.
pub(crate) fn run() -> Done {
    let tree = Tree::load(&super::root())?;
    let findings = check(&tree);
    for finding in &findings {
        eprintln!("{finding}");
    }
    let failed = |finding: &&xtask::tidy::Finding| finding.level == Level::Fail;
    let in_tree = findings.iter().filter(failed).count();
    let warns = findings.len() - in_tree;
    let fails = in_tree + subjects();
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

/// Prints the wrong subjects of commits and returns their number. A copy without the history has
/// none.
fn subjects() -> usize {
    let range = format!("{BEFORE_SUBJECTS}..HEAD");
    let mut git = Command::new("git");
    git.args(["log", "--no-merges", "--format=%h %s", &range]);
    let Ok(output) = git.current_dir(super::root()).output() else {
        return 0;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let commits = text.lines().filter_map(|line| line.split_once(' '));
    let wrong = commits.filter_map(|(hash, subject)| Some((hash, check_subject(subject).err()?)));
    wrong
        .inspect(|(hash, why)| eprintln!("{hash}: error [subject] {why}"))
        .count()
}
