// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plants wrong rules in openpath, one at a time, and runs the oracle: each must be noticed.
//!
//! Exit status 1 if one is not, or if the oracle complains with no wrong rule planted.

use std::io::Read as _;
use std::process::ExitCode;

use clap::Parser;
use openpath_testkit::boss::{self, Place};
use openpath_testkit::mutants;
use openpath_testkit::random;
use openpath_testkit::sides::Against;
use openpath_testkit::work::{self, Job, Part, Source};

/// Runs the oracle against openpath with wrong rules.
#[derive(Debug, Parser)]
struct Args {
    /// Random operations for each wrong rule that the facts do not catch.
    #[arg(long, default_value_t = 300_000)]
    ops: u64,
    /// Worker processes.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Only this wrong rule.
    #[arg(long)]
    only: Option<u32>,
    /// For this program's own use.
    #[arg(hide = true)]
    inner: Option<String>,
}

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("mutate: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Fallible<bool> {
    if args.inner.as_deref() == Some("work") {
        let mut input = String::new();
        std::io::stdin().read_to_string(&mut input)?;
        work::work(&serde_json::from_str::<Job>(&input)?);
        return Ok(true);
    }
    let place = Place::new()?;
    if let Some(found) = caught(args, 0, &place)? {
        println!("without a wrong rule: {found}");
        return Ok(false);
    }
    let mut good = true;
    for mutant in mutants::ALL {
        if args.only.is_some_and(|n| n != mutant.number) {
            continue;
        }
        match caught(args, mutant.number, &place)? {
            Some(found) => println!("{} {}: caught by {found}", mutant.number, mutant.name),
            None => {
                println!(
                    "{} {}: NOT CAUGHT: {}",
                    mutant.number, mutant.name, mutant.wrong
                );
                good = false;
            }
        }
    }
    Ok(good)
}

/// What notices this wrong rule first: the facts or random cases.
fn caught(args: &Args, mutant: u32, place: &Place) -> Fallible<Option<String>> {
    for part in [Part::Golden, Part::Random] {
        let source = Source::new(part, 1)?;
        let count = source
            .count()
            .unwrap_or(args.ops.div_ceil(random::OPS as u64));
        let mut job = boss::job(part, Against::Ours(mutant), 1, count);
        job.reports_max = 1;
        let result = boss::run(&job, args.workers, place)?;
        if let Some(failure) = result.failures.first() {
            return Err(failure.clone().into());
        }
        if let Some(report) = result.reports.first() {
            let cases = result.summary.cases;
            return Ok(Some(format!(
                "{} after {cases} cases of {part:?}",
                report.origin
            )));
        }
    }
    Ok(None)
}
