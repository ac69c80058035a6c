// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask mutate`: plants wrong rules one at a time and checks that the oracle reports
//! each.
//!
//! It changes one place in a copy of the sources below `target/mutants` and builds the oracle from
//! it, which must find a divergence. The unchanged copy must pass first, or the result would prove
//! nothing.

use super::mutants::{Mutant, SETS, Set};
use super::{Done, root, target};
use clap::Args;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// The rules to plant, and the effort of the oracle.
#[derive(Args)]
pub(crate) struct Options {
    /// Plant only the wrong rule of this name.
    #[arg(long)]
    only: Option<String>,
    /// Plant only rules of this part of the core: names, descriptors, mounts, locks.
    #[arg(long)]
    set: Option<String>,
    /// How many random operations to try for each wrong rule that the golden facts do not catch.
    #[arg(long, default_value_t = 100_000)]
    ops: u64,
    /// List the wrong rules and plant none.
    #[arg(long)]
    list: bool,
}

impl Options {
    /// The wrong rules to plant, each with its set.
    fn wanted(&self) -> Vec<(&'static Set, &'static Mutant)> {
        let among = |wanted: &Option<String>, name| wanted.as_deref().is_none_or(|w| w == name);
        let sets = SETS.iter().filter(|s| among(&self.set, s.name));
        let all = sets.flat_map(|s| s.mutants.iter().map(move |m| (s, m)));
        all.filter(|(_, m)| among(&self.only, m.name)).collect()
    }
}

/// The result of one wrong rule.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// Caught by this part of the oracle, with its message.
    Caught(&'static str, String),
    Survived,
}

/// Plants the wanted rules.
///
/// # Errors
/// If the copy cannot be made, a place is not found exactly once, or the oracle does not build.
pub(crate) fn run(options: &Options) -> Done {
    let mutants = options.wanted();
    if mutants.is_empty() {
        return Err(Error::other(
            "there is no wrong rule of this name; see --list",
        ));
    }
    if options.list {
        for (set, m) in mutants {
            println!("{:22} {:12} {}", m.name, set.name, m.wrong);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let copied = SourceCopy::lay_out()?;
    copied.build()?;
    let mut clean: Vec<&[&str]> = Vec::new();
    for (set, _) in &mutants {
        if clean.contains(&set.parts) {
            continue;
        }
        if let Outcome::Caught(part, said) = copied.find(set.parts, options.ops)? {
            return Err(Error::other(format!(
                "{part} finds divergences with none planted; fix those first: {said}"
            )));
        }
        clean.push(set.parts);
    }
    let mut survivors = 0;
    for (set, m) in mutants {
        let began = Instant::now();
        let outcome = copied.with_planted(m, || copied.find(set.parts, options.ops))?;
        let seconds = began.elapsed().as_secs();
        match outcome {
            Outcome::Caught(part, said) => {
                println!("{:22} caught by {part} ({seconds} s): {said}", m.name);
            }
            Outcome::Survived => {
                survivors += 1;
                println!("{:22} SURVIVED: {} ({seconds} s)", m.name, m.wrong);
            }
        }
    }
    println!("mutate: {survivors} survived");
    Ok(if survivors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A copy of the sources for planting.
struct SourceCopy {
    source: PathBuf,
    target: PathBuf,
}

impl SourceCopy {
    fn lay_out() -> io::Result<Self> {
        let base = target("mutants");
        let copied = Self {
            source: base.join("source"),
            target: base.join("build"),
        };
        if copied.source.exists() {
            std::fs::remove_dir_all(&copied.source)?;
        }
        for name in ["crates", "conformance", "docs", ".cargo"] {
            copy(&root().join(name), &copied.source.join(name))?;
        }
        for name in [
            "Cargo.toml",
            "Cargo.lock",
            "rust-toolchain.toml",
            "clippy.toml",
        ] {
            std::fs::copy(root().join(name), copied.source.join(name))?;
        }
        Ok(copied)
    }

    fn build(&self) -> io::Result<()> {
        let args = [
            "build",
            "--quiet",
            "--profile",
            "oracle",
            "--package",
            "openpath-testkit",
        ];
        let built = Command::new("cargo")
            .args(args)
            .args(["--bin", "oracle"])
            .env("CARGO_TARGET_DIR", &self.target)
            .env("RUSTFLAGS", "-Awarnings")
            // Each build follows a small change, and the program runs for seconds.
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_ORACLE_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_ORACLE_DEBUG", "0")
            .current_dir(&self.source)
            .status()?;
        if built.success() {
            Ok(())
        } else {
            Err(Error::other("the oracle does not build"))
        }
    }

    /// Whether the built oracle finds a divergence, and in which part first.
    fn find(&self, parts: &[&'static str], ops: u64) -> io::Result<Outcome> {
        let ops = ops.to_string();
        for &part in parts {
            let mut oracle = Command::new(self.target.join("oracle/oracle"));
            oracle.args(["--part", part, "--reports", "1", "--ops", &ops]);
            let found = oracle.current_dir(&self.source).output()?;
            match found.status.code() {
                Some(0) => {}
                Some(1) => return Ok(Outcome::Caught(part, first_divergence(&found.stdout))),
                other => {
                    let text = String::from_utf8_lossy(&found.stderr).into_owned();
                    return Err(Error::other(format!(
                        "the oracle ended with {other:?}: {text}"
                    )));
                }
            }
        }
        Ok(Outcome::Survived)
    }

    /// Checks with one wrong rule in place, then restores the right one.
    fn with_planted(
        &self,
        mutant: &Mutant,
        find: impl FnOnce() -> io::Result<Outcome>,
    ) -> io::Result<Outcome> {
        let path = self.source.join("crates/vfs/src").join(mutant.file);
        let right = std::fs::read_to_string(&path)?;
        if right.matches(mutant.right).count() != 1 {
            let what = format!(
                "{}: its place is not found once in {}",
                mutant.name, mutant.file
            );
            return Err(Error::other(what));
        }
        std::fs::write(&path, right.replacen(mutant.right, mutant.planted, 1))?;
        let outcome = self.build().and_then(|()| find());
        std::fs::write(&path, right)?;
        outcome
    }
}

/// The line of a report that names its first divergence.
fn first_divergence(report: &[u8]) -> String {
    let text = String::from_utf8_lossy(report);
    let mut lines = text.lines().filter(|l| l.starts_with("DIVERGENCE"));
    lines.next().map_or_else(|| text.to_string(), str::to_owned)
}

/// Copies a folder with all of its contents.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_rule_has_exactly_one_place() {
        let mut misplaced = Vec::new();
        for m in SETS.iter().flat_map(|s| s.mutants) {
            let path = root().join("crates/vfs/src").join(m.file);
            let text = std::fs::read_to_string(path).expect("reading the source");
            if text.matches(m.right).count() != 1 {
                misplaced.push(format!("{} in {}: {}", m.name, m.file, m.right));
            }
            assert_ne!(m.right, m.planted, "{}", m.name);
        }
        assert!(misplaced.is_empty(), "{}", misplaced.join("\n"));
    }
}
