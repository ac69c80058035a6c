// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives a file that replaces another one that file's group and access control list, in a mount
//! whose user sees neither ([`OnlyUser`]).
//!
//! A program that replaces a file gives the new one group and list of the old one. Here it cannot
//! see them, so the server does it.
//!
//! # Rules
//! R1. A new file that the program gave an owner, or the mode of the replaced file, gets the group
//!     of that file if the user is in it. It gets that file's list instead of one that it inherited
//!     from the directory.
//! R2. chown(2) to the one group that all files seem to have leaves the group as it is.
//! R3. Nobody gets more than before. Group and list are given only if the replaced file showed all
//!     group and set-id bits of the new one. With a list, these group bits are the mask, so the
//!     list is set before the group. A file with the set-group-ID bit gets no other group.
//! R4. A name that a file left shortly before counts as replaced as well: some programs rename the
//!     old file to a backup before they make the new one.
//! R5. Group and list belong to the name. A file with several names gets neither. A file that gets
//!     another name loses both, also if it would have got them later (R4).
//! R6. Before a change of mode that adds bits against R3, both are taken back. The file then has
//!     the group and the list that it was made with.
//!
//! The kernel holds the inode's lock during rename(2), link(2) and chmod(2), so that none of them
//! changes a file between a check here and its effect.

use crate::fs::{AttrChange, FuseFs, Name, attr_of};
use crate::left_names::{HiddenAccess, Inherited};
use crate::nodes::GivenAttrs;
use crate::options::OnlyUser;
use crate::worker::Worker;
use openpath_abi::fcntl::{AT_EMPTY_PATH, O_CLOEXEC, O_NOFOLLOW, O_PATH};
use openpath_abi::mode::{S_IALLUGO, S_IRWXUGO, S_ISGID, S_ISUID, is_reg};
use openpath_abi::{Errno, Statx, XattrFlags};
use openpath_vfs::{Acl, AclEntry, AclKind, AclTag, Fd};

/// The bits that a replaced file must have shown: they decide what its group and the users of its
/// list may do.
const DECIDING: u32 = 0o070 | S_ISUID | S_ISGID;

impl OnlyUser {
    /// A change with the ids that it has an effect on (R2).
    fn without_group(&self, change: &AttrChange) -> AttrChange {
        let ids = change.uid.is_some() || change.gid.is_some();
        AttrChange {
            uid: ids.then_some(self.uid),
            gid: None,
            ..*change
        }
    }
}

/// The list that says what a mode says.
fn plain(mode: u32) -> Acl {
    let entry = |tag, shift: u32| AclEntry {
        tag,
        perm: (mode >> shift & 7) as u16,
    };
    Acl::new(vec![
        entry(AclTag::UserObj, 6),
        entry(AclTag::GroupObj, 3),
        entry(AclTag::Other, 0),
    ])
}

/// Whether a mode grants nothing that the bits of the replaced file did not.
fn grants_no_more(mode: u32, was: u32) -> bool {
    mode & DECIDING & !was == 0
}

impl FuseFs {
    pub(crate) fn effective_change(&self, change: &AttrChange) -> AttrChange {
        match &self.only {
            Some(only) => only.without_group(change),
            None => *change,
        }
    }

    /// The file at a descriptor, if it is regular.
    ///
    /// # Errors
    /// Those of asking for it.
    fn unseen(&self, w: &Worker, path_fd: Fd, attr: &Statx) -> Result<Option<HiddenAccess>, Errno> {
        if !is_reg(u32::from(attr.mode)) {
            return Ok(None);
        }
        let shown = self.present(&w.task, path_fd, *attr);
        // The set-user-ID bit of another user gave other rights.
        let lost = if shown.uid == attr.uid { 0 } else { S_ISUID };
        Ok(Some(HiddenAccess {
            gid: attr.gid,
            acl: list_of(w, path_fd)?,
            mode: u32::from(shown.mode) & S_IALLUGO & !lost,
        }))
    }

    /// Remembers that a name is about to go (R4); a failure costs the memory alone.
    pub(crate) fn remember_name(&self, w: &Worker, (parent, name): Name<'_>) {
        if self.only.is_none() {
            return;
        }
        let remember = |path_fd| {
            let attr = attr_of(w, path_fd)?;
            let known = self.nodes.number_of(&w.task, path_fd, &attr)?;
            if known.is_some_and(|number| self.nodes.given(number).is_some()) {
                return Ok(());
            }
            if let Some(was) = self.unseen(w, path_fd, &attr)? {
                self.nodes.name_left((parent, name), was);
            }
            Ok(())
        };
        let dir = self.nodes.path_fd(parent);
        let _not_remembered = dir.and_then(|dir| with_name(w, (dir, name), remember));
    }

    /// A regular file was made, with this name if it has one.
    pub(crate) fn file_made(&self, number: u64, name: Option<Name<'_>>) {
        if self.only.is_some() {
            self.nodes.file_made(number, name);
        }
    }

    /// A program changed the attributes of a file (R4).
    ///
    /// # Errors
    /// Those of giving it what the file before it had.
    pub(crate) fn attributes_given(
        &self,
        w: &Worker,
        (number, path_fd): (u64, Fd),
        change: &AttrChange,
    ) -> Result<(), Errno> {
        let gives = GivenAttrs {
            owner: change.uid.is_some(),
            mode: change.mode.is_some(),
        };
        if self.only.is_none() || gives == GivenAttrs::default() {
            return Ok(());
        }
        let Some(given) = self.nodes.give(number, gives) else {
            return Ok(());
        };
        match self.nodes.left_behind(number) {
            Some(was) => self.succeed(w, (number, path_fd), given, &was).map(drop),
            None => Ok(()),
        }
    }

    /// A file is about to get this mode (R6).
    ///
    /// # Errors
    /// Those of [`FuseFs::take_back`].
    pub(crate) fn mode_to_change(
        &self,
        w: &Worker,
        (number, path_fd): (u64, Fd),
        mode: u32,
    ) -> Result<(), Errno> {
        match self.inherited(number) {
            Some(before) if !grants_no_more(mode, before.allowed) => {
                self.restore(w, (number, path_fd), &before)
            }
            _ => Ok(()),
        }
    }

    /// A file is about to get another name (R5).
    ///
    /// # Errors
    /// Those of [`FuseFs::take_back`].
    pub(crate) fn name_to_change(
        &self,
        w: &Worker,
        (number, path_fd): (u64, Fd),
    ) -> Result<(), Errno> {
        if self.only.is_none() || self.nodes.given(number).is_none() {
            return Ok(());
        }
        match self.inherited(number) {
            Some(before) => self.restore(w, (number, path_fd), &before),
            None => {
                self.nodes.disinherit(number);
                Ok(())
            }
        }
    }

    /// The files with these names are about to get others; a name without a file is skipped (R5).
    ///
    /// # Errors
    /// Those of [`FuseFs::take_back`].
    pub(crate) fn names_to_change(&self, w: &Worker, names: &[(Fd, &[u8])]) -> Result<(), Errno> {
        if self.only.is_none() {
            return Ok(());
        }
        for name in names {
            let change = |path_fd| {
                let attr = attr_of(w, path_fd)?;
                match self.nodes.number_of(&w.task, path_fd, &attr)? {
                    Some(number) => self.name_to_change(w, (number, path_fd)),
                    None => Ok(()),
                }
            };
            match with_name(w, *name, change) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn inherited(&self, number: u64) -> Option<Inherited> {
        self.only
            .as_ref()
            .and_then(|_| self.nodes.inherited(number))
    }

    /// Takes back what a file got of a replaced one.
    ///
    /// # Errors
    /// Those of the calls that give the file what it had before.
    pub(crate) fn take_back(&self, w: &Worker, number: u64) -> Result<(), Errno> {
        match self.inherited(number) {
            Some(before) => self.restore(w, (number, self.nodes.path_fd(number)?), &before),
            None => Ok(()),
        }
    }

    fn restore(
        &self,
        w: &Worker,
        (number, path_fd): (u64, Fd),
        before: &Inherited,
    ) -> Result<(), Errno> {
        // Without its list the group of the replaced file would get the mask.
        set_group(w, path_fd, before.gid)?;
        set_list(w, path_fd, before.acl.as_ref())?;
        self.nodes.disinherit(number);
        Ok(())
    }

    /// A file is about to get a name that another file has, or had (R1). Returns its number if it
    /// got something, which is to be taken back if it does not get the name.
    ///
    /// # Errors
    /// Those of the calls that give it what the other had.
    pub(crate) fn give_of_replaced(
        &self,
        w: &Worker,
        from: (Fd, &[u8]),
        (dir, (parent, name)): (Fd, Name<'_>),
    ) -> Result<Option<u64>, Errno> {
        if self.only.is_none() {
            return Ok(None);
        }
        let left = self.nodes.take_left_name((parent, name));
        let target = |path_fd| {
            let attr = attr_of(w, path_fd)?;
            self.unseen(w, path_fd, &attr)
        };
        with_name(w, from, |path_fd| {
            let attr = attr_of(w, path_fd)?;
            let number = self.nodes.number_of(&w.task, path_fd, &attr)?;
            let Some(number) = number else {
                return Ok(None);
            };
            self.name_to_change(w, (number, path_fd))?;
            let given = self.nodes.given(number);
            let Some(given) = given.filter(|given| *given != GivenAttrs::default()) else {
                return Ok(None);
            };
            let was = match with_name(w, (dir, name), target) {
                Err(Errno::ENOENT) => left,
                was => was?,
            };
            let Some(was) = was else {
                return Ok(None);
            };
            let gets = self.succeed(w, (number, path_fd), given, &was)?;
            Ok(gets.then_some(number))
        })
    }

    /// Gives a new file what a replaced one had (R1, R3, R5); whether it got something.
    fn succeed(
        &self,
        w: &Worker,
        (number, path_fd): (u64, Fd),
        given: GivenAttrs,
        was: &HiddenAccess,
    ) -> Result<bool, Errno> {
        let Some(only) = &self.only else {
            return Ok(false);
        };
        let attr = attr_of(w, path_fd)?;
        let mode = u32::from(attr.mode) & S_IALLUGO;
        let same_mode = given.mode && (mode ^ was.mode) & S_IRWXUGO == 0;
        let other_group = was.gid != attr.gid;
        let allowed = was.mode & if other_group { !S_ISGID } else { !0 };
        if !(given.owner || same_mode) || !grants_no_more(mode, allowed) || attr.nlink != 1 {
            return Ok(false);
        }
        let member = was.gid == only.gid || only.groups.contains(&was.gid);
        let (gid, acl) = (attr.gid, list_of(w, path_fd)?);
        let (gets_group, gets_list) = (other_group && member, acl != was.acl);
        if !(gets_group || gets_list) {
            return Ok(false);
        }
        let before = Inherited { gid, acl, allowed };
        self.nodes.inherit(number, before);
        let mut done = Ok(());
        if gets_list {
            done = set_list(w, path_fd, was.acl.as_ref());
        }
        if gets_group && done.is_ok() {
            done = set_group(w, path_fd, was.gid);
        }
        match done {
            Ok(()) => Ok(true),
            Err(why) => self.take_back(w, number).and(Err(why)),
        }
    }
}

/// Gives a file a group. The set-group-ID bit, which chown(2) clears, does not pass to it.
///
/// # Errors
/// Those of the calls.
fn set_group(w: &Worker, path_fd: Fd, gid: u32) -> Result<(), Errno> {
    let (attr, flags) = (attr_of(w, path_fd)?, AT_EMPTY_PATH);
    if attr.gid == gid {
        return Ok(());
    }
    w.task.fchownat(path_fd, b"", u32::MAX, gid, flags)?;
    let mode = u32::from(attr.mode) & S_IALLUGO & !S_ISGID;
    if mode & S_ISUID == 0 {
        return Ok(());
    }
    w.task.fchmodat2(path_fd, b"", mode, flags)
}

/// Gives a file an access control list, or none, with the bits of its mode.
///
/// # Errors
/// Those of the calls.
fn set_list(w: &Worker, path_fd: Fd, acl: Option<&Acl>) -> Result<(), Errno> {
    if list_of(w, path_fd)?.as_ref() == acl {
        return Ok(());
    }
    let mode = u32::from(attr_of(w, path_fd)?.mode);
    let list = acl.map(|acl| acl.after_chmod(mode));
    let list = list.unwrap_or_else(|| plain(mode)).encode();
    let (name, flags) = (AclKind::Access.name(), AT_EMPTY_PATH);
    w.task
        .setxattrat(path_fd, b"", flags, name, &list, XattrFlags::empty())
}

/// The access control list of a file.
///
/// # Errors
/// Those of asking for it.
fn list_of(w: &Worker, path_fd: Fd) -> Result<Option<Acl>, Errno> {
    let name = AclKind::Access.name();
    match w.task.getxattrat(path_fd, b"", AT_EMPTY_PATH, name) {
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
        value => Acl::parse(&value?),
    }
}

/// Runs `work` with an `O_PATH` descriptor of a name.
///
/// # Errors
/// Those of opening it, and of `work`.
fn with_name<T>(
    w: &Worker,
    (dir, name): (Fd, &[u8]),
    work: impl FnOnce(Fd) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let path_fd = w
        .task
        .openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0)?;
    let done = work(path_fd);
    let closed = w.task.close(path_fd);
    let done = done?;
    closed?;
    Ok(done)
}

#[cfg(test)]
mod tests;
