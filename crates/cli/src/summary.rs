// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run changed, for people and for programs.

use anstyle::{AnsiColor, Style};
use openpath_run::live::{Label, LiveKind};
use openpath_run::{Change, Ended, Kind, Plan, Source, What};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::SystemTime;

/// The most lines of a summary; programs get all.
const LINES_MAX: usize = 50;

/// What serves, by kind, process, name and directory, as in `run 17 name /directory`.
pub(crate) fn name_of(label: &Label) -> String {
    let kind = match label.kind {
        LiveKind::Run => "run",
        LiveKind::Mount => "mount",
    };
    let mut all = format!("{kind} {}", label.pid);
    for word in [&label.name, &label.directory].into_iter().flatten() {
        all.push(' ');
        all.push_str(&text_of(word.as_ref()));
    }
    all
}

/// The summary of a run as one JSON object.
pub(crate) fn as_json(ended: &Ended) -> String {
    let changes: Vec<_> = ended.changes.iter().map(change_json).collect();
    let mut object = json!({"changes": changes, "left": ended.left, "lost": ended.lost});
    if !ended.reached.is_empty() {
        object["limits_reached"] = json!(ended.reached);
    }
    format!("{object}\n")
}

/// A change as data.
pub(crate) fn change_json(change: &Change) -> Value {
    let (_, word) = sign(&change.kind);
    let mut object = json!({
        "path": text_of(change.path.path()),
        "change": word,
        "type": match change.what {
            What::File => "file",
            What::Directory => "directory",
            What::Link => "link",
            What::Other => "other",
        },
        "size": change.size,
        "size_before": change.size_before,
        "mode": format!("{:04o}", change.mode),
        "mode_before": format!("{:04o}", change.mode_before),
    });
    if change.lists {
        object["access_lists_changed"] = true.into();
    }
    if let Kind::Renamed { from } = &change.kind {
        object["from"] = text_of(from.path()).into();
    }
    object
}

/// The options of a run by which changes go to real files, which no summary shows.
pub(crate) fn direct(plan: &Plan) -> Vec<&'static str> {
    let mut mounts = plan.extra.iter().filter(|extra| !extra.read_only);
    let options = [
        ("--rw", !plan.write_through.is_empty()),
        ("--pass", plan.pass.len() > Plan::default().pass.len()),
        (
            "--mount",
            mounts.any(|extra| matches!(extra.source, Source::Host(_))),
        ),
    ];
    let options = options.into_iter().filter(|(_, is_used)| *is_used);
    options.map(|(option, _)| option).collect()
}

/// The summary of a run for people, with colours; `direct` as [`direct`] gives it.
pub(crate) fn as_text(ended: &Ended, direct: &[&str]) -> String {
    let mut text = String::new();
    let count = ended.changes.len();
    let title = match count {
        0 => "nothing changed".to_owned(),
        1 => "1 change".to_owned(),
        more => format!("{more} changes"),
    };
    let scope = match direct {
        [] => String::new(),
        options => {
            let options = options.join(" and ");
            format!(" in the view; changes below {options} went to the real files")
        }
    };
    writeln!(text, "openpath: {title}{scope}").ok();
    list(&mut text, &ended.changes);
    match ended.left {
        0 => {}
        1 => text.push_str("openpath: 1 process was left and ended\n"),
        more => {
            writeln!(text, "openpath: {more} processes were left and ended").ok();
        }
    }
    text
}

/// Changes, a line each.
pub(crate) fn list(text: &mut String, changes: &[Change]) {
    let lines = collapse(changes);
    for line in lines.iter().take(LINES_MAX) {
        line.write(text);
    }
    if lines.len() > LINES_MAX {
        writeln!(text, "  and {} more", lines.len() - LINES_MAX).ok();
    }
}

/// A change, and those below it that it stands for.
struct Line<'a> {
    change: &'a Change,
    below: usize,
    bytes: u64,
}

/// Directories that came or went stand for all that is in them.
fn collapse(changes: &[Change]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for change in changes {
        if let Some(line) = lines.last_mut() {
            let top = line.change;
            let whole = matches!(top.kind, Kind::Added | Kind::Deleted)
                && top.what == What::Directory
                && top.kind == change.kind;
            if whole && change.path.path().starts_with(top.path.path()) {
                line.below += 1;
                line.bytes += change.size.max(change.size_before);
                continue;
            }
        }
        lines.push(Line {
            change,
            below: 0,
            bytes: change.size.max(change.size_before),
        });
    }
    lines
}

impl Line<'_> {
    fn write(&self, text: &mut String) {
        let change = self.change;
        let (sign, _) = sign(&change.kind);
        let style = style(&change.kind);
        let path = text_of(change.path.path());
        let slash = if change.what == What::Directory {
            "/"
        } else {
            ""
        };
        write!(text, "  {style}{sign}{style:#}  ").ok();
        if let Kind::Renamed { from } = &change.kind {
            write!(text, "{} -> ", text_of(from.path())).ok();
        }
        write!(text, "{path}{slash}").ok();
        match (&change.kind, change.what) {
            (Kind::Attributes, _) if change.mode != change.mode_before => {
                write!(
                    text,
                    "  mode {:04o} -> {:04o}",
                    change.mode_before, change.mode
                )
            }
            (Kind::Modified, What::File) => {
                let (before, now) = (change.size_before, change.size);
                write!(text, "  {} -> {}", bytes(before), bytes(now))
            }
            (Kind::Added | Kind::Deleted, What::Directory) if self.below > 0 => {
                write!(text, "  {} names, {}", self.below, bytes(self.bytes))
            }
            (Kind::Added | Kind::Deleted, What::File) => write!(text, "  {}", bytes(self.bytes)),
            _ => Ok(()),
        }
        .ok();
        if change.lists {
            text.push_str("  access control list");
        }
        text.push('\n');
    }
}

/// The letter and the word of a change.
pub(crate) fn sign(kind: &Kind) -> (char, &'static str) {
    match kind {
        Kind::Added => ('A', "added"),
        Kind::Modified => ('M', "modified"),
        Kind::Deleted => ('D', "deleted"),
        Kind::Renamed { .. } => ('R', "renamed"),
        Kind::Attributes => ('m', "attributes"),
    }
}

fn style(kind: &Kind) -> Style {
    let colour = match kind {
        Kind::Added => AnsiColor::Green,
        Kind::Deleted => AnsiColor::Red,
        Kind::Renamed { .. } => AnsiColor::Cyan,
        Kind::Modified | Kind::Attributes => AnsiColor::Yellow,
    };
    colour.on_default()
}

/// A path for a reader.
pub(crate) fn text_of(path: &Path) -> String {
    openpath_run::text_of(path.as_os_str().as_bytes())
}

/// How long ago a time was, in seconds since 1970; 0 if it is still to come. Another process says
/// it, and may say anything.
pub(crate) fn seconds_since(time: u64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs().saturating_sub(time)
}

/// A size for people.
pub(crate) fn bytes(size: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut tenths = u128::from(size) * 10;
    let mut unit = None;
    for name in units {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1024;
        unit = Some(name);
    }
    match unit {
        None => format!("{size} B"),
        Some(unit) => format!("{}.{} {unit}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::{bytes, collapse, seconds_since, text_of};
    use openpath_run::{Change, Kind, What};
    use std::path::Path;

    fn change(path: &str, kind: Kind, what: What) -> Change {
        Change {
            path: Path::new(path).into(),
            kind,
            what,
            size: 10,
            size_before: 0,
            mode: 0o644,
            mode_before: 0,
            lists: false,
        }
    }

    #[test]
    fn what_is_in_a_new_directory_is_counted_with_it() {
        let changes = [
            change("/a", Kind::Added, What::Directory),
            change("/a/b", Kind::Added, What::File),
            change("/a/c", Kind::Added, What::File),
            change("/ab", Kind::Added, What::File),
            change("/d", Kind::Modified, What::File),
        ];
        let lines = collapse(&changes);
        let got: Vec<_> = lines.iter().map(|line| line.below).collect();
        assert_eq!(got, [2, 0, 0]);
    }

    #[test]
    fn names_cannot_give_orders_to_a_terminal() {
        assert_eq!(text_of(Path::new("a\x1b[31m\nb")), r"a\x1b[31m\x0ab");
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "15.9 EiB");
    }

    #[test]
    fn time_of_another_process_may_be_any_number() {
        assert_eq!(seconds_since(u64::MAX), 0);
        assert!(seconds_since(0) > 1_700_000_000);
    }
}
