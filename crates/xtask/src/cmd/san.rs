// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask san`: the storm of the testkit, built by nightly with a sanitizer.
//!
//! The standard library is not rebuilt, so the ABI mismatch is allowed by name. That is why the
//! storm is a plain program with joined threads, and not a test: the test harness itself, scoped
//! threads and contended locks of the standard library give false reports.

use super::{Done, pass_on, root, target};
use std::env;
use std::process::{Command, ExitCode};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// A sanitizer.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Sanitizer {
    /// Use after free, out of bounds.
    Asan,
    /// Data races.
    Tsan,
}

/// Builds the storm with the sanitizer and runs it for so many seconds.
pub(crate) fn run(sanitizer: Sanitizer, seconds: u64) -> Done {
    let (name, options, default) = match sanitizer {
        Sanitizer::Asan => (
            "address",
            "ASAN_OPTIONS",
            "detect_leaks=0:quarantine_size_mb=16",
        ),
        Sanitizer::Tsan => (
            "thread",
            "TSAN_OPTIONS",
            "halt_on_error=0:suppressions=crates/testkit/tsan.supp",
        ),
    };
    let folder = target(&format!("san-{name}"));
    let mut build = Command::new("rustup");
    build
        .current_dir(root())
        .args(["run", "nightly", "cargo", "build", "--release"]);
    build.args([
        "-p",
        "openpath-testkit",
        "--bin",
        "storm",
        "--target",
        TRIPLE,
    ]);
    build.arg("--target-dir").arg(&folder);
    build.env(
        "RUSTFLAGS",
        format!("-Zsanitizer={name} -Cunsafe-allow-abi-mismatch=sanitizer"),
    );
    build
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    let code = pass_on(&mut build)?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    let mut storm = Command::new(folder.join(TRIPLE).join("release/storm"));
    storm.current_dir(root());
    storm.args(["--seconds", &seconds.to_string()]);
    if env::var_os(options).is_none() {
        storm.env(options, default);
    }
    pass_on(&mut storm)
}
