// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath commit`: applies the changes of a view that was kept on the disk to the real tree,
//! undoes the last commit, or finishes or rolls back an interrupted one. Prints the result as text
//! or JSON.

use crate::bars::Bars;
use crate::cmd::diff::{Text, resolved_line};
use crate::console::{self, Pieces};
use crate::error::Error;
use crate::outcome::Outcome;
use crate::summary::{change_json, list, sign, text_of};
use anstyle::AnsiColor;
use openpath_run::{
    Change, Commit, Conflict, ConflictKind, FileType, KeptView, NotUndone, NotUndoneReason,
    PathBytes, Refusal, Side, Undone, spec,
};
use rustix::fs::Mode;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Files that are longer are not compared line by line.
const TEXT_MAX: usize = 4 << 20;

/// The exit statuses.
const STATUS: &str = "Exit status: 0 done, or there was nothing to do; 1 nothing was done, because \
    others changed the same paths; 2 any other failure, also an undo that could not put back \
    everything. A commit that is done ends with 0 even if \
    its list cannot be written; a line on standard error says so.";

#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct Args {
    /// The name or the directory of a view.
    view: String,
    /// Commit only these paths, all below them, and new directories above them. Without paths, all
    /// changes of the view are committed, wherever they are; `.` is all below the working
    /// directory.
    paths: Vec<PathBuf>,
    /// Print what the commit would do, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Overwrite what others changed too, and make files yours if their owner cannot be kept.
    #[arg(long)]
    force: bool,
    /// Undo the last commit, but no commit before it; the view has its changes again. With --force
    /// also over later changes. What cannot be put back, because its directory was moved or
    /// removed, is then listed, and its old content stays in the view's directory.
    #[arg(long, conflicts_with_all = ["paths", "dry_run", "go_on", "abort"])]
    undo: bool,
    /// Finish an interrupted commit or an interrupted undo.
    #[arg(long = "continue", conflicts_with_all = ["paths", "dry_run", "force", "abort"])]
    go_on: bool,
    /// Roll back an interrupted commit. If others changed committed paths since, these are listed
    /// and nothing is done; with --force they are overwritten.
    #[arg(long, conflicts_with_all = ["paths", "dry_run"])]
    abort: bool,
}

/// What is printed.
struct Told {
    changes: Vec<Change>,
    conflicts: Vec<Both>,
    /// The result, in a word.
    done: &'static str,
    /// What cannot be put back.
    left: Vec<NotUndone>,
    /// The interrupted operation was an undo.
    of_undo: bool,
    /// Where the other changes are listed, if a commit has none and the view has some.
    elsewhere: Option<String>,
}

/// A path that both sides changed.
struct Both {
    conflict: Conflict,
    /// What the view or its commit did.
    what: &'static str,
    diff: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    // Each committed file gets its own mode. The caller's mask could close the records to the user.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let told = attempt(args).map_err(|why| Error::Setup(why.to_string()))?;
    let put = match args.json {
        true => put_json(args, &told),
        false => console::put(&as_text(&told)),
    };
    let is_refused = is_refused(&told);
    match put {
        // A finished commit is a success even if its list is lost.
        Err(why) if told.done != "possible" => console::warn(&format!(
            "openpath: {}; the list cannot be written: {why}",
            line(&told)
        )),
        put => put?,
    }
    Ok(match (is_refused, told.left.is_empty()) {
        (true, _) => Outcome::Shortfall,
        (false, true) => Outcome::Done,
        (false, false) => Outcome::Status(ExitCode::from(2)),
    })
}

/// Whether nothing was done because of conflicts.
fn is_refused(told: &Told) -> bool {
    matches!(told.done, "refused" | "not undone" | "not aborted")
}

fn attempt(args: &Args) -> Result<Told, Refusal> {
    let kept = KeptView::open(&args.view)?;
    let mut bars = Bars::new(!args.json);
    let plain = |changes, done| Told {
        changes,
        conflicts: Vec::new(),
        done,
        left: Vec::new(),
        of_undo: false,
        elsewhere: None,
    };
    if args.undo {
        let undone = openpath_run::undo(&kept, args.force, &mut bars)?;
        return Ok(back(undone, args.force, ["not undone", "undone"]));
    }
    if args.go_on {
        let resumed = openpath_run::resume(&kept, &mut bars)?;
        let done = match resumed.undone {
            true => "undone",
            false => "finished",
        };
        return Ok(plain(resumed.changes, done));
    }
    if args.abort {
        let undone = openpath_run::abort(&kept, args.force, &mut bars)?;
        return Ok(back(undone, args.force, ["not aborted", "aborted"]));
    }
    commit(args, &kept, &mut bars)
}

/// The result of an undo or an abort: the first word if it was refused, else the second.
fn back(undone: Undone, force: bool, [refused, done]: [&'static str; 2]) -> Told {
    let left = undone.left;
    let is_refused = !force && (!undone.conflicts.is_empty() || !left.is_empty());
    let of_undo = undone.of_undo;
    let conflicts = undone.conflicts.into_iter().map(|conflict| Both {
        conflict,
        what: "committed",
        diff: None,
    });
    Told {
        changes: undone.changes,
        conflicts: conflicts.collect(),
        // The abort of an interrupted undo finishes the undo.
        done: match (is_refused, of_undo) {
            (true, _) => refused,
            (false, true) => "undone",
            (false, false) => done,
        },
        left,
        of_undo,
        elsewhere: None,
    }
}

fn commit(args: &Args, kept: &KeptView, bars: &mut Bars) -> Result<Told, Refusal> {
    let cwd = std::env::current_dir()
        .map_err(|why| Refusal::step("there is no working directory", why))?;
    let only = args.paths.iter().map(|path| spec::absolute(&cwd, path));
    let only: Vec<PathBytes> = only.collect::<Result<_, _>>()?;
    let commit = Commit::plan_observed(kept, &only, args.force, bars)?;
    bars.clear();
    for (written, real) in commit.resolved() {
        console::warn(&resolved_line(written, real));
    }
    let left_out = match commit.left_out() {
        0 => None,
        1 => Some("its change".to_owned()),
        more => Some(format!("its {more} changes")),
    };
    let view = text_of(args.view.as_ref());
    let elsewhere = left_out.map(|them| format!("`openpath diff {view} --stat` lists {them}"));
    let mut conflicts = Vec::new();
    let all = commit.changes().iter();
    let all: HashMap<&Path, &Change> = match commit.conflicts() {
        [] => HashMap::new(),
        _ => all.map(|one| (one.path.path(), one)).collect(),
    };
    for conflict in commit.conflicts() {
        let change = all.get(conflict.path.path()).copied();
        conflicts.push(Both {
            conflict: conflict.clone(),
            what: match change.map(|change| sign(&change.kind).1) {
                None if conflict.kind == ConflictKind::Replaced => "changed",
                None => "deleted",
                // A path that others removed existed when the view changed it.
                Some("added") if conflict.kind == ConflictKind::Removed => "changed",
                // Both sides made the directory.
                Some("modified")
                    if conflict.kind == ConflictKind::Made && change.is_some_and(is_dir) =>
                {
                    "added"
                }
                Some(word) => word,
            },
            diff: difference(&commit, conflict),
        });
    }
    let (changes, done) = if !args.force && !conflicts.is_empty() {
        (commit.into_changes(), "refused")
    } else if args.dry_run {
        (commit.into_changes(), "possible")
    } else {
        (commit.carry_out(bars)?, "committed")
    };
    Ok(Told {
        changes,
        conflicts,
        done,
        left: Vec::new(),
        of_undo: false,
        elsewhere,
    })
}

fn is_dir(change: &Change) -> bool {
    change.file_type == FileType::Directory
}

/// A unified diff from the file of the real tree to that of the view, if both are text.
fn difference(commit: &Commit, conflict: &Conflict) -> Option<String> {
    let read = |side, path: &PathBytes| -> Option<String> {
        // A missing path and a path that is not a file have no text.
        let data = commit.data(side, path, TEXT_MAX).ok().flatten()?;
        String::from_utf8(data)
            .ok()
            .filter(|text| !text.contains('\0'))
    };
    let before = read(Side::Real, &conflict.place);
    let now = read(Side::View, &conflict.path);
    let (before, now) = before.zip(now)?;
    let path = text_of(conflict.path.path());
    let text = Text { before, now };
    let mut lines = String::new();
    let names = (&*format!("real{path}"), &*format!("view{path}"));
    crate::cmd::diff::lines(&mut lines, &text, names);
    Some(lines)
}

fn word(did: ConflictKind) -> &'static str {
    match did {
        ConflictKind::Made => "made",
        ConflictKind::Removed => "removed",
        ConflictKind::Replaced => "replaced",
        _ => "changed",
    }
}

/// What the view did, for `--json`.
fn view_word(both: &Both) -> &'static str {
    match &both.conflict {
        conflict if conflict.unseen => "unseen",
        conflict if conflict.in_view => "changed",
        _ => both.what,
    }
}

/// Prints the object piece by piece: a view can have very many changes.
fn put_json(args: &Args, told: &Told) -> io::Result<()> {
    let mut out = Pieces::new();
    out.put("{\"changes\":[")?;
    for (at, change) in told.changes.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        out.put(&format!("{comma}{}", change_json(change)))?;
    }
    let rest = rest_json(args, told).to_string();
    let rest = rest.strip_prefix('{').unwrap_or(&rest);
    out.put(&format!("],{rest}\n"))?;
    out.end()
}

/// The object without its changes.
fn rest_json(args: &Args, told: &Told) -> Value {
    let conflicts = told.conflicts.iter().map(|both| {
        json!({
            "path": text_of(both.conflict.path.path()),
            "place": text_of(both.conflict.place.path()),
            "view": view_word(both),
            "others": (!both.conflict.in_view).then(|| word(both.conflict.kind)),
            "diff": both.diff.as_deref().map(plain),
        })
    });
    let result = match (told.done, told.left.is_empty()) {
        _ if is_refused(told) => "refused",
        ("undone", false) => "undone in part",
        ("aborted", false) => "aborted in part",
        (done, _) => done,
    };
    let left = told.left.iter().map(|one| {
        json!({
            "path": text_of(one.path.path()),
            "reason": reason(one),
            "kept": one.kept.as_deref().map(text_of),
            "hidden": one.hidden.as_ref().map(|path| text_of(path.path())),
        })
    });
    json!({
        "view": args.view,
        "result": result,
        "conflicts": conflicts.collect::<Vec<_>>(),
        "left": left.collect::<Vec<_>>(),
    })
}

/// Why a change cannot be put back.
fn reason(left: &NotUndone) -> &'static str {
    match left.reason {
        NotUndoneReason::Directory => "its directory was moved, removed or replaced",
        NotUndoneReason::OldContent => "its old content is not where the commit left it",
        _ => "it was moved, removed or replaced",
    }
}

/// A line about a change that cannot be put back.
fn left_line(left: &NotUndone, is_refused: bool) -> String {
    let verb = match is_refused {
        true => "cannot be put back",
        false => "was not put back",
    };
    let place = match (&left.kept, &left.hidden) {
        (Some(kept), _) => format!("; its old content is {}", text_of(kept)),
        (None, Some(hidden)) => {
            let name = hidden.path().file_name().unwrap_or_default();
            let name = text_of(name.as_ref());
            format!(
                "; if the commit had replaced it, its old content is `{name}` in that directory"
            )
        }
        (None, None) => String::new(),
    };
    let path = text_of(left.path.path());
    format!("{path}: {verb}, because {}{place}", reason(left))
}

/// A diff without colours.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn as_text(told: &Told) -> String {
    let mut text = String::new();
    let red = AnsiColor::Red.on_default();
    for left in &told.left {
        let line = left_line(left, is_refused(told));
        writeln!(text, "  {red}!{red:#}  {line}").ok();
    }
    let is_left = |path: &PathBytes| told.left.iter().any(|left| left.path == *path);
    let conflicts = told.conflicts.iter();
    for both in conflicts.filter(|both| !is_left(&both.conflict.path)) {
        let (what, conflict) = (both.what, &both.conflict);
        let (path, did) = (text_of(conflict.path.path()), word(conflict.kind));
        if conflict.unseen {
            writeln!(
                text,
                "  {red}C{red:#}  {path}: {did} by others since, in a directory that the view \
                 deleted or replaced; `--force` does not remove it"
            )
            .ok();
            continue;
        }
        match what {
            "committed" if conflict.in_view => {
                writeln!(
                    text,
                    "  {red}C{red:#}  {path}: changed in the view since the commit"
                )
            }
            "committed" => writeln!(text, "  {red}C{red:#}  {path}: {did} since the commit"),
            _ => writeln!(
                text,
                "  {red}C{red:#}  {path}: {what} in the view, {did} by others since"
            ),
        }
        .ok();
        if conflict.place != conflict.path {
            let place = text_of(conflict.place.path());
            writeln!(text, "     it is {place} in the real tree").ok();
        }
        text.push_str(both.diff.as_deref().unwrap_or_default());
    }
    if !is_refused(told) {
        lines(&mut text, told);
    }
    writeln!(text, "openpath: {}", line(told)).ok();
    text
}

/// Lists the changes; returns their number with its noun.
fn lines(text: &mut String, told: &Told) -> String {
    list(text, told.changes.iter().cloned(), "`--json` lists them")
}

/// The result, in a line.
fn line(told: &Told) -> String {
    let count = lines(&mut String::new(), told);
    let paths = match told.conflicts.len() {
        1 => "1 path".to_owned(),
        more => format!("{more} paths"),
    };
    match (told.done, told.changes.is_empty()) {
        ("refused", _) => {
            let unseen = told.conflicts.iter().any(|both| both.conflict.unseen);
            let remedy = match unseen {
                true => "move away what the view never saw, or name other paths",
                false => "name other paths, or overwrite them with `--force`",
            };
            format!("nothing was done, because {paths} changed on both sides: {remedy}")
        }
        ("not undone" | "not aborted", _) if !told.left.is_empty() => {
            let (count, force) = (left_count(told), forced(told));
            format!(
                "nothing was done, because {count} cannot be put back: move back what was moved, \
                 or `{force}` overwrites later changes, undoes the rest and keeps old content in \
                 the view"
            )
        }
        ("not undone" | "not aborted", _) => {
            let remedy = remedy(told);
            format!("nothing was done, because {paths} changed since the commit: {remedy}")
        }
        ("committed" | "possible", true) => match &told.elsewhere {
            Some(them) => format!("nothing to commit at these paths of the view: {them}"),
            None => "nothing to commit".to_owned(),
        },
        ("possible", _) => format!("{count} can be committed"),
        ("undone" | "aborted", _) if !told.left.is_empty() => {
            let count_left = left_count(told);
            format!(
                "the commit of {count} was taken back but for {count_left}, as listed; the view \
                 has its changes again"
            )
        }
        ("undone", _) => {
            let them = if count == "1 change" { "it" } else { "them" };
            format!("{count} undone; the view has {them} again")
        }
        ("aborted", _) => format!("the commit of {count} was taken back"),
        _ => format!("{count} committed; `--undo` takes that back"),
    }
}

fn left_count(told: &Told) -> String {
    match told.left.len() {
        1 => "1 path".to_owned(),
        more => format!("{more} paths"),
    }
}

/// The options that go on over what is listed.
fn forced(told: &Told) -> &'static str {
    match told.done {
        "not aborted" => "--abort --force",
        _ => "--undo --force",
    }
}

/// What to do if an undo or an abort was refused.
fn remedy(told: &Told) -> &'static str {
    let in_view = |both: &&Both| both.conflict.in_view;
    let by_view = told.conflicts.iter().filter(in_view).count();
    if told.conflicts.iter().any(|both| both.conflict.unseen) {
        return "move away what the view never saw, which `--force` does not remove either";
    }
    match (told.done, told.of_undo) {
        ("not aborted", true) => {
            "copy your versions elsewhere, then `--abort --force` finishes the undo over them"
        }
        ("not aborted", false) => {
            "`--continue` finishes the commit and keeps them, `--abort --force` overwrites them"
        }
        _ if by_view == told.conflicts.len() => "`--undo --force` keeps the view's version",
        _ if by_view > 0 => {
            "`--undo --force` overwrites what others changed, and keeps what the view changed"
        }
        _ => "`--undo --force` overwrites them",
    }
}
