// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares openpath with the running kernel (the oracle) by golden facts, all short sequences,
//! random cases, mounts and file locks. Needs root.
//!
//! Exit status 1 on a divergence, with the shrunk case on standard output; 77 without root.

use std::io::Read as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use openpath_abi::Errno;
use openpath_testkit::case::{self, Case, Snapshots};
use openpath_testkit::exhaustive;
use openpath_testkit::golden;
use openpath_testkit::host::fuse::Serve;
use openpath_testkit::kernel_view;
use openpath_testkit::locks::part as locks;
use openpath_testkit::ours::SWITCHES;
use openpath_testkit::plain::Trust;
use openpath_testkit::random;
use openpath_testkit::scratch::Scratch;
use openpath_testkit::sides::{Against, Sides};
use openpath_testkit::skips::Counts;
use openpath_testkit::supervisor::{self, Ended};
use openpath_testkit::work::{self, Job, Part, Source};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    Golden,
    Exhaustive,
    Random,
    Mounts,
    Locks,
    All,
}

/// Where openpath keeps the files of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Back {
    Mem,
    Host,
    /// The host kernel makes the calls, on a tree in memory that we serve by FUSE.
    Fuse,
    /// An overlay of trees in memory.
    Overlay,
    /// An overlay of trees of the host.
    OverlayHost,
    /// The kernel's overlay as `openpath run --engine kernel` has it, for the golden facts alone.
    KernelOverlay,
}

/// Compares openpath with the host kernel.
#[derive(Debug, Parser)]
struct Args {
    /// What to run.
    #[arg(long, value_enum, default_value = "all")]
    part: Which,
    /// How many random operations; for locks, also one circle of waits per hundred.
    #[arg(long, default_value_t = 200_000)]
    ops: u64,
    /// Run only this set (of the exhaustive part, or of locks).
    #[arg(long)]
    set: Option<String>,
    /// Seed of the first random case.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Worker processes.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Stop each part after this many minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Different divergences after which a worker stops.
    #[arg(long, default_value_t = 20)]
    reports: usize,
    /// Compare the host kernel with itself.
    #[arg(long)]
    host: bool,
    /// Turn this switch of the core off: it must not change a result.
    #[arg(long, default_value = "none", value_parser = switch)]
    flip: u32,
    /// Put openpath over a file system of the host instead of its own in memory.
    #[arg(long, value_enum, default_value = "mem")]
    back: Back,
    /// With `--back host`: what openpath caches of that file system.
    #[arg(long, value_enum, default_value = "exclusive")]
    trust: Trust,
    /// With `--back fuse`: how the tree is served.
    #[arg(long, value_enum, default_value = "plain")]
    serve: Serve,
    /// Run one case from a file, and print the results of both sides.
    #[arg(long)]
    case: Option<std::path::PathBuf>,
    /// Print the random case of the seed, and exit.
    #[arg(long)]
    print: bool,
    #[command(subcommand)]
    inner: Option<Inner>,
}

#[derive(Debug, Subcommand)]
enum Inner {
    /// Run as a worker; internal.
    #[command(hide = true)]
    Work,
    /// Run one case in a process of its own; internal.
    #[command(hide = true)]
    One,
}

/// Exit status of a process that may not unshare its mount namespace: a skipped test.
const NEEDS_ROOT: u8 = 77;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// The number of the switch with this name.
fn switch(name: &str) -> Result<u32, String> {
    let names: Vec<&str> = SWITCHES.iter().map(|s| s.0).collect();
    let found = names.iter().position(|n| *n == name);
    found
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| format!("one of {}", names.join(", ")))
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("oracle: {e}");
            let needs_root = e.downcast_ref() == Some(&Errno::EPERM);
            ExitCode::from(if needs_root { NEEDS_ROOT } else { 2 })
        }
    }
}

fn run(args: &Args) -> Fallible<bool> {
    let mut input = String::new();
    match args.inner {
        Some(Inner::Work) => {
            std::io::stdin().read_to_string(&mut input)?;
            work::work(&serde_json::from_str::<Job>(&input)?);
            return Ok(true);
        }
        Some(Inner::One) => {
            std::io::stdin().read_to_string(&mut input)?;
            let (job, text) = input.split_once('\n').ok_or("no case")?;
            print!("{}", one(&serde_json::from_str(job)?, &text.parse()?)?);
            return Ok(true);
        }
        None => {}
    }
    if args.print {
        let case = match args.part {
            Which::Mounts => random::mounts::case(args.seed),
            _ => random::case(args.seed),
        };
        print!("{case}");
        return Ok(true);
    }
    if args.back == Back::KernelOverlay {
        return match args.part {
            Which::Golden => kernel_overlay(),
            _ => Err("the kernel's overlay is for --part golden alone".into()),
        };
    }
    let against = against(args);
    let has_locks = against == Against::Ours(0);
    if args.part == Which::Locks && !has_locks {
        return Err("locks are compared in memory only, with no switch off".into());
    }
    let place = Scratch::new("oracle")?;
    if let Some(file) = &args.case {
        let case: Case = std::fs::read_to_string(file)?.parse()?;
        let job = supervisor::job(Part::Random, against, 0, 0);
        return Ok(match supervisor::one(&job, &case)? {
            Ended::Said(text) => {
                print!("{text}");
                !text.contains(DIFFERS)
            }
            Ended::Exited(code) => return Err(exited(code)),
            Ended::Died(how) => {
                println!("{how}");
                false
            }
        });
    }
    let parts: &[Part] = match args.part {
        Which::Golden => &[Part::Golden],
        Which::Exhaustive => &[Part::Exhaustive],
        Which::Random => &[Part::Random],
        Which::Mounts => &[Part::Mounts],
        Which::Locks => &[],
        Which::All => &[Part::Golden, Part::Exhaustive, Part::Random, Part::Mounts],
    };
    let mut good = true;
    for part in parts {
        good &= layer(args, *part, against, &place)?;
    }
    if matches!(args.part, Which::Locks | Which::All) && has_locks {
        good &= of_locks(args)?;
    }
    Ok(good)
}

/// What is compared with the host kernel.
fn against(args: &Args) -> Against {
    match args.back {
        _ if args.host => Against::Host,
        Back::Host => Against::OverHost(args.flip, args.trust),
        Back::Fuse => Against::Served(args.serve),
        Back::Overlay => Against::Stacked(args.flip, false),
        Back::OverlayHost => Against::Stacked(args.flip, true),
        Back::Mem | Back::KernelOverlay => Against::Ours(args.flip),
    }
}

/// Checks the golden facts on the kernel's overlay, and prints what differs.
fn kernel_overlay() -> Fallible<bool> {
    let facts = golden::all()?;
    let checked = kernel_view::check(&facts)?;
    println!(
        "Golden: {} of {} facts hold on the kernel's overlay; {} have no lower tree",
        checked.held,
        facts.len(),
        checked.without_lower,
    );
    let mut good = true;
    for difference in &checked.differences {
        let word = match difference.known {
            Some(reason) => format!("known ({reason})"),
            None => "DIVERGENCE".to_owned(),
        };
        good &= difference.known.is_some();
        println!(
            "{word}: {}: {}: {:?}, the fact is {:?}",
            difference.name, difference.op, difference.got, difference.wanted
        );
    }
    for name in &checked.gone {
        println!("GONE: {name} is a known difference, and holds");
    }
    Ok(good && checked.gone.is_empty())
}

/// Runs the locks part, which has no cases.
fn of_locks(args: &Args) -> Fallible<bool> {
    let set = args.set.as_deref();
    let wanted = locks::Wanted {
        set: set.filter(|_| args.part == Which::Locks),
        ops: args.ops,
        seed: args.seed,
        reports: args.reports,
    };
    Ok(locks::run(&wanted, |line| println!("{line}"))?)
}

/// Explains the exit status of a process that could not run its case.
fn exited(code: i32) -> Box<dyn std::error::Error> {
    if code == i32::from(NEEDS_ROOT) {
        return Errno::EPERM.into();
    }
    format!("it exited with {code}").into()
}

/// First line of the answer about one case if the sides differ.
const DIFFERS: &str = "DIVERGENCE";

/// Runs one case in this process, which cannot be used afterwards; returns the results of both
/// sides.
fn one(job: &Job, case: &Case) -> Fallible<String> {
    let sides = Sides::new(job.against)?;
    let mut counts = Counts::default();
    let checked = sides.check(case, Snapshots::Each, &mut counts)?;
    let mut text = String::new();
    for (i, op) in case.ops.iter().enumerate() {
        let other = checked.other.as_ref().and_then(|t| t.outcomes.get(i));
        let other = other.map_or("-".to_owned(), |o| format!("{o:?}"));
        let host = format!("{:?}", checked.host.outcomes[i]);
        let both = if host == other {
            host
        } else {
            format!("host {host} / other {other}")
        };
        text += &format!("{i:3} {op}\n      {both}\n");
    }
    for id in counts.0.keys() {
        text += &format!("not compared: {id}\n");
    }
    if let Some(d) = &checked.divergence {
        text += &format!("{DIFFERS}\n{}", case::report(case, d));
    }
    Ok(text)
}

/// Runs a layer and prints its results.
fn layer(args: &Args, part: Part, against: Against, place: &Scratch) -> Fallible<bool> {
    let source = Source::new(part, args.seed)?;
    let each = match part {
        Part::Mounts => random::mounts::OPS,
        _ => random::OPS,
    };
    let count = source.count().unwrap_or(args.ops.div_ceil(each as u64));
    let [first, count] = match (&source, &args.set) {
        (Source::Exhaustive(sets), Some(name)) => {
            exhaustive::range(sets, name).ok_or("there is no set of this name")?
        }
        _ => [0, count],
    };
    let mut job = supervisor::job(part, against, args.seed, count);
    job.from = first;
    job.seconds_max = args.minutes * 60;
    job.reports_max = args.reports;
    let result = supervisor::run(&job, args.workers, place)?;
    let s = &result.summary;
    println!(
        "{part:?}: {} of {} cases, {} operations, {} answers, {:.1} s, {:.0} operations/s",
        s.cases,
        count - first,
        s.ops,
        s.answers,
        result.seconds,
        s.ops as f64 / result.seconds,
    );
    let share = |[n, ok]: &[u64; 2]| format!("{}%", ok * 100 / (*n).max(1));
    let words = s
        .worked
        .iter()
        .map(|(word, n)| format!("{word} {} {}", n[0], share(n)));
    println!(
        "  how many, and how many worked: {}",
        words.collect::<Vec<_>>().join(", ")
    );
    for (name, n) in &s.counts {
        println!("  not compared: {name} {n} times");
    }
    if part == Part::Golden {
        for line in golden::NOT_APPLICABLE
            .lines()
            .filter(|l| !l.starts_with('#'))
        {
            println!("  not applicable: {line}");
        }
    }
    for report in &result.reports {
        let n = s.alike.get(&report.signature).copied().unwrap_or(1);
        println!(
            "DIVERGENCE from {}, {n} alike: {}\n{}",
            report.origin, report.signature, report.text
        );
    }
    for failure in &result.failures {
        println!("FAILED: {failure}");
    }
    let counts = Counts(s.counts.clone());
    for name in counts.unlisted() {
        println!("FAILED: {name} is skipped, but is in no list");
    }
    let seen = s.alike.values().sum::<u64>();
    println!(
        "  {} different divergences, {seen} in all",
        result.reports.len()
    );
    Ok(result.reports.is_empty() && result.failures.is_empty() && counts.unlisted().is_empty())
}
