// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows symbolic links: reads a link's body and splices it into the path (`pick_link`).

use super::{Mode, Reason, Walk, WalkError, WalkText, lflag};
use crate::atime;
use crate::inode::{WaitMode, flag};
use crate::object::mflag;
use crate::steps::{Check, SkippedChange, Step};
use openpath_abi::{Errno, Timespec, limits, mode};

impl Walk<'_> {
    /// Follows the link stood at, before `rest` of the text.
    ///
    /// # Errors
    /// `ELOOP` (more than 40 links, links not wanted), `EXDEV` (absolute, or magic, where the walk
    /// may not go), `ENOENT` (empty body), what the backend meets.
    #[inline(never)]
    pub(super) fn follow(&mut self, text: &mut WalkText<'_>, rest: usize) -> Result<(), WalkError> {
        self.count_link()?;
        self.splice_link(text, rest)
    }

    /// Follows the link stood at in the last place, which `protected_symlinks` may forbid.
    ///
    /// # Errors
    /// `ELOOP` (more than 40), `EACCES`, then as [`Walk::follow`].
    #[inline(never)]
    pub(crate) fn follow_last(&mut self, text: &mut WalkText<'_>) -> Result<(), WalkError> {
        self.count_link()?;
        if self.core.vfs.config.sysctl.protected_symlinks {
            self.may_follow()?;
        }
        let rest = text.bytes().len();
        self.splice_link(text, rest)
    }

    fn count_link(&mut self) -> Result<(), WalkError> {
        self.links += 1;
        if self.links > limits::MAXSYMLINKS {
            return Err(self.refuse(Check::LinkCount, Errno::ELOOP));
        }
        Ok(())
    }

    /// Whether `protected_symlinks` allows the link: its owner is the follower or the directory's
    /// owner, or the directory is not both sticky and writable by everyone (`may_follow_link`).
    fn may_follow(&mut self) -> Result<(), WalkError> {
        let link_uid = self.with_inode(|inode| inode.ids().0)?;
        if self.core.cred().fsuid == link_uid {
            return Ok(());
        }
        self.unlazy(Reason::LinkOwner)?;
        let parent = self.dcache().at(self.at.dentry).parent.get();
        let pin = self
            .core
            .pins
            .pin_now(0, parent)
            .ok_or_else(|| self.not_pinned())?;
        let store = &self.dcache().store;
        let dir = store.dentry_payload(&pin).map(|d| (d.mode(), d.ids().0));
        self.core.pins.release(pin);
        let Some((dir_mode, dir_uid)) = dir else {
            return Err(self.restart(Reason::NamesChanged));
        };
        let risky = mode::S_ISVTX | mode::S_IWOTH;
        if dir_mode & risky != risky || dir_uid == link_uid {
            return Ok(());
        }
        Err(self.refuse(Check::LinkOwner, Errno::EACCES))
    }

    /// Reads the link stood at, steps back to its directory and puts the body in front of the rest.
    fn splice_link(&mut self, text: &mut WalkText<'_>, rest: usize) -> Result<(), WalkError> {
        if self.flags & (lflag::NO_SYMLINKS | lflag::TOLD) != 0
            || self.at_mount.has(mflag::NO_SYM_FOLLOW)
        {
            self.check_link()?;
        }
        let now = self.core.vfs.clock.now();
        let flags = self.at_mount;
        if self.with_inode(|inode| atime::is_due(inode, flags, now))? {
            self.may_wait(Reason::AccessTime)?;
            self.unlazy(Reason::AccessTime)?;
            self.touch_link(now)?;
        }
        if self.with_inode(|inode| inode.flags() & flag::MAGIC != 0)? {
            return self.jump(text, rest);
        }
        let core = self.core;
        // R3: without references only a cached body is followed.
        let wait_mode = if self.with_inode(|inode| inode.cached_link().is_none())? {
            self.unlazy(Reason::LinkBody)?;
            self.wait_mode(Reason::LinkBody)?
        } else {
            WaitMode::Wait
        };
        let spliced = self.with_inode(|inode| {
            inode
                .read_link(wait_mode)
                .map(|body| text.splice(core, body, rest))
        })?;
        spliced.map_err(|errno| core.would_wait(wait_mode, errno))?;
        self.dcache().at(self.at.dentry).touch();
        let absolute = text.bytes().first() == Some(&b'/');
        if absolute {
            return self.jump_root();
        }
        self.back_to_parent()
    }

    /// Whether the link stood at may be followed at all; tells of it.
    ///
    /// # Errors
    /// `ELOOP`.
    #[cold]
    fn check_link(&self) -> Result<(), WalkError> {
        if self.wants(lflag::NO_SYMLINKS) {
            return Err(self.refuse(Check::LinksUnwanted, Errno::ELOOP));
        }
        if self.at_mount.has(mflag::NO_SYM_FOLLOW) {
            return Err(self.refuse(Check::LinkMount, Errno::ELOOP));
        }
        let wait_mode = match self.mode {
            Mode::Try => WaitMode::Cached,
            _ => WaitMode::Wait,
        };
        let (magic, body) = self.with_inode(|inode| {
            let magic = inode.flags() & flag::MAGIC != 0;
            let body = if magic {
                None
            } else {
                inode.read_link(wait_mode).ok()
            };
            (magic, body.map(<[u8]>::to_vec).unwrap_or_default())
        })?;
        let number = u32::try_from(self.links).unwrap_or(u32::MAX);
        self.core.tell(|| Step::Link {
            body,
            number,
            magic,
        });
        Ok(())
    }

    /// Moves the access time of the link stood at. A failure does not matter to the walk.
    fn touch_link(&self, now: Timespec) -> Result<(), WalkError> {
        if self.core.is_told() {
            self.core.tell(|| Step::Skipped(SkippedChange::TouchLink));
            return Ok(());
        }
        let Some(mount) = self
            .held()
            .and_then(|pin| self.dcache().store.mount_payload(pin))
        else {
            return Err(self.restart(Reason::NamesChanged));
        };
        let flags = self.at_mount;
        let _noted = self.with_inode(|inode| atime::touch(inode, &mount.sb, flags, now))?;
        Ok(())
    }

    /// From a link back to the directory it is in, where its body begins.
    fn back_to_parent(&mut self) -> Result<(), WalkError> {
        let dcache = self.dcache();
        let parent = dcache.at(self.at.dentry).parent.get();
        let at = super::PathIds {
            mount: self.at.mount,
            dentry: parent,
        };
        let sample = dcache.at(parent).word().sample();
        // Unchanged since it was found: its parent is the directory it was found in.
        if !dcache
            .at(self.at.dentry)
            .word()
            .is_unchanged(self.at_dentry)
            || !sample.is_steady()
        {
            return Err(self.restart(Reason::NamesChanged));
        }
        if self.fast {
            self.go(at, self.at_mount, sample, None);
            return Ok(());
        }
        self.stand_pinned(at)
    }

    /// Follows a magic link: straight to where it leads (`nd_jump_link`).
    ///
    /// # Errors
    /// What the link's backend meets; `ELOOP` (magic links not wanted), `EXDEV` (scoped, or to
    /// another mount that must not be entered).
    fn jump(&mut self, text: &mut WalkText<'_>, rest: usize) -> Result<(), WalkError> {
        self.may_wait(Reason::Magic)?;
        self.unlazy(Reason::Magic)?;
        let target = self.with_inode(|inode| inode.shielded(|ops| ops.jump(inode)))??;
        if self.wants(lflag::NO_MAGICLINKS) {
            return Err(self.refuse(Check::MagicUnwanted, Errno::ELOOP));
        }
        let to = target.path_ids();
        let leaves = self.wants(lflag::NO_XDEV) && to.mount != self.at.mount;
        if leaves || self.flags & lflag::SCOPED != 0 || !target.is_of(&self.core.vfs) {
            return Err(self.refuse(Check::MountBoundary, Errno::EXDEV));
        }
        self.stand_pinned(to)?;
        text.drop_to(self.core, rest);
        Ok(())
    }
}
