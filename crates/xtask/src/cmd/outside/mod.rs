// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask outside`: other people's suites, and the stress of the testkit, over a mount of
//! ours, beside the host's tmpfs.
//!
//! Everything happens in a mount namespace of its own (root is needed), so that nothing stays
//! mounted whatever ends it.

mod judge;
mod stage;
mod tools;

use super::proof::testkit;
use super::{Done, pass_on};
use judge::{Verdicts, worse};
use stage::Stage;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Which suite.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// What POSIX says of names, modes, owners, times and links: each case that passes on tmpfs
    /// must pass on the mount.
    Pjdfstest,
    /// Random reads, writes, mappings and changes of length of one file, each checked.
    Fsx,
    /// Many processes that do the same to the mount and to a tmpfs, and compare.
    Stress,
    /// One after the other.
    All,
}

/// How many operations one fsx does. It never unmaps what it maps for reading, so each takes longer
/// than the one before: 70 us in the first thousand, 10 ms after some hundred thousand.
const FSX_ONCE: u64 = 2000;

/// What `cargo xtask outside` is told.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which suite.
    #[arg(long, value_enum, default_value = "all")]
    suite: Suite,
    /// What is mounted, as `openpath mount` takes it; `overlay` and `overlay-dir` are of a tree
    /// that is made for it, with changes in memory and in a directory.
    #[arg(long, default_value = "mem")]
    over: String,
    /// The kernel keeps writes back.
    #[arg(long)]
    write_back: bool,
    /// How many operations of fsx.
    #[arg(long, default_value_t = 100_000)]
    ops: u64,
    /// How many processes of the stress.
    #[arg(long, default_value_t = 16)]
    processes: u64,
    /// How long the stress lasts.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Seed of fsx and of the stress.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cases of pjdfstest, by a part of their name.
    cases: Vec<String>,
    /// In a mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Enters a mount namespace, and there runs what was asked for.
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
    let stage = Stage::set(options)?;
    let wants = |suite| options.suite == suite || options.suite == Suite::All;
    let mut well = true;
    if wants(Suite::Pjdfstest) {
        well &= pjdfstest(&stage, &options.cases)?;
    }
    if wants(Suite::Fsx) {
        well &= fsx(&stage, options.ops, options.seed)?;
    }
    if wants(Suite::Stress) {
        well &= stress(&stage, options)?;
    }
    well &= stage.strike()?;
    Ok(ExitCode::from(u8::from(!well)))
}

/// Runs pjdfstest on tmpfs and on the mount; whether the mount is as good.
fn pjdfstest(stage: &Stage, cases: &[String]) -> io::Result<bool> {
    let program = tools::installed("pjdfstest", "0.2.2")?;
    let settings = stage.folder().join("pjdfstest.toml");
    std::fs::write(&settings, tools::PJDFSTEST)?;
    let verdicts = |on: &Path| -> io::Result<Verdicts> {
        let mut run = Command::new(&program);
        run.arg("--configuration-file").arg(&settings);
        run.arg("--path").arg(on);
        run.arg("--secondary-fs").arg(stage.second());
        run.args(cases).current_dir(stage.folder());
        Ok(Verdicts::read(&String::from_utf8_lossy(
            &run.output()?.stdout,
        )))
    };
    let host = verdicts(stage.host())?;
    let ours = verdicts(stage.ours())?;
    println!("pjdfstest on tmpfs: {host}");
    println!("pjdfstest on {}: {ours}", stage.what());
    let worse = worse(&host, &ours);
    for (case, verdict) in &worse {
        println!("  {case}: passes on tmpfs, here {verdict}");
    }
    if host.passed() == 0 {
        println!("no case passes on tmpfs: nothing was compared");
    }
    Ok(worse.is_empty() && host.passed() > 0)
}

/// Runs fsx on the mount; whether it found nothing.
fn fsx(stage: &Stage, ops: u64, seed: u64) -> io::Result<bool> {
    let program = tools::installed("fsx", "0.3.2")?;
    let mut left = ops;
    let mut seeds = seed..;
    while left > 0 {
        let (part, seed) = (left.min(FSX_ONCE), seeds.next().unwrap_or_default());
        let mut run = Command::new(&program);
        run.args(["-q", "-N", &part.to_string(), "-S", &seed.to_string()]);
        run.arg("-P").arg(stage.folder()).arg("fsx");
        let ended = run.current_dir(stage.ours()).output()?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr);
            println!("fsx on {}: FAILED with seed {seed}: {said}", stage.what());
            return Ok(false);
        }
        left -= part;
    }
    println!(
        "fsx on {}: {ops} operations, seeds {seed} to {}: nothing wrong",
        stage.what(),
        seeds.start.saturating_sub(1)
    );
    Ok(true)
}

/// Runs the stress on the mount; whether it found nothing.
fn stress(stage: &Stage, options: &Options) -> io::Result<bool> {
    let mut args = vec![OsString::from("--on"), stage.ours().into()];
    args.extend([OsString::from("--beside"), stage.host().into()]);
    for (name, value) in [
        ("--processes", options.processes),
        ("--seconds", options.seconds),
        ("--seed", options.seed),
    ] {
        args.extend([OsString::from(name), value.to_string().into()]);
    }
    let well = testkit("stress", &args)? == ExitCode::SUCCESS;
    let word = if well { "nothing wrong" } else { "FAILED" };
    println!("stress on {}: {word}", stage.what());
    Ok(well)
}
