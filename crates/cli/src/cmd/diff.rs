// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath diff VIEW`: prints what a command changed in its view, as unified diffs, as one line
//! for each change, or as JSON.
//!
//! The view was kept on the disk by `openpath run --name` or `--upper`. The diffs are to be read,
//! not applied as a patch: `openpath commit` brings the changes to the real tree.

use crate::bars::Bars;
use crate::console::{self, Pieces};
use crate::error::Error;
use crate::line_diff::LineDiff;
use crate::outcome::Outcome;
use crate::summary::{
    change_json, counted, differences, facts, noun, path_text, sign, special_text, text_of,
};
use anstyle::AnsiColor;
use openpath_run::{
    AttrDiff, Change, ChangeKind, FileType, Inspect, KeptView, PathBytes, Refusal, RefusalKind,
    Side, spec,
};
use serde_json::json;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// Files that are longer are not compared line by line.
const TEXT_MAX: usize = 4 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name or the directory of a view.
    view: String,
    /// Show only these paths and all below them.
    paths: Vec<PathBuf>,
    /// Print one line for each change, with the numbers of added and removed lines.
    #[arg(long)]
    stat: bool,
    /// Print one JSON object, with the numbers of added and removed lines.
    #[arg(long)]
    json: bool,
}

/// The text of a file before the change and now.
pub(crate) struct Text {
    pub(crate) before: String,
    pub(crate) now: String,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    attempt(args).map_err(|why| Error::Setup(why.to_string()))?;
    Ok(Outcome::Done)
}

/// Prints each change as soon as it is read, and holds the files of one change at a time.
fn attempt(args: &Args) -> Result<(), Refusal> {
    let cwd = std::env::current_dir()
        .map_err(|why| Refusal::step("there is no working directory", why))?;
    let only = args.paths.iter().map(|path| spec::absolute(&cwd, path));
    let only: Vec<PathBytes> = only.collect::<Result<_, _>>()?;
    let kept = KeptView::open(&args.view)?;
    let inspect = Inspect::open(&kept)?;
    let mut bars = Bars::new(!args.json);
    let changes = inspect.changes(&mut bars)?;
    bars.clear();
    let changes = chosen(changes, &only, &kept.name)?;
    // On a terminal the lines themselves are the progress.
    let mut bars = Bars::new(!args.json && !std::io::stdout().is_terminal());
    let mut out = Pieces::new();
    if args.json {
        out.put("{\"changes\":[").map_err(unwritten)?;
    }
    for (at, change) in changes.iter().enumerate() {
        bars.show("printing", at as u64, changes.len() as u64);
        let both = texts(&inspect, change)?;
        let mut text = String::new();
        if args.json {
            let mut object = change_json(change);
            if let Some(both) = &both {
                let (added, removed) = count(both);
                object["lines_added"] = added.into();
                object["lines_removed"] = removed.into();
            }
            let comma = if at == 0 { "" } else { "," };
            write!(text, "{comma}{object}").ok();
        } else if args.stat {
            stat(&mut text, change, both.as_ref());
        } else {
            unified(&mut text, change, both.as_ref());
        }
        if !out.put(&text).map_err(unwritten)? {
            return Ok(());
        }
    }
    if args.json {
        out.put(&format!("],\"view\":{}}}\n", json!(kept.name)))
            .map_err(unwritten)?;
    }
    out.end().map_err(unwritten)
}

fn unwritten(why: std::io::Error) -> Refusal {
    Refusal::step("cannot write the results", why)
}

/// The changes at these paths and below; all changes if there are no paths. If the view has no
/// change at a path, symbolic links in its directories are followed, as `commit` does.
fn chosen(
    mut changes: Vec<Change>,
    only: &[PathBytes],
    view: &str,
) -> Result<Vec<Change>, Refusal> {
    let is_below = |change: &Change, only: &PathBytes| change.path.path().starts_with(only.path());
    let is_known = |only: &PathBytes| changes.iter().any(|change| is_below(change, only));
    let mut known = Vec::new();
    for only in only {
        // A link in the view is a name of the view, so it is tried first.
        let path = match is_known(only) {
            true => Some(only.clone()),
            false => openpath_run::resolve_parent_links(only, is_known)?
                .inspect(|real| console::warn(&resolved_line(only, real))),
        };
        let Some(path) = path else {
            // A directory that is not mistyped, in which nothing changed.
            let is_dir = only
                .path()
                .symlink_metadata()
                .is_ok_and(|file| file.is_dir());
            if is_dir {
                known.push(only.clone());
                continue;
            }
            return Err(Refusal::new(
                RefusalKind::NoSuchChange,
                format!(
                    "the view has no change at {}: see `openpath diff {} --stat`",
                    text_of(only.path()),
                    text_of(view.as_ref())
                ),
            ));
        };
        known.push(path);
    }
    if !known.is_empty() {
        changes.retain(|change| known.iter().any(|only| is_below(change, only)));
    }
    Ok(changes)
}

/// Says where a path leads that was written with symbolic links.
pub(crate) fn resolved_line(written: &PathBytes, real: &PathBytes) -> String {
    let (written, real) = (text_of(written.path()), text_of(real.path()));
    format!("openpath: {written} is {real}")
}

/// Whether a file of this kind has data to be compared.
fn has_data(file_type: FileType) -> bool {
    matches!(file_type, FileType::File | FileType::Link)
}

/// The texts to compare; `None` if one of them is not text, if neither has data, or if they are
/// equal.
fn texts(inspect: &Inspect, change: &Change) -> Result<Option<Text>, Refusal> {
    let is_same = match change.kind {
        ChangeKind::Attributes => true,
        ChangeKind::Renamed { .. } => !change.data,
        _ => false,
    };
    let (had, has) = (
        has_data(change.file_type_before),
        has_data(change.file_type),
    );
    if is_same || !had && !has {
        return Ok(None);
    }
    let read = |side, path: &PathBytes| -> Result<Option<String>, Refusal> {
        let data = inspect.data(side, path, TEXT_MAX)?;
        let data = data.filter(|data| !data.contains(&0));
        Ok(data.and_then(|data| String::from_utf8(data).ok()))
    };
    let none = || Ok(Some(String::new()));
    let before = match &change.kind {
        ChangeKind::Added => none(),
        _ if !had => none(),
        ChangeKind::Renamed { from } => read(Side::Real, from),
        _ => read(Side::Real, &inspect.place(&change.path)?),
    }?;
    let now = match &change.kind {
        ChangeKind::Deleted => none(),
        _ if !has => none(),
        _ => read(Side::View, &change.path),
    }?;
    Ok(before.zip(now).map(|(before, now)| Text { before, now }))
}

/// The numbers of added and removed lines.
fn count(both: &Text) -> (u32, u32) {
    LineDiff::of(&both.before, &both.now).counts()
}

fn stat(text: &mut String, change: &Change, both: Option<&Text>) {
    let (letter, _) = sign(&change.kind);
    write!(text, "{letter}  {}", path_text(change)).ok();
    if let Some(both) = both {
        let (added, removed) = count(both);
        let (green, red) = (AnsiColor::Green.on_default(), AnsiColor::Red.on_default());
        write!(text, "  {green}+{added}{green:#} {red}-{removed}{red:#}").ok();
    }
    let facts = facts(change, change.below, change.size.max(change.size_before));
    // The counts of lines replace the size.
    let is_size = both.is_some() && change.file_type == change.file_type_before && facts.len() == 1;
    if !facts.is_empty() && !is_size {
        write!(text, "  {}", facts.join(", ")).ok();
    }
    text.push('\n');
}

/// A change as git(1) shows one.
fn unified(text: &mut String, change: &Change, both: Option<&Text>) {
    let bold = anstyle::Style::new().bold();
    let path = text_of(change.path.path());
    let path = path.trim_start_matches('/');
    let old = match &change.kind {
        ChangeKind::Renamed { from } => text_of(from.path()),
        _ => path.to_owned(),
    };
    let old = old.trim_start_matches('/');
    writeln!(text, "{bold}diff a/{old} b/{path}{bold:#}").ok();
    heading(text, change, (old, path));
    let (had, has) = (
        has_data(change.file_type_before),
        has_data(change.file_type),
    );
    let side = |path: &str, letter: char, none: bool| match none {
        true => "/dev/null".to_owned(),
        false => format!("{letter}/{path}"),
    };
    let from = side(old, 'a', change.kind == ChangeKind::Added || !had);
    let to = side(path, 'b', change.kind == ChangeKind::Deleted || !has);
    let is_other = change.data || matches!(change.kind, ChangeKind::Added | ChangeKind::Deleted);
    match both {
        Some(both) => lines(text, both, (&from, &to)),
        None if is_other && (had || has) => {
            writeln!(text, "Binary or long files {from} and {to} differ").ok();
        }
        None => {}
    }
}

/// The lines about a change, except for its data.
fn heading(text: &mut String, change: &Change, (old, path): (&str, &str)) {
    let mode = change.mode;
    let special = special_text(change);
    let noun_now = special.as_deref().unwrap_or(noun(change.file_type));
    let names = match change.below {
        0 => String::new(),
        below => format!(", {}", counted(below, "name")),
    };
    match &change.kind {
        ChangeKind::Added => writeln!(text, "new {noun_now} mode {mode:04o}"),
        ChangeKind::Deleted => {
            let noun = noun(change.file_type);
            writeln!(text, "deleted {noun} mode {mode:04o}{names}")
        }
        ChangeKind::Renamed { .. } => writeln!(text, "rename from {old}\nrename to {path}"),
        _ if change.file_type != change.file_type_before => {
            let (before, mode_before) = (noun(change.file_type_before), change.mode_before);
            writeln!(text, "old {before} mode {mode_before:04o}{names}").ok();
            writeln!(text, "new {noun_now} mode {mode:04o}")
        }
        ChangeKind::Modified if change.file_type == FileType::Directory => {
            writeln!(text, "replaced by another directory")
        }
        ChangeKind::Attributes if change.differs == AttrDiff::default() => {
            writeln!(text, "replaced by a copy")
        }
        _ => Ok(()),
    }
    .ok();
    if change.replaces {
        text.push_str("replaces what had this name\n");
    }
    if change.differs.mode && !change.is_new() {
        let before = change.mode_before;
        writeln!(text, "old mode {before:04o}\nnew mode {mode:04o}").ok();
    }
    for difference in differences(change) {
        // The mode has lines of its own.
        if !difference.starts_with("mode ") {
            writeln!(text, "{difference}").ok();
        }
    }
}

/// The lines of a unified diff, without control characters of the files.
pub(crate) fn lines(text: &mut String, both: &Text, (from, to): (&str, &str)) {
    let unified = LineDiff::of(&both.before, &both.now).unified(from, to);
    for line in unified.lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => AnsiColor::Green.on_default(),
            Some(b'-') => AnsiColor::Red.on_default(),
            Some(b'@') => AnsiColor::Cyan.on_default(),
            _ => anstyle::Style::new(),
        };
        let line = plain(line);
        writeln!(text, "{style}{line}{style:#}").ok();
    }
}

/// A line of a file without control characters and invisible characters.
fn plain(line: &str) -> String {
    let mut text = String::new();
    for letter in line.chars() {
        match letter {
            '\t' => text.push(letter),
            letter if letter.is_control() => text.push('\u{fffd}'),
            letter if openpath_run::is_invisible(letter) => text.extend(letter.escape_unicode()),
            letter => text.push(letter),
        }
    }
    text
}
