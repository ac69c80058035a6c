// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observes the requests to a view, and logs opens that were refused and opens that reach another
//! file than the program expects.
//!
//! # How they come to be seen
//! The kernel checks permissions and read-only mounts by itself, with a log as without, so the
//! answers are the same. It still sends a request to the server each time:
//! | an open that | is seen by |
//! |---|---|
//! | is refused by permission | the request for attributes that the kernel sends before |
//! | finds a hidden or absent name | its lookup, which the kernel may not cache |
//! | is refused because the path is read only | the lookup of its last name, which is not cached |
//! | is granted, or creates a file | its own request ([`openpath_fuse::Opens::Each`]) |
//!
//! The caller waits meanwhile, so `/proc` shows its system call, with path and flags (`caller`);
//! the engine explains what the call finds. The path of a line is the engine's. If the caller's
//! path differs, it is added as a claim.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `caller` | the waiting thread, and its call |
//! | `line` | the text of a line |
//! | `sink` | a bounded queue, and the thread that writes |
//!
//! # Limits
//! * Opens in what passes (`--pass`, `/proc`, `/sys`, `/dev`) send no request.
//! * Of a protected program, and of opens by io_uring, only granted opens are logged. The same
//!   holds for opens that a rule of the kernel refuses (`fs.protected_regular`), and for opens
//!   through `/proc/self/fd` of read-only files.
//! * A refusal in a directory that others change at that moment may be logged twice, because the
//!   kernel requests its attributes twice.

mod caller;
mod line;
mod sink;

pub(crate) use sink::LogWriter;

use crate::plan::{Plan, Protection};
use caller::{Call, Caller, LookBudget, Purpose};
use line::{Line, Reason, answer};
use openpath_abi::access::{R_OK, W_OK, X_OK};
use openpath_abi::fcntl::{
    AT_SYMLINK_NOFOLLOW, O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_TRUNC,
};
use openpath_abi::{AtFlags, Errno, OFlags, Statx, mode};
use openpath_commit::{PathBytes, printable};
use openpath_fuse::{ObservedFile, Observer, OnOpened, Requester};
use openpath_overlay::OverlayFs;
use openpath_vfs::{Check, Explanation, SkippedChange, Step, SuperBlock, WalkPosition};
use rustix::fd::OwnedFd;
use sink::Sink;
use std::io;
use std::sync::Arc;

/// The most links in a path.
const LINKS_MAX: usize = 40;

/// The file for the log of refused and redirected opens.
#[derive(Debug)]
#[non_exhaustive]
pub struct LogFile {
    /// The file.
    pub file: OwnedFd,
    /// Lines are JSON objects instead of text.
    pub json: bool,
}

impl LogFile {
    /// A log in `file`, as JSON or as text.
    #[must_use]
    pub fn new(file: OwnedFd, json: bool) -> LogFile {
        LogFile { file, json }
    }
}

/// Observes requests, and writes the log.
pub(crate) struct Log {
    sink: Sink,
    look_budget: LookBudget,
    overlay: Arc<SuperBlock>,
    hidden: Vec<PathBytes>,
    /// Read-only paths, and writable paths in them, outer paths first.
    protections: Vec<(PathBytes, Protection)>,
    /// Mounts in the view, and the reason that is logged for writes to them.
    mounts: Vec<(PathBytes, Reason)>,
}

impl Log {
    /// A log of the view of a plan, into `file`.
    ///
    /// # Errors
    /// `EAGAIN`: no thread.
    pub(crate) fn open(
        plan: &Plan,
        overlay: &Arc<SuperBlock>,
        file: OwnedFd,
        json: bool,
    ) -> io::Result<(Log, LogWriter)> {
        let (sink, writer) = Sink::open(file, json)?;
        let through = plan.write_through.iter().map(|p| (p.clone(), Reason::Disk));
        let trees = plan.extra.iter().map(|e| (e.place.clone(), Reason::Tree));
        let mut mounts: Vec<_> = through.chain(trees).collect();
        // The innermost mount comes first.
        mounts.sort_by_key(|(place, _)| std::cmp::Reverse(place.bytes().len()));
        let log = Log {
            sink,
            look_budget: LookBudget::default(),
            overlay: Arc::clone(overlay),
            hidden: plan.hidden.clone(),
            protections: plan.protections(),
            mounts,
        };
        Ok((log, writer))
    }

    /// The call that a thread waits in, if it is known.
    fn call_of(&self, by: Requester) -> Option<Call> {
        Call::of(by.thread, &self.look_budget)
    }

    /// Logs how a call ended, and at which path.
    fn report(
        &self,
        by: Requester,
        (call, path): (&Call, &[u8]),
        result: Result<(), Errno>,
        why: (Reason, String),
    ) {
        let is_other = !parts(&call.path).eq(parts(path));
        let caller = Caller::of(by);
        self.sink.push(Line {
            time: Line::now(),
            pid: caller.pid,
            program: caller.program,
            wants: call.purpose.words(),
            path: printable(path),
            claimed: is_other.then(|| printable(&call.path)),
            answer: answer(result),
            reason: why.0,
            because: why.1,
        });
    }

    /// The read-only path that contains `path`.
    fn read_only(&self, path: &[u8]) -> Option<&PathBytes> {
        let mut protections = self.protections.iter().rev();
        let (place, protection) = protections.find(|(place, _)| is_below(path, place))?;
        (*protection == Protection::ReadOnly).then_some(place)
    }

    /// Why a name is hidden.
    fn absence(&self, path: &[u8]) -> (Reason, String) {
        let is_hidden = self.hidden.iter().any(|hidden| is_below(path, hidden));
        let reason = if is_hidden {
            Reason::Hidden
        } else {
            Reason::Absent
        };
        (reason, printable(path))
    }

    /// Where a write to `path` goes; called before the open.
    fn destination(&self, path: &[u8], makes: bool) -> (Reason, String) {
        let mut mounts = self.mounts.iter();
        if let Some((place, reason)) = mounts.find(|(place, _)| is_below(path, place)) {
            return (*reason, printable(place.bytes()));
        }
        let how = if makes {
            "new"
        } else if OverlayFs::is_in_upper(&self.overlay, path) == Ok(true) {
            "in place"
        } else {
            "copied up"
        };
        (Reason::Upper, format!("{} {how}", printable(path)))
    }
}

/// The names of a path.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".")
}

/// Whether a path is `place` or below it.
fn is_below(path: &[u8], place: &PathBytes) -> bool {
    let place = place.bytes();
    let place = place.strip_suffix(b"/").unwrap_or(place);
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// A path relative to a directory.
fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"/") {
        return name.to_vec();
    }
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    [dir, b"/", name].concat()
}

/// The permission that refused it, if one did.
fn denied_permission(why: &Explanation) -> Option<String> {
    if !matches!(why.refused_by(), Some(Check::Permission | Check::Search)) {
        return None;
    }
    let steps = why.steps.iter().rev();
    let mut asked = steps.filter_map(|step| match step {
        Step::Asked(permission) if !permission.granted => Some(permission.to_string()),
        _ => None,
    });
    asked.next()
}

/// Where an explained path leads.
fn final_place(why: &Explanation) -> Option<&WalkPosition> {
    why.steps.iter().rev().find_map(|step| match step {
        Step::End(place) => Some(place),
        _ => None,
    })
}

impl Observer for Log {
    fn name(
        &self,
        by: Requester,
        dir: &ObservedFile<'_>,
        name: &[u8],
        found: Result<&Statx, Errno>,
    ) -> bool {
        let Ok(above) = dir.path() else { return true };
        let path = join(&above, name);
        let read_only = self.read_only(&path);
        match found {
            Ok(attr) => {
                let is_place = read_only.is_some_and(|place| place.bytes() == path);
                let is_dir = mode::is_dir(attr.mode.into());
                if let Some(place) = read_only
                    && !is_dir
                    && !mode::is_lnk(attr.mode.into())
                {
                    self.write_refused(by, dir, (name, &path), place);
                }
                // A name with a mount on it stays cached.
                read_only.is_none() || is_place && is_dir
            }
            Err(Errno::ENOENT) => {
                let why = dir.find(name, AT_SYMLINK_NOFOLLOW);
                let is_hidden = why.is_ok_and(|why| why.refused_by() == Some(Check::AbsentRule));
                if !is_hidden && read_only.is_none() {
                    return true;
                }
                if let Some(call) = self.call_of(by) {
                    let makes = Self::made_in(dir, &call).is_some();
                    match read_only {
                        // A refused creation is logged when it is attempted, next.
                        _ if is_hidden && !makes => {
                            let why = self.absence(&path);
                            self.report(by, (&call, &path), Err(Errno::ENOENT), why);
                        }
                        Some(place) if makes => self.refuse_write(by, (&call, &path), place),
                        _ => {}
                    }
                }
                false
            }
            Err(_) => true,
        }
    }

    fn attributes(&self, by: Requester, at: &ObservedFile<'_>) {
        let Some(call) = self.call_of(by) else {
            return;
        };
        let (Ok(attr), Ok(path)) = (at.attributes(), at.path()) else {
            return;
        };
        let cred = Caller::of(by).cred;
        let refused = |want: u32| {
            let why = at.access(b"", cred.clone(), want).ok()?;
            denied_permission(&why)
        };
        // A directory is searched, listed, or gets a new name.
        let leads = |call: &[u8]| {
            at.find(call, AtFlags::empty())
                .is_ok_and(|why| final_place(&why).is_some_and(|place| place.path == path))
        };
        let found = if !mode::is_dir(attr.mode.into()) {
            refused(call.purpose.access())
        } else if leads(&call.path) {
            refused(call.purpose.access() & R_OK)
        } else {
            refused(X_OK).or_else(|| {
                let makes = Self::made_in(at, &call).is_some_and(|dir| dir == path);
                makes.then(|| refused(W_OK | X_OK)).flatten()
            })
        };
        if let Some(how) = found {
            let why = (Reason::Permission, format!("{} {how}", printable(&path)));
            self.report(by, (&call, &path), Err(Errno::EACCES), why);
        }
    }

    fn opening<'a>(
        &'a self,
        by: Requester,
        at: &ObservedFile<'_>,
        name: Option<&'a [u8]>,
        flags: OFlags,
    ) -> Option<OnOpened<'a>> {
        let path = at.path().ok()?;
        let path = name.map_or_else(|| path.clone(), |name| join(&path, name));
        let call = self.call_of(by);
        // The server gets only part of the flags of the call.
        let purpose = call
            .as_ref()
            .map_or(Purpose::Open(flags), |call| call.purpose);
        let writes = flags & O_ACCMODE != O_RDONLY
            || name.is_some()
            || matches!(purpose, Purpose::Open(flags) if flags.contains(O_TRUNC));
        let goes = writes.then(|| self.destination(&path, name.is_some()));
        let call = call.unwrap_or_else(|| Call {
            purpose: Purpose::Open(flags | O_CREAT.only_if(name.is_some())),
            path: path.clone(),
        });
        Some(Box::new(move |result| match (result, goes) {
            (Ok(()), Some(goes)) => self.report(by, (&call, &path), result, goes),
            (Ok(()), None) | (Err(Errno::ENOSYS), _) => {}
            (Err(Errno::EPERM), _) if name.is_some() => {
                self.report(by, (&call, &path), result, self.absence(&path));
            }
            (Err(_), _) => {
                let why = (Reason::Failed, printable(&path));
                self.report(by, (&call, &path), result, why);
            }
        }))
    }
}

impl Log {
    /// Logs that an open of `name` is refused because `place` is read only, if it is an open for
    /// writing and nothing else refuses it first.
    fn write_refused(
        &self,
        by: Requester,
        dir: &ObservedFile<'_>,
        (name, path): (&[u8], &[u8]),
        place: &PathBytes,
    ) {
        let Some(call) = self.call_of(by) else {
            return;
        };
        let Purpose::Open(flags) = call.purpose else {
            return;
        };
        let want = call.purpose.access();
        let other = flags.contains(O_DIRECTORY) || flags.contains(O_CREAT | O_EXCL);
        if want & W_OK == 0 || other {
            return;
        }
        let may = dir.access(name, Caller::of(by).cred, want);
        if flags.contains(O_TRUNC) || may.is_ok_and(|why| why.result.is_ok()) {
            self.refuse_write(by, (&call, path), place);
        }
    }

    fn refuse_write(&self, by: Requester, call: (&Call, &[u8]), place: &PathBytes) {
        let why = (Reason::ReadOnly, printable(place.bytes()));
        self.report(by, call, Err(Errno::EROFS), why);
    }

    /// The directory in which a call is about to create its file, if it is, and only rules of
    /// absent names may refuse it.
    fn made_in(dir: &ObservedFile<'_>, call: &Call) -> Option<Vec<u8>> {
        let Purpose::Open(flags) = call.purpose else {
            return None;
        };
        if !call.purpose.creates() {
            return None;
        }
        let why = dir.open(&call.path, flags).ok()?;
        let makes = Step::Skipped(SkippedChange::Create);
        if !why.steps.contains(&makes) && why.result != Err(Errno::EPERM) {
            return None;
        }
        let mut path = call.path.clone();
        for _ in 0..LINKS_MAX {
            let slash = path.iter().rposition(|byte| *byte == b'/')?;
            let parent = final_place(&dir.find(&path[..=slash], AtFlags::empty()).ok()?)?
                .path
                .clone();
            let name = join(&parent, &path[slash + 1..]);
            let at = dir.find(&name, AT_SYMLINK_NOFOLLOW).ok()?;
            if !final_place(&at).is_some_and(|place| mode::is_lnk(place.kind)) {
                return Some(parent);
            }
            let leads = dir.find(&name, AtFlags::empty()).ok()?;
            let mut links = leads.steps.into_iter().filter_map(|step| match step {
                Step::Link { body, .. } => Some(body),
                _ => None,
            });
            path = join(&parent, &links.next()?);
        }
        None
    }
}
