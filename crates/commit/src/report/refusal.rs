// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the error that calls on views, runs and commits return: a kind to match on, its exit
//! status, and one sentence for the user.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The kernel, a file system or another process of the run failed in a step.
    System,
    /// The options, rules or paths of the request are invalid, or exclude each other.
    Usage,
    /// The kernel or a file system lacks what the request needs.
    Unsupported,
    /// This user may not do it.
    PermissionDenied,
    /// Another user owns or can change what it would rely on.
    Untrusted,
    /// A file system has too little room.
    NoSpace,
    /// The command exists and cannot be executed.
    NotExecutable,
    /// The command does not exist.
    CommandNotFound,
    /// The view does not exist, or does not run.
    NoSuchView,
    /// The view has no change at the path.
    NoSuchChange,
    /// The view has no commit to undo, or no interrupted one to finish.
    NoSuchCommit,
    /// The view is damaged.
    Damaged,
    /// Another process uses the view.
    Busy,
    /// Others changed the same files, or the rules of the view, in the meantime.
    Conflict,
    /// A commit of the view was interrupted, and must be finished or rolled back first.
    Interrupted,
}

impl RefusalKind {
    /// The exit status of a run that is refused so, as with env(1) and timeout(1).
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::CommandNotFound => 127,
            Self::NotExecutable => 126,
            _ => 125,
        }
    }
}

/// Why a run, a commit or a call on a view was refused.
///
/// The message names the cause as well: a refusal is sent between processes, which an error of
/// another type could not be.
///
/// # Examples
/// ```
/// use openpath_commit::{KeptView, RefusalKind};
///
/// let refusal = KeptView::open("no/such/view").unwrap_err();
/// match refusal.kind() {
///     RefusalKind::NoSuchView => assert_eq!(refusal.exit_code(), 125),
///     other => panic!("{other:?}: {refusal}"),
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    kind: RefusalKind,
    text: String,
}

impl Refusal {
    /// A refusal of this kind; `text` is one sentence that says what is wrong and what to do.
    #[must_use]
    pub fn new(kind: RefusalKind, text: impl Into<String>) -> Refusal {
        let text = text.into();
        Refusal { kind, text }
    }

    /// A [`RefusalKind::System`].
    #[must_use]
    pub fn system(text: impl Into<String>) -> Refusal {
        Refusal::new(RefusalKind::System, text)
    }

    /// A [`RefusalKind::Usage`].
    #[must_use]
    pub fn usage(text: impl Into<String>) -> Refusal {
        Refusal::new(RefusalKind::Usage, text)
    }

    /// A [`RefusalKind::System`]: the step `what` failed.
    #[must_use]
    pub fn step(what: &str, why: impl fmt::Display) -> Refusal {
        Refusal::system(format!("{what}: {why}"))
    }

    /// A [`RefusalKind::NotExecutable`].
    #[must_use]
    pub fn not_executable(command: &OsStr, why: impl fmt::Display) -> Refusal {
        let text = format!("{}: {why}", command.display());
        Refusal::new(RefusalKind::NotExecutable, text)
    }

    /// A [`RefusalKind::CommandNotFound`].
    #[must_use]
    pub fn command_not_found(command: &OsStr, why: impl fmt::Display) -> Refusal {
        let text = format!("{}: {why}", command.display());
        Refusal::new(RefusalKind::CommandNotFound, text)
    }

    /// The refusal for an error of execve(2).
    #[must_use]
    pub fn exec(command: &OsStr, why: &std::io::Error) -> Refusal {
        let is_searched = !command.as_bytes().contains(&b'/');
        match why.kind() {
            ErrorKind::PermissionDenied if is_searched => match denied(command) {
                Denied::File(file) => Refusal::not_executable(
                    command,
                    format_args!("{} of PATH: {why}", file.display()),
                ),
                Denied::Directory(dir) => Refusal::command_not_found(
                    command,
                    format_args!(
                        "there is no such command, and {} of PATH cannot be searched: {why}",
                        dir.display()
                    ),
                ),
                Denied::Nothing => Refusal::command_not_found(command, "there is no such command"),
            },
            ErrorKind::NotFound => Refusal::command_not_found(command, why),
            _ => Refusal::not_executable(command, why),
        }
    }

    /// What kind of refusal it is.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// The exit status of a run that is refused so; see [`RefusalKind::exit_code`].
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.kind.exit_code()
    }
}

/// Why a command that is named without a slash gets `EACCES`.
enum Denied {
    /// This is the first file of its name in `PATH`.
    File(PathBuf),
    /// No file of its name is found, and this is the first directory that cannot be searched.
    Directory(PathBuf),
    /// Neither: a directory has its name.
    Nothing,
}

fn denied(command: &OsStr) -> Denied {
    /// What execvp(3) searches without `PATH`.
    const DEFAULT: &str = "/bin:/usr/bin";
    let dirs = std::env::var_os("PATH").unwrap_or(DEFAULT.into());
    let mut closed = None;
    for dir in std::env::split_paths(&dirs) {
        let file = dir.join(command);
        match file.metadata() {
            Ok(found) if found.is_file() => return Denied::File(file),
            Err(why) if why.kind() == ErrorKind::PermissionDenied && closed.is_none() => {
                closed = Some(dir);
            }
            _ => {}
        }
    }
    closed.map_or(Denied::Nothing, Denied::Directory)
}

/// Control characters of names are written as `\xHH`: a terminal might obey them.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.text.chars() {
            match letter {
                '\n' => f.write_char(letter)?,
                letter if letter.is_control() => write!(f, "\\x{:02x}", u32::from(letter))?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::{Refusal, RefusalKind};
    use std::io;

    #[test]
    fn exit_code_follows_from_the_kind_of_the_error() {
        use RefusalKind::{CommandNotFound, NotExecutable};
        let denied = io::ErrorKind::PermissionDenied;
        for (command, error, kind, code) in [
            ("./none", io::ErrorKind::NotFound, CommandNotFound, 127),
            ("./none", denied, NotExecutable, 126),
            // No file of that name is found in `PATH`.
            ("no-such-program", denied, CommandNotFound, 127),
            (
                "no-such-program",
                io::ErrorKind::OutOfMemory,
                NotExecutable,
                126,
            ),
        ] {
            let refusal = Refusal::exec(command.as_ref(), &error.into());
            assert_eq!((refusal.kind(), refusal.exit_code()), (kind, code));
        }
        assert_eq!(Refusal::usage("wrong").exit_code(), 125);
    }

    #[test]
    fn kind_and_message_survive_serialisation() {
        let refusal = Refusal::new(RefusalKind::Busy, "in use");
        let text = serde_json::to_string(&refusal).unwrap();
        let read: Refusal = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (read.kind(), read.to_string()),
            (RefusalKind::Busy, "in use".to_owned())
        );
    }
}
