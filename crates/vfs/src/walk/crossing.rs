// SPDX-License-Identifier: MIT OR Apache-2.0
//! Enters the mount on a covered directory during a walk (`handle_mounts`).

use super::{PathIds, Reason, Walk, WalkError};
use crate::mount::MountLookup;
use crate::object::{dflag, mflag};
use crate::steps::Step;
use openpath_sync::Sample;

impl Walk<'_> {
    /// From a covered directory to the root of the topmost mount on it.
    ///
    /// # Errors
    /// `EXDEV` if the mount must not be left; [`WalkError::Restart`] if mounts changed (fast mode
    /// only).
    #[inline(never)]
    pub(super) fn cross(&mut self) -> Result<(), WalkError> {
        while self.at_dentry.has(dflag::MOUNTED) {
            let crossed = if self.fast {
                self.cross_fast()?
            } else {
                self.cross_pinned()?
            };
            if !crossed {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One mount up the stack, by samples; whether there was one.
    fn cross_fast(&mut self) -> Result<bool, WalkError> {
        let cover = self.mounts().cover(self.at.mount, self.at.dentry);
        // R4: the mount stood in and the directory were still those meant while their cover was
        // looked for. Unmounted and removed, their numbers may be reused.
        self.leave_mount()?;
        let covered = self.dcache().at(self.at.dentry).word();
        if !covered.is_unchanged(self.at_dentry) {
            return Err(self.restart(Reason::MountsChanged));
        }
        let (mount, sample, root) = match cover {
            MountLookup::None => return Ok(false),
            MountLookup::Mount(mount, sample, root) => (mount, sample, root),
            MountLookup::Changed => return Err(self.restart(Reason::MountsChanged)),
        };
        if let Err(fail) = self.may_leave_mount() {
            self.unlazy(Reason::Refusal)?;
            return Err(fail);
        }
        let dentry = self.dcache().at(root).word().sample();
        // R4: the mount still holds its root, so what was sampled is its root.
        let held = sample.is_steady() && self.mounts().at(mount).word().is_unchanged(sample);
        if !held || dentry.needs_slow_path(dflag::CONFIRM) {
            return self.cross_oddly(held && dentry.is_steady(), dentry);
        }
        self.go(
            PathIds {
                mount,
                dentry: root,
            },
            sample,
            dentry,
            None,
        );
        self.straight = !sample.has(mflag::ABSENT);
        Ok(true)
    }

    /// One mount up the stack, where that changed or confirms (R5).
    #[cold]
    fn cross_oddly(&mut self, steady: bool, root: Sample) -> Result<bool, WalkError> {
        if !steady {
            return Err(self.restart(Reason::MountsChanged));
        }
        self.unlazy_to(Reason::Revalidate, root.has(dflag::TRIES))?;
        self.cross_pinned()
    }

    /// One mount up the stack, pinned; whether there was one.
    fn cross_pinned(&mut self) -> Result<bool, WalkError> {
        let Some((mount, root)) = self.mounts().cover_now(self.at.mount, self.at.dentry) else {
            return Ok(false);
        };
        self.may_leave_mount()?;
        let Some(pin) = self.core.pins.pin_now(mount, root) else {
            return Err(self.restart(Reason::MountsChanged));
        };
        // Before it was pinned it may have gone, and its number may be reused.
        if self.mounts().cover_now(self.at.mount, self.at.dentry) != Some((mount, root)) {
            self.core.pins.release(pin);
            return Ok(true);
        }
        let sample = self.mounts().at(mount).word().sample_steady();
        let dentry = self.dcache().at(root).word().sample_steady();
        self.go(
            PathIds {
                mount,
                dentry: root,
            },
            sample,
            dentry,
            Some(pin),
        );
        self.core.confirmed.set(0);
        self.core.tell_place(self.at, Step::Mount);
        Ok(true)
    }

    /// Asks whether the mount stood in is still the one that was sampled; in fast mode a walk asks
    /// this before it stands in another one, and whenever it relied on where a mount's root is.
    ///
    /// # Errors
    /// [`WalkError::Restart`] if it is not.
    #[inline(always)]
    pub(super) fn leave_mount(&self) -> Result<(), WalkError> {
        let same = self
            .mounts()
            .at(self.at.mount)
            .word()
            .is_unchanged(self.at_mount);
        if self.fast && !same {
            Err(self.restart(Reason::MountsChanged))
        } else {
            Ok(())
        }
    }
}
