// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath diff`: what a kept view changed, as unified diffs to read, and not as a patch.

use crate::Outcome;
use crate::console;
use crate::error::Error;
use crate::summary::{change_json, sign, text_of};
use anstyle::AnsiColor;
use openpath_run::{Change, Inspect, Kept, Kind, PathBytes, Refusal, Side, What, spec};
use serde_json::json;
use similar::{ChangeTag, TextDiff};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Files that are longer are not compared line by line.
const TEXT_MAX: usize = 4 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of a view, or its directory.
    view: String,
    /// Only these paths, and what is below them.
    paths: Vec<PathBuf>,
    /// How many lines came and went, and no lines.
    #[arg(long)]
    stat: bool,
    /// One JSON object, with the lines that came and went counted.
    #[arg(long)]
    json: bool,
}

/// The data of a change before and now, if both are text.
pub(crate) struct Text {
    pub(crate) before: String,
    pub(crate) now: String,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let text = attempt(args).map_err(|why| Error::Setup(why.to_string()))?;
    console::put(&text)?;
    Ok(Outcome::Done)
}

fn attempt(args: &Args) -> Result<String, Refusal> {
    let cwd = std::env::current_dir()
        .map_err(|why| Refusal::step("there is no working directory", why))?;
    let only = args.paths.iter().map(|path| spec::absolute(&cwd, path));
    let only: Vec<PathBytes> = only.collect::<Result<_, _>>()?;
    let kept = Kept::open(&args.view)?;
    let inspect = Inspect::open(&kept)?;
    let mut changes = inspect.changes()?;
    let is_below = |change: &Change, only: &PathBytes| change.path.path().starts_with(only.path());
    for only in &only {
        if !changes.iter().any(|change| is_below(change, only)) {
            return Err(Refusal::new(format!(
                "the view has no change at {}: see `openpath diff VIEW --stat`",
                text_of(only.path())
            )));
        }
    }
    if !only.is_empty() {
        changes.retain(|change| only.iter().any(|only| is_below(change, only)));
    }
    let mut text = String::new();
    let mut list = Vec::new();
    for change in &changes {
        let both = texts(&inspect, change)?;
        if args.json {
            let mut object = change_json(change);
            if let Some(both) = &both {
                let (added, removed) = count(both);
                object["lines_added"] = added.into();
                object["lines_removed"] = removed.into();
            }
            list.push(object);
        } else if args.stat {
            stat(&mut text, change, both.as_ref());
        } else {
            unified(&mut text, change, both.as_ref());
        }
    }
    if args.json {
        text = format!("{}\n", json!({"view": kept.name, "changes": list}));
    }
    Ok(text)
}

/// What is to be compared; `None` if one of both is no text, or neither has data.
fn texts(inspect: &Inspect, change: &Change) -> Result<Option<Text>, Refusal> {
    if matches!(change.what, What::Directory | What::Other) {
        return Ok(None);
    }
    let read = |side, path: &PathBytes| -> Result<Option<String>, Refusal> {
        let data = inspect.data(side, path, TEXT_MAX)?;
        let data = data.filter(|data| !data.contains(&0));
        Ok(data.and_then(|data| String::from_utf8(data).ok()))
    };
    let none = || Ok(Some(String::new()));
    let before = match &change.kind {
        Kind::Added => none(),
        Kind::Renamed { from } => read(Side::Before, from),
        _ => read(Side::Before, &inspect.place(&change.path)),
    }?;
    let now = match &change.kind {
        Kind::Deleted => none(),
        _ => read(Side::Now, &change.path),
    }?;
    Ok(before.zip(now).map(|(before, now)| Text { before, now }))
}

/// Lines that came and went.
fn count(both: &Text) -> (usize, usize) {
    let diff = TextDiff::from_lines(&both.before, &both.now);
    let all = |tag| diff.iter_all_changes().filter(|c| c.tag() == tag).count();
    (all(ChangeTag::Insert), all(ChangeTag::Delete))
}

fn stat(text: &mut String, change: &Change, both: Option<&Text>) {
    let (letter, _) = sign(&change.kind);
    let path = text_of(change.path.path());
    write!(text, "{letter}  {path}").ok();
    if let Some(both) = both {
        let (added, removed) = count(both);
        let (green, red) = (AnsiColor::Green.on_default(), AnsiColor::Red.on_default());
        write!(text, "  {green}+{added}{green:#} {red}-{removed}{red:#}").ok();
    }
    text.push('\n');
}

/// A change as git(1) shows one.
fn unified(text: &mut String, change: &Change, both: Option<&Text>) {
    let bold = anstyle::Style::new().bold();
    let path = text_of(change.path.path());
    let path = path.trim_start_matches('/');
    let old = match &change.kind {
        Kind::Renamed { from } => text_of(from.path()),
        _ => path.to_owned(),
    };
    let old = old.trim_start_matches('/');
    writeln!(text, "{bold}diff a/{old} b/{path}{bold:#}").ok();
    let (mode, before) = (change.mode, change.mode_before);
    match &change.kind {
        Kind::Added => writeln!(text, "new {} mode {mode:04o}", noun(change.what)),
        Kind::Deleted => writeln!(text, "deleted {} mode {mode:04o}", noun(change.what)),
        Kind::Renamed { .. } => writeln!(text, "rename from {old}\nrename to {path}"),
        _ if mode != before => writeln!(text, "old mode {before:04o}\nnew mode {mode:04o}"),
        _ => Ok(()),
    }
    .ok();
    if change.lists {
        text.push_str("access control list changed\n");
    }
    let side = |path: &str, letter: char, none: bool| match none {
        true => "/dev/null".to_owned(),
        false => format!("{letter}/{path}"),
    };
    let from = side(old, 'a', change.kind == Kind::Added);
    let to = side(path, 'b', change.kind == Kind::Deleted);
    match both {
        Some(both) => lines(text, both, (&from, &to)),
        None if matches!(change.what, What::File | What::Link) => {
            writeln!(text, "Binary files {from} and {to} differ").ok();
        }
        None => {}
    }
}

/// The lines of a unified diff; those of the files cannot give orders to a terminal.
pub(crate) fn lines(text: &mut String, both: &Text, (from, to): (&str, &str)) {
    let diff = TextDiff::from_lines(&both.before, &both.now);
    let unified = diff.unified_diff().header(from, to).to_string();
    for line in unified.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => AnsiColor::Green.on_default(),
            Some(b'-') => AnsiColor::Red.on_default(),
            Some(b'@') => AnsiColor::Cyan.on_default(),
            _ => anstyle::Style::new(),
        };
        let line: String = line
            .chars()
            .map(|letter| match letter {
                '\t' => letter,
                letter if letter.is_control() => '\u{fffd}',
                letter => letter,
            })
            .collect();
        writeln!(text, "{style}{line}{style:#}").ok();
    }
}

fn noun(what: What) -> &'static str {
    match what {
        What::File => "file",
        What::Directory => "directory",
        What::Link => "link",
        What::Other => "node",
    }
}
