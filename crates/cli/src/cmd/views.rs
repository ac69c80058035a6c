// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath list` and `openpath discard`: list the views that run or are kept on the disk, and
//! remove kept ones.

use crate::bars::Bars;
use crate::console;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::summary::{seconds_since, text_of};
use openpath_run::live::{LiveServer, ServedKind};
use openpath_run::{Committed, KeptView, ListedView};
use serde_json::json;
use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;

/// Options of `list`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Print one JSON array of views.
    #[arg(long)]
    json: bool,
}

/// Options of `discard`.
#[derive(Debug, clap::Args)]
pub(crate) struct Discard {
    /// Names or directories of views.
    #[arg(required = true, value_name = "VIEW")]
    views: Vec<String>,
}

/// A line of the list: a view that is kept, running, or both.
struct Row {
    name: Option<String>,
    /// The user that it belongs to.
    uid: u32,
    directory: Option<String>,
    made: u64,
    command: String,
    used: bool,
    pid: Option<u32>,
    commit: Committed,
    /// What is wrong with the view, and what to do.
    damaged: Option<String>,
}

/// The kept views in the order of their names, then other running ones by process.
fn rows() -> Result<Vec<Row>, Error> {
    let all = KeptView::all().map_err(|why| Error::Setup(why.to_string()))?;
    let mut live = LiveServer::all();
    live.retain(|live| live.label().kind == ServedKind::Run);
    let mut rows = Vec::new();
    let me = rustix::process::geteuid().as_raw();
    for found in all {
        let kept = match found {
            ListedView::Whole(kept) => kept,
            ListedView::Damaged { name, dir, why } => {
                rows.push(damaged(name, &dir, why));
                continue;
            }
        };
        let dir = kept.dir.canonicalize();
        let dir = text_of(dir.as_ref().unwrap_or(&kept.dir));
        let at = live
            .iter()
            .position(|live| live.uid() == me && live.label().directory.as_ref() == Some(&dir));
        let label = at.map(|at| live.remove(at).stats.label);
        let pid = label.as_ref().map(|label| label.pid);
        let commit = kept.committed();
        rows.push(Row {
            damaged: commit.as_ref().err().map(ToString::to_string),
            commit: commit.unwrap_or(Committed::No),
            used: pid.is_some() || kept.is_in_use(),
            name: Some(kept.name),
            uid: me,
            directory: Some(text_of(&kept.dir)),
            made: kept.info.made,
            command: label.map_or(kept.info.command, |label| label.command),
            pid,
        });
    }
    // Any user can give a view any name.
    rows.extend(live.into_iter().map(|live| Row {
        name: live.name(),
        uid: live.uid(),
        directory: live.stats.label.directory,
        made: live.stats.label.begun,
        command: live.stats.label.command,
        used: true,
        pid: Some(live.stats.label.pid),
        commit: Committed::No,
        damaged: None,
    }));
    Ok(rows)
}

fn damaged(name: String, dir: &Path, why: String) -> Row {
    Row {
        name: Some(name),
        uid: rustix::process::geteuid().as_raw(),
        directory: Some(text_of(dir)),
        made: 0,
        command: String::new(),
        used: false,
        pid: None,
        commit: Committed::No,
        damaged: Some(why),
    }
}

pub(crate) fn list(args: &List) -> Result<Outcome, Error> {
    let rows = rows()?;
    if args.json {
        let list = rows.iter().map(|row| {
            json!({
                "name": row.name,
                "user": row.uid,
                "directory": row.directory,
                "made": row.made,
                "command": row.command,
                "used": row.used,
                "damaged": row.damaged,
                "pid": row.pid,
                "commit": match row.commit {
                    Committed::No => "",
                    Committed::Yes => "done",
                    Committed::Interrupted => "interrupted",
                },
            })
        });
        console::put(&format!("{}\n", list.collect::<serde_json::Value>()))?;
        return Ok(Outcome::Done);
    }
    if !rows.is_empty() {
        let (view, made, state) = ("VIEW", "MADE", "STATE");
        console::put(&format!("{view:20} {made:>10} {state:14}COMMAND\n"))?;
    }
    for row in rows {
        let name = text_of(row.name.as_deref().unwrap_or("-").as_ref());
        if let Some(why) = &row.damaged {
            let why = text_of(why.as_ref());
            console::put(&format!("{name:20} {:>10} {:14}{why}\n", "", "damaged"))?;
            continue;
        }
        let state = match row.pid {
            Some(pid) => format!("runs: {pid}"),
            None if row.used => "in use".to_owned(),
            None => match row.commit {
                Committed::No => String::new(),
                Committed::Yes => "can be undone".to_owned(),
                Committed::Interrupted => "interrupted".to_owned(),
            },
        };
        let command = text_of(row.command.as_ref());
        let made = age(row.made);
        console::put(&format!("{name:20} {made:>10} {state:14}{command}\n"))?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn discard(args: &Discard) -> Result<Outcome, Error> {
    let mut failed = false;
    let mut seen = HashSet::new();
    for name in args.views.iter().filter(|name| seen.insert(*name)) {
        let mut bars = Bars::new(true);
        let mut names = 0;
        let done = openpath_run::discard(name, &mut || {
            bars.show("discarding", names, 0);
            names += 1;
        });
        drop(bars);
        if let Err(why) = done {
            failed = true;
            console::warn(&format!("openpath: {why}"));
        }
    }
    Ok(if failed {
        Outcome::Status(ExitCode::from(2))
    } else {
        Outcome::Done
    })
}

/// The age of a view made at this time, in words.
fn age(made: u64) -> String {
    let seconds = seconds_since(made);
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}
