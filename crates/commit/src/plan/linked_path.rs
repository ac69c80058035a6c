// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves the symbolic links in the directories of a path that the user names for a commit, in
//! one walk, and refuses those that another user controls.
//!
//! # Rules
//! R1. A link is followed if no other user controls it: the link belongs to root or to this user,
//!     and so do the directories above it, which others cannot write to, or which are sticky.
//!     Otherwise another user chooses what is committed.
//! R2. In a user namespace that does not map all users, owners cannot be distinguished: R1 does not
//!     apply there (`kept/safe_path` R3).

use crate::attributes::owner::is_own;
use crate::host::view_dir::HOLD;
use crate::kept::{LINKS_MAX, maps_every_user, others_can_change_names};
use crate::report::messages::shown;
use crate::report::refusal::{Refusal, RefusalKind};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

/// A path without symbolic links in its directories.
#[derive(Debug)]
pub(crate) struct LinkedPath {
    /// The path.
    pub(crate) real: Vec<u8>,
    /// The first link on the way that another user controls (R1).
    controlled: Option<Vec<u8>>,
}

impl LinkedPath {
    /// Follows the links in the directories of an absolute path, as far as they exist; `None`: they
    /// cannot be followed.
    pub(crate) fn follow(path: &[u8]) -> Option<LinkedPath> {
        let mut walk = Walk {
            at: Vec::new(),
            todo: names(path),
            links: 0,
            is_untrusted: false,
            controlled: None,
            distinguishes: maps_every_user(),
        };
        walk.go().ok()?;
        Some(LinkedPath {
            real: walk.at,
            controlled: walk.controlled,
        })
    }

    /// The path, if this user may rely on its links (R1); `as_written` is for the message.
    pub(crate) fn trusted(self, as_written: &[u8]) -> Result<Vec<u8>, Refusal> {
        match self.controlled {
            None => Ok(self.real),
            Some(link) => Err(Refusal::new(
                RefusalKind::Untrusted,
                format!(
                    "{} leads through the symbolic link {}, which another user can change: name \
                     the path itself, which is {} now",
                    shown(as_written),
                    shown(&link),
                    shown(&self.real)
                ),
            )),
        }
    }
}

struct Walk {
    at: Vec<u8>,
    /// The names that are left, the next one last.
    todo: Vec<Vec<u8>>,
    links: usize,
    /// Another user can change names in a directory of the walk.
    is_untrusted: bool,
    controlled: Option<Vec<u8>>,
    /// R2
    distinguishes: bool,
}

impl Walk {
    fn go(&mut self) -> rustix::io::Result<()> {
        let mut dirs = vec![self.root()?];
        while let Some(name) = self.todo.pop() {
            let dir = dirs.last().ok_or(Errno::NOENT)?;
            if name == b".." {
                if dirs.len() > 1 {
                    dirs.pop();
                    self.at
                        .truncate(self.at.iter().rposition(|b| *b == b'/').unwrap_or(0));
                }
                continue;
            }
            // The last name is not followed.
            let next = match self.todo.is_empty() {
                true => None,
                false => self.open(dir, &name)?,
            };
            match next {
                Some(Found::Dir(next)) => {
                    self.push(&name);
                    dirs.push(next);
                }
                Some(Found::Link(target)) => {
                    if target.starts_with(b"/") {
                        dirs = vec![self.root()?];
                        self.at.clear();
                    }
                    self.todo.extend(names(&target));
                }
                None => {
                    self.push(&name);
                    while let Some(name) = self.todo.pop() {
                        self.push(&name);
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, name: &[u8]) {
        self.at.push(b'/');
        self.at.extend(name);
    }

    fn root(&mut self) -> rustix::io::Result<OwnedFd> {
        let root = rustix::fs::openat(CWD, "/", HOLD, Mode::empty())?;
        self.look(&rustix::fs::fstat(&root)?);
        Ok(root)
    }

    /// Opens a directory or reads a link; `None` for what is neither.
    fn open(&mut self, dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<Option<Found>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::ACCESS) => return Ok(None),
            found => found?,
        };
        let stat = rustix::fs::fstat(&found)?;
        match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::Directory => {
                self.look(&stat);
                Ok(Some(Found::Dir(found)))
            }
            rustix::fs::FileType::Symlink => {
                self.links += 1;
                if self.links > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                // Of the same link that is looked at.
                let target = rustix::fs::readlinkat(&found, "", Vec::new())?.into_bytes();
                if self.distinguishes && (self.is_untrusted || !is_trusted(stat.st_uid)) {
                    let link = [&self.at[..], b"/", name].concat();
                    self.controlled.get_or_insert(link);
                }
                Ok(Some(Found::Link(target)))
            }
            _ => Ok(None),
        }
    }

    /// R1
    fn look(&mut self, stat: &Stat) {
        self.is_untrusted |= others_can_change_names(stat) || !is_trusted(stat.st_uid);
    }
}

enum Found {
    Dir(OwnedFd),
    Link(Vec<u8>),
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || is_own(uid)
}

/// The names of a path, the first one last.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    let names = names.filter(|name| !name.is_empty() && *name != b".");
    names.rev().map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::LinkedPath;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{chown, lchown, symlink};
    use std::path::{Path, PathBuf};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = format!("openpath-linked-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().canonicalize().unwrap().join(dir);
            std::fs::create_dir_all(&dir).unwrap();
            Scratch(dir)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    fn follow(path: &Path) -> Result<PathBuf, String> {
        let path = path.as_os_str().as_bytes();
        let followed = LinkedPath::follow(path).unwrap().trusted(path);
        let followed = followed.map_err(|why| why.to_string())?;
        Ok(Path::new(std::ffi::OsStr::from_bytes(&followed)).to_owned())
    }

    #[test]
    fn links_are_followed_as_far_as_they_exist_and_the_last_name_is_not() {
        let s = Scratch::new("plain");
        std::fs::create_dir_all(s.0.join("real/in")).unwrap();
        symlink("real", s.0.join("link")).unwrap();
        symlink(s.0.join("link/in/.."), s.0.join("whole")).unwrap();
        for (path, real) in [
            ("real/in/x", "real/in/x"),
            ("link/in/x", "real/in/x"),
            ("whole/in/no/such", "real/in/no/such"),
            ("real/../link/in", "real/in"),
            ("link", "link"),
            ("no/../link", "no/../link"),
        ] {
            assert_eq!(follow(&s.0.join(path)), Ok(s.0.join(real)), "{path}");
        }
        symlink("loop", s.0.join("loop")).unwrap();
        let path = s.0.join("loop/x");
        assert!(LinkedPath::follow(path.as_os_str().as_bytes()).is_none());
    }

    #[test]
    fn link_that_another_user_controls_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: root alone gives files away");
            return;
        }
        let s = Scratch::new("foreign");
        for dir in ["real/in", "theirs", "open"] {
            std::fs::create_dir_all(s.0.join(dir)).unwrap();
        }
        symlink("real", s.0.join("mine")).unwrap();
        symlink("real", s.0.join("link")).unwrap();
        lchown(s.0.join("link"), Some(1000), None).unwrap();
        symlink("../real", s.0.join("theirs/link")).unwrap();
        chown(s.0.join("theirs"), Some(1000), None).unwrap();
        symlink("../real", s.0.join("open/link")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(s.0.join("open"), mode).unwrap();
        assert_eq!(follow(&s.0.join("mine/in")), Ok(s.0.join("real/in")));
        for link in ["link", "theirs/link", "open/link"] {
            let why = follow(&s.0.join(link).join("in")).unwrap_err();
            let real = s.0.join("real/in").display().to_string();
            assert!(why.contains(&format!("which is {real} now")), "{why}");
        }
        // A directory of theirs without a link on the way is what it is.
        let plain = s.0.join("theirs/x");
        assert_eq!(follow(&plain), Ok(plain));
    }
}
