// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath-bench tenants`: what tenants of a small instance have cached, and what they did.

use std::io::Write;

use crate::Error;
use crate::tenants::{self, Load, Row};

use super::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Tenants {
    /// Files that one tenant uses again and again.
    #[arg(long, default_value_t = 1000)]
    files: u32,
    /// Names that do not exist, for which the other one looks.
    #[arg(long, default_value_t = 100_000)]
    names: u32,
    /// How many names that do not exist each may have cached.
    #[arg(long, default_value_t = 4096)]
    negative_max: u32,
    /// Print a line of JSON for each tenant.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Tenants) -> Result<Outcome, Error> {
    let rows = tenants::run(Load {
        files: args.files,
        names: args.names,
        negative_max: args.negative_max,
    })?;
    let mut out = std::io::stdout().lock();
    if args.json {
        for row in &rows {
            writeln!(out, "{}", json(row))?;
        }
    } else {
        table(&mut out, &rows)?;
    }
    Ok(Outcome::Done)
}

/// A column for each tenant; what is 0 for all is left out.
fn table(out: &mut impl Write, rows: &[Row]) -> std::io::Result<()> {
    write!(out, "{:24}", "tenant")?;
    for row in rows {
        write!(out, " {:>12}", row.name)?;
    }
    writeln!(out)?;
    let names = rows.first().map_or(&[][..], |row| &row.figures[..]);
    for (at, (name, _)) in names.iter().enumerate() {
        let line: Vec<u64> = rows.iter().map(|row| row.figures[at].1).collect();
        if line.iter().all(|&n| n == 0) {
            continue;
        }
        write!(out, "{name:24}")?;
        for n in line {
            write!(out, " {n:>12}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// All figures of a tenant. No name has anything in it that must be quoted.
fn json(row: &Row) -> String {
    let figures = row.figures.iter();
    let figures = figures.map(|(name, n)| format!(", \"{name}\": {n}"));
    let figures: String = figures.collect();
    format!("{{\"tenant\": \"{}\"{figures}}}", row.name)
}
