// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens or makes a directory at a path that the user named, follows the path once, and refuses
//! root a path that another user can redirect.
//!
//! # Rules
//! R1. Symbolic links on the way are followed, and only here: what is opened at the end is held.
//! R2. Root follows no path that another user can redirect: each directory on it belongs to root
//!     and can be written to by root alone, or is sticky; each link belongs to root.
//! R3. In a user namespace that does not map all users, being root there gives no power over
//!     others, and the owners of directories above cannot be distinguished: R2 does not apply.
//! R4. A directory that is made on the way has mode 0700, whatever the umask.

use crate::host::descriptors::path_by_number;
use crate::host::view_dir::HOLD;
use crate::report::refusal::{Refusal, RefusalKind};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, Stat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
pub(crate) const LINKS_MAX: usize = 40;

/// What is done where a directory is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IfMissing {
    /// It is made.
    Create,
    /// The result is `None`.
    ReturnNone,
}

/// Opens the directory at an absolute path; `None` if it is not there and is not made.
///
/// # Errors
/// R2; those of openat(2) and mkdirat(2).
pub(super) fn open(path: &Path, if_missing: IfMissing) -> Result<Option<OwnedFd>, Refusal> {
    walk(path, if_missing, false)
}

/// The same for a directory of which the owner is not checked otherwise: R2 holds for it as well.
///
/// # Errors
/// As [`open`].
pub(super) fn open_trusted(path: &Path, if_missing: IfMissing) -> Result<Option<OwnedFd>, Refusal> {
    walk(path, if_missing, true)
}

fn walk(path: &Path, if_missing: IfMissing, with_last: bool) -> Result<Option<OwnedFd>, Refusal> {
    let walk = Walk {
        whole: path,
        if_missing,
        careful: is_careful(),
        with_last,
    };
    match walk.go() {
        Err(Stop::Errno(Errno::NOENT)) if if_missing == IfMissing::ReturnNone => Ok(None),
        Err(Stop::Errno(why)) => Err(Refusal::step(&path.display().to_string(), why)),
        Err(Stop::Refused(why)) => Err(why),
        Ok(dir) => Ok(Some(dir)),
    }
}

/// Why the walk ended.
enum Stop {
    Errno(Errno),
    Refused(Refusal),
}

impl From<Errno> for Stop {
    fn from(why: Errno) -> Stop {
        Stop::Errno(why)
    }
}

struct Walk<'a> {
    whole: &'a Path,
    if_missing: IfMissing,
    /// R2 holds.
    careful: bool,
    /// For the last directory too.
    with_last: bool,
}

impl Walk<'_> {
    fn go(&self) -> Result<OwnedFd, Stop> {
        // What is still to be walked, the next one last.
        let mut todo = names(self.whole);
        let mut links = 0;
        let mut dir = root()?;
        // For messages.
        let mut at = PathBuf::from("/");
        while let Some(name) = todo.pop() {
            // Not of the last directory, unless `with_last`: the caller asks for its owner.
            self.trust_directory(&dir, &at)?;
            match rustix::fs::openat(&dir, &name, HOLD, Mode::empty()) {
                Ok(next) => dir = next,
                Err(Errno::NOENT) if self.if_missing == IfMissing::Create => {
                    dir = make(&dir, &name)?
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP.into());
                    }
                    let target = self.link(&dir, &name, &at)?;
                    if target.is_absolute() {
                        (dir, at) = (root()?, PathBuf::from("/"));
                    }
                    todo.extend(names(&target));
                    continue;
                }
                Err(why) => return Err(why.into()),
            }
            at.push(&name);
        }
        if self.with_last {
            self.trust_directory(&dir, &at)?;
        }
        Ok(dir)
    }

    fn link(&self, dir: &OwnedFd, name: &OsString, at: &Path) -> Result<PathBuf, Stop> {
        let target = match rustix::fs::readlinkat(dir, name, Vec::new()) {
            // No link, and no directory.
            Err(Errno::INVAL) => return Err(Errno::NOTDIR.into()),
            target => target?,
        };
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if self.careful && stat.st_uid != 0 {
            return Err(self.refuse(&at.join(name), stat.st_uid));
        }
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// R2
    fn trust_directory(&self, dir: &OwnedFd, at: &Path) -> Result<(), Stop> {
        if !self.careful {
            return Ok(());
        }
        let stat = rustix::fs::fstat(dir)?;
        if stat.st_uid != 0 {
            return Err(self.refuse(at, stat.st_uid));
        }
        if others_can_change_names(&stat) {
            return Err(Stop::Refused(Refusal::new(
                RefusalKind::Untrusted,
                format!(
                    "root does not use {}: others can write to {}; name a directory that only root \
                 can write to, or run as an ordinary user",
                    self.whole.display(),
                    at.display()
                ),
            )));
        }
        Ok(())
    }

    fn refuse(&self, at: &Path, owner: u32) -> Stop {
        Stop::Refused(Refusal::new(
            RefusalKind::Untrusted,
            format!(
                "root does not use {}: {} belongs to user {owner}, who can replace it; run as that \
             user, or name a directory of root's",
                self.whole.display(),
                at.display()
            ),
        ))
    }
}

/// Makes a directory and opens it (R4).
pub(super) fn make(dir: &OwnedFd, name: &OsString) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
        Ok(()) => {
            let made = rustix::fs::openat(dir, name, HOLD, Mode::empty())?;
            rustix::fs::chmod(path_by_number(&made), Mode::RWXU)?;
            Ok(made)
        }
        // Another process was quicker.
        Err(Errno::EXIST) => rustix::fs::openat(dir, name, HOLD, Mode::empty()),
        Err(why) => Err(why),
    }
}

fn root() -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, "/", HOLD, Mode::empty())
}

/// The names of a path, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut names: Vec<_> = names.collect();
    names.reverse();
    names
}

/// Whether others than its owner can change names in a directory with this mode.
pub(crate) fn others_can_change_names(stat: &Stat) -> bool {
    stat.st_mode & 0o022 != 0 && stat.st_mode & 0o1000 == 0
}

/// R2, R3
fn is_careful() -> bool {
    rustix::process::geteuid().is_root() && maps_every_user()
}

/// Whether the user namespace of this process maps all users (R3).
pub(crate) fn maps_every_user() -> bool {
    let every_user = |map: String| map.split_whitespace().nth(2) == Some("4294967295");
    std::fs::read_to_string("/proc/self/uid_map").map_or(true, every_user)
}

#[cfg(test)]
mod tests {
    use super::{IfMissing, open, open_trusted};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = format!("openpath-way-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().join(dir);
            std::fs::create_dir_all(&dir).unwrap();
            Scratch(dir)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn links_that_the_user_made_are_followed_once_and_directories_made_private() {
        let s = Scratch::new("links");
        let real = s.0.join("real");
        std::fs::create_dir(&real).unwrap();
        symlink("real", s.0.join("link")).unwrap();
        symlink(s.0.join("link"), s.0.join("whole")).unwrap();
        assert!(
            open(&s.0.join("whole/a/b"), IfMissing::ReturnNone)
                .unwrap()
                .is_none()
        );
        open(&s.0.join("whole/a/b"), IfMissing::Create)
            .unwrap()
            .unwrap();
        let made = std::fs::metadata(real.join("a/b")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
        symlink("loop", s.0.join("loop")).unwrap();
        assert!(open(&s.0.join("loop"), IfMissing::Create).is_err());
        std::fs::write(s.0.join("file"), "").unwrap();
        assert!(open(&s.0.join("file"), IfMissing::Create).is_err());
    }

    #[test]
    fn root_refuses_a_path_that_another_user_can_redirect() {
        let s = Scratch::new("turned");
        if std::fs::metadata(&s.0).unwrap().uid() != 0 {
            eprintln!("skipped: root alone is careful");
            return;
        }
        let theirs = s.0.join("theirs");
        std::fs::create_dir_all(theirs.join("view")).unwrap();
        chown(&theirs, Some(1000), Some(1000)).unwrap();
        let why = open(&theirs.join("view"), IfMissing::ReturnNone).unwrap_err();
        assert!(why.to_string().contains("user 1000"), "{why}");
        assert!(open(&theirs, IfMissing::ReturnNone).is_ok());
        let why = open_trusted(&theirs, IfMissing::ReturnNone).unwrap_err();
        assert!(why.to_string().contains("user 1000"), "{why}");
        let open_to_all = s.0.join("open");
        std::fs::create_dir_all(open_to_all.join("view")).unwrap();
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&open_to_all, mode(0o777)).unwrap();
        let why = open(&open_to_all.join("view"), IfMissing::ReturnNone).unwrap_err();
        assert!(why.to_string().contains("others can write"), "{why}");
        std::fs::set_permissions(&open_to_all, mode(0o1777)).unwrap();
        assert!(open(&open_to_all.join("view"), IfMissing::ReturnNone).is_ok());
        symlink("view", open_to_all.join("link")).unwrap();
        std::os::unix::fs::lchown(open_to_all.join("link"), Some(1000), None).unwrap();
        let why = open(&open_to_all.join("link"), IfMissing::ReturnNone).unwrap_err();
        assert!(why.to_string().contains("user 1000"), "{why}");
    }
}
