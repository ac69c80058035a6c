// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask storm` and `soak`: programs of the testkit, plain or built by nightly with a
//! sanitizer.
//!
//! The standard library is not rebuilt, so the ABI mismatch is allowed by name. So each is a plain
//! program with joined threads, not a test: the test harness, scoped threads and contended locks of
//! the standard library give false reports.

use super::proof::testkit_with;
use super::{Done, pass_on, root, target};
use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The kind of build.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Build {
    /// Plain, with every assertion on.
    Plain,
    /// Use after free, out of bounds, leaked memory.
    Asan,
    /// Data races.
    Tsan,
    /// All of them in turn.
    All,
}

/// The options of `cargo xtask storm`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many seconds each storm lasts.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// The kind of build.
    #[arg(long, value_enum, default_value = "plain")]
    build: Build,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Passed on to the storm; try `-- --help`.
    #[arg(last = true)]
    args: Vec<OsString>,
}

/// The options of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Soak {
    /// How many operations to run.
    #[arg(long, default_value_t = 1_000_000)]
    ops: u64,
    /// The kind of build.
    #[arg(long, value_enum, default_value = "plain")]
    build: Build,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use a directory of the host, with its kernel's io_uring for data.
    #[arg(long)]
    io_uring: bool,
}

/// Builds and runs the soak, in each requested build.
pub(crate) fn soak(soak: &Soak) -> Done {
    let mut args = vec![OsString::from("--ops"), soak.ops.to_string().into()];
    args.extend([OsString::from("--seed"), soak.seed.to_string().into()]);
    if !soak.io_uring {
        return each("soak", soak.build, &[], &args);
    }
    args.extend(["--back", "host"].map(OsString::from));
    each("soak", soak.build, &["--features", "io-uring"], &args)
}

/// Builds and runs the storm, in each requested build.
pub(crate) fn run(options: &Options) -> Done {
    let mut args = vec![
        OsString::from("--seconds"),
        options.seconds.to_string().into(),
    ];
    args.extend([OsString::from("--seed"), options.seed.to_string().into()]);
    args.extend(options.args.iter().cloned());
    each("storm", options.build, &[], &args)
}

fn each(program: &str, build: Build, features: &[&str], args: &[OsString]) -> Done {
    let builds = match build {
        Build::All => &[Build::Plain, Build::Asan, Build::Tsan][..],
        one => &[one],
    };
    for build in builds {
        let code = one(program, *build, features, args)?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn one(program: &str, build: Build, features: &[&str], args: &[OsString]) -> Done {
    let mut run = match build {
        Build::Asan => sanitized(program, features, "address", ("ASAN_OPTIONS", ASAN))?,
        Build::Tsan => sanitized(program, features, "thread", ("TSAN_OPTIONS", TSAN))?,
        Build::Plain | Build::All => return testkit_with(features, program, args),
    };
    pass_on(run.args(args))
}

const ASAN: &str = "detect_leaks=1:quarantine_size_mb=16";
const TSAN: &str = "halt_on_error=0:suppressions=crates/testkit/tsan.supp";

/// A program with a sanitizer, which gets these options unless the environment has some.
fn sanitized(
    program: &str,
    features: &[&str],
    name: &str,
    (variable, options): (&str, &str),
) -> std::io::Result<Command> {
    let folder = target(&format!("san-{name}"));
    let mut build = Command::new("rustup");
    build
        .current_dir(root())
        .args(["run", "nightly", "cargo", "build", "--release"]);
    build.args([
        "-p",
        "openpath-testkit",
        "--bin",
        program,
        "--target",
        TRIPLE,
    ]);
    build.args(features);
    build.arg("--target-dir").arg(&folder);
    build.env(
        "RUSTFLAGS",
        format!("-Zsanitizer={name} -Cunsafe-allow-abi-mismatch=sanitizer"),
    );
    build
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    if !build.status()?.success() {
        return Err(std::io::Error::other(format!("{program} was not built")));
    }
    let mut run = Command::new(folder.join(TRIPLE).join("release").join(program));
    run.current_dir(root());
    if env::var_os(variable).is_none() {
        run.env(variable, options);
    }
    Ok(run)
}
