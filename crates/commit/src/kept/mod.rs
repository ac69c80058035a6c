// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes, finds, lists, locks and discards the views that are kept on the disk: a directory each,
//! with what the view's commands changed.
//!
//! | name | is |
//! |---|---|
//! | `upper` | the changes, as an overlay keeps them |
//! | `work` | what is being made, before it is put in place |
//! | `lock` | locked (flock(2)) by the process that uses the view |
//! | `view.toml` | when it was made, and the command of its last run |
//! | `rules.toml` | the rules of its runs, see `rules` |
//! | `marks` | the prefix of the marks in `upper`, see `marks` |
//! | `places` | the paths that the last run with the kernel's overlay kept, see `places` |
//! | `begun` | when the last run with the kernel's overlay began, see `scan::taken_times` |
//! | `parts` | the directories for which that counts |
//! | `commit`, `next`, `previous`, `known`, `taken` | what was committed of it, see `commit` |
//! | `old-content` | old content that an undo could not put back, see `not_undone` |
//! | `kernel-work` | work directories of the kernel's overlays, see `kernel_work` |
//! | `.openpath-discarded` | what is left of a view that is being removed, see `discard` |
//!
//! # Modules
//! | module | what |
//! |---|---|
//! | `name` | which directory a name stands for |
//! | `safe_path` | the path to it, followed once |
//! | `lock` | its owner, its permissions, its lock |
//! | `kernel_work` | whether an overlay of the kernel still uses it |
//! | `copied_places` | what was copied up for such overlays alone |
//! | `part`, `own_format` | what such an overlay uses of an ordinary user's |
//! | `fresh` | which directories of the user may become views |
//! | `discard` | its end |
//! | `state` | what its directory holds |
//! | `rules` | the rules that are kept with it |
//!
//! # States of a directory
//! Empty (nothing of ours in it), Whole (`view.toml` can be read, and what it needs exists),
//! Discarding (a discard was interrupted), Damaged (anything else). A run starts in the first two,
//! and in the third once the discard is finished. A damaged view is only listed and discarded.

mod copied_places;
mod discard;
mod fresh;
mod kernel_work;
mod lock;
mod name;
mod own_format;
mod part;
mod rules;
mod safe_path;
mod state;

pub use copied_places::CopiedPlacesAt;
pub use discard::discard;
pub use kernel_work::{
    KERNEL_WORK, make_kernel_work, record_copied_places, remove_idle_kernel_work, try_kernel_work,
};
pub use lock::ViewLock;
pub use name::state_dir;
pub use part::{WORK_VERB, lend_part, take_part_back, work_in_namespace};
pub use rules::update as update_rules;
pub use rules::{KeptRules, rules_of};
pub(crate) use safe_path::{LINKS_MAX, maps_every_user, others_can_change_names};

use crate::attributes::clock;
use crate::host::marks::MARKS;
use crate::host::view_dir::ViewDir;
use crate::journal::committed::{self, Committed};
use crate::journal::records::{PARTS, PLACES};
use crate::report::refusal::{Refusal, RefusalKind};
use safe_path::IfMissing;
use serde::{Deserialize, Serialize};
use state::{DISCARD_INTERRUPTED, State, damaged, has, is_gone, remedy, state};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// What describes a view, in its directory.
const INFO: &str = "view.toml";
/// No description is longer, in bytes.
const INFO_MAX: u64 = 16 << 20;
const LOCK: &str = "lock";
/// The work directory of the overlay.
const WORK: &str = "work";
/// What is left of a view that is being removed.
const DISCARDED: &str = ".openpath-discarded";
/// Made by runs and commits of a view.
const CHANGES: [&str; 13] = [
    // First: a discard that is interrupted after it leaves nothing to take back.
    KERNEL_WORK,
    "upper",
    WORK,
    "commit",
    "next",
    "previous",
    "known",
    "taken",
    "begun",
    PARTS,
    MARKS,
    PLACES,
    OLD_CONTENT,
];
/// What an undo could not put back.
pub(crate) const OLD_CONTENT: &str = "old-content";
/// The verb by which a process is known that serves a view, and so has its lock.
pub const SERVE: &str = "run-serve";
/// How often a directory that goes away is made again.
const TRIES: u32 = 16;

/// All names of ours.
fn own_names() -> impl Iterator<Item = &'static str> {
    let first = [INFO, rules::RULES].into_iter();
    first.chain(CHANGES).chain([DISCARDED, LOCK])
}

/// A view that is kept.
#[derive(Debug)]
#[non_exhaustive]
pub struct KeptView {
    /// Its name; of one that was named by its directory, that.
    pub name: String,
    /// The path of its directory, for messages: what is in it is opened by descriptor.
    pub dir: PathBuf,
    /// Its description.
    pub info: ViewInfo,
    /// Its directory, held open.
    view_dir: ViewDir,
    /// It was made by this value.
    is_new: bool,
}

/// The description of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ViewInfo {
    /// When it was made, in seconds since 1970: what changed later in the tree below, others did.
    pub made: u64,
    /// The command of its last run.
    pub command: String,
}

/// A named view, as a list shows it.
#[derive(Debug)]
pub enum ListedView {
    /// It can be used.
    Whole(KeptView),
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

impl KeptView {
    /// The view of this name, made if there is none. A name with a slash is a directory.
    ///
    /// # Errors
    /// A name that cannot be one; no place for views; the directory belongs to another user, or
    /// others can write to it; it holds files and is no view; what is there is damaged; what the
    /// file system says.
    pub fn make(name: &str, command: &[OsString]) -> Result<KeptView, Refusal> {
        for _ in 0..TRIES {
            if let Some(kept) = Self::try_make(name, command)? {
                return Ok(kept);
            }
        }
        let text = format!("the view {name} is being made and discarded by others: try again");
        Err(Refusal::new(RefusalKind::Busy, text))
    }

    /// `None`: the directory went away meanwhile.
    fn try_make(name: &str, command: &[OsString]) -> Result<Option<KeptView>, Refusal> {
        let Some(at) = name::open(name, IfMissing::Create)? else {
            return Ok(None);
        };
        if let State::Whole(info) = state(&at) {
            return Ok(Some(KeptView::new(name, at, info)));
        }
        fresh::check(name, &at)?;
        let held = match lock::lock(&at) {
            Err(_) if is_gone(&at) => return Ok(None),
            held => held?,
        };
        let failed = |why: io::Error| step_failed(name, "be made", &why);
        match state(&at) {
            State::Whole(info) => return Ok(Some(KeptView::new(name, at, info))),
            State::Damaged(why) => return Err(damaged(name, &at, &why)),
            State::Discarding => {
                discard::finish(&held, &mut || Ok(()), &mut || {}).map_err(failed)?
            }
            State::Empty => {}
        }
        let (now, _) = clock::now();
        let info = ViewInfo {
            made: u64::try_from(now).unwrap_or_default(),
            command: command_line(command),
        };
        info.write(&at).map_err(failed)?;
        drop(held);
        let mut kept = KeptView::new(name, at, info);
        kept.is_new = true;
        Ok(Some(kept))
    }

    /// The view of this name.
    ///
    /// # Errors
    /// There is none; it belongs to another user; it is damaged; what the file system says.
    pub fn open(name: &str) -> Result<KeptView, Refusal> {
        let at = name::open(name, IfMissing::ReturnNone)?.filter(|at| fresh::is_view(name, at));
        let at = at.ok_or_else(|| no_such_view(name))?;
        match state(&at) {
            State::Whole(info) => Ok(KeptView::new(name, at, info)),
            State::Damaged(why) => Err(damaged(name, &at, &why)),
            State::Discarding => Err(damaged(name, &at, DISCARD_INTERRUPTED)),
            State::Empty => Err(no_such_view(name)),
        }
    }

    /// All views that have a name, by name.
    ///
    /// # Errors
    /// No place for views; what the file system says.
    pub fn all() -> Result<Vec<ListedView>, Refusal> {
        let mut all = Vec::new();
        for (name, at) in named_views()? {
            let why = match state(&at) {
                State::Empty => continue,
                State::Whole(info) => {
                    all.push(ListedView::Whole(KeptView::new(&name, at, info)));
                    continue;
                }
                State::Discarding => DISCARD_INTERRUPTED.to_owned(),
                State::Damaged(why) => why,
            };
            all.push(ListedView::Damaged {
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
        lock::lock(&self.view_dir)
    }

    /// Is a process using it?
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        lock::is_locked(&self.view_dir)
    }

    /// Whether it has been committed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn committed(&self) -> Result<Committed, Refusal> {
        committed::committed(&self.view_dir)
    }

    /// Its directory, held open.
    #[must_use]
    pub fn view_dir(&self) -> &ViewDir {
        &self.view_dir
    }

    /// Removes a view that this value made and that holds nothing: its run did not come about.
    pub fn discard_if_unused(self) {
        let empty = |dir: &ViewDir| dir.names().is_ok_and(|names| names.is_empty());
        let unused = |upper: Option<ViewDir>| upper.as_ref().is_none_or(empty);
        // Another run may use it until it is locked.
        if self.is_new
            && let Ok(held) = self.lock()
            && self.view_dir.subdir("upper").is_ok_and(unused)
        {
            // It stays, then, and holds nothing.
            let _left = discard::remove(held, &mut || Ok(()), &mut || {});
        }
    }

    fn new(name: &str, at: ViewDir, info: ViewInfo) -> KeptView {
        KeptView {
            name: name.to_owned(),
            dir: at.path().to_owned(),
            info,
            view_dir: at,
            is_new: false,
        }
    }
}

impl ViewInfo {
    /// Writes the description into the directory of its view.
    fn write(&self, dir: &ViewDir) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        dir.replace(INFO, text.as_bytes())
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
    if let State::Whole(info) = state(dir)
        && info.command != command
    {
        let command = command.to_owned();
        let _older = ViewInfo { command, ..info }.write(dir);
    }
}

/// The directories of named views, by name.
fn named_views() -> Result<Vec<(String, ViewDir)>, Refusal> {
    let Some(views) = name::views(IfMissing::ReturnNone)? else {
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
pub fn lock_view(dir: &Path) -> Result<ViewLock, Refusal> {
    let path = std::path::absolute(dir);
    let path = path.map_err(|why| Refusal::step(&dir.display().to_string(), why))?;
    let none = || {
        Refusal::new(
            RefusalKind::NoSuchView,
            format!("there is no directory {}", path.display()),
        )
    };
    let found = safe_path::open(&path, IfMissing::ReturnNone)?.ok_or_else(none)?;
    lock_view_dir(&ViewDir::from_fd(found, path))
}

/// The same of a directory that is held.
///
/// # Errors
/// As [`lock_view`], but for a directory that does not exist.
pub fn lock_view_dir(dir: &ViewDir) -> Result<ViewLock, Refusal> {
    let held = lock::lock(dir)?;
    let name = dir.path().display().to_string();
    match state(dir) {
        State::Discarding => return Err(damaged(&name, dir, DISCARD_INTERRUPTED)),
        State::Damaged(why) if has(dir, INFO) => return Err(damaged(&name, dir, &why)),
        _ => {}
    }
    committed::check_uninterrupted(dir, name_of)?;
    Ok(held)
}

/// By which name the view in a directory is opened: its own, or the directory's path.
fn name_of(dir: &ViewDir) -> String {
    let path = dir.path();
    let views = name::views(IfMissing::ReturnNone).ok().flatten();
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
pub fn check_not_discarded(dir: &ViewDir) -> Result<(), Refusal> {
    match state(dir) {
        State::Whole(_) => Ok(()),
        State::Damaged(why) => Err(damaged(&dir.path().display().to_string(), dir, &why)),
        State::Empty | State::Discarding => Err(Refusal::new(
            RefusalKind::NoSuchView,
            format!(
                "the view in {} was discarded meanwhile",
                dir.path().display()
            ),
        )),
    }
}

/// There is no such view. One in the working directory has a slash in its name.
fn no_such_view(name: &str) -> Refusal {
    let info = Path::new(name).join(INFO);
    if !name::is_path(name) && info.symlink_metadata().is_ok() {
        let text = format!("there is no view {name}: write `./{name}` for the directory");
        return Refusal::new(RefusalKind::NoSuchView, text);
    }
    Refusal::new(
        RefusalKind::NoSuchView,
        format!("there is no view {name}: `openpath list` shows which there are"),
    )
}

fn step_failed(name: &str, what: &str, why: &io::Error) -> Refusal {
    Refusal::step(&format!("the view {name} cannot {what}"), why)
}

#[cfg(test)]
mod tests;
