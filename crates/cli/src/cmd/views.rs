// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath list` and `openpath discard`: views that runs have kept.

use crate::Outcome;
use crate::summary::text_of;
use openpath_bench::Error;
use openpath_run::Kept;
use serde_json::json;
use std::time::{Duration, SystemTime};

/// Options of `list`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// One JSON array of views.
    #[arg(long)]
    json: bool,
}

/// Options of `discard`.
#[derive(Debug, clap::Args)]
pub(crate) struct Discard {
    /// Names of views, or their directories.
    #[arg(required = true, value_name = "VIEW")]
    views: Vec<String>,
}

pub(crate) fn list(args: &List) -> Result<Outcome, Error> {
    let all = Kept::all().map_err(|why| Error::Setup(why.to_string()))?;
    if args.json {
        let list = all.iter().map(|kept| {
            json!({
                "name": kept.name,
                "directory": text_of(&kept.dir),
                "made": kept.about.made,
                "command": kept.about.command,
                "used": kept.is_used(),
            })
        });
        println!("{}", list.collect::<serde_json::Value>());
        return Ok(Outcome::Done);
    }
    for kept in all {
        let used = if kept.is_used() { "in use" } else { "" };
        let age = age(kept.about.made);
        let command = text_of(kept.about.command.as_ref());
        println!("{:20} {age:>10} {used:8}{command}", kept.name);
    }
    Ok(Outcome::Done)
}

pub(crate) fn discard(args: &Discard) -> Result<Outcome, Error> {
    for name in &args.views {
        let done = Kept::open(name).and_then(Kept::discard);
        done.map_err(|why| Error::Setup(why.to_string()))?;
    }
    Ok(Outcome::Done)
}

/// How long ago that was, in words.
fn age(made: u64) -> String {
    let made = SystemTime::UNIX_EPOCH + Duration::from_secs(made);
    let seconds = made.elapsed().unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}
