// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a path walk at its first directory (`path_init`), finds the root that bounds the walk,
//! and checks that a scoped walk ends within that root.

use super::{Mode, PathIds, Reason, Walk, WalkError, lflag};
use crate::file::PathStart;
use crate::object::{dflag, mflag};
use crate::steps::{Check, Step};
use crate::task::Core;
use openpath_abi::{Errno, caps};
use openpath_sync::Sample;

impl<'w> Walk<'w> {
    /// A walk of `path` from `at`, standing at its start.
    ///
    /// # Errors
    /// `EAGAIN` (`CACHED` off fast mode), `ENOENT` (empty path), `EXDEV` (absolute path beneath),
    /// `EBADF`, `ENOENT` (linkat of another's descriptor), `ENOTDIR`.
    #[inline(always)]
    pub(crate) fn begin(
        core: &'w Core,
        at: PathStart<'_>,
        path: &[u8],
        flags: u32,
        mode: Mode,
    ) -> Result<Self, WalkError> {
        if flags & lflag::CACHED != 0 && !matches!(mode, Mode::Fast | Mode::Try) {
            return Err(Errno::EAGAIN.into());
        }
        if path.is_empty() && flags & lflag::EMPTY == 0 {
            return Err(core.refused(Check::EmptyPath, Errno::ENOENT).into());
        }
        core.heed_pivots();
        let mut walk = Self {
            core,
            flags,
            root: None,
            at: PathIds::default(),
            at_mount: Sample::default(),
            at_dentry: Sample::default(),
            pin: None,
            fast: mode == Mode::Fast,
            straight: mode == Mode::Fast,
            section: (mode == Mode::Fast).then(|| core.reader.enter()),
            mode,
            links: 0,
            scope: None,
        };
        if flags & lflag::SCOPED != 0 {
            walk.scope = Some((core.vfs.mounts.changes.sample(), core.vfs.renames.sample()));
        }
        if path.first() == Some(&b'/') && flags & lflag::IN_ROOT == 0 {
            walk.jump_root()?;
            return Ok(walk);
        }
        let path_ids = walk.start_of(at, path)?;
        walk.stand(path_ids)?;
        if !path.is_empty() && !walk.at_dir() {
            return Err(walk.refuse(Check::NotDirectory, Errno::ENOTDIR));
        }
        if flags & lflag::SCOPED != 0 {
            walk.root = Some(path_ids);
        }
        Ok(walk)
    }

    fn start_of(&self, at: PathStart<'_>, path: &[u8]) -> Result<PathIds, WalkError> {
        match at {
            PathStart::Cwd => Ok(self.core.cwd.get()),
            PathStart::Bad => Err(self.refuse(Check::Descriptor, Errno::EBADF)),
            PathStart::File(file) => {
                if path.is_empty() && self.wants(lflag::LINKAT_EMPTY) {
                    let cred = self.core.cred();
                    if file.cred_serial() != self.core.cred_serial()
                        && !cred.capable(caps::CAP_DAC_READ_SEARCH)
                    {
                        return Err(Errno::ENOENT.into());
                    }
                }
                Ok(file.path_ids())
            }
        }
    }

    /// Stands at `path_ids`, which the task or an open file holds.
    fn stand(&mut self, path_ids: PathIds) -> Result<(), WalkError> {
        if self.fast {
            let mount = self.mounts().at(path_ids.mount).word().sample();
            let dentry = self.dcache().at(path_ids.dentry).word().sample();
            if mount.needs_slow_path(mflag::ABSENT) || dentry.needs_slow_path(dflag::CONFIRM) {
                return self.stand_oddly(path_ids, mount, dentry);
            }
            self.go(path_ids, mount, dentry, None);
            return Ok(());
        }
        self.stand_pinned(path_ids)
    }

    /// Stands at `path_ids`, where names can be absent, or a change was under way.
    #[cold]
    fn stand_oddly(
        &mut self,
        path_ids: PathIds,
        mount: Sample,
        dentry: Sample,
    ) -> Result<(), WalkError> {
        if !mount.is_steady() || !dentry.is_steady() {
            return self.unlazy_at(path_ids, Reason::Busy);
        }
        // R5
        if dentry.has(dflag::CONFIRM) {
            return self.unlazy_at(path_ids, Reason::Revalidate);
        }
        self.straight = false;
        self.go(path_ids, mount, dentry, None);
        Ok(())
    }

    #[cold]
    fn unlazy_at(&mut self, path_ids: PathIds, why: Reason) -> Result<(), WalkError> {
        let dentry = self.dcache().at(path_ids.dentry).word().sample();
        self.may_leave(why, dentry.has(dflag::TRIES))?;
        self.core.reasons.count(why);
        self.leave_fast();
        self.stand_pinned(path_ids)
    }

    /// Stands at `path_ids`, which something else holds, with a pin of its own.
    #[cold]
    pub(super) fn stand_pinned(&mut self, path_ids: PathIds) -> Result<(), WalkError> {
        let pin = self.core.pins.pin_now(path_ids.mount, path_ids.dentry);
        let pin = pin.ok_or_else(|| self.refuse(Check::Pins, Errno::ENOMEM))?;
        let mount = self.mounts().at(path_ids.mount).word().sample();
        let dentry = self.dcache().at(path_ids.dentry).word().sample_steady();
        self.go(path_ids, mount, dentry, Some(pin));
        self.core.confirmed.set(0);
        if self.core.is_told() {
            self.flags |= lflag::TOLD;
            self.core.tell_place(path_ids, Step::At);
        }
        Ok(())
    }

    /// What `/` means, from now on for the rest of the walk (`set_root`).
    pub(super) fn root(&mut self) -> PathIds {
        let core = self.core;
        *self.root.get_or_insert_with(|| core.root.get())
    }

    /// Goes to the root (`nd_jump_root`).
    ///
    /// # Errors
    /// `EXDEV` beneath, and where that leaves the mount without leave: the start of an absolute
    /// path may.
    pub(super) fn jump_root(&mut self) -> Result<(), WalkError> {
        if self.wants(lflag::BENEATH) {
            return Err(self.refuse(Check::Beneath, Errno::EXDEV));
        }
        if self.wants(lflag::NO_XDEV)
            && self.at.mount != 0
            && self.root.map(|r| r.mount) != Some(self.at.mount)
        {
            // As in Linux, a root that was not asked for yet is no mount at all.
            return Err(self.refuse(Check::MountBoundary, Errno::EXDEV));
        }
        if self.at.mount != 0 {
            // R4: the mount is still where the walk read it, so that going to the root is right.
            self.leave_mount()?;
            self.straight = self.fast;
        }
        let root = self.root();
        self.stand(root)
    }

    /// A scoped walk must end within its root (`path_is_under`).
    ///
    /// # Errors
    /// `EXDEV`; of a steadfast walk [`WalkError::Moved`], if something moved meanwhile.
    #[cold]
    pub(super) fn check_scope(&mut self) -> Result<(), WalkError> {
        if self.in_scope() {
            return Ok(());
        }
        if self.wants(lflag::STEADFAST) && !self.scope_is_still() {
            return Err(self.moved());
        }
        Err(self.refuse(Check::Beneath, Errno::EXDEV))
    }

    /// Whether the place stood at, which is pinned, is within the root of a scoped walk.
    pub(super) fn in_scope(&self) -> bool {
        let Some(root) = self.root else { return true };
        let (mounts, renames) = (&self.mounts().changes, &self.core.vfs.renames);
        loop {
            let before = (mounts.sample_steady(), renames.sample_steady());
            // A mount on the way that went may have left its number to another. The old parent of a
            // directory that moved may be in the scope by now, when the directory is not.
            if let Some(under) = self.is_under(root)
                && mounts.is_unchanged(before.0)
                && renames.is_unchanged(before.1)
            {
                return under;
            }
            openpath_sync::relax();
        }
    }

    /// Whether the place stood at is `root` or below it; `None` if directories moved meanwhile. A
    /// steadfast walk, which goes on where a directory moved, must also be within what each mount
    /// shows: a bind of a directory shows only what is below that.
    fn is_under(&self, root: PathIds) -> Option<bool> {
        let mut path_ids = self.at;
        while path_ids.mount != root.mount {
            let top = self.mounts().at(path_ids.mount).root.get();
            if self.wants(lflag::STEADFAST) && !self.dcache().is_below(path_ids.dentry, top)? {
                return Some(false);
            }
            let Some((mount, dentry)) = self.mounts().below(path_ids.mount) else {
                return Some(false);
            };
            path_ids = PathIds { mount, dentry };
        }
        self.dcache().is_below(path_ids.dentry, root.dentry)
    }
}
