// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask mutate`: plants wrong rules one at a time and sees that the oracle reports each.
//!
//! A copy of the sources below `target/mutants` is changed in one place, the oracle is built from
//! it and must find a divergence; the unchanged copy must pass first, or nothing would be shown.

use super::mutants::{Mutant, SETS, Set};
use super::{Done, root, target};
use clap::Args;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// What to plant, and how hard the oracle tries.
#[derive(Args)]
pub(crate) struct Options {
    /// Only the wrong rule of this name.
    #[arg(long)]
    only: Option<String>,
    /// Only those of this part of the core: names, descriptors, mounts, locks.
    #[arg(long)]
    set: Option<String>,
    /// Random operations for each wrong rule that the golden facts do not catch.
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

/// What became of one wrong rule.
#[derive(PartialEq, Eq)]
enum Fate {
    /// By this part of the oracle, which said this.
    Caught(&'static str, String),
    Survived,
}

/// Plants them.
///
/// # Errors
/// If the copy cannot be made, a place is not found once, or the oracle does not build.
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
    let field = Field::lay_out()?;
    field.build()?;
    let mut clean: Vec<&[&str]> = Vec::new();
    for (set, _) in &mutants {
        if clean.contains(&set.parts) {
            continue;
        }
        if let Fate::Caught(part, said) = field.hunt(set.parts, options.ops)? {
            return Err(Error::other(format!(
                "{part} finds divergences with none planted; mend those first: {said}"
            )));
        }
        clean.push(set.parts);
    }
    let mut survivors = 0;
    for (set, m) in mutants {
        let began = Instant::now();
        let fate = field.with_planted(m, || field.hunt(set.parts, options.ops))?;
        let seconds = began.elapsed().as_secs();
        match fate {
            Fate::Caught(part, said) => {
                println!("{:22} caught by {part} ({seconds} s): {said}", m.name);
            }
            Fate::Survived => {
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

/// A copy of the sources to plant in.
struct Field {
    source: PathBuf,
    target: PathBuf,
}

impl Field {
    fn lay_out() -> io::Result<Self> {
        let base = target("mutants");
        let field = Self {
            source: base.join("source"),
            target: base.join("build"),
        };
        if field.source.exists() {
            std::fs::remove_dir_all(&field.source)?;
        }
        for name in ["crates", "conformance", "docs", ".cargo"] {
            copy(&root().join(name), &field.source.join(name))?;
        }
        for name in [
            "Cargo.toml",
            "Cargo.lock",
            "rust-toolchain.toml",
            "clippy.toml",
        ] {
            std::fs::copy(root().join(name), field.source.join(name))?;
        }
        Ok(field)
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
            // It is built anew for each, and runs for seconds.
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

    /// Whether the oracle, as built, finds a divergence, and in which part first.
    fn hunt(&self, parts: &[&'static str], ops: u64) -> io::Result<Fate> {
        let ops = ops.to_string();
        for &part in parts {
            let mut oracle = Command::new(self.target.join("oracle/oracle"));
            oracle.args(["--part", part, "--reports", "1", "--ops", &ops]);
            let found = oracle.current_dir(&self.source).output()?;
            match found.status.code() {
                Some(0) => {}
                Some(1) => return Ok(Fate::Caught(part, first_divergence(&found.stdout))),
                other => {
                    let text = String::from_utf8_lossy(&found.stderr).into_owned();
                    return Err(Error::other(format!(
                        "the oracle ended with {other:?}: {text}"
                    )));
                }
            }
        }
        Ok(Fate::Survived)
    }

    /// Runs `hunt` with one wrong rule in place, and puts the right one back.
    fn with_planted(
        &self,
        mutant: &Mutant,
        hunt: impl FnOnce() -> io::Result<Fate>,
    ) -> io::Result<Fate> {
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
        let fate = self.build().and_then(|()| hunt());
        std::fs::write(&path, right)?;
        fate
    }
}

/// The line of a report that names its first divergence.
fn first_divergence(report: &[u8]) -> String {
    let text = String::from_utf8_lossy(report);
    let mut lines = text.lines().filter(|l| l.starts_with("DIVERGENCE"));
    lines.next().map_or_else(|| text.to_string(), str::to_owned)
}

/// Copies a folder with all that is in it.
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
        for m in SETS.iter().flat_map(|s| s.mutants) {
            let path = root().join("crates/vfs/src").join(m.file);
            let text = std::fs::read_to_string(path).expect("reading the source");
            assert_eq!(text.matches(m.right).count(), 1, "{} in {}", m.name, m.file);
            assert_ne!(m.right, m.planted, "{}", m.name);
        }
    }
}
