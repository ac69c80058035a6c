// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views that are kept: a directory each, with what the view's commands changed.
//!
//! | name | is |
//! |---|---|
//! | `upper` | the changes, as an overlay keeps them |
//! | `work` | what is being made, before it is put in place |
//! | `lock` | locked (flock(2)) by the process that uses the view |
//! | `view.toml` | when it was made, and the command of its last run |
//! | `rules.toml` | the rules of its runs, see `rules` |
//! | `commit`, `next`, `known`, `taken` | what was committed of it, see `commit` |
//! | `.openpath-discarded` | what is left of a view that is being removed, see `discard` |
//!
//! # Modules
//! | module | what |
//! |---|---|
//! | `name` | which directory a name stands for |
//! | `way` | the way there, followed once |
//! | `lock` | its owner, its permissions, its lock |
//! | `fresh` | which directories of the user may become views |
//! | `discard` | its end |
//! | `rules` | the rules that are kept with it |
//!
//! # States of a directory
//! Empty (nothing of ours in it), Whole (`view.toml` can be read, what it needs is there), Going
//! (a discard was interrupted), Damaged (anything else). A run starts in the first two, and in the
//! third once the discard is finished; a damaged view is only shown, and discarded.

mod discard;
mod fresh;
mod lock;
mod name;
mod rules;
mod way;

pub use lock::ViewLock;
pub use name::own_state;
pub use rules::renew as renew_rules;
pub use rules::{KeptRules, rules_of};

use crate::committed::{self, Committed};
use crate::refusal::Refusal;
use crate::view_dir::ViewDir;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use way::Missing;

/// What describes a view, in its directory.
const ABOUT: &str = "view.toml";
/// No description is longer, in bytes.
const ABOUT_MAX: u64 = 16 << 20;
const LOCK: &str = "lock";
/// What is left of a view that is being removed.
const GOING: &str = ".openpath-discarded";
/// Made by runs and commits of a view.
const CHANGES: [&str; 6] = ["upper", "work", "commit", "next", "known", "taken"];
/// All names of ours.
const OURS: [&str; 10] = [
    ABOUT,
    rules::RULES,
    "upper",
    "work",
    "commit",
    "next",
    "known",
    "taken",
    GOING,
    LOCK,
];
/// The verb by which a process is known that serves a view, and so has its lock.
pub const SERVE: &str = "run-serve";
/// How often a directory that goes away is made again.
const TRIES: u32 = 16;

/// A view that is kept.
#[derive(Debug)]
pub struct Kept {
    /// Its name; of one that was named by its directory, that.
    pub name: String,
    /// The path of its directory, for messages: what is in it is opened by descriptor.
    pub dir: PathBuf,
    /// Its description.
    pub about: About,
    /// Its directory, held open.
    at: ViewDir,
    /// It was made by this value.
    is_new: bool,
}

/// The description of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// When it was made, in seconds since 1970: what changed later in the tree below, others did.
    pub made: u64,
    /// The command of its last run.
    pub command: String,
}

/// A named view, as a list shows it.
#[derive(Debug)]
pub enum Found {
    /// It can be used.
    Whole(Kept),
    /// It cannot be used.
    Damaged {
        /// Its name.
        name: String,
        /// Its directory.
        dir: PathBuf,
        /// What is wrong, and what helps.
        why: String,
    },
}

/// What a directory holds.
enum State {
    Empty,
    Whole(About),
    Going,
    Damaged(String),
}

impl Kept {
    /// The view of this name, made if there is none. A name with a slash is a directory.
    ///
    /// # Errors
    /// A name that cannot be one; no place for views; the directory belongs to another user, or
    /// others can write to it; it holds files and is no view; what is there is damaged; what the
    /// file system says.
    pub fn make(name: &str, command: &[OsString]) -> Result<Kept, Refusal> {
        for _ in 0..TRIES {
            if let Some(kept) = Self::try_make(name, command)? {
                return Ok(kept);
            }
        }
        let text = format!("the view {name} is being made and discarded by others: try again");
        Err(Refusal::new(text))
    }

    /// `None`: the directory went away meanwhile.
    fn try_make(name: &str, command: &[OsString]) -> Result<Option<Kept>, Refusal> {
        let Some(at) = name::open(name, Missing::Make)? else {
            return Ok(None);
        };
        if let State::Whole(about) = state(&at) {
            return Ok(Some(Kept::new(name, at, about)));
        }
        fresh::check(name, &at)?;
        let held = match lock::lock(&at) {
            Err(_) if is_gone(&at) => return Ok(None),
            held => held?,
        };
        let failed = |why: io::Error| cannot(name, "be made", &why);
        match state(&at) {
            State::Whole(about) => return Ok(Some(Kept::new(name, at, about))),
            State::Damaged(why) => return Err(damaged(name, &at, &why)),
            State::Going => discard::finish(&held, &mut || Ok(())).map_err(failed)?,
            State::Empty => {}
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let about = About {
            made: now.unwrap_or_default().as_secs(),
            command: command_line(command),
        };
        about.write(&at).map_err(failed)?;
        drop(held);
        let mut kept = Kept::new(name, at, about);
        kept.is_new = true;
        Ok(Some(kept))
    }

    /// The view of this name.
    ///
    /// # Errors
    /// There is none; it belongs to another user; it is damaged; what the file system says.
    pub fn open(name: &str) -> Result<Kept, Refusal> {
        let at = name::open(name, Missing::Tell)?.filter(|at| fresh::is_view(name, at));
        let at = at.ok_or_else(|| none(name))?;
        match state(&at) {
            State::Whole(about) => Ok(Kept::new(name, at, about)),
            State::Damaged(why) => Err(damaged(name, &at, &why)),
            State::Going => Err(damaged(name, &at, HALF_GONE)),
            State::Empty => Err(none(name)),
        }
    }

    /// All views that have a name, by name.
    ///
    /// # Errors
    /// No place for views; what the file system says.
    pub fn all() -> Result<Vec<Found>, Refusal> {
        let mut all = Vec::new();
        for (name, at) in named()? {
            let why = match state(&at) {
                State::Empty => continue,
                State::Whole(about) => {
                    all.push(Found::Whole(Kept::new(&name, at, about)));
                    continue;
                }
                State::Going => HALF_GONE.to_owned(),
                State::Damaged(why) => why,
            };
            all.push(Found::Damaged {
                why: format!("{why}: {}", remedy(&name, &at)),
                dir: at.path().to_owned(),
                name,
            });
        }
        Ok(all)
    }

    /// Locks the view, until what this gives is dropped.
    ///
    /// # Errors
    /// Another process has it; it belongs to another user; others can write to it; what the file
    /// system says.
    pub fn lock(&self) -> Result<ViewLock, Refusal> {
        lock::lock(&self.at)
    }

    /// Is a process using it?
    #[must_use]
    pub fn is_used(&self) -> bool {
        lock::is_locked(&self.at)
    }

    /// Whether it has been committed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn committed(&self) -> Result<Committed, Refusal> {
        committed::committed(&self.at)
    }

    /// Its directory, held open.
    #[must_use]
    pub fn at(&self) -> &ViewDir {
        &self.at
    }

    /// Removes a view that this value made and that holds nothing: its run did not come about.
    pub fn forget_if_unused(self) {
        let empty = |dir: &ViewDir| dir.names().is_ok_and(|names| names.is_empty());
        let unused = |upper: Option<ViewDir>| upper.as_ref().is_none_or(empty);
        // Another run may use it until it is locked.
        if self.is_new
            && let Ok(held) = self.lock()
            && self.at.subdir("upper").is_ok_and(unused)
        {
            // It stays, then, and holds nothing.
            let _left = discard::remove(held, &mut || Ok(()));
        }
    }

    fn new(name: &str, at: ViewDir, about: About) -> Kept {
        Kept {
            name: name.to_owned(),
            dir: at.path().to_owned(),
            about,
            at,
            is_new: false,
        }
    }
}

impl About {
    /// Writes the description into the directory of its view.
    fn write(&self, dir: &ViewDir) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        dir.replace(ABOUT, text.as_bytes())
    }
}

/// A command and its arguments, as a list shows them.
#[must_use]
pub fn command_line(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Keeps the command that runs, for lists, in the directory of its view, which is locked. Where it
/// cannot be written the list shows the command before it.
pub(crate) fn note_command(dir: &ViewDir, command: &str) {
    if let State::Whole(about) = state(dir)
        && about.command != command
    {
        let command = command.to_owned();
        let _older = About { command, ..about }.write(dir);
    }
}

/// What a list says of a view after an interrupted discard.
const HALF_GONE: &str = "its discard was interrupted";

/// Removes a view with all that is in it; what it has committed cannot be undone any more. What
/// interrupted discards left of named views is removed as well.
///
/// # Errors
/// There is none; another process uses it; it belongs to another user; a commit of it was
/// interrupted; it is damaged, and not in the directory of named views; what the file system says.
pub fn discard(name: &str) -> Result<(), Refusal> {
    let done = discard_steps(name, &mut || Ok(()));
    sweep();
    done
}

fn discard_steps(name: &str, step: discard::Step<'_>) -> Result<(), Refusal> {
    let at = name::open(name, Missing::Tell)?.filter(|at| fresh::is_view(name, at));
    let at = at.ok_or_else(|| none(name))?;
    match state(&at) {
        State::Empty => return Err(none(name)),
        State::Damaged(why) if is_by_hand(name, &at) => return Err(damaged(name, &at, &why)),
        _ => {}
    }
    let held = lock::lock(&at)?;
    match state(&at) {
        State::Empty => return Err(none(name)),
        State::Whole(_) => committed::check_uninterrupted(&at, name_of)?,
        State::Damaged(why) if is_by_hand(name, &at) => return Err(damaged(name, &at, &why)),
        State::Going | State::Damaged(_) => {}
    }
    discard::remove(held, step).map_err(|why| cannot(name, "be discarded", &why))
}

/// Finishes discards of named views that were interrupted.
fn sweep() {
    for (_, at) in named().unwrap_or_default() {
        let left = || matches!(state(&at), State::Going | State::Empty);
        if left()
            && let Ok(held) = lock::lock(&at)
            && left()
        {
            // The list shows what is left.
            let _left = discard::remove(held, &mut || Ok(()));
        }
    }
}

/// The directories of named views, by name.
fn named() -> Result<Vec<(String, ViewDir)>, Refusal> {
    let Some(views) = name::views(Missing::Tell)? else {
        return Ok(Vec::new());
    };
    let names = views.names().map_err(|why| views.failed(why))?;
    let names = names
        .into_iter()
        .filter_map(|name| String::from_utf8(name).ok());
    let mut names: Vec<_> = names.filter(|name| name::is_name(name)).collect();
    names.sort();
    let dirs = names.into_iter().filter_map(|name| {
        // What goes meanwhile is no view.
        let dir = views.subdir(&name).ok().flatten()?;
        Some((name, dir))
    });
    Ok(dirs.collect())
}

/// Takes a directory of changes: its lock, until what this gives is dropped. Each overlay above its
/// `upper` has it taken.
///
/// # Errors
/// It does not exist or belongs to another user; others can write to it; another process has it; a
/// commit or a discard of it was interrupted; what the file system says.
pub fn take(dir: &Path) -> Result<ViewLock, Refusal> {
    let path = std::path::absolute(dir);
    let path = path.map_err(|why| Refusal::step(&dir.display().to_string(), why))?;
    let none = || Refusal::new(format!("there is no directory {}", path.display()));
    let found = way::open(&path, Missing::Tell)?.ok_or_else(none)?;
    take_held(&ViewDir::over(found, path))
}

/// The same of a directory that is held.
///
/// # Errors
/// As [`take`], but for a directory that does not exist.
pub fn take_held(dir: &ViewDir) -> Result<ViewLock, Refusal> {
    let held = lock::lock(dir)?;
    let name = dir.path().display().to_string();
    match state(dir) {
        State::Going => return Err(damaged(&name, dir, HALF_GONE)),
        State::Damaged(why) if has(dir, ABOUT) => return Err(damaged(&name, dir, &why)),
        _ => {}
    }
    committed::check_uninterrupted(dir, name_of)?;
    Ok(held)
}

/// By which name the view in a directory is opened: its own, or the directory's path.
fn name_of(dir: &ViewDir) -> String {
    let path = dir.path();
    let views = name::views(Missing::Tell).ok().flatten();
    let is_named = views.is_some_and(|views| path.parent() == Some(views.path()));
    let name = path.file_name().filter(|_| is_named);
    name.unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// Refuses a directory that holds no view, as after a discard.
///
/// # Errors
/// It holds none, or a damaged one.
pub fn check_whole(dir: &ViewDir) -> Result<(), Refusal> {
    match state(dir) {
        State::Whole(_) => Ok(()),
        State::Damaged(why) => Err(damaged(&dir.path().display().to_string(), dir, &why)),
        State::Empty | State::Going => Err(Refusal::new(format!(
            "the view in {} was discarded meanwhile",
            dir.path().display()
        ))),
    }
}

/// What a directory holds.
fn state(dir: &ViewDir) -> State {
    let text = match dir.read(ABOUT, ABOUT_MAX) {
        Err(why) => return State::Damaged(format!("{ABOUT}: {why}")),
        Ok(None) if has(dir, GOING) => return State::Going,
        Ok(None) => {
            return match CHANGES.iter().find(|name| has(dir, name)) {
                Some(name) => State::Damaged(format!("it has `{name}` and no `{ABOUT}`")),
                None => State::Empty,
            };
        }
        Ok(Some(text)) => text,
    };
    let about = str::from_utf8(&text)
        .map_err(|why| why.to_string())
        .and_then(|text| toml::from_str(text).map_err(|why| why.message().to_owned()));
    let used = CHANGES.iter().find(|name| has(dir, name));
    match (about, used) {
        (Err(why), _) => State::Damaged(format!("{ABOUT}: {why}")),
        (Ok(_), Some(name)) if !matches!(dir.subdir("upper"), Ok(Some(_))) => {
            State::Damaged(format!("it has `{name}` and no directory `upper`"))
        }
        (Ok(about), _) => State::Whole(about),
    }
}

fn has(dir: &ViewDir, name: &str) -> bool {
    // What cannot be looked at is there.
    dir.has(name).unwrap_or(true)
}

/// Whether a directory that is held has lost its name.
fn is_gone(dir: &ViewDir) -> bool {
    dir.stat().map_or(true, |stat| stat.st_nlink == 0)
}

/// There is no such view. One in the working directory has a slash in its name.
fn none(name: &str) -> Refusal {
    let about = Path::new(name).join(ABOUT);
    if !name::is_path(name) && about.symlink_metadata().is_ok() {
        let text = format!("there is no view {name}: write `./{name}` for the directory");
        return Refusal::new(text);
    }
    Refusal::new(format!(
        "there is no view {name}: `openpath list` shows which there are"
    ))
}

fn damaged(name: &str, at: &ViewDir, why: &str) -> Refusal {
    let remedy = remedy(name, at);
    Refusal::new(format!("the view {name} is damaged, {why}: {remedy}"))
}

fn remedy(name: &str, at: &ViewDir) -> String {
    if matches!(state(at), State::Going) || !is_by_hand(name, at) {
        return format!("`openpath discard {name}` removes it and what it changed");
    }
    let dir = at.path().display();
    format!(
        "what it changed is in {dir}/upper, and what its last commit replaced in {dir}/commit/old; \
         remove {dir} by hand"
    )
}

/// Whether a damaged view is removed by its user alone: files in a directory that the user named
/// need not be ours, and an interrupted commit keeps files of the real tree.
fn is_by_hand(name: &str, at: &ViewDir) -> bool {
    let commit = committed::committed(at);
    name::is_path(name) || !matches!(commit, Ok(Committed::No | Committed::Yes))
}

fn cannot(name: &str, what: &str, why: &io::Error) -> Refusal {
    Refusal::step(&format!("the view {name} cannot {what}"), why)
}

#[cfg(test)]
mod tests;
