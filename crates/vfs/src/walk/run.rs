// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks a whole path, or all but its last component: loops over the components (`link_path_walk`),
//! and takes and checks the step into the last one.

use super::plain::{self, PlainResult};
use super::{Last, LastKind, Mode, PathIds, Walk, WalkError, WalkText, lflag, retry};
use crate::file::PathStart;
use crate::name::component_end;
use crate::object::dflag;
use crate::perm;
use crate::steps::{Check, Step};
use crate::task::Core;
use crate::tenant::count;
use openpath_abi::Errno;
use openpath_sync::{Pin, Sample};

/// A component the walk stands before.
pub(super) enum NextComponent {
    /// The last one.
    Last(Last),
    /// A link to be followed before the rest, which begins at this offset.
    Link { rest: usize },
}

impl<'w> Walk<'w> {
    /// Goes over all components but the last, following links (`link_path_walk`).
    ///
    /// # Errors
    /// In order for each component: `EACCES` (search), then those of the step into it; `ENOTDIR` if
    /// more follows.
    #[inline(always)]
    pub(crate) fn walk_to_last(&mut self, text: &mut WalkText<'_>) -> Result<Last, WalkError> {
        loop {
            match self.run(text.bytes())? {
                NextComponent::Last(last) => return Ok(last),
                NextComponent::Link { rest } => self.follow(text, rest)?,
            }
        }
    }

    /// Goes over `text` up to its last component or the next link.
    #[inline(always)]
    fn run(&mut self, text: &[u8]) -> Result<NextComponent, WalkError> {
        let mut pos = 0;
        while text.get(pos) == Some(&b'/') {
            pos += 1;
        }
        if pos == text.len() {
            let kind = LastKind::Root;
            return Ok(NextComponent::Last(Last {
                kind,
                start: pos,
                end: pos,
                slash: false,
            }));
        }
        loop {
            if self.at_dentry.has(dflag::SLOW_SEARCH) {
                self.may_search()?;
            }
            let (start, end) = (pos, component_end(text, pos));
            let kind = match &text[start..end] {
                b"." => LastKind::Dot,
                b".." => LastKind::DotDot,
                _ => LastKind::Norm,
            };
            pos = end;
            while text.get(pos) == Some(&b'/') {
                pos += 1;
            }
            if pos == text.len() {
                return Ok(NextComponent::Last(Last {
                    kind,
                    start,
                    end,
                    slash: end != pos,
                }));
            }
            match kind {
                LastKind::Norm => {
                    self.step(text, start, end)?;
                    if self.at_dentry.has(dflag::LINK) {
                        return Ok(NextComponent::Link { rest: pos });
                    }
                }
                LastKind::DotDot => self.dotdot()?,
                LastKind::Dot | LastKind::Root => {}
            }
            if !self.at_dir() {
                return Err(self.sure(Check::NotDirectory, Errno::ENOTDIR));
            }
        }
    }

    /// Whether the directory stood at may be searched (`may_lookup`); asked when not everyone may.
    #[cold]
    pub(crate) fn may_search(&mut self) -> Result<(), WalkError> {
        if self.at_dentry.has(dflag::CONFIRM) {
            self.refresh()?;
        }
        let cred = self.core.cred();
        let allowed = self.with_inode(|inode| {
            self.core.tell_permission(inode, perm::MAY_EXEC);
            perm::generic_permission(&cred, inode, perm::MAY_EXEC)
        })?;
        allowed.map_err(|errno| self.sure(Check::Search, errno))
    }

    /// Checks the end of the walk against its flags; tells of it.
    ///
    /// # Errors
    /// `ENOTDIR`.
    fn check_end(&self, pin: &Pin, sample: Sample) -> Result<(), Errno> {
        if self.wants(lflag::DIRECTORY) && sample.has(dflag::NOT_DIR) {
            return Err(self.core.refused(Check::WantsDirectory, Errno::ENOTDIR));
        }
        self.core.tell_place(PathIds::of(pin), Step::End);
        Ok(())
    }

    /// Goes into the last component, and follows it if it is a link to be followed (`lookup_last`).
    ///
    /// # Errors
    /// As for the components before it.
    #[inline(always)]
    fn enter_last(&mut self, text: &mut WalkText<'_>) -> Result<(), WalkError> {
        let mut last = self.walk_to_last(text)?;
        while self.step_last(text, &last)? {
            self.follow_last(text)?;
            last = self.walk_to_last(text)?;
        }
        Ok(())
    }

    /// Goes into one last component; whether it is a link to be followed.
    #[inline(always)]
    pub(crate) fn step_last(
        &mut self,
        text: &WalkText<'_>,
        last: &Last,
    ) -> Result<bool, WalkError> {
        if last.slash {
            self.flags |= lflag::FOLLOW | lflag::DIRECTORY;
        }
        match last.kind {
            LastKind::Norm => {
                self.step(text.bytes(), last.start, last.end)?;
                Ok(self.at_dentry.has(dflag::LINK) && self.wants(lflag::FOLLOW))
            }
            LastKind::DotDot => self.dotdot().map(|()| false),
            LastKind::Dot | LastKind::Root => Ok(false),
        }
    }
}

/// Walks `path` to its end and pins what is there (`filename_lookup`).
///
/// # Errors
/// Those of the walk.
#[inline(always)]
pub(crate) fn lookup(
    core: &Core,
    at: PathStart<'_>,
    path: &[u8],
    flags: u32,
) -> Result<(Pin, Sample), Errno> {
    match plain::walk(core, at, path, flags) {
        PlainResult::Absent => {
            core.count(count::NEGATIVE_HITS);
            return Err(Errno::ENOENT);
        }
        PlainResult::End(end) => {
            if flags & lflag::DIRECTORY != 0 && end.dentry.has(dflag::NOT_DIR) {
                core.count(count::HITS);
                return Err(Errno::ENOTDIR);
            }
            // Without the pin the walk begins again, and counts for itself.
            if let Some(pin) = end.pin(core) {
                core.count(count::HITS);
                return Ok((pin, end.dentry));
            }
        }
        PlainResult::Leave => {}
    }
    retry::climb(core, flags, |mode| lookup_once(core, at, path, flags, mode))
}

/// One attempt at [`lookup`].
pub(crate) fn lookup_once(
    core: &Core,
    at: PathStart<'_>,
    path: &[u8],
    flags: u32,
    mode: Mode,
) -> Result<(Pin, Sample), WalkError> {
    let mut walk = Walk::begin(core, at, path, flags, mode)?;
    let mut text = WalkText::new(path);
    let end = if path.is_empty() {
        Ok(())
    } else {
        walk.enter_last(&mut text)
    };
    text.done(core);
    end?;
    if walk.wants(lflag::MOUNTPOINT) {
        walk.cross_mounts()?;
    }
    let (pin, sample) = walk.complete()?;
    if walk.flags & (lflag::DIRECTORY | lflag::TOLD) != 0
        && let Err(errno) = walk.check_end(&pin, sample)
    {
        core.pins.release(pin);
        return Err(errno.into());
    }
    Ok((pin, sample))
}

/// Walks to the directory that holds the last component of `path`, and pins it
/// (`filename_parentat`). Returns the pin, the last component and its name.
///
/// # Errors
/// Those of the walk.
pub(crate) fn lookup_parent(
    core: &Core,
    at: PathStart<'_>,
    path: &[u8],
    flags: u32,
) -> Result<(Pin, Last, Vec<u8>), Errno> {
    retry::climb(core, flags, |mode| {
        let mut walk = Walk::begin(core, at, path, flags, mode)?;
        let mut text = WalkText::new(path);
        let found = walk.walk_to_last(&mut text);
        let found = found.map(|last| (text.name(&last).to_vec(), last));
        text.done(core);
        let (name, last) = found?;
        if !walk.at_dir() {
            return Err(walk.sure(Check::NotDirectory, Errno::ENOTDIR));
        }
        let (pin, _) = walk.complete()?;
        Ok((pin, last, name))
    })
}
