// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask oracle`, `uring`, `hostile`, `hostile-wasi`, `conformance`, `kills`, `loom`
//! and `shuttle`: programs and tests of other crates, with the flags that they need.

use super::{Done, cargo, pass_on, target};
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Runs a program of the testkit with the oracle profile and these arguments.
pub(crate) fn testkit(program: &str, args: &[OsString]) -> Done {
    testkit_with(&[], program, args)
}

/// As [`testkit`], built with further arguments for cargo.
pub(crate) fn testkit_with(how: &[&str], program: &str, args: &[OsString]) -> Done {
    let mut run = cargo(&[
        "run",
        "--quiet",
        "--profile",
        "oracle",
        "-p",
        "openpath-testkit",
    ]);
    pass_on(run.args(how).args(["--bin", program, "--"]).args(args))
}

/// Runs the attacks of WASI guests for this many seconds, with the oracle profile.
pub(crate) fn hostile_wasi(seconds: u64, full: bool) -> Done {
    let mut test = cargo(&["test", "--profile", "oracle", "-p", "openpath-wasi"]);
    test.args(["--all-features", "--test", "hostile", "--"]);
    test.args(["--ignored", "--nocapture", "for_long"]);
    test.env("OPENPATH_HOSTILE_SECONDS", seconds.to_string());
    if full {
        test.env("OPENPATH_HOSTILE_FULL", "1");
    }
    pass_on(&mut test)
}

/// Builds the command with every assertion on, and returns its path.
///
/// # Errors
/// It cannot be built.
pub(crate) fn openpath() -> io::Result<PathBuf> {
    let args = [
        "build",
        "--quiet",
        "--profile",
        "oracle",
        "-p",
        "openpath-cli",
    ];
    let status = cargo(&args).status()?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "openpath was not built: {status}"
        )));
    }
    Ok(target("oracle").join("openpath"))
}

/// Runs the kills of the testkit with the command.
pub(crate) fn kills(args: &[OsString]) -> Done {
    let mut all = vec![OsString::from("--openpath"), openpath()?.into()];
    all.extend_from_slice(args);
    testkit("kills", &all)
}

/// Runs the suite of `RESOLVE_CACHED` on every host, and shows the skips.
pub(crate) fn conformance(args: &[OsString]) -> Done {
    let mut test = cargo(&["test", "--quiet", "-p", "openpath-conformance", "--"]);
    pass_on(
        test.args(["--include-ignored", "--nocapture", "--test-threads=1"])
            .args(args),
    )
}

/// Runs the loom tests of `sync` in a build folder of their own.
pub(crate) fn loom(args: &[OsString]) -> Done {
    let mut test = cargo(&["test", "--release", "-p", "openpath-sync", "--test", "loom"]);
    test.arg("--target-dir")
        .arg(target("loom"))
        .arg("--")
        .args(args);
    test.env("RUSTFLAGS", "--cfg loom");
    if env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        test.env("LOOM_MAX_PREEMPTIONS", "3");
    }
    pass_on(&mut test)
}

/// Runs the core under shuttle's scheduler, in a build folder of its own, with every assertion on.
pub(crate) fn shuttle(args: &[OsString]) -> Done {
    let mut test = cargo(&["test", "--profile", "oracle", "-p", "openpath-vfs"]);
    test.args(["--test", "shuttle", "--target-dir"])
        .arg(target("shuttle"))
        .arg("--")
        .args(args);
    pass_on(test.env("RUSTFLAGS", "--cfg shuttle"))
}
