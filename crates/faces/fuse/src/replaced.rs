// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that replace others, where the user sees neither groups nor access control lists
//! ([`OnlyUser`]).
//!
//! A program that replaces a file gives the new one group and list of the old one. Here it cannot
//! see them, so the server does it.
//!
//! # Rules
//! R1. A new file that the program gave an owner, or the mode of the replaced file, gets the group
//!     of the replaced file if the user is in it, and its list instead of an inherited one.
//! R2. chown(2) to the one group that all files seem to have leaves the group as it is.
//! R3. A list is given only if the new file's group bits grant no more than those that the replaced
//!     file showed, so that it gives nobody more than before.
//! R4. A name that a file left shortly before counts as replaced as well, with the condition of R3
//!     for the group: some programs rename the old file to a backup before they make the new one.

use crate::fs::{AttrChange, FuseFs, Name, attr_of};
use crate::left_names::HiddenAccess;
use crate::nodes::GivenAttrs;
use crate::options::OnlyUser;
use crate::worker::Worker;
use openpath_abi::fcntl::{AT_EMPTY_PATH, O_CLOEXEC, O_NOFOLLOW, O_PATH};
use openpath_abi::mode::{S_IALLUGO, S_IRWXUGO, S_ISGID, S_ISUID, is_reg};
use openpath_abi::{Errno, Statx, XattrFlags};
use openpath_vfs::{Acl, AclEntry, AclKind, AclTag, Fd};

/// The group bits of a mode.
const GROUP: u32 = 0o070;

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

/// Whether group bits grant nothing that those of the replaced file did not.
fn grants_no_more(mode: u32, was: &HiddenAccess) -> bool {
    mode & GROUP & !was.mode == 0
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
        Ok(Some(HiddenAccess {
            gid: attr.gid,
            acl: list_of(w, path_fd)?,
            mode: u32::from(shown.mode) & S_IRWXUGO,
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
            Some(was) => self.succeed(w, path_fd, given, &was, false),
            None => Ok(()),
        }
    }

    /// A file is about to get a name that another file has, or had (R1).
    ///
    /// # Errors
    /// Those of the calls that give it what the other had.
    pub(crate) fn give_of_replaced(
        &self,
        w: &Worker,
        from: (Fd, &[u8]),
        (dir, (parent, name)): (Fd, Name<'_>),
    ) -> Result<(), Errno> {
        if self.only.is_none() {
            return Ok(());
        }
        let left = self.nodes.take_left_name((parent, name));
        let target = |path_fd| {
            let attr = attr_of(w, path_fd)?;
            self.unseen(w, path_fd, &attr)
        };
        with_name(w, from, |path_fd| {
            let attr = attr_of(w, path_fd)?;
            let number = self.nodes.number_of(&w.task, path_fd, &attr)?;
            let given = number.and_then(|number| self.nodes.given(number));
            let Some(given) = given.filter(|given| *given != GivenAttrs::default()) else {
                return Ok(());
            };
            let (was, is_there) = match with_name(w, (dir, name), target) {
                Ok(was) => (was, true),
                Err(Errno::ENOENT) => (left, false),
                Err(why) => return Err(why),
            };
            match was {
                Some(was) => self.succeed(w, path_fd, given, &was, is_there),
                None => Ok(()),
            }
        })
    }

    /// Gives a new file what a replaced one had (R1, R3).
    fn succeed(
        &self,
        w: &Worker,
        path_fd: Fd,
        given: GivenAttrs,
        was: &HiddenAccess,
        is_there: bool,
    ) -> Result<(), Errno> {
        let Some(only) = &self.only else {
            return Ok(());
        };
        let attr = attr_of(w, path_fd)?;
        let mode = u32::from(attr.mode) & S_IALLUGO;
        let same_mode = given.mode && mode & S_IRWXUGO == was.mode;
        let no_more = grants_no_more(mode, was);
        if !(given.owner || same_mode) || !(is_there || no_more) {
            return Ok(());
        }
        let member = was.gid == only.gid || only.groups.contains(&was.gid);
        if was.gid != attr.gid && member {
            let (uid, flags) = (u32::MAX, AT_EMPTY_PATH);
            w.task.fchownat(path_fd, b"", uid, was.gid, flags)?;
            if mode & (S_ISUID | S_ISGID) != 0 {
                w.task.fchmodat2(path_fd, b"", mode, flags)?;
            }
        }
        if no_more && list_of(w, path_fd)? != was.acl {
            let list = was.acl.as_ref().map(|acl| acl.after_chmod(mode));
            let list = list.unwrap_or_else(|| plain(mode)).encode();
            let name = AclKind::Access.name();
            let flags = AT_EMPTY_PATH;
            w.task
                .setxattrat(path_fd, b"", flags, name, &list, XattrFlags::empty())?;
        }
        Ok(())
    }
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
