// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats what a run changed in its view: a summary as text for people, and all changes as JSON
//! for programs. Other commands, such as `diff` and `commit`, format changes, paths and sizes by
//! the same functions.

use anstyle::{AnsiColor, Style};
use openpath_run::live::{Label, ServedKind};
use openpath_run::{
    AclChange, AttrDiff, Change, ChangeKind, FileType, PathBytes, Plan, RunOutcome, SpecialFile,
    TreeSource,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::SystemTime;

/// The most lines of a summary; JSON has all changes.
const LINES_MAX: usize = 50;

/// A server by kind, process, name and directory, as in `run 17 name /directory`.
pub(crate) fn name_of(label: &Label) -> String {
    let kind = match label.kind {
        ServedKind::Run => "run",
        ServedKind::Mount => "mount",
        _ => "server",
    };
    let mut all = format!("{kind} {}", label.pid);
    for word in [&label.name, &label.directory].into_iter().flatten() {
        all.push(' ');
        all.push_str(&text_of(word.as_ref()));
    }
    all
}

/// Writes the summary of a run as one JSON object, change by change.
///
/// # Errors
/// Those of `out`.
pub(crate) fn write_json(ended: &RunOutcome, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(b"{\"changes\":[")?;
    for (at, change) in ended.changes.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(out, "{comma}{}", change_json(&change))?;
    }
    let mut rest = json!({
        "engine": ended.engine,
        "ended_processes": ended.ended_processes,
        "lost": ended.lost_writes,
    });
    if !ended.limits_reached.is_empty() {
        rest["limits_reached"] = json!(ended.limits_reached);
    }
    if let Some(users) = &ended.still_used {
        rest["still_used"] = users.to_string().into();
    }
    let rest = rest.to_string();
    writeln!(out, "],{}", rest.trim_start_matches('{'))
}

/// A change as JSON.
pub(crate) fn change_json(change: &Change) -> Value {
    let (_, word) = sign(&change.kind);
    let mode = |mode| format!("{mode:04o}");
    let was = change.kind != ChangeKind::Added;
    let is = change.kind != ChangeKind::Deleted;
    let before = match is {
        true => change.mode_before,
        false => change.mode,
    };
    let mut object = json!({
        "path": text_of(change.path.path()),
        "change": word,
        "type": noun(change.file_type),
        "size": is.then_some(change.size),
        "size_before": was.then_some(change.size_before),
        "mode": is.then(|| mode(change.mode)),
        "mode_before": was.then(|| mode(before)),
    });
    if change.file_type_before != change.file_type {
        object["type_before"] = noun(change.file_type_before).into();
    }
    if change.below > 0 {
        object["names"] = change.below.into();
    }
    let attributes = attributes(&change.differs);
    if !attributes.is_empty() {
        object["attributes"] = attributes.into();
    }
    if let Some((before, now)) = change.differs.owner {
        object["owner"] = owner_text(now).into();
        object["owner_before"] = (!change.is_new()).then(|| owner_text(before)).into();
    }
    if let Some(special) = change.special {
        let (word, number) = special_words(special);
        object["special"] = word.into();
        if let Some(number) = number {
            object["device"] = number.into();
        }
    }
    if let Some(lists) = change.differs.lists {
        object["access_lists_changed"] = true.into();
        object["access_lists"] = list_word(lists).into();
    }
    if let Some(target) = &change.target {
        object["target"] = text_of(target.path()).into();
    }
    if let ChangeKind::Renamed { from } = &change.kind {
        object["from"] = text_of(from.path()).into();
        object["data_changed"] = change.data.into();
        object["replaces"] = change.replaces.into();
    }
    object
}

/// A user and a group.
fn owner_text((user, group): (u32, u32)) -> String {
    format!("{user}:{group}")
}

/// The word for a special file, and the number of a device.
fn special_words(special: SpecialFile) -> (&'static str, Option<String>) {
    match special {
        SpecialFile::BlockDevice(major, minor) => {
            ("block device", Some(format!("{major}:{minor}")))
        }
        SpecialFile::CharacterDevice(major, minor) => {
            ("character device", Some(format!("{major}:{minor}")))
        }
        SpecialFile::Fifo => ("FIFO", None),
        SpecialFile::Socket => ("socket", None),
        _ => ("other", None),
    }
}

/// The names of the attributes that differ, for programs.
fn attributes(differs: &AttrDiff) -> Vec<String> {
    let words = [
        ("mode", differs.mode),
        ("owner", differs.owner.is_some()),
        ("times", differs.times),
        ("access lists", differs.lists.is_some()),
    ];
    let words = words.into_iter().filter(|(_, is_other)| *is_other);
    let names = differs.xattrs.iter().map(|name| text_of(name.path()));
    words
        .map(|(word, _)| word.to_owned())
        .chain(names)
        .collect()
}

fn list_word(lists: AclChange) -> &'static str {
    match lists {
        AclChange::Set => "set",
        AclChange::Removed => "removed",
        _ => "changed",
    }
}

/// What a summary does not cover, and the view that keeps the changes.
pub(crate) struct Scope {
    /// The options that let changes go to real files, which no summary shows.
    direct: Vec<&'static str>,
    view: Option<String>,
}

/// The scope of a summary of this run.
pub(crate) fn direct(plan: &Plan) -> Scope {
    let mut mounts = plan.extra.iter().filter(|extra| !extra.read_only);
    let options = [
        ("--rw", !plan.write_through.is_empty()),
        ("--pass", plan.pass.len() > Plan::default().pass.len()),
        (
            "--mount",
            mounts.any(|extra| matches!(extra.source, TreeSource::Host(_))),
        ),
    ];
    let options = options.into_iter().filter(|(_, is_in_use)| *is_in_use);
    Scope {
        direct: options.map(|(option, _)| option).collect(),
        view: plan.name.clone(),
    }
}

/// The summary of a run for people, with colours; `scope` as [`direct`] gives it.
pub(crate) fn as_text(ended: &RunOutcome, scope: &Scope) -> String {
    let rest = match &scope.view {
        Some(view) => format!("see `openpath diff {} --stat`", text_of(view.as_ref())),
        None => "`--json` lists them".to_owned(),
    };
    let mut lines = String::new();
    let title = list(&mut lines, ended.changes.iter(), &rest);
    let scope = match &scope.direct[..] {
        [] => String::new(),
        options => {
            let options = options.join(" and ");
            format!(" in the view; changes below {options} went to the real files")
        }
    };
    let mut text = format!("openpath: {title}{scope}\n{lines}");
    match ended.ended_processes {
        0 => {}
        1 => text.push_str("openpath: 1 process was left and ended\n"),
        more => {
            writeln!(text, "openpath: {more} processes were left and ended").ok();
        }
    }
    text
}

/// Writes one line for each change, and says where the `rest` of a long list is; returns how many
/// changes there are. Entries of a new directory are counted with it.
pub(crate) fn list(text: &mut String, changes: impl Iterator<Item = Change>, rest: &str) -> String {
    let lines = Lines::new(changes);
    for line in &lines.first {
        line.write(text);
    }
    if lines.count > LINES_MAX {
        let more = number(as_u64(lines.count - LINES_MAX));
        writeln!(text, "  and {more} more: {rest}").ok();
    }
    match lines.count {
        0 => "nothing changed".to_owned(),
        count => counted(as_u64(count), "change"),
    }
}

/// A change, with the number and the size of the changes below that its line includes.
struct Line {
    change: Change,
    below: u64,
    bytes: u64,
}

/// The first lines, and the number of all.
#[derive(Default)]
struct Lines {
    first: Vec<Line>,
    count: usize,
}

impl Lines {
    /// A new directory includes all new entries below it. Those that stand out have lines as well.
    fn new(changes: impl Iterator<Item = Change>) -> Lines {
        let mut lines = Lines::default();
        // The new directory with its attributes, and the index of its line.
        let mut top: Option<(PathBytes, AttrDiff, usize)> = None;
        for change in changes {
            let bytes = change.size.max(change.size_before);
            let top_now = top.as_ref().filter(|(path, ..)| {
                change.kind == ChangeKind::Added && change.path.path().starts_with(path.path())
            });
            if let Some((_, of_top, at)) = top_now {
                if let Some(line) = lines.first.get_mut(*at) {
                    line.below += 1;
                    line.bytes += bytes;
                }
                if !stands_out(&change, of_top) {
                    continue;
                }
            } else if change.is_new() && change.file_type == FileType::Directory {
                top = Some((change.path.clone(), change.differs.clone(), lines.count));
            }
            lines.count += 1;
            if lines.count <= LINES_MAX {
                let below = change.below;
                lines.first.push(Line {
                    change,
                    below,
                    bytes,
                });
            }
        }
        lines
    }
}

/// Whether an entry of a new directory has a device number, rights or attributes that the line of
/// the directory does not show.
fn stands_out(change: &Change, top: &AttrDiff) -> bool {
    let differs = &change.differs;
    let owner = |differs: &AttrDiff| differs.owner.map(|(_, now)| now);
    let is_device = change
        .special
        .is_some_and(|special| special_words(special).1.is_some());
    is_device
        || differs.mode
        || owner(differs) != owner(top)
        || differs.lists.is_some() && top.lists.is_none()
        || differs.xattrs.iter().any(|name| !top.xattrs.contains(name))
}

impl Line {
    fn write(&self, text: &mut String) {
        let change = &self.change;
        let (sign, _) = sign(&change.kind);
        let style = style(&change.kind);
        write!(text, "  {style}{sign}{style:#}  {}", path_text(change)).ok();
        let facts = facts(change, self.below, self.bytes);
        if !facts.is_empty() {
            write!(text, "  {}", facts.join(", ")).ok();
        }
        text.push('\n');
    }
}

/// The path of a change, after the old path if it was renamed.
pub(crate) fn path_text(change: &Change) -> String {
    let path = text_of(change.path.path());
    let slash = match change.file_type {
        FileType::Directory if !path.ends_with('/') => "/",
        _ => "",
    };
    match &change.kind {
        ChangeKind::Renamed { from } => format!("{} -> {path}{slash}", text_of(from.path())),
        _ => format!("{path}{slash}"),
    }
}

/// The facts about a change besides its path. A new or deleted directory has `below` names with
/// `size` bytes in all.
pub(crate) fn facts(change: &Change, below: u64, size: u64) -> Vec<String> {
    let mut facts = Vec::new();
    let is_new_dir = change.file_type == FileType::Directory;
    let is_other = change.file_type != change.file_type_before;
    let target = change.target.as_ref();
    let target = target.map(|target| format!("link to {}", text_of(target.path())));
    match &change.kind {
        _ if is_other => {
            let with = match change.below {
                0 => String::new(),
                below => format!(" of {}", counted(below, "name")),
            };
            let (before, now) = (noun(change.file_type_before), noun(change.file_type));
            let special = special_text(change);
            let now = target.as_deref().or(special.as_deref()).unwrap_or(now);
            facts.push(format!("{before}{with} -> {now}"));
            match change.file_type {
                FileType::Directory if below > 0 => facts.push(counted(below, "name")),
                FileType::File => facts.push(bytes(change.size)),
                _ => {}
            }
        }
        ChangeKind::Modified if is_new_dir => facts.push("replaced".to_owned()),
        ChangeKind::Added | ChangeKind::Deleted if is_new_dir && below > 0 => {
            facts.push(counted(below, "name"));
            if change.kind == ChangeKind::Added {
                facts.push(bytes(size));
            }
        }
        ChangeKind::Added | ChangeKind::Deleted if change.file_type == FileType::File => {
            facts.push(bytes(size))
        }
        ChangeKind::Modified | ChangeKind::Renamed { .. }
            if change.data && change.file_type == FileType::File =>
        {
            let (before, now) = (change.size_before, change.size);
            facts.push(format!("{} -> {}", bytes(before), bytes(now)));
        }
        ChangeKind::Attributes if change.differs == AttrDiff::default() => {
            facts.push("replaced by a copy".to_owned());
        }
        _ => {}
    }
    facts.extend(target.filter(|_| !is_other));
    facts.extend(special_text(change).filter(|_| !is_other));
    if change.replaces {
        facts.push("replaces what had this name".to_owned());
    }
    facts.extend(differences(change));
    facts
}

/// A device with its number, a FIFO or a socket.
pub(crate) fn special_text(change: &Change) -> Option<String> {
    let (word, number) = special_words(change.special?);
    Some(match number {
        Some(number) => format!("{word} {number}"),
        None => word.to_owned(),
    })
}

/// The attributes that differ, as text for people.
pub(crate) fn differences(change: &Change) -> Vec<String> {
    let differs = &change.differs;
    let mut all = Vec::new();
    if differs.mode {
        let (before, now) = (change.mode_before, change.mode);
        all.push(match change.is_new() {
            true => format!("mode {now:04o}"),
            false => format!("mode {before:04o} -> {now:04o}"),
        });
    }
    if let Some((before, now)) = differs.owner {
        let (before, now) = (owner_text(before), owner_text(now));
        all.push(match change.is_new() {
            true => format!("owner {now}"),
            false => format!("owner {before} -> {now}"),
        });
    }
    if differs.times {
        all.push("times".to_owned());
    }
    if let Some(lists) = differs.lists {
        all.push(format!("access control list {}", list_word(lists)));
    }
    let names = differs.xattrs.iter();
    all.extend(names.map(|name| format!("attribute {}", text_of(name.path()))));
    all
}

/// The word for a type of file.
pub(crate) fn noun(file_type: FileType) -> &'static str {
    match file_type {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Link => "link",
        _ => "other",
    }
}

/// A number with its noun, in the singular or the plural.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{} {noun}s", number(count)),
    }
}

/// A number with a comma for each thousand.
fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The letter and the word of a change.
pub(crate) fn sign(kind: &ChangeKind) -> (char, &'static str) {
    match kind {
        ChangeKind::Added => ('A', "added"),
        ChangeKind::Deleted => ('D', "deleted"),
        ChangeKind::Renamed { .. } => ('R', "renamed"),
        ChangeKind::Attributes => ('m', "attributes"),
        _ => ('M', "modified"),
    }
}

fn style(kind: &ChangeKind) -> Style {
    let colour = match kind {
        ChangeKind::Added => AnsiColor::Green,
        ChangeKind::Deleted => AnsiColor::Red,
        ChangeKind::Renamed { .. } => AnsiColor::Cyan,
        _ => AnsiColor::Yellow,
    };
    colour.on_default()
}

/// A path as text that is safe to print.
pub(crate) fn text_of(path: &Path) -> String {
    openpath_run::printable(path.as_os_str().as_bytes())
}

/// How many seconds ago `time` was, which is in seconds since 1970; 0 if it is in the future.
/// Another process sends it, and can send any number.
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
    use super::{Lines, bytes, counted, list, seconds_since, text_of};
    use openpath_run::{AttrDiff, Change, ChangeKind, FileType};
    use std::path::Path;

    fn change(path: &str, kind: ChangeKind, file_type: FileType) -> Change {
        Change {
            path: Path::new(path).into(),
            kind,
            file_type,
            file_type_before: file_type,
            size: 10,
            size_before: 0,
            mode: 0o644,
            mode_before: 0,
            data: false,
            differs: AttrDiff::default(),
            below: 0,
            replaces: false,
            target: None,
            special: None,
        }
    }

    #[test]
    fn entries_of_a_new_directory_are_counted_with_it() {
        let from = Path::new("/x").into();
        let changes = [
            change("/a", ChangeKind::Added, FileType::Directory),
            change("/a/b", ChangeKind::Added, FileType::File),
            change("/a/c", ChangeKind::Renamed { from }, FileType::File),
            change("/a/d", ChangeKind::Added, FileType::File),
            change("/ab", ChangeKind::Added, FileType::File),
            change("/d", ChangeKind::Modified, FileType::File),
        ];
        let lines = Lines::new(changes.iter().cloned());
        let got: Vec<_> = lines.first.iter().map(|line| line.below).collect();
        assert_eq!(got, [2, 0, 0, 0]);
        let mut text = String::new();
        assert_eq!(list(&mut text, changes.into_iter(), ""), "4 changes");
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn long_list_says_where_the_rest_is() {
        let file = |at| change(&format!("/{at}"), ChangeKind::Added, FileType::File);
        let mut text = String::new();
        let title = list(&mut text, (0..1_061).map(file), "see there");
        assert_eq!(title, "1,061 changes");
        assert!(text.ends_with("  and 1,011 more: see there\n"), "{text}");
    }

    #[test]
    fn counted_noun_is_singular_for_one() {
        assert_eq!(counted(1, "name"), "1 name");
        assert_eq!(counted(0, "name"), "0 names");
        assert_eq!(counted(10_000, "name"), "10,000 names");
        assert_eq!(counted(1_234_567, "name"), "1,234,567 names");
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(text_of(Path::new("a\x1b[31m\nb")), r"a\x1b[31m\x0ab");
    }

    #[test]
    fn sizes_have_one_decimal_and_a_binary_unit() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "15.9 EiB");
    }

    #[test]
    fn seconds_since_any_time_do_not_overflow() {
        assert_eq!(seconds_since(u64::MAX), 0);
        assert!(seconds_since(0) > 1_700_000_000);
    }
}
