// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath doctor`: checks whether `openpath run` is possible here, and says what to do if not.

use crate::console;
use crate::error::Error;
use crate::outcome::Outcome;
use openpath_run::Verdict;
use serde_json::json;

/// What the verdicts mean.
const VERDICTS: &str = "Verdicts: good; partly: a run is possible, but lacks what the line says; \
    bad: no run is possible; skipped: not checked, because another check failed. \
    Exit status: 0 a run is possible, 1 no run is possible.";

#[derive(Debug, clap::Args)]
#[command(after_help = VERDICTS)]
pub(crate) struct Args {
    /// Print one JSON array of checks.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let checks = openpath_run::doctor(&openpath_run::Plan::default());
    let word = |verdict| match verdict {
        Verdict::Good => "good",
        Verdict::Partly => "partly",
        Verdict::Bad => "bad",
        Verdict::Skipped => "skipped",
        _ => "unknown",
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
    let fails = |verdict| matches!(verdict, Verdict::Bad | Verdict::Skipped);
    Ok(if !checks.iter().any(|check| fails(check.verdict)) {
        Outcome::Done
    } else {
        Outcome::Shortfall
    })
}
