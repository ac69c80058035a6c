// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask outside`: suites of other projects, and the stress of the testkit, on a mount
//! of ours and on the host's tmpfs.
//!
//! Everything happens in a private mount namespace (root is needed), so that no mount stays,
//! however it ends.

mod mounts;
mod tools;
mod verdicts;

use super::proof::testkit;
use super::{Done, pass_on};
use mounts::Mounts;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};
use verdicts::{Verdicts, worse};

/// The suite.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// POSIX rules for names, modes, owners, times and links: each case that passes on tmpfs must
    /// pass on the mount.
    Pjdfstest,
    /// Random reads, writes, mappings and truncations of one file, each checked.
    Fsx,
    /// Many processes that do the same on the mount and on a tmpfs, and compare.
    Stress,
    /// All of them in turn.
    All,
}

/// How many operations one fsx makes. It never unmaps what it maps for reading, so each takes
/// longer than the one before: 70 us in the first thousand, 10 ms after some hundred thousand.
const FSX_ONCE: u64 = 2000;

/// The options of `cargo xtask outside`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The suite to run.
    #[arg(long, value_enum, default_value = "all")]
    suite: Suite,
    /// What to mount, as for `openpath mount`; `overlay` and `overlay-dir` are over a tree that is
    /// made for them, with changes in memory or in a directory.
    #[arg(long, default_value = "mem")]
    over: String,
    /// Use the kernel's writeback cache.
    #[arg(long)]
    write_back: bool,
    /// How many operations fsx makes.
    #[arg(long, default_value_t = 100_000)]
    ops: u64,
    /// How many processes the stress starts.
    #[arg(long, default_value_t = 16)]
    processes: u64,
    /// How many seconds the stress lasts.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Seed of fsx and of the stress.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only cases of pjdfstest with this in their names.
    cases: Vec<String>,
    /// Already in a private mount namespace; internal.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Enters a mount namespace, and runs the suites there.
pub(crate) fn run(options: &Options) -> Done {
    if !options.inside {
        let mut again = Command::new("unshare");
        again.args(["--mount", "--propagation", "private"]);
        again
            .arg(env::current_exe()?)
            .args(env::args_os().skip(1))
            .arg("--inside");
        return pass_on(&mut again);
    }
    let mounts = Mounts::set(options)?;
    let wants = |suite| options.suite == suite || options.suite == Suite::All;
    let mut well = true;
    if wants(Suite::Pjdfstest) {
        well &= pjdfstest(&mounts, &options.cases)?;
    }
    if wants(Suite::Fsx) {
        well &= fsx(&mounts, options.ops, options.seed)?;
    }
    if wants(Suite::Stress) {
        well &= stress(&mounts, options)?;
    }
    well &= mounts.unmount()?;
    Ok(ExitCode::from(u8::from(!well)))
}

/// Runs pjdfstest on tmpfs and on the mount; returns whether the mount passes every case that tmpfs
/// does.
fn pjdfstest(mounts: &Mounts, cases: &[String]) -> io::Result<bool> {
    let program = tools::installed("pjdfstest", "0.2.2")?;
    let settings = mounts.folder().join("pjdfstest.toml");
    std::fs::write(&settings, tools::PJDFSTEST)?;
    let verdicts = |on: &Path| -> io::Result<Verdicts> {
        let mut run = Command::new(&program);
        run.arg("--configuration-file").arg(&settings);
        run.arg("--path").arg(on);
        run.arg("--secondary-fs").arg(mounts.second());
        run.args(cases).current_dir(mounts.folder());
        Ok(Verdicts::read(&String::from_utf8_lossy(
            &run.output()?.stdout,
        )))
    };
    let host = verdicts(mounts.host())?;
    let ours = verdicts(mounts.ours())?;
    println!("pjdfstest on tmpfs: {host}");
    println!("pjdfstest on {}: {ours}", mounts.what());
    let worse = worse(&host, &ours);
    for (case, verdict) in &worse {
        println!("  {case}: passes on tmpfs, here {verdict}");
    }
    if host.passed() == 0 {
        println!("no case passes on tmpfs: nothing was compared");
    }
    Ok(worse.is_empty() && host.passed() > 0)
}

/// Runs fsx on the mount; returns whether it found nothing.
fn fsx(mounts: &Mounts, ops: u64, seed: u64) -> io::Result<bool> {
    let program = tools::installed("fsx", "0.3.2")?;
    let mut left = ops;
    let mut seeds = seed..;
    while left > 0 {
        let (part, seed) = (left.min(FSX_ONCE), seeds.next().unwrap_or_default());
        let mut run = Command::new(&program);
        run.args(["-q", "-N", &part.to_string(), "-S", &seed.to_string()]);
        run.arg("-P").arg(mounts.folder()).arg("fsx");
        let ended = run.current_dir(mounts.ours()).output()?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            println!("fsx on {}: FAILED with seed {seed}: {said}", mounts.what());
            return Ok(false);
        }
        left -= part;
    }
    println!(
        "fsx on {}: {ops} operations, seeds {seed} to {}: nothing wrong",
        mounts.what(),
        seeds.start.saturating_sub(1)
    );
    Ok(true)
}

/// Runs the stress on the mount; returns whether it found nothing.
fn stress(mounts: &Mounts, options: &Options) -> io::Result<bool> {
    let mut args = vec![OsString::from("--on"), mounts.ours().into()];
    args.extend([OsString::from("--beside"), mounts.host().into()]);
    for (name, value) in [
        ("--processes", options.processes),
        ("--seconds", options.seconds),
        ("--seed", options.seed),
    ] {
        args.extend([OsString::from(name), value.to_string().into()]);
    }
    let well = testkit("stress", &args)? == ExitCode::SUCCESS;
    let word = if well { "nothing wrong" } else { "FAILED" };
    println!("stress on {}: {word}", mounts.what());
    Ok(well)
}
