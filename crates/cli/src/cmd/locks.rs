// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath locks`: lists the file locks in running mounts and views, with owners and waiters.
//!
//! Without `--locks`, the kernel handles the locks of a mount or view, and lists them in
//! `/proc/locks`.

use crate::console;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::summary::{name_of, text_of};
use openpath_run::Refusal;
use openpath_run::live::{Label, LiveServer, Locks};
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Options of `locks`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of a running view (see `openpath list`), the directory of a mount, or the process
    /// ID of either; all of them if it is not given. Root names another user's view or directory
    /// with that user's number before it, as in `1000:build`.
    #[arg(value_name = "VIEW")]
    which: Option<String>,
    /// Print one line with a JSON object for each view or mount.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let said = |why: Refusal| Error::Setup(why.to_string());
    let mut outcome = Outcome::Done;
    let all: Vec<(Label, Locks)> = match &args.which {
        Some(which) => {
            let live = LiveServer::find(which).map_err(said)?;
            vec![(live.label().clone(), live.locks().map_err(said)?)]
        }
        None => {
            let mut all = Vec::new();
            for live in LiveServer::all() {
                match live.locks() {
                    Ok(locks) => all.push((live.label().clone(), locks)),
                    // A server that ends meanwhile has no locks any more.
                    Err(_) if live.has_ended() => {}
                    Err(why) => {
                        console::warn(&format!("openpath: {}: {why}", name_of(live.label())));
                        outcome = Outcome::Status(ExitCode::from(2));
                    }
                }
            }
            all
        }
    };
    match tell(args, &all) {
        // The reader closed its end: it has read enough.
        Err(why) if why.kind() == io::ErrorKind::BrokenPipe => {}
        told => told?,
    }
    Ok(outcome)
}

fn tell(args: &Args, all: &[(Label, Locks)]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (label, locks) in all {
        if args.json {
            let line = json!({
                "kind": label.kind,
                "pid": label.pid,
                "name": label.name,
                "directory": label.directory,
                "answered": locks.answered,
                "locks": locks.locks,
                "left_out": locks.left_out,
            });
            writeln!(out, "{line}")?;
        } else {
            table(&mut out, args.which.is_none(), label, locks)?;
        }
    }
    out.flush()
}

/// Prints the locks of one server, below its name if there may be others.
fn table(out: &mut impl Write, named: bool, label: &Label, locks: &Locks) -> io::Result<()> {
    if named {
        writeln!(out, "{}:", name_of(label))?;
    }
    if !locks.answered && locks.locks.is_empty() {
        writeln!(
            out,
            "the kernel keeps its locks: see /proc/locks, or start it with --locks"
        )?;
    }
    for lock in &locks.locks {
        writeln!(out, "{}", text_of(lock.to_string().as_ref()))?;
    }
    if locks.left_out > 0 {
        writeln!(out, "and {} more", locks.left_out)?;
    }
    Ok(())
}
