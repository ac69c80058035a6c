// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the step `..`: up to the parent, across mounts (`handle_dots`, `follow_dotdot`).
//!
//! # Rules
//! R1. After a step up the walk was in its scope at some moment: because nothing moved since it
//!     began, or because a steadfast walk, which holds its position, checked.

use super::{Mode, PathIds, Reason, Walk, WalkError, lflag};
use crate::object::{dflag, mflag};
use crate::steps::{Check, Step};
use openpath_abi::Errno;

impl Walk<'_> {
    /// Goes to the parent of the directory stood at: itself at the root, across mounts otherwise.
    ///
    /// # Errors
    /// `EXDEV` (beneath at the root, or the mount must not be left); `ENOENT` (the directory was
    /// moved out of what its mount shows); `EAGAIN` (scoped, while mounts or directories moved),
    /// but never of a steadfast walk that may wait.
    #[inline(never)]
    pub(crate) fn dotdot(&mut self) -> Result<(), WalkError> {
        let root = self.root();
        let from = self.at;
        let top = loop {
            // At the root of the walk `..` is `.`; under `BENEATH` it is refused.
            if self.at == root {
                break true;
            }
            let at_its_root = self.at.dentry == self.mounts().at(self.at.mount).root.get();
            // R4: the root that was compared is that of the mount stood in.
            self.leave_mount()?;
            if !at_its_root {
                break false;
            }
            match self.mounts().below(self.at.mount) {
                // The top of the namespace, or of a tree that was taken out of it.
                None => break true,
                Some((mount, dentry)) => {
                    let below = PathIds { mount, dentry };
                    // At the top the mount is not left, though others lie beneath it.
                    if self.wants(lflag::NO_XDEV) && !self.leads_out(below, root) {
                        break true;
                    }
                    self.up_across(below)?;
                }
            }
        };
        if top {
            if self.flags & (lflag::BENEATH | lflag::TOLD) != 0 {
                self.check_top()?;
            }
            // Back to where the step began: nothing above was visible.
            if self.at != from {
                self.stand_again(from)?;
            }
        } else {
            self.up()?;
        }
        if self.at_dentry.has(dflag::MOUNTED) {
            self.cross()?;
        }
        self.unmoved()
    }

    /// Whether `..` of a mount on `below` leads to a place outside of it: a directory that is no
    /// root of a mount in turn, before the root of the walk is reached.
    fn leads_out(&self, below: PathIds, root: PathIds) -> bool {
        let mounts = self.mounts();
        loop {
            let seen = mounts.changes.sample_steady();
            let mut at = below;
            let out = loop {
                if at == root {
                    break false;
                }
                if at.dentry != mounts.at(at.mount).root.get() {
                    break true;
                }
                match mounts.below(at.mount) {
                    Some((mount, dentry)) => at = PathIds { mount, dentry },
                    None => break false,
                }
            };
            if mounts.changes.is_unchanged(seen) {
                return out;
            }
            openpath_sync::relax();
        }
    }

    /// Whether `..` is allowed at the root of the walk; tells that it stays there.
    ///
    /// # Errors
    /// `EXDEV`.
    #[cold]
    fn check_top(&mut self) -> Result<(), WalkError> {
        if self.wants(lflag::BENEATH) {
            // A directory on the way down may have moved: the path need not lead out.
            if self.wants(lflag::STEADFAST) && !self.scope_is_still() {
                return Err(self.moved());
            }
            return Err(self.sure(Check::Beneath, Errno::EXDEV));
        }
        self.core.tell(|| Step::Top);
        Ok(())
    }

    /// From the root of a mount to the directory it covers.
    fn up_across(&mut self, to: PathIds) -> Result<(), WalkError> {
        if self.wants(lflag::NO_XDEV) {
            return Err(self.sure(Check::MountBoundary, Errno::EXDEV));
        }
        let (mounts, dcache) = (self.mounts(), self.dcache());
        if self.fast {
            let mount = mounts.at(to.mount).word().sample();
            let dentry = dcache.at(to.dentry).word().sample();
            // The mount left behind was still in that place while the place below was sampled.
            if !mounts.at(self.at.mount).word().is_unchanged(self.at_mount)
                || !mount.is_steady()
                || !dentry.is_steady()
                || mounts.below(self.at.mount) != Some((to.mount, to.dentry))
            {
                return Err(self.restart(Reason::MountsChanged));
            }
            if !dentry.has(dflag::CONFIRM) {
                self.go(to, mount, dentry, None);
                self.straight = !mount.has(mflag::ABSENT);
                return Ok(());
            }
            // R5
            self.unlazy_to(Reason::Revalidate, dentry.has(dflag::TRIES))?;
        }
        let Some(pin) = self.core.pins.pin_now(to.mount, to.dentry) else {
            return Err(self.restart(Reason::MountsChanged));
        };
        // R4: the pinned place is still the one that the mount left behind covers.
        if mounts.below(self.at.mount) != Some((to.mount, to.dentry)) {
            self.core.pins.release(pin);
            return Err(self.restart(Reason::MountsChanged));
        }
        let mount = mounts.at(to.mount).word().sample_steady();
        let dentry = dcache.at(to.dentry).word().sample_steady();
        self.go(to, mount, dentry, Some(pin));
        self.core.confirmed.set(0);
        self.core.tell_place(to, Step::Up);
        Ok(())
    }

    fn stand_again(&mut self, path_ids: PathIds) -> Result<(), WalkError> {
        if self.fast {
            return Err(self.restart(Reason::TreeTop));
        }
        self.stand_pinned(path_ids)
    }

    /// From a directory to its parent within the same mount.
    fn up(&mut self) -> Result<(), WalkError> {
        let dcache = self.dcache();
        loop {
            let parent = dcache.at(self.at.dentry).parent.get();
            let sample = dcache.at(parent).word().sample();
            if self.fast {
                if !dcache
                    .at(self.at.dentry)
                    .word()
                    .is_unchanged(self.at_dentry)
                    || !sample.is_steady()
                {
                    return Err(self.restart(Reason::NamesChanged));
                }
                if !self.connected(parent)? {
                    return Err(self.restart(Reason::Refusal));
                }
                self.go(
                    PathIds {
                        mount: self.at.mount,
                        dentry: parent,
                    },
                    self.at_mount,
                    sample,
                    None,
                );
                return Ok(());
            }
            let Some(pin) = self.core.pins.pin_now(self.at.mount, parent) else {
                return Err(self.restart(Reason::NamesChanged));
            };
            // Moved while it was pinned: it has another parent now.
            if dcache.at(self.at.dentry).parent.get() != parent {
                self.core.pins.release(pin);
                continue;
            }
            if !self.connected(parent)? {
                self.core.pins.release(pin);
                return Err(self.refuse(Check::Disconnected, Errno::ENOENT));
            }
            let sample = dcache.at(parent).word().sample_steady();
            self.go(
                PathIds {
                    mount: self.at.mount,
                    dentry: parent,
                },
                self.at_mount,
                sample,
                Some(pin),
            );
            self.core.confirmed.set(0);
            self.core.tell_place(self.at, Step::Up);
            return Ok(());
        }
    }

    /// Whether `dentry` is within what the mount stood in shows (`path_connected`): a bind of a
    /// directory shows only what is below it.
    fn connected(&self, dentry: u32) -> Result<bool, WalkError> {
        let root = self.mounts().at(self.at.mount).root.get();
        if self.dcache().at(root).word().sample().has(dflag::ROOT) {
            return Ok(true);
        }
        loop {
            match self.dcache().is_below(dentry, root) {
                Some(answer) => return Ok(answer),
                None if self.fast => return Err(self.restart(Reason::NamesChanged)),
                None => openpath_sync::relax(),
            }
        }
    }

    /// Whether no mount and no directory moved since a scoped walk began.
    pub(super) fn scope_is_still(&self) -> bool {
        let Some((mounts, renames)) = self.scope else {
            return true;
        };
        self.mounts().changes.is_unchanged(mounts) && self.core.vfs.renames.is_unchanged(renames)
    }

    /// A scoped walk that went up fails if a directory moved meanwhile; a steadfast one may go on
    /// while it is in its scope (R1).
    ///
    /// # Errors
    /// `EAGAIN`; of a steadfast walk [`WalkError::Moved`].
    fn unmoved(&mut self) -> Result<(), WalkError> {
        if self.scope_is_still() {
            return Ok(());
        }
        // A fast walk may start over by itself; with references the caller decides.
        if self.mode == Mode::Fast && self.fast && !self.wants(lflag::CACHED) {
            return Err(self.restart(Reason::ScopeMoved));
        }
        if self.wants(lflag::STEADFAST) && !self.fast {
            return if self.in_scope() {
                Ok(())
            } else {
                Err(self.moved())
            };
        }
        self.core.gave_up.set(Some(Reason::ScopeMoved));
        Err(self.refuse(Check::Moved, Errno::EAGAIN))
    }

    /// The steadfast walk starts over: from fast mode with references, and from there as often as
    /// is bounded.
    #[cold]
    pub(super) fn moved(&self) -> WalkError {
        match self.restart(Reason::ScopeMoved) {
            WalkError::Restart if !self.fast => WalkError::Moved,
            fail => fail,
        }
    }
}
