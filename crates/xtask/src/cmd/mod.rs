// SPDX-License-Identifier: MIT OR Apache-2.0
//! Declares the commands of `cargo xtask`, and holds what they share: the root, folders for builds,
//! calls of cargo, and the check of a part that is not built by default.

pub(crate) mod check;
pub(crate) mod gates;
pub(crate) mod index;
mod mutants;
pub(crate) mod mutate;
pub(crate) mod outside;
pub(crate) mod picture;
pub(crate) mod proof;
pub(crate) mod readme;
pub(crate) mod sqlite;
pub(crate) mod storm;
pub(crate) mod test;
pub(crate) mod tidy;
pub(crate) mod wasi;
pub(crate) mod wasi_programs;

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The result of a command: an exit code, or why it could not run.
pub(crate) type Done = io::Result<ExitCode>;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The folder for a build with its own flags, beside the usual one.
pub(crate) fn target(name: &str) -> PathBuf {
    let usual = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(usual).join(name)
}

/// A call of the cargo that runs this program, in the root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    command
}

/// Checks a part that is not built by default, as `check` does: clippy, doc, and the tests that
/// `tests` names, with `vars` set. The first step that fails ends it.
pub(crate) fn check_part(part: &[&str], tests: &[&str], vars: &[(&str, &str)]) -> Done {
    for step in [
        &["clippy", "--all-targets", "--quiet"][..],
        &["doc", "--no-deps", "--quiet"],
        &["test", "--quiet"],
    ] {
        eprintln!("== {} {}", step[0], part[0]);
        let mut command = cargo(step);
        command.args(part);
        match step[0] {
            "clippy" => command.args(["--", "-Dwarnings"]),
            "test" => command.args(tests),
            _ => &mut command,
        };
        command.env("RUSTDOCFLAGS", "-Dwarnings");
        let code = pass_on(command.envs(vars.iter().copied()))?;
        if code != ExitCode::SUCCESS {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a program to its end and returns its exit code; a signal counts as 1.
pub(crate) fn pass_on(command: &mut Command) -> Done {
    let status = command.status().map_err(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        io::Error::new(error.kind(), format!("{program}: {error}"))
    })?;
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    Ok(ExitCode::from(code))
}
