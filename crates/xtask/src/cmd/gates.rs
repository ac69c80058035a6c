// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask gates`: builds the `openpath-bench` program, counts with it what cached calls
//! cost, and compares the counts with their limits. With `--plant` it checks that each planted
//! fault turns its gate red.

use super::{Done, cargo, pass_on, root, target};
use clap::Args;
use std::io::Error;
use std::process::ExitCode;
use std::time::Instant;
use xtask::gates::{Gate, PLANTS, Plan, Planted, in_parallel, run as run_gate};

/// The gates, and the fault to plant.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only this gate: lines, arena, locked, instructions or allocations.
    #[arg(long, value_parser = gate, conflicts_with = "plant")]
    only: Option<Gate>,
    /// Plant this fault, or `all` in turn, and pass only if each gate that must see it turns red.
    #[arg(long)]
    plant: Option<String>,
    /// List the faults and run nothing.
    #[arg(long)]
    list: bool,
    /// Write the counts into the budgets; exceptions of `lines` only shrink.
    #[arg(long, conflicts_with = "plant")]
    update: bool,
}

fn gate(name: &str) -> Result<Gate, String> {
    let found = Gate::ALL.into_iter().find(|gate| gate.name() == name);
    found.ok_or_else(|| format!("the gates are {}", Gate::ALL.map(Gate::name).join(", ")))
}

/// Runs them; fails if one is red, or stays green with a fault.
pub(crate) fn run(options: &Options) -> Done {
    if options.list {
        for planted in PLANTS {
            println!("{:16} {}", planted.name, planted.gate.name());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let built = pass_on(&mut cargo(&[
        "build",
        "--release",
        "--quiet",
        "-p",
        "openpath-bench",
    ]))?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    let good = match &options.plant {
        Some(name) => faults(name)?,
        None => gates(options)?,
    };
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn plan(plant: Option<&'static Planted>, update: bool) -> Plan {
    Plan {
        program: target("release").join("openpath-bench"),
        budgets: root().join("conformance/budgets"),
        plant,
        update,
    }
}

fn gates(options: &Options) -> Result<bool, Error> {
    let plan = plan(None, options.update);
    let mut green = true;
    for gate in Gate::ALL {
        if options.only.is_some_and(|only| only != gate) {
            continue;
        }
        let began = Instant::now();
        let report = run_gate(gate, &plan)?;
        green &= report.green();
        println!("{report} ({:.1} s)", began.elapsed().as_secs_f64());
    }
    Ok(green)
}

fn faults(name: &str) -> Result<bool, Error> {
    let wanted: Vec<&'static Planted> = PLANTS
        .iter()
        .filter(|planted| name == "all" || planted.name == name)
        .collect();
    if wanted.is_empty() {
        return Err(Error::other("there is no fault of this name; see --list"));
    }
    let reports = in_parallel(&wanted, |planted| {
        run_gate(planted.gate, &plan(Some(planted), false))
    });
    let mut seen = true;
    for (planted, report) in wanted.iter().zip(reports) {
        let failures = report?.failures;
        let red = failures.iter().any(|text| text.contains(planted.sign));
        seen &= red;
        let verdict = if red {
            "red, as it must be"
        } else {
            "NOT SEEN"
        };
        println!("{:16} {:13} {verdict}", planted.name, planted.gate.name());
        let said = failures.iter().take(3);
        said.for_each(|text| println!("  {text}"));
    }
    Ok(seen)
}
