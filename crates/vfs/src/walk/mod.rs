// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the path walk: from a start and a path to a mount and a dentry.
//!
//! # Kernel analogue
//! `struct nameidata`, `link_path_walk`, `walk_component`, `step_into`, `complete_walk`. Link
//! bodies are not kept on a stack: a body is spliced in front of the rest of the path, which gives
//! the same answers without recursion.
//!
//! # States
//! Fast (no pins; every step confirmed by samples) -> reference (the position is pinned). A walk
//! never goes back. Under `RESOLVE_CACHED` it goes on only in trees whose backends answer at once,
//! and takes no lock there that it would have to wait for: that is a try.
//!
//! When fast mode cannot decide a step, reference mode repeats it from the same position, or from
//! the start if the position changed.
//!
//! # Outcomes
//! An errno is final: fast mode gives it only after it confirmed the samples that it rests on.
//! [`WalkError::Restart`] starts over in reference mode (`ECHILD`), [`WalkError::Stale`] starts
//! over asking backends (`ESTALE`). [`WalkError::Moved`] starts over because directories moved, and
//! is `EXDEV` when they never cease to.
//!
//! # Rules
//! R1. The child is sampled before the parent is checked for a change
//!     (`Life::is_unchanged`; see `dcache`).
//! R2. `unlazy` asks for `CACHED` before it takes any pin.
//! R3. In fast mode no backend is called and nothing but the task's own pin words is written.
//!
//! R4. A mount is checked for a change before its sample is given up, and after its root was read:
//!     a mount that went may have left its number, and its root's, to another. The same holds for
//!     the directory that it covered, which is checked too.
//! R5. In a tree that confirms, a walk is never fast: it leaves fast mode where it comes in.
//!
//! # Guarantees
//! G1. At most 40 links are followed; a path's length is checked once and not again when bodies are
//!     spliced in.

mod absent;
mod begin;
mod confirm;
mod crossing;
mod dotdot;
mod link;
mod locked;
mod lookup;
pub(crate) mod plain;
mod retry;
mod run;
mod step;

pub(crate) use locked::{Disowned, LockedDir};
pub(crate) use retry::{Mode, climb};
pub(crate) use run::{lookup, lookup_once, lookup_parent};

use crate::buffer::Buffer;
use crate::inode::{Inode, WaitMode};
use crate::object::dflag;
use crate::path::PathIds;
use crate::reason::Reason;
use crate::steps::{Check, Step};
use crate::task::Core;
use crate::tenant::count;
use openpath_abi::Errno;
use openpath_sync::rcu::Guard;
use openpath_sync::{Pin, Sample};

/// How a walk is to behave (`LOOKUP_*`).
pub(crate) mod lflag {
    /// Follow a link in the last place.
    pub(crate) const FOLLOW: u32 = 1;
    /// The result must be a directory.
    pub(crate) const DIRECTORY: u32 = 1 << 1;
    /// An empty path means the start itself.
    pub(crate) const EMPTY: u32 = 1 << 2;
    /// `RESOLVE_NO_SYMLINKS`.
    pub(crate) const NO_SYMLINKS: u32 = 1 << 3;
    /// `RESOLVE_NO_MAGICLINKS`.
    pub(crate) const NO_MAGICLINKS: u32 = 1 << 4;
    /// `RESOLVE_NO_XDEV`.
    pub(crate) const NO_XDEV: u32 = 1 << 5;
    /// `RESOLVE_BENEATH`.
    pub(crate) const BENEATH: u32 = 1 << 6;
    /// `RESOLVE_IN_ROOT`.
    pub(crate) const IN_ROOT: u32 = 1 << 7;
    /// `RESOLVE_CACHED`.
    pub(crate) const CACHED: u32 = 1 << 8;
    /// An empty path means the start only for the task that opened it, or with
    /// `CAP_DAC_READ_SEARCH` (linkat).
    pub(crate) const LINKAT_EMPTY: u32 = 1 << 9;
    /// The walk may not leave its root.
    pub(crate) const SCOPED: u32 = BENEATH | IN_ROOT;
    /// Enter what is mounted on the end of the walk, even if that is its start (umount).
    pub(crate) const MOUNTPOINT: u32 = 1 << 10;
    /// `OPENAT2_REGULAR`: only a regular file will do.
    pub(crate) const REGULAR: u32 = 1 << 11;
    /// As [`CACHED`], and no backend is asked, whatever its tree says (see `explain`).
    pub(crate) const LOCK_FREE: u32 = 1 << 13;
    /// A scoped walk that goes up while directories move checks its position, and so need not fail
    /// with `EAGAIN` (`Task::beneath`).
    pub(crate) const STEADFAST: u32 = 1 << 14;
    /// The walk is explained: tested together with rare conditions, where both kinds of walk pass.
    pub(crate) const TOLD: u32 = 1 << 12;
}

/// Why a walk ended without a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WalkError {
    /// For good.
    Errno(Errno),
    /// Fast mode could not go on from here: again, with references.
    Restart,
    /// An entry turned out to be out of date: again, asking backends.
    Stale,
    /// A steadfast walk was moved out of its scope, or seems to be as directories moved: again, a
    /// bounded number of times.
    Moved,
}

impl From<Errno> for WalkError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ESTALE => Self::Stale,
            other => Self::Errno(other),
        }
    }
}

/// What kind of thing the last component is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LastKind {
    /// A name.
    Norm,
    /// The path was only slashes.
    Root,
    /// `.`
    Dot,
    /// `..`
    DotDot,
}

/// The last component of a path, as a range of the walk's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Last {
    pub(crate) kind: LastKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Slashes follow it.
    pub(crate) slash: bool,
}

/// The text that is still to be walked: the caller's path, or a link body spliced in front of the
/// rest.
pub(crate) struct WalkText<'w> {
    path: &'w [u8],
    spliced: Option<Buffer>,
}

impl<'w> WalkText<'w> {
    pub(crate) fn new(path: &'w [u8]) -> Self {
        Self {
            path,
            spliced: None,
        }
    }

    /// The bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.spliced {
            None => self.path,
            Some(s) => s.bytes(),
        }
    }

    /// The bytes of a component.
    pub(crate) fn name(&self, last: &Last) -> &[u8] {
        &self.bytes()[last.start..last.end]
    }

    /// Puts `body` in place of everything before `rest`.
    fn splice(&mut self, core: &Core, body: &[u8], rest: usize) {
        let mut next = core.take_buffer();
        next.push(body);
        let left = &self.bytes()[rest..];
        if !left.is_empty() {
            next.push(b"/");
            next.push(left);
        }
        if let Some(old) = self.spliced.replace(next) {
            core.give_buffer(old);
        }
    }

    /// Leaves only what begins at `rest`.
    fn drop_to(&mut self, core: &Core, rest: usize) {
        let mut next = core.take_buffer();
        next.push(&self.bytes()[rest..]);
        if let Some(old) = self.spliced.replace(next) {
            core.give_buffer(old);
        }
    }

    /// Gives the buffer back to the task.
    pub(crate) fn done(self, core: &Core) {
        if let Some(s) = self.spliced {
            core.give_buffer(s);
        }
    }
}

/// A walk under way.
pub(crate) struct Walk<'w> {
    pub(crate) core: &'w Core,
    pub(crate) flags: u32,
    /// What `/` and the topmost `..` mean; unset until asked for (see `begin`).
    root: Option<PathIds>,
    pub(crate) at: PathIds,
    /// How the mount and the dentry stood at were sampled.
    at_mount: Sample,
    pub(crate) at_dentry: Sample,
    /// Holds the position in reference mode.
    pin: Option<Pin>,
    fast: bool,
    /// Fast, and no name can be absent by a rule.
    straight: bool,
    /// The section that fast mode runs in; it ends before anything may wait.
    section: Option<Guard<'w>>,
    mode: Mode,
    links: usize,
    /// Sequences of mounts and renames at the start of a scoped walk.
    scope: Option<(Sample, Sample)>,
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.core.pins.release(pin);
        }
    }
}

impl<'w> Walk<'w> {
    fn dcache(&self) -> &'w crate::dcache::Dcache {
        &self.core.vfs.dcache
    }

    fn mounts(&self) -> &'w crate::mount::Mounts {
        &self.core.vfs.mounts
    }

    /// Whether all bits of `flag` are asked for.
    #[inline(always)]
    pub(crate) fn wants(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }

    /// Whether a link is stood at.
    pub(crate) fn at_link(&self) -> bool {
        self.at_dentry.has(dflag::LINK)
    }

    /// Whether a directory is stood at.
    #[inline(always)]
    pub(crate) fn at_dir(&self) -> bool {
        !self.at_dentry.has(dflag::NOT_DIR)
    }

    /// Moves the position; in reference mode `pin` holds the new one.
    #[inline(always)]
    fn go(&mut self, at: PathIds, mount: Sample, dentry: Sample, pin: Option<Pin>) {
        self.at = at;
        self.at_mount = mount;
        self.at_dentry = dentry;
        if let Some(old) = core::mem::replace(&mut self.pin, pin) {
            self.core.pins.release(old);
        }
    }

    /// Leaves fast mode at the position (`try_to_unlazy`), and counts the reason.
    ///
    /// # Errors
    /// `EAGAIN` under `RESOLVE_CACHED`, but for trees that answer at once; [`WalkError::Restart`]
    /// if the position changed.
    pub(crate) fn unlazy(&mut self, why: Reason) -> Result<(), WalkError> {
        if !self.fast {
            return Ok(());
        }
        self.unlazy_to(why, self.at_dentry.has(dflag::TRIES))
    }

    /// As [`Walk::unlazy`], on the way into a tree that answers at once or does not.
    fn unlazy_to(&mut self, why: Reason, tries: bool) -> Result<(), WalkError> {
        // R2: before anything is pinned.
        self.may_leave(why, tries)?;
        let pin = self
            .core
            .pins
            .try_pin(self.at.mount, self.at_mount, self.at.dentry, self.at_dentry)
            .ok_or_else(|| self.not_pinned())?;
        self.core.reasons.count(why);
        self.pin = Some(pin);
        self.core.confirmed.set(0);
        self.leave_fast();
        Ok(())
    }

    /// Whether the walk may go on with references; under `RESOLVE_CACHED` it goes on without a
    /// wait.
    ///
    /// # Errors
    /// `EAGAIN`.
    fn may_leave(&mut self, why: Reason, tries: bool) -> Result<(), WalkError> {
        if self.wants(lflag::CACHED) {
            if self.wants(lflag::LOCK_FREE) {
                self.core.step_log.note_try(tries);
                return Err(self.core.give_up(why).into());
            }
            if !tries {
                return Err(self.core.give_up(why).into());
            }
            self.mode = Mode::Try;
        }
        Ok(())
    }

    /// Whether the walk may take a step that can wait.
    ///
    /// # Errors
    /// `EAGAIN` under `RESOLVE_CACHED`.
    fn may_wait(&self, why: Reason) -> Result<(), WalkError> {
        if self.wants(lflag::CACHED) {
            Err(self.core.give_up(why).into())
        } else {
            Ok(())
        }
    }

    /// How the walk asks backends at its position.
    ///
    /// # Errors
    /// `EAGAIN` under `RESOLVE_CACHED` in a tree that does not answer at once.
    fn wait_mode(&self, why: Reason) -> Result<WaitMode, WalkError> {
        if self.mode != Mode::Try {
            return Ok(WaitMode::Wait);
        }
        if self.at_dentry.has(dflag::TRIES) {
            Ok(WaitMode::Cached)
        } else {
            Err(self.core.give_up(why).into())
        }
    }

    /// Brings the attributes of the position up to date, in a tree that confirms, unless a name
    /// that was confirmed just now led there (`d_weak_revalidate`).
    ///
    /// # Errors
    /// What the backend meets; `EAGAIN` as [`Walk::wait_mode`].
    #[cold]
    fn refresh(&self) -> Result<(), WalkError> {
        let known = self.core.confirmed.get() == self.at.dentry;
        if known || !self.at_dentry.has(dflag::CONFIRM) {
            return Ok(());
        }
        let wait_mode = self.wait_mode(Reason::Revalidate)?;
        let fresh = self.with_inode(|inode| inode.refresh(wait_mode))?;
        fresh.map_err(|errno| self.core.would_wait(wait_mode, errno))?;
        self.core.confirmed.set(self.at.dentry);
        Ok(())
    }

    /// Counts the reason for starting over; the failure that asks for it.
    #[cold]
    pub(crate) fn restart(&self, why: Reason) -> WalkError {
        self.core.reasons.count(why);
        self.core.gave_up.set(Some(why));
        self.core.tell(|| Step::Again(why));
        WalkError::Restart
    }

    /// The position could not be pinned: starts over.
    #[cold]
    fn not_pinned(&self) -> WalkError {
        let same = self
            .mounts()
            .at(self.at.mount)
            .word()
            .is_unchanged(self.at_mount);
        self.restart(if !self.core.pins.has_room() {
            Reason::NoPin
        } else if !same {
            Reason::MountsChanged
        } else {
            Reason::NamesChanged
        })
    }

    fn leave_fast(&mut self) {
        self.fast = false;
        self.straight = false;
        self.section = None;
    }

    /// An error met in fast mode counts only if the position is still as sampled.
    #[cold]
    fn sure(&mut self, check: Check, errno: Errno) -> WalkError {
        match self.unlazy(Reason::Refusal) {
            Ok(()) => self.refuse(check, errno),
            Err(fail) => fail,
        }
    }

    /// The walk fails by this check, for good.
    #[cold]
    pub(crate) fn refuse(&self, check: Check, errno: Errno) -> WalkError {
        self.core.refused(check, errno).into()
    }

    /// Runs `f` with the inode stood at, pinned for as long as that takes.
    ///
    /// # Errors
    /// [`WalkError::Restart`] if the position changed (fast mode only).
    pub(crate) fn with_inode<R>(&self, f: impl FnOnce(&Inode) -> R) -> Result<R, WalkError> {
        let store = &self.dcache().store;
        if let Some(pin) = &self.pin {
            return store
                .dentry_payload(pin)
                .map(f)
                .ok_or(WalkError::Errno(Errno::ENOENT));
        }
        let pin = self
            .core
            .pins
            .try_pin(0, Sample::default(), self.at.dentry, self.at_dentry)
            .ok_or_else(|| self.not_pinned())?;
        let result = store.dentry_payload(&pin).map(f);
        self.core.pins.release(pin);
        result.ok_or_else(|| self.restart(Reason::NamesChanged))
    }

    /// Ends the walk with its position pinned (`complete_walk`): the pin passes to the caller.
    ///
    /// # Errors
    /// [`WalkError::Restart`] if the position changed; `EXDEV` if a scoped walk ended outside of
    /// its root, or [`WalkError::Moved`] if it is steadfast and something moved meanwhile.
    #[inline(always)]
    pub(crate) fn complete(&mut self) -> Result<(Pin, Sample), WalkError> {
        if self.fast {
            // Not `unlazy`: pinning the end does not wait, so `CACHED` is no obstacle.
            let pin = self
                .core
                .pins
                .try_pin(self.at.mount, self.at_mount, self.at.dentry, self.at_dentry)
                .ok_or_else(|| self.not_pinned())?;
            self.pin = Some(pin);
            self.dcache().at(self.at.dentry).touch();
            self.core.count(count::HITS);
            self.leave_fast();
        } else if self.at_dentry.has(dflag::CONFIRM) {
            self.refresh()?;
        }
        if self.flags & lflag::SCOPED != 0 {
            self.check_scope()?;
        }
        self.pin
            .take()
            .map(|pin| (pin, self.at_dentry))
            .ok_or(WalkError::Restart)
    }
}
