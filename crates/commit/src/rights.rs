// SPDX-License-Identifier: MIT OR Apache-2.0
//! What would keep a commit from being carried out, found before its first step.

use crate::choice::Choice;
use crate::facts::{Attributes, Facts};
use crate::held::Held;
use crate::journal::{Act, Journal, Move};
use crate::lists;
use crate::messages::{failed, text};
use crate::names::{join, split};
use crate::refusal::Refusal;
use crate::scan::Scan;
use crate::tree::Tree;
use openpath_abi::mode::{S_IRUSR, S_ISGID, S_ISVTX};
use rustix::fd::OwnedFd;
use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};

/// Looks at everything that is to be done.
pub(crate) struct Rights<'a> {
    base: &'a Tree,
    journal: &'a Journal,
    uid: u32,
    groups: HashSet<u32>,
    /// Bytes that are needed, by file system: of which path, and how many.
    room: HashMap<(u32, u32), (Vec<u8>, u64)>,
    /// The file system of the view.
    view: (u32, u32),
    /// It keeps access control lists.
    view_lists: bool,
}

impl<'a> Rights<'a> {
    /// Refuses what cannot be done.
    pub(crate) fn check(
        base: &'a Tree,
        upper: &Tree,
        journal: &'a Journal,
        scan: &Scan,
        choice: &Choice,
    ) -> Result<(), Refusal> {
        let facts = upper.look(b"").map_err(|why| failed(b"/", why))?;
        let groups = rustix::process::getgroups().unwrap_or_default();
        let mut groups: HashSet<u32> = groups.into_iter().map(|gid| gid.as_raw()).collect();
        groups.insert(rustix::process::getegid().as_raw());
        let mut rights = Rights {
            base,
            journal,
            uid: rustix::process::geteuid().as_raw(),
            groups,
            room: HashMap::new(),
            view: facts.map_or((0, 0), |facts| facts.device),
            view_lists: keeps_lists(upper, b"")?,
        };
        for act in &journal.acts {
            rights.act(act)?;
        }
        for moved in &journal.moves {
            for path in [&moved.from, &moved.stage] {
                rights.dir(split(path).0)?;
            }
            rights.moves(moved)?;
        }
        for touch in &journal.touches {
            rights.touch(&touch.path, &touch.before, &touch.after)?;
            rights.lists(&touch.path, &touch.place, &touch.after)?;
        }
        let items = |act: &'a Act| act.items.iter().map(|item| (item, split(&act.before).0));
        let made: HashMap<&Vec<u8>, &[u8]> = journal.acts.iter().flat_map(items).collect();
        for (at, entry) in scan.entries.iter().enumerate() {
            if let Some(dir) = made.get(&entry.path).filter(|_| choice.goes(at)) {
                let given = rights.given(dir)?;
                rights.owner(&entry.path, &entry.noted.attributes, given)?;
                rights.lists(&entry.path, dir, &entry.noted.attributes)?;
            }
        }
        rights.sizes(upper)
    }

    fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn act(&mut self, act: &Act) -> Result<(), Refusal> {
        if act.before.is_empty() {
            return Ok(());
        }
        let name = split(&act.path).1;
        let dir = split(&act.before).0;
        if act.items.is_empty() && act.new.is_some() {
            // It moves; where to may not be there yet.
            return Ok(());
        }
        self.dir(dir)?;
        if act.old.is_some() {
            let path = join(dir, name);
            let facts = self.leaves(&path)?;
            // A rename writes the `..` of a directory; what cannot be renamed is copied.
            let copied = facts.device != self.view || facts.is_dir() && !self.writes(&path)?;
            self.kept(&path, &facts, copied)?;
        }
        Ok(())
    }

    fn moves(&mut self, moved: &Move) -> Result<(), Refusal> {
        let facts = self.leaves(&moved.from)?;
        let dirs = [&moved.stage, &moved.to].map(|path| split(path).0);
        let own = facts.uid == self.uid;
        let elsewhere = dirs.iter().any(|dir| *dir != split(&moved.from).0);
        if elsewhere && !own && !self.writes(&moved.from)? {
            return Err(failed(&moved.from, Errno::ACCESS));
        }
        self.kept(&moved.from, &facts, false)
    }

    /// Names can be made in this directory, and taken from it.
    fn dir(&self, path: &[u8]) -> Result<(), Refusal> {
        let said = |why| failed(path, why);
        let dir = self.base.dir(path).map_err(said)?;
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let facts = self.base.look(path).map_err(said)?;
        match rustix::fs::accessat(&*dir, ".", access, AtFlags::EACCESS) {
            // It is opened for the time of the work.
            Err(Errno::ACCESS) if facts.as_ref().is_some_and(|f| f.uid == self.uid) => {}
            done => done.map_err(said)?,
        }
        if facts.is_some_and(|facts| facts.fixed) {
            return Err(failed(path, Errno::PERM));
        }
        Ok(())
    }

    /// A name can be taken from its directory, with all that is in it.
    fn leaves(&self, path: &[u8]) -> Result<Facts, Refusal> {
        let said = |why| failed(path, why);
        let no = |why: &str| Refusal::new(format!("{}: {why}", text(path)));
        let (dir, facts) = (split(path).0, self.base.look(path).map_err(said)?);
        let dir = self.base.look(dir).map_err(said)?;
        let (Some(dir), Some(facts)) = (dir, facts) else {
            return Err(said(Errno::NOENT));
        };
        if facts.fixed {
            return Err(no("it is marked so that nothing may change it"));
        }
        if facts.mount != dir.mount {
            return Err(no("something is mounted there"));
        }
        let own = self.uid == facts.uid || self.uid == dir.uid;
        if dir.mode & S_ISVTX != 0 && !own && !self.is_root() {
            return Err(no("only its owner may take it from that directory"));
        }
        Ok(facts)
    }

    /// What goes can be kept for an undo, as a copy if need be.
    fn kept(&mut self, path: &[u8], facts: &Facts, copied: bool) -> Result<(), Refusal> {
        let mut todo = vec![(path.to_vec(), facts.clone())];
        while let Some((path, at)) = todo.pop() {
            if at.mount != facts.mount {
                let text = format!("{}: something is mounted there", text(&path));
                return Err(Refusal::new(text));
            }
            if copied {
                self.need(self.view, b"", at.bytes);
                self.copies(&path, &at)?;
            }
            if !at.is_dir() {
                continue;
            }
            for name in self.base.names(&path).map_err(|why| failed(&path, why))? {
                let below = join(&path, &name);
                let facts = self.base.look(&below).map_err(|why| failed(&below, why))?;
                todo.extend(facts.map(|facts| (below, facts)));
            }
        }
        Ok(())
    }

    /// This process may write a directory.
    fn writes(&self, path: &[u8]) -> Result<bool, Refusal> {
        let said = |why| failed(path, why);
        let dir = self.base.dir(path).map_err(said)?;
        match rustix::fs::accessat(&*dir, ".", Access::WRITE_OK, AtFlags::EACCESS) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
            done => done.map(|()| true).map_err(said),
        }
    }

    /// What goes can be copied as it is.
    fn copies(&self, path: &[u8], facts: &Facts) -> Result<(), Refusal> {
        let no = |why: &str| Err(Refusal::new(format!("{}: {why}", text(path))));
        if !self.view_lists {
            let said = |why| failed(path, why);
            let held = self.base.hold(path).map_err(said)?;
            let held = held.ok_or_else(|| said(Errno::NOENT))?;
            if lists::has_lists(&held.attributes().map_err(said)?.xattrs) {
                return no(
                    "it has an access control list, which the file system of the view cannot keep \
                     for an undo: name a view on another file system",
                );
            }
        }
        if self.is_root() {
            return Ok(());
        }
        if facts.uid != self.uid || !self.groups.contains(&facts.gid) {
            return no(
                "it belongs to another user or group, so the view cannot keep it for an undo",
            );
        }
        if facts.is_file() && facts.mode & S_IRUSR == 0 {
            return no("it may not be read, so the view cannot keep it for an undo");
        }
        Ok(())
    }

    /// The access control lists of what is made or changed in `place` are kept there.
    fn lists(&self, path: &[u8], place: &[u8], to: &Attributes) -> Result<(), Refusal> {
        if !lists::has_lists(&to.xattrs) || keeps_lists(self.base, place)? {
            return Ok(());
        }
        Err(Refusal::new(format!(
            "{} has an access control list in the view, which its file system cannot keep: remove \
             the list (`setfacl -b`) or commit other paths",
            text(path)
        )))
    }

    fn touch(&self, path: &[u8], before: &Attributes, after: &Attributes) -> Result<(), Refusal> {
        if self.is_root() {
            return Ok(());
        }
        if before.uid != self.uid {
            let text = format!("{}: only its owner may change its attributes", text(path));
            return Err(Refusal::new(text));
        }
        self.owner(path, after, Some(before.gid))
    }

    /// The group that a directory gives to all that is made in it and below.
    fn given(&self, dir: &[u8]) -> Result<Option<u32>, Refusal> {
        let facts = self.base.look(dir).map_err(|why| failed(dir, why))?;
        let gives = facts.filter(|facts| facts.mode & S_ISGID != 0);
        Ok(gives.map(|facts| facts.gid))
    }

    /// A file can be given its owner; `has`: a group that it has already.
    fn owner(&self, path: &[u8], to: &Attributes, has: Option<u32>) -> Result<(), Refusal> {
        let group = self.groups.contains(&to.gid) || has == Some(to.gid);
        let mine = to.uid == self.uid && group;
        let link = openpath_abi::mode::is_lnk(to.mode);
        if mine || link || self.is_root() || self.journal.any_owner {
            return Ok(());
        }
        Err(Refusal::new(format!(
            "{} belongs to user {} and group {}, and what you replace becomes yours: `--force` \
             does it all the same",
            text(path),
            to.uid,
            to.gid
        )))
    }

    fn need(&mut self, device: (u32, u32), path: &[u8], bytes: u64) {
        let known = self.room.entry(device).or_insert((path.to_vec(), 0));
        known.1 = known.1.saturating_add(bytes);
    }

    /// There is room for what is new, and for what is kept.
    fn sizes(&mut self, upper: &Tree) -> Result<(), Refusal> {
        let mut known: HashSet<u64> = HashSet::new();
        for act in &self.journal.acts {
            let dir = split(&act.before).0;
            if act.items.is_empty() {
                continue;
            }
            let facts = self.base.look(dir).map_err(|why| failed(dir, why))?;
            let device = facts.map_or((0, 0), |facts| facts.device);
            for item in &act.items {
                let facts = upper.look(item).map_err(|why| failed(item, why))?;
                if let Some(facts) = facts
                    && known.insert(facts.ino)
                {
                    self.need(device, dir, facts.bytes);
                }
            }
        }
        for (device, (path, bytes)) in &self.room {
            let tree = if path.is_empty() && *device == self.view {
                upper
            } else {
                self.base
            };
            let dir = tree.dir(path).map_err(|why| failed(path, why))?;
            let free = self.free(&dir).map_err(|why| failed(path, why))?;
            if free < *bytes {
                return Err(Refusal::new(format!(
                    "{bytes} bytes are needed on the file system of {}, and {free} are free",
                    text(path)
                )));
            }
        }
        Ok(())
    }

    fn free(&self, dir: &OwnedFd) -> rustix::io::Result<u64> {
        let figures = rustix::fs::fstatvfs(dir)?;
        let blocks = if self.is_root() {
            figures.f_bfree
        } else {
            figures.f_bavail
        };
        Ok(blocks.saturating_mul(figures.f_frsize))
    }
}

/// Whether the file system of a path keeps access control lists.
fn keeps_lists(tree: &Tree, path: &[u8]) -> Result<bool, Refusal> {
    let said = |why| failed(path, why);
    let held: Option<Held> = tree.hold(path).map_err(said)?;
    let held = held.ok_or_else(|| said(Errno::NOENT))?;
    lists::are_kept(&held.path()).map_err(said)
}
