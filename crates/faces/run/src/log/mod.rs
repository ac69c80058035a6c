// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log of opens that were refused, and of those that went elsewhere than the program thinks.
//!
//! # How they come to be seen
//! The kernel checks permissions and read-only mounts by itself, and goes on doing so: answers are
//! the same with a log as without. It asks the server all the same, each time:
//! | an open that | is seen by |
//! |---|---|
//! | is refused by permission | the attributes that the kernel makes sure of when it refuses |
//! | meets a name that is hidden or absent | its lookup: the kernel may not keep the answer |
//! | is refused since nothing is written there | the lookup of its last name, which is not kept |
//! | is granted, or makes a file | itself ([`openpath_fuse::Opens::Each`]) |
//!
//! The caller waits meanwhile, so `/proc` says which call it is in, with which path and flags
//! (`caller`); what the call meets is explained by the engine. The path of a line is the engine's;
//! that of the caller is told beside it as a claim, where it is another.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `caller` | who waits, and in which call |
//! | `line` | what is written |
//! | `sink` | a bounded queue, and the thread that writes |
//!
//! # Limits
//! * What passes (`--pass`, `/proc`, `/sys`, `/dev`) does not come here.
//! * Of a program that lets nobody look into it, and of opens by io_uring, only what was granted is
//!   seen; so is what is refused by a rule of the kernel's own (`fs.protected_regular`), or through
//!   `/proc/self/fd` where nothing is written.
//! * What is refused in a directory that others change at that moment may be told twice: the kernel
//!   asks for its attributes twice.

mod caller;
mod line;
mod sink;

pub(crate) use sink::Writing;

use crate::plan::{Cover, Plan};
use caller::{Call, Caller, Patience, Purpose};
use line::{Line, Reason, answer};
use openpath_abi::access::{R_OK, W_OK, X_OK};
use openpath_abi::fcntl::{
    AT_SYMLINK_NOFOLLOW, O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_TRUNC,
};
use openpath_abi::{AtFlags, Errno, OFlags, Statx, mode};
use openpath_commit::{PathBytes, text_of};
use openpath_fuse::{ObservedFile, Observer, OnOpened, Requester};
use openpath_overlay::OverlayFs;
use openpath_vfs::{Check, Explanation, PendingChange, Step, SuperBlock, WalkPosition};
use rustix::fd::OwnedFd;
use sink::Sink;
use std::io;
use std::sync::Arc;

/// Links that a path may lead through.
const LINKS_MAX: usize = 40;

/// Where opens that were refused or redirected are told of.
#[derive(Debug)]
pub struct LogFile {
    /// What is written to.
    pub file: OwnedFd,
    /// A JSON object a line, and not text.
    pub json: bool,
}

/// Looks on, and says what is to be said.
pub(crate) struct Log {
    sink: Sink,
    patience: Patience,
    overlay: Arc<SuperBlock>,
    hidden: Vec<PathBytes>,
    /// What is read only, and what can be changed in it, outer paths first.
    covers: Vec<(PathBytes, Cover)>,
    /// Mounts in the view, and what is written to them.
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
    ) -> io::Result<(Log, Writing)> {
        let (sink, writing) = Sink::open(file, json)?;
        let through = plan.write_through.iter().map(|p| (p.clone(), Reason::Disk));
        let trees = plan.extra.iter().map(|e| (e.place.clone(), Reason::Tree));
        let mut mounts: Vec<_> = through.chain(trees).collect();
        // The innermost of several is the one.
        mounts.sort_by_key(|(place, _)| std::cmp::Reverse(place.bytes().len()));
        let log = Log {
            sink,
            patience: Patience::default(),
            overlay: Arc::clone(overlay),
            hidden: plan.hidden.clone(),
            covers: plan.covers(),
            mounts,
        };
        Ok((log, writing))
    }

    /// The call that a thread waits in, if it is known.
    fn call_of(&self, by: Requester) -> Option<Call> {
        Call::of(by.thread, &self.patience)
    }

    /// Says how a call ended, and at which path.
    fn say(
        &self,
        by: Requester,
        (call, path): (&Call, &[u8]),
        result: Result<(), Errno>,
        why: (Reason, String),
    ) {
        let is_other = !parts(&call.path).eq(parts(path));
        let caller = Caller::of(by);
        self.sink.say(Line {
            time: Line::now(),
            pid: caller.pid,
            program: caller.program,
            wants: call.purpose.words(),
            path: text_of(path),
            claimed: is_other.then(|| text_of(&call.path)),
            answer: answer(result),
            reason: why.0,
            because: why.1,
        });
    }

    /// The place below which nothing is written that a path is in.
    fn read_only(&self, path: &[u8]) -> Option<&PathBytes> {
        let mut covers = self.covers.iter().rev();
        let (place, cover) = covers.find(|(place, _)| is_below(path, place))?;
        (*cover == Cover::ReadOnly).then_some(place)
    }

    /// Why a name is not there, though it may be.
    fn absence(&self, path: &[u8]) -> (Reason, String) {
        let is_hidden = self.hidden.iter().any(|hidden| is_below(path, hidden));
        let reason = if is_hidden {
            Reason::Hidden
        } else {
            Reason::Absent
        };
        (reason, text_of(path))
    }

    /// Where a write to `path` goes; before it is opened.
    fn direction(&self, path: &[u8], makes: bool) -> (Reason, String) {
        let mut mounts = self.mounts.iter();
        if let Some((place, reason)) = mounts.find(|(place, _)| is_below(path, place)) {
            return (*reason, text_of(place.bytes()));
        }
        let how = if makes {
            "new"
        } else if OverlayFs::is_in_upper(&self.overlay, path) == Ok(true) {
            "in place"
        } else {
            "copied up"
        };
        (Reason::Upper, format!("{} {how}", text_of(path)))
    }
}

/// The names of a path.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".")
}

/// Whether a path is a place or below it.
fn is_below(path: &[u8], place: &PathBytes) -> bool {
    let place = place.bytes();
    let place = place.strip_suffix(b"/").unwrap_or(place);
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// What a path means in a directory.
fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if name.starts_with(b"/") {
        return name.to_vec();
    }
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    [dir, b"/", name].concat()
}

/// By which permission it was refused, if it was by one.
fn refusal(why: &Explanation) -> Option<String> {
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
fn end(why: &Explanation) -> Option<&WalkPosition> {
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
                // What other mounts hang on stays.
                read_only.is_none() || is_place && is_dir
            }
            Err(Errno::ENOENT) => {
                let why = dir.find(name, AT_SYMLINK_NOFOLLOW);
                let is_hidden = why.is_ok_and(|why| why.refused_by() == Some(Check::Hidden));
                if !is_hidden && read_only.is_none() {
                    return true;
                }
                if let Some(call) = self.call_of(by) {
                    let makes = Self::made_in(dir, &call).is_some();
                    match read_only {
                        // That it is not to be made is said when it is to be made, next.
                        _ if is_hidden && !makes => {
                            let why = self.absence(&path);
                            self.say(by, (&call, &path), Err(Errno::ENOENT), why);
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
            refusal(&why)
        };
        // A directory is walked through, or listed, or something is made in it.
        let leads = |call: &[u8]| {
            at.find(call, AtFlags::empty())
                .is_ok_and(|why| end(&why).is_some_and(|place| place.path == path))
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
            let why = (Reason::Permission, format!("{} {how}", text_of(&path)));
            self.say(by, (&call, &path), Err(Errno::EACCES), why);
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
        // The flags that the server gets are what is left of those of the call.
        let purpose = call
            .as_ref()
            .map_or(Purpose::Open(flags), |call| call.purpose);
        let writes = flags & O_ACCMODE != O_RDONLY
            || name.is_some()
            || matches!(purpose, Purpose::Open(flags) if flags.contains(O_TRUNC));
        let goes = writes.then(|| self.direction(&path, name.is_some()));
        let call = call.unwrap_or_else(|| Call {
            purpose: Purpose::Open(flags | O_CREAT.only_if(name.is_some())),
            path: path.clone(),
        });
        Some(Box::new(move |result| match (result, goes) {
            (Ok(()), Some(goes)) => self.say(by, (&call, &path), result, goes),
            (Ok(()), None) | (Err(Errno::ENOSYS), _) => {}
            (Err(Errno::EPERM), _) if name.is_some() => {
                self.say(by, (&call, &path), result, self.absence(&path));
            }
            (Err(_), _) => {
                let why = (Reason::Failed, text_of(&path));
                self.say(by, (&call, &path), result, why);
            }
        }))
    }
}

impl Log {
    /// Says that an open of `name` is refused because nothing is written below `place`, if it is
    /// one that writes, and not refused by something that comes first.
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
        let why = (Reason::ReadOnly, text_of(place.bytes()));
        self.say(by, call, Err(Errno::EROFS), why);
    }

    /// The directory in which a call is about to make what its path leads to, if it is, and may
    /// only be kept from it by rules of absent names.
    fn made_in(dir: &ObservedFile<'_>, call: &Call) -> Option<Vec<u8>> {
        let Purpose::Open(flags) = call.purpose else {
            return None;
        };
        if !call.purpose.creates() {
            return None;
        }
        let why = dir.open(&call.path, flags).ok()?;
        let makes = Step::Pending(PendingChange::Create);
        if !why.steps.contains(&makes) && why.result != Err(Errno::EPERM) {
            return None;
        }
        let mut path = call.path.clone();
        for _ in 0..LINKS_MAX {
            let slash = path.iter().rposition(|byte| *byte == b'/')?;
            let parent = end(&dir.find(&path[..=slash], AtFlags::empty()).ok()?)?
                .path
                .clone();
            let name = join(&parent, &path[slash + 1..]);
            let at = dir.find(&name, AT_SYMLINK_NOFOLLOW).ok()?;
            if !end(&at).is_some_and(|place| mode::is_lnk(place.kind)) {
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
