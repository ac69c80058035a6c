// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask test`: the test binaries of the workspace, as many at a time as there are
//! processors, with little output.
//!
//! A passing binary prints nothing. Of a failing one at most [`PRINTED`] lines are printed: what
//! the first failed tests said, without backtraces, and the end of the output. All of it is kept in
//! `target/failed-tests/`.

use super::{Done, cargo, target};
use clap::{Args, ValueEnum};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Lines of a failure that are printed.
const PRINTED: usize = 40;
/// How many of them are the last ones: the names of the failed tests, and their number.
const TAIL: usize = 15;
/// Columns of a line of a failure that are printed.
const WIDTH: usize = 300;
/// The file in `target` with the time of each binary.
const TIMES: &str = "test-times.json";
/// The environment variable with the number of tests that a binary runs at a time.
const THREADS: &str = "RUST_TEST_THREADS";
/// The package whose ignored tests need root, and have a command of their own.
const CONFORMANCE: &str = "openpath-conformance";

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// The tests that are ignored because they take long.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) slow: Slow,
    /// Print how long each test binary took.
    #[arg(long)]
    pub(crate) times: bool,
    /// Test these packages alone, with these features: arguments of `cargo test`.
    #[arg(last = true)]
    pub(crate) cargo: Vec<String>,
}

/// Which tests run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Slow {
    /// Those that are not ignored.
    #[default]
    Without,
    /// The ignored ones as well.
    With,
    /// The ignored ones alone.
    Only,
}

/// A test binary.
struct Binary {
    /// `package target`, as in `openpath-vfs walk`.
    name: String,
    package: String,
    executable: PathBuf,
    /// Where cargo runs it: the folder of the package.
    folder: PathBuf,
}

/// How a binary ended.
struct Outcome {
    name: String,
    passed: bool,
    time: Duration,
    output: PathBuf,
}

/// Builds the tests, runs them, and reports each failure.
pub(crate) fn run(options: &Options) -> Done {
    let mut binaries = build(&options.cargo)?;
    if options.slow == Slow::Only {
        // Its usual tests have run, and its ignored ones do not run here.
        binaries.retain(|binary| binary.package != CONFORMANCE);
    }
    // The longest first, as far as the last run tells: nothing waits for one that began late.
    let last = times()?;
    binaries.sort_by_key(|binary| std::cmp::Reverse(last.get(&binary.name).copied()));
    let folder = target("failed-tests");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let queue = Mutex::new(binaries.iter().collect::<VecDeque<_>>());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| {
                // In a `while let` the lock would be held until the test has run.
                let next = || lock(&queue).pop_front();
                while let Some(binary) = next() {
                    let outcome = test(binary, options.slow, &folder);
                    lock(&outcomes).push(outcome);
                }
            });
        }
    });
    let mut passed = true;
    let outcomes = outcomes.into_inner().unwrap_or_else(|e| e.into_inner());
    let mut outcomes = outcomes.into_iter().collect::<io::Result<Vec<_>>>()?;
    outcomes.sort_by_key(|outcome| outcome.time);
    keep_times(last, &outcomes)?;
    for outcome in &outcomes {
        if options.times {
            eprintln!("{:7.1} s {}", outcome.time.as_secs_f64(), outcome.name);
        }
        if outcome.passed {
            fs::remove_file(&outcome.output)?;
        } else {
            passed = false;
            report(outcome)?;
        }
    }
    if options.slow != Slow::Only {
        let code = super::pass_on(cargo(&["test", "--doc", "--quiet"]).args(&options.cargo))?;
        passed &= code == ExitCode::SUCCESS;
    }
    Ok(ExitCode::from(u8::from(!passed)))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How long each binary took when it last ran, in milliseconds; empty before the first run.
fn times() -> io::Result<BTreeMap<String, u64>> {
    match fs::read(target(TIMES)) {
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(why) => Err(why),
    }
}

fn keep_times(mut times: BTreeMap<String, u64>, outcomes: &[Outcome]) -> io::Result<()> {
    for outcome in outcomes {
        let took = u64::try_from(outcome.time.as_millis()).unwrap_or(u64::MAX);
        times.insert(outcome.name.clone(), took);
    }
    fs::write(target(TIMES), serde_json::to_vec(&times)?)
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Builds the test binaries, and lists them.
fn build(args: &[String]) -> io::Result<Vec<Binary>> {
    // Not quiet: cargo then says that it waits for another build.
    let format = "--message-format=json-render-diagnostics";
    let mut build = cargo(&["test", "--no-run", format]);
    let built = build.args(args).stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        return Err(io::Error::other("the tests do not build"));
    }
    let text = String::from_utf8_lossy(&built.stdout);
    Ok(text.lines().filter_map(binary).collect())
}

/// The test binary that a line of cargo's messages is about.
fn binary(line: &str) -> Option<Binary> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if !message["profile"]["test"].as_bool()? {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?)
        .parent()?
        .to_owned();
    // `path+file:///folder#name@version` or `path+file:///folder/name#version`.
    let id = message["package_id"].as_str()?;
    let (path, version) = id.split_once('#')?;
    let package = match version.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next()?,
    };
    let name = format!("{package} {}", message["target"]["name"].as_str()?);
    Some(Binary {
        name,
        package: package.to_owned(),
        executable,
        folder,
    })
}

/// Runs a binary, with its output in a file of `folder`.
fn test(binary: &Binary, slow: Slow, folder: &Path) -> io::Result<Outcome> {
    // The name has a hash in it, so a library and a program of one name do not share a log.
    let name = binary.executable.file_name().unwrap_or_default();
    let output = folder.join(name).with_extension("log");
    let log = File::create(&output)?;
    let mut command = Command::new(&binary.executable);
    command.current_dir(&binary.folder).arg("--quiet");
    command.env("CARGO_MANIFEST_DIR", &binary.folder);
    if std::env::var_os(THREADS).is_none() {
        // Many tests wait for other processes most of the time.
        command.env(THREADS, (2 * processors()).to_string());
    }
    match slow {
        _ if binary.package == CONFORMANCE => {}
        Slow::Without => {}
        Slow::With => _ = command.arg("--include-ignored"),
        Slow::Only => _ = command.arg("--ignored"),
    }
    command.stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log);
    let start = Instant::now();
    let status = command.status()?;
    Ok(Outcome {
        name: binary.name.clone(),
        passed: status.success(),
        time: start.elapsed(),
        output,
    })
}

/// Prints the most telling lines of what a failed binary said.
fn report(failed: &Outcome) -> io::Result<()> {
    let text = String::from_utf8_lossy(&fs::read(&failed.output)?).into_owned();
    eprintln!(
        "{} FAILED; all it said: {}",
        failed.name,
        failed.output.display()
    );
    for line in telling(&text) {
        eprintln!("    {line}");
    }
    Ok(())
}

/// At most [`PRINTED`] lines, each cut at [`WIDTH`]: the first ones from the report of the failed
/// tests on, and the last [`TAIL`] ones. Backtraces and empty lines are left out.
fn telling(text: &str) -> Vec<String> {
    let mut in_backtrace = false;
    let is_told = |line: &&str| {
        in_backtrace |= line.trim() == "stack backtrace:";
        let is_told = !in_backtrace && !line.trim().is_empty();
        in_backtrace &= !line.starts_with("note: ");
        is_told
    };
    let lines: Vec<&str> = text.lines().filter(is_told).collect();
    let report = lines.iter().position(|line| *line == "failures:");
    let lines = &lines[report.unwrap_or(0)..];
    let tail = lines.len().saturating_sub(TAIL);
    let head = match report {
        Some(_) => tail.min(PRINTED - TAIL),
        None => 0,
    };
    let cut = |line: &&str| line.chars().take(WIDTH).collect();
    lines[..head]
        .iter()
        .chain(&lines[tail..])
        .map(cut)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_prints_what_the_first_tests_said_and_the_end() {
        let one = |name: &String| {
            format!(
                "---- {name} stdout ----\n\nthread '{name}' panicked at a.rs:1:1:\nwhy of {name}\n\
                 stack backtrace:\n   0: frame\nnote: Some details are omitted.\n\n"
            )
        };
        let all: Vec<_> = (0..30).map(|at| format!("test{at}")).collect();
        let said: String = all.iter().map(one).collect();
        let text = format!(
            "running\nfailures:\n\n{said}failures:\n{}\nend\n",
            all.join("\n")
        );
        let printed = telling(&text);
        assert_eq!(printed.len(), PRINTED);
        assert!(printed.contains(&"why of test0".to_owned()));
        assert_eq!(printed.last().map(String::as_str), Some("end"));
        assert!(!printed.iter().any(|line| line.contains("frame")));
    }

    #[test]
    fn failure_prints_at_most_forty_short_lines() {
        let long = "x".repeat(100_000);
        let text = format!("first\n{long}\n").repeat(60);
        for text in [&text, &format!("failures:\n{text}")] {
            let printed = telling(text);
            assert!(printed.len() <= PRINTED);
            assert!(printed.iter().all(|line| line.len() <= WIDTH));
        }
        assert_eq!(telling("one\ntwo\n"), ["one", "two"]);
    }

    #[test]
    fn test_binaries_are_found_in_messages_of_cargo() {
        let line = r#"{"package_id":"path+file:///w/crates/abi#openpath-abi@0.1.0",
            "manifest_path":"/w/crates/abi/Cargo.toml","target":{"name":"errno"},
            "profile":{"test":true},"executable":"/w/target/debug/deps/errno-1"}"#;
        let found = binary(line).expect("a test binary");
        assert_eq!(found.name, "openpath-abi errno");
        assert_eq!(found.package, "openpath-abi");
        assert_eq!(found.folder, Path::new("/w/crates/abi"));
        assert!(binary(&line.replace(r#""test":true"#, r#""test":false"#)).is_none());
        assert!(binary("not json").is_none());
    }
}
