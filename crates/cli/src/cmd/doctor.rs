// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath doctor`: whether `openpath run` is possible here, and what to do if it is not.

use crate::Outcome;
use crate::console;
use crate::error::Error;
use openpath_run::Verdict;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One JSON array of checks.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let checks = openpath_run::doctor(&openpath_run::Plan::default());
    let word = |verdict| match verdict {
        Verdict::Good => "good",
        Verdict::Bad => "bad",
        Verdict::Skipped => "skipped",
    };
    if args.json {
        let list = checks.iter().map(
            |check| json!({"name": check.name, "verdict": word(check.verdict), "text": check.text}),
        );
        console::put(&format!("{}\n", list.collect::<serde_json::Value>()))?;
    } else {
        let lines = checks
            .iter()
            .map(|check| format!("{:8}{:12}{}\n", word(check.verdict), check.name, check.text));
        console::put(&lines.collect::<String>())?;
    }
    let good = checks.iter().all(|check| check.verdict == Verdict::Good);
    Ok(if good {
        Outcome::Done
    } else {
        Outcome::Shortfall
    })
}
