// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views that are kept: a directory each, with what the view's commands changed.
//!
//! | name | is |
//! |---|---|
//! | `upper` | the changes, as an overlay keeps them |
//! | `work` | what is being made, before it is put in place |
//! | `lock` | locked (flock(2)) by who uses the view |
//! | `view.toml` | when it was made and by which command |
//! | `commit`, `next`, `known`, `taken` | what was committed of it, see `commit` |

use crate::{Committed, Refusal};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest name.
const NAME_MAX: usize = 64;
/// What is told of a view, in its directory.
const ABOUT: &str = "view.toml";

/// The lock of a view's directory, until it is dropped.
///
/// It is let go of by name: a child of this process that has not yet executed its program has the
/// descriptor too, and closing ours alone would leave the lock with it.
#[derive(Debug)]
pub struct ViewLock(OwnedFd);

impl Drop for ViewLock {
    fn drop(&mut self) {
        // What cannot be unlocked is unlocked by the last close.
        let _closed_instead = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// A view that is kept.
#[derive(Debug)]
pub struct Kept {
    /// Its name; of one that was named by its directory, that.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// What is told of it.
    pub about: About,
}

/// What is told of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// When it was made, in seconds since 1970: what changed later in the tree below, others did.
    pub made: u64,
    /// The command that it was made for.
    pub command: String,
}

impl Kept {
    /// The view of this name, made if there is none. A name with a slash is a directory.
    ///
    /// # Errors
    /// A name that cannot be one; no place for views; what the file system says.
    pub fn make(name: &str, command: &[OsString]) -> Result<Kept, Refusal> {
        let dir = dir_of(name)?;
        if let Some(kept) = Self::at(name, &dir)? {
            return Ok(kept);
        }
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let about = About {
            made: now.as_secs(),
            command: words.join(" "),
        };
        let kept = Kept {
            name: name.to_owned(),
            dir,
            about,
        };
        kept.write().map_err(|why| kept.failed("be made", &why))?;
        Ok(kept)
    }

    /// The view of this name.
    ///
    /// # Errors
    /// There is none; what the file system says.
    pub fn open(name: &str) -> Result<Kept, Refusal> {
        Self::at(name, &dir_of(name)?)?
            .ok_or_else(|| Refusal::new(format!("there is no view {name}")))
    }

    /// All views that have a name, by name.
    ///
    /// # Errors
    /// No place for views; what the file system says.
    pub fn all() -> Result<Vec<Kept>, Refusal> {
        let top = top()?;
        let names = match std::fs::read_dir(&top) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(why) => return Err(Refusal::step(&top.display().to_string(), why)),
            Ok(names) => names,
        };
        let names = names.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        let mut all: Vec<_> = names.filter_map(|name| Self::open(&name).ok()).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Locks the view, until what this gives is dropped.
    ///
    /// # Errors
    /// Someone else has it; what the file system says.
    pub fn lock(&self) -> Result<ViewLock, Refusal> {
        lock(&self.dir)
    }

    /// Is someone using it?
    #[must_use]
    pub fn is_used(&self) -> bool {
        lock(&self.dir).is_err()
    }

    /// Whether it has been committed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn committed(&self) -> Result<Committed, Refusal> {
        crate::commit::committed(&self.dir)
    }

    /// Removes the view with all that is in it; what it has committed cannot be undone any more.
    ///
    /// # Errors
    /// Someone uses it; a commit of it was interrupted; what the file system says.
    pub fn discard(self) -> Result<(), Refusal> {
        let held = take(&self.dir)?;
        // First what makes it a view, so that half of one is none.
        let removed = std::fs::remove_file(self.dir.join(ABOUT))
            .and_then(|()| {
                ["upper", "work", "commit", "next"]
                    .iter()
                    .try_for_each(|name| clear(&self.dir.join(name)))
            })
            .and_then(|()| std::fs::remove_file(self.dir.join("lock")))
            .and_then(|()| {
                ["known", "taken"]
                    .iter()
                    .try_for_each(|name| clear(&self.dir.join(name)))
            })
            .and_then(|()| match std::fs::remove_dir(&self.dir) {
                // What others have put there is theirs.
                Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                done => done,
            });
        drop(held);
        removed.map_err(|why| self.failed("be discarded", &why))
    }

    fn at(name: &str, dir: &Path) -> Result<Option<Kept>, Refusal> {
        let text = match std::fs::read_to_string(dir.join(ABOUT)) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|why| Refusal::step(name, why))?,
        };
        let about = toml::from_str(&text).map_err(|why| Refusal::step(name, why))?;
        Ok(Some(Kept {
            name: name.to_owned(),
            dir: dir.to_owned(),
            about,
        }))
    }

    fn write(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        let text = toml::to_string(&self.about).map_err(io::Error::other)?;
        std::fs::write(self.dir.join(ABOUT), text)
    }

    fn failed(&self, what: &str, why: &io::Error) -> Refusal {
        Refusal::step(&format!("the view {} cannot {what}", self.name), why)
    }
}

/// Takes a directory of changes: its lock, until what this gives is dropped. Whoever puts an
/// overlay above its `upper` takes it so.
///
/// # Errors
/// Someone else has it; a commit of it was interrupted; what the file system says.
pub fn take(dir: &Path) -> Result<ViewLock, Refusal> {
    let held = lock(dir)?;
    crate::commit::whole(dir)?;
    Ok(held)
}

/// Takes the lock of a view's directory.
fn lock(dir: &Path) -> Result<ViewLock, Refusal> {
    let said = |why: rustix::io::Errno| Refusal::step(&dir.display().to_string(), why);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::open(dir.join("lock"), flags, Mode::from_raw_mode(0o600));
    let file = file.map_err(said)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(ViewLock(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let text = format!("the view in {} is in use", dir.display());
            Err(Refusal::new(text))
        }
        Err(why) => Err(said(why)),
    }
}

/// Removes a tree, of which directories may have lost their permissions.
fn clear(dir: &Path) -> io::Result<()> {
    match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => crate::commit::remove(parent, name),
        _ => Ok(()),
    }
}

/// The directory of a name.
fn dir_of(name: &str) -> Result<PathBuf, Refusal> {
    if name.contains('/') {
        return std::path::absolute(name).map_err(|why| Refusal::step(name, why));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let good = !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.starts_with('.')
        && name.bytes().all(plain);
    if !good {
        return Err(Refusal::new(format!(
            "`{name}` cannot be the name of a view: letters, digits, `-`, `_` and `.`, \
             {NAME_MAX} at most"
        )));
    }
    Ok(top()?.join(name))
}

/// Where views are kept.
fn top() -> Result<PathBuf, Refusal> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .ok_or_else(|| Refusal::new("no place for views: set HOME or XDG_STATE_HOME"))?;
    Ok(state.join("openpath/views"))
}

#[cfg(test)]
mod tests {
    use super::{Kept, dir_of};

    #[test]
    fn names_stay_below_their_directory() {
        for wrong in ["", "..", ".x", "a b", &"x".repeat(65)] {
            assert!(dir_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_view_is_made_found_locked_and_discarded() {
        let dir = std::env::temp_dir().join(format!("openpath-kept-{}", std::process::id()));
        let name = dir.display().to_string();
        assert!(Kept::open(&name).is_err());
        let kept = Kept::make(&name, &["make".into(), "-j".into()]).unwrap();
        let again = Kept::make(&name, &[]).unwrap();
        assert_eq!(
            (again.about.command.as_str(), again.about.made),
            ("make -j", kept.about.made)
        );
        let held = kept.lock().unwrap();
        assert!(again.is_used() && Kept::open(&name).unwrap().discard().is_err());
        // As a child has it that is about to execute its program.
        let inherited = held.0.try_clone().unwrap();
        drop(held);
        assert!(!again.is_used());
        drop(inherited);
        std::fs::create_dir_all(dir.join("upper/x")).unwrap();
        std::fs::write(dir.join("mine"), "").unwrap();
        kept.discard().unwrap();
        assert!(dir.join("mine").exists() && !dir.join("upper").exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
