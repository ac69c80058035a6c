// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath stats`: prints how many requests of each kind came to running mounts and views, and
//! what they keep in memory, as text, as JSON or for Prometheus.
//!
//! Opens that the kernel answers from its own cache are not counted: they send no request.

use crate::error::Error;
use crate::outcome::Outcome;
use crate::summary::{bytes, name_of, seconds_since, text_of};
use openpath_run::Refusal;
use openpath_run::live::{LiveServer, ServerStats, Tenant, prometheus};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

/// Options of `stats`.
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
    /// Print the text format of Prometheus.
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    prometheus: bool,
    /// Print again after this many seconds, repeatedly until the view ends.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    watch: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.01..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or("the number of seconds must be between 0.01 and 86400")?;
    Ok(Duration::from_secs_f64(seconds))
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let said = |why: Refusal| Error::Setup(why.to_string());
    let mut all = match &args.which {
        Some(which) => vec![LiveServer::find(which).map_err(said)?],
        None => LiveServer::all(),
    };
    let mut before = BTreeMap::new();
    loop {
        let stats: Vec<ServerStats> = all.iter().map(|live| live.stats.clone()).collect();
        match tell(args, &stats, &before) {
            // The reader closed its end: it has read enough.
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => return Ok(Outcome::Done),
            done => done?,
        }
        let Some(pause) = args.watch else {
            return Ok(Outcome::Done);
        };
        before = stats.into_iter().map(|f| (f.label.pid, f)).collect();
        std::thread::sleep(pause);
        all = match &args.which {
            Some(_) => all.iter().filter_map(|live| live.refresh().ok()).collect(),
            None => LiveServer::all(),
        };
        if args.which.is_some() && all.is_empty() {
            return Ok(Outcome::Done);
        }
    }
}

fn tell(args: &Args, all: &[ServerStats], before: &BTreeMap<u32, ServerStats>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.prometheus {
        out.write_all(prometheus(all).as_bytes())?;
        return out.flush();
    }
    for stats in all {
        if args.json {
            serde_json::to_writer(&mut out, stats)?;
            writeln!(out)?;
        } else {
            table(&mut out, stats, before.get(&stats.label.pid))?;
        }
    }
    out.flush()
}

/// Prints each figure that is not 0 on a line, with its increase since `before`.
fn table(
    out: &mut impl Write,
    stats: &ServerStats,
    before: Option<&ServerStats>,
) -> io::Result<()> {
    let label = &stats.label;
    let age = seconds_since(label.begun);
    let command = text_of(label.command.as_ref());
    writeln!(out, "{}, {age} s: {command}", name_of(label))?;
    if !stats.way.is_empty() {
        let way = text_of(stats.way.as_ref());
        writeln!(out, "  {:42} {way}", "requests")?;
    }
    let earlier = before.map(rows).unwrap_or_default();
    for (name, n) in rows(stats) {
        if n == 0 {
            continue;
        }
        let was = earlier.iter().find(|(other, _)| *other == name);
        let more = was.map_or(0, |(_, was)| n.saturating_sub(*was));
        write!(out, "  {name:42} {n:>14}")?;
        if more > 0 {
            write!(out, " {:>12}", format!("+{more}"))?;
        }
        if name.ends_with("bytes") && n >= 1024 {
            write!(out, "  ({})", bytes(n))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// All figures by name, in the order in which they are printed.
fn rows(stats: &ServerStats) -> Vec<(String, u64)> {
    let requests = stats.requests.iter();
    let requests = requests.map(|(kind, n)| (text_of(kind.as_ref()), *n));
    let mut rows: Vec<(String, u64)> = requests.collect();
    let mut add = |name: &str, n: u64| rows.push((name.to_owned(), n));
    add("by rings", stats.by_rings);
    add("known to the kernel", stats.nodes);
    add("cached names", stats.cached.names);
    add("copied up", stats.copied_up.files);
    add("copied up, bytes", stats.copied_up.bytes);
    for tenant in &stats.tenants {
        rows.extend(of_tenant(tenant));
    }
    rows
}

fn of_tenant(tenant: &Tenant) -> Vec<(String, u64)> {
    let number = tenant.tenant;
    let named = |(name, n): (&str, u64)| (format!("tenant {number}: {name}"), n);
    let stats = [
        ("tasks", tenant.tasks),
        ("names that exist", tenant.positive),
        ("names that do not exist", tenant.negative),
        ("names, bytes", tenant.cached_bytes),
        ("evicted that existed", tenant.evicted_positive),
        ("evicted that did not exist", tenant.evicted_negative),
        ("hits", tenant.hits),
        ("negative hits", tenant.negative_hits),
        ("misses", tenant.misses),
        ("files", tenant.files),
        ("files, bytes", tenant.bytes),
    ];
    let mut rows: Vec<_> = stats.map(named).to_vec();
    let restarts = tenant.restarts.iter();
    rows.extend(restarts.map(|(why, n)| (format!("tenant {number}: restart: {why}"), *n)));
    rows
}
