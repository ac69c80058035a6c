// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about names and attributes.

use super::{Asked, Clerk, entry_for, fd_of, handle_of, shown};
use crate::stats::Request as Kind;
use crate::view::{Change, Entry};
use crate::wire::attributes::{Holds, attributes, no_entry, statfs, statx};
use crate::wire::numbers::FOPEN_KEEP_CACHE;
use crate::wire::request::Setattr;
use openpath_abi::Errno;
use openpath_abi::mode::{S_IFDIR, S_IFMT};
use openpath_vfs::Fd;
use std::time::Duration;

type Done = Result<(), Errno>;

impl Clerk {
    pub(super) fn lookup(&self, asked: &mut Asked<'_>, name: &[u8]) -> Done {
        self.count(Kind::Lookup);
        let place = (asked.node(), name);
        let found = self.view.lookup(asked.w, place);
        let keep = self.view.may_keep(asked.w, asked.by(), place, &found);
        if matches!(found, Err(Errno::ENOENT)) {
            self.count(Kind::Absent);
            if keep && !self.negative_timeout.is_zero() {
                no_entry(&mut asked.answer, self.negative_timeout);
                return Ok(());
            }
        }
        let names = if keep {
            self.holds.name
        } else {
            Duration::ZERO
        };
        let holds = Holds {
            name: names,
            ..self.holds
        };
        entry_for(asked, found, holds)
    }

    pub(super) fn getattr(&self, asked: &mut Asked<'_>) -> Done {
        self.count(Kind::Getattr);
        let node = asked.node();
        self.view.looks_at(asked.w, asked.by(), node);
        let attr = self.view.attributes(asked.w, node)?;
        attributes(
            &mut asked.answer,
            &shown(node, &attr),
            self.holds.attributes,
        );
        Ok(())
    }

    pub(super) fn statx(&self, asked: &mut Asked<'_>) -> Done {
        self.count(Kind::Getattr);
        let node = asked.node();
        self.view.looks_at(asked.w, asked.by(), node);
        let attr = self.view.birth(asked.w, node)?;
        statx(
            &mut asked.answer,
            &shown(node, &attr),
            self.holds.attributes,
        );
        Ok(())
    }

    pub(super) fn setattr(&self, asked: &mut Asked<'_>, wanted: &Setattr) -> Done {
        self.count(Kind::Setattr);
        let node = asked.node();
        let who = match wanted.size {
            None => asked.owner(),
            Some(_) if self.terms.says_what_strips() => asked.changer(wanted.strips),
            Some(_) => asked.guessed(),
        };
        let change = Change {
            mode: wanted.mode,
            uid: wanted.uid,
            gid: wanted.gid,
            size: wanted.size,
            times: wanted.times,
            by_descriptor: wanted.handle.is_some(),
            fd: wanted.handle.and_then(fd_of),
        };
        let attr = self.view.change(asked.w, who, node, &change)?;
        attributes(
            &mut asked.answer,
            &shown(node, &attr),
            self.holds.attributes,
        );
        Ok(())
    }

    pub(super) fn readlink(&self, asked: &mut Asked<'_>) -> Done {
        self.count(Kind::Readlink);
        let body = self.view.readlink(asked.w, asked.node())?;
        asked.answer.bytes(&body);
        Ok(())
    }

    /// `mode` comes with the umask, which a default access control list takes the place of.
    pub(super) fn mknod(
        &self,
        asked: &mut Asked<'_>,
        name: &[u8],
        (mode, umask): (u32, u32),
        rdev: u32,
    ) -> Done {
        self.count(Kind::Make);
        asked.w.task.umask(umask);
        let (who, place) = (asked.owner(), (asked.node(), name));
        let made = self.view.make(asked.w, who, place, mode, rdev.into());
        entry_for(asked, made, self.holds)
    }

    pub(super) fn mkdir(
        &self,
        asked: &mut Asked<'_>,
        name: &[u8],
        (mode, umask): (u32, u32),
    ) -> Done {
        self.mknod(asked, name, (mode & !S_IFMT | S_IFDIR, umask), 0)
    }

    pub(super) fn symlink(&self, asked: &mut Asked<'_>, name: &[u8], target: &[u8]) -> Done {
        self.count(Kind::Make);
        let (who, place) = (asked.owner(), (asked.node(), name));
        let made = self.view.symlink(asked.w, who, place, target);
        entry_for(asked, made, self.holds)
    }

    pub(super) fn remove(&self, asked: &mut Asked<'_>, name: &[u8], is_dir: bool) -> Done {
        self.count(Kind::Remove);
        let place = (asked.node(), name);
        self.view.remove(asked.w, place, is_dir)
    }

    pub(super) fn rename(
        &self,
        asked: &mut Asked<'_>,
        name: &[u8],
        to: (u64, &[u8]),
        flags: u32,
    ) -> Done {
        self.count(Kind::Rename);
        let (who, from) = (asked.owner(), (asked.node(), name));
        self.view.rename(asked.w, who, from, to, flags)
    }

    pub(super) fn link(&self, asked: &mut Asked<'_>, node: u64, name: &[u8]) -> Done {
        self.count(Kind::Link);
        let place = (asked.node(), name);
        let linked = self.view.link(asked.w, node, place);
        entry_for(asked, linked, self.holds)
    }

    pub(super) fn create(
        &self,
        asked: &mut Asked<'_>,
        name: &[u8],
        (mode, umask): (u32, u32),
        flags: u32,
    ) -> Done {
        self.count(Kind::Create);
        asked.w.task.umask(umask);
        let (who, place) = (asked.owner(), (asked.node(), name));
        let (by, seen) = (asked.by(), (place.0, Some(name)));
        let made = self.view.seen(asked.w, by, seen, flags, |w| {
            self.view.create(w, who, place, mode, flags)
        });
        self.created(asked, made)
    }

    pub(super) fn tmpfile(
        &self,
        asked: &mut Asked<'_>,
        (mode, umask): (u32, u32),
        flags: u32,
    ) -> Done {
        self.count(Kind::Create);
        asked.w.task.umask(umask);
        let (who, dir) = (asked.owner(), asked.node());
        let by = asked.by();
        let made = self.view.seen(asked.w, by, (dir, None), flags, |w| {
            self.view.unnamed(w, who, dir, mode, flags)
        });
        self.created(asked, made)
    }

    /// Answers with an entry that is open.
    fn created(&self, asked: &mut Asked<'_>, made: Result<(Entry, Option<Fd>), Errno>) -> Done {
        let (entry, fd) = made?;
        entry_for(asked, Ok(entry), self.holds)?;
        super::opened(asked, handle_of(fd), FOPEN_KEEP_CACHE);
        Ok(())
    }

    pub(super) fn statfs(&self, asked: &mut Asked<'_>) -> Done {
        self.count(Kind::Statfs);
        let figures = self.view.figures(asked.w, asked.node())?;
        statfs(&mut asked.answer, &figures);
        Ok(())
    }

    pub(super) fn setxattr(
        &self,
        asked: &mut Asked<'_>,
        name: &[u8],
        value: &[u8],
        (flags, strips): (u32, bool),
    ) -> Done {
        self.count(Kind::Attribute);
        let node = asked.node();
        let who = asked.changer(strips);
        asked.w.act_for(who);
        self.view.setxattr(asked.w, node, name, value, flags)
    }

    pub(super) fn getxattr(&self, asked: &mut Asked<'_>, name: &[u8], room: u32) -> Done {
        self.count(Kind::Attribute);
        let value = self.view.getxattr(asked.w, asked.node(), name)?;
        sized(asked, &value, room)
    }

    pub(super) fn listxattr(&self, asked: &mut Asked<'_>, room: u32) -> Done {
        self.count(Kind::Attribute);
        let names = self.view.listxattr(asked.w, asked.node())?;
        sized(asked, &names, room)
    }

    pub(super) fn removexattr(&self, asked: &mut Asked<'_>, name: &[u8]) -> Done {
        self.count(Kind::Attribute);
        // Divergence: L121.
        let who = asked.owner();
        asked.w.act_for(who);
        self.view.removexattr(asked.w, asked.node(), name)
    }
}

/// Answers with a value, or its size if that is what is asked for.
fn sized(asked: &mut Asked<'_>, value: &[u8], room: u32) -> Done {
    if room == 0 {
        asked.answer.u32(value.len() as u32);
        asked.answer.u32(0);
    } else if value.len() > room as usize {
        return Err(Errno::ERANGE);
    } else {
        asked.answer.bytes(value);
    }
    Ok(())
}
