// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks before the first step of a commit that no step will fail for lack of permissions, of
//! space, or of support by the file system.

use crate::attributes::acl;
use crate::attributes::file_stat::{Attributes, FileStat, Fixed};
use crate::host::held_file::HeldFile;
use crate::host::names::{join, split};
use crate::host::tree::Tree;
use crate::journal::{Bytes, Journal, Move, Replace};
use crate::plan::selection::Selection;
use crate::report::messages::{self, shown};
use crate::report::refusal::{Refusal, RefusalKind};
use crate::scan::Scan;
use openpath_abi::mode::{S_IRUSR, S_ISGID, S_ISVTX};
use rustix::fd::OwnedFd;
use rustix::fs::{Access, AtFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// The checks of a journal.
pub(crate) struct Preflight<'a> {
    base: &'a Tree,
    journal: &'a Journal,
    uid: u32,
    groups: HashSet<u32>,
    /// Needed bytes by file system: a path on it, and how many.
    room: HashMap<(u32, u32), (Vec<u8>, u64)>,
    /// The file system of the view.
    view: (u32, u32),
    /// It supports access control lists.
    view_keeps_acl: bool,
    /// The directory that was looked at last: most files are in that of the file before.
    last_dir: RefCell<Option<(Vec<u8>, Option<FileStat>)>>,
    /// The directory that [`Preflight::check_dir`] passed last.
    last_checked: RefCell<Option<Vec<u8>>>,
}

impl<'a> Preflight<'a> {
    /// Refuses a journal with a step that would fail.
    pub(crate) fn check(
        base: &'a Tree,
        upper: &Tree,
        journal: &'a Journal,
        scan: &Scan,
        selection: &Selection,
    ) -> Result<(), Refusal> {
        let stat = upper.stat(b"").map_err(|why| failed(b"/", why))?;
        let groups = rustix::process::getgroups().unwrap_or_default();
        let mut groups: HashSet<u32> = groups.into_iter().map(|gid| gid.as_raw()).collect();
        groups.insert(rustix::process::getegid().as_raw());
        let mut preflight = Preflight {
            base,
            journal,
            uid: rustix::process::geteuid().as_raw(),
            groups,
            room: HashMap::new(),
            view: stat.map_or((0, 0), |stat| stat.device),
            view_keeps_acl: keeps_acl(upper, b"")?,
            last_dir: RefCell::new(None),
            last_checked: RefCell::new(None),
        };
        for replace in &journal.replacements {
            preflight.check_replace(replace)?;
        }
        for moved in &journal.moves {
            for path in [&moved.from, &moved.stage] {
                preflight.check_dir(split(path).0)?;
            }
            preflight.check_move(moved)?;
        }
        for attrs in &journal.set_attrs {
            preflight.check_changeable(&attrs.place)?;
            preflight.check_attrs(&attrs.path, &attrs.before, &attrs.after)?;
            preflight.check_acl(&attrs.path, &attrs.place, &attrs.after)?;
        }
        let items = |replace: &'a Replace| {
            replace
                .items
                .iter()
                .map(|item| (item, split(&replace.before).0))
        };
        let made: HashMap<&Bytes, &[u8]> = journal.replacements.iter().flat_map(items).collect();
        // Files of several names are made once.
        let mut known = HashSet::new();
        for (at, entry) in scan.entries.iter().enumerate() {
            if let Some(dir) = made.get(&entry.path).filter(|_| selection.includes(at)) {
                let given = preflight.inherited_group(dir)?;
                preflight.check_owner(&entry.path, &entry.upper_file.attributes(), given)?;
                preflight.check_acl(&entry.path, dir, &entry.upper_file.attributes())?;
                let stat = &entry.upper_file.stat;
                if known.insert(stat.ino) {
                    let made_in = preflight.dir_stat(dir).map_err(|why| failed(dir, why))?;
                    let device = made_in.map_or((0, 0), |stat| stat.device);
                    preflight.add_space(device, dir, stat.bytes);
                }
            }
        }
        preflight.check_space(upper)
    }

    fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn check_replace(&mut self, replace: &Replace) -> Result<(), Refusal> {
        if replace.before.is_empty() {
            return Ok(());
        }
        let name = split(&replace.path).1;
        let dir = split(&replace.before).0;
        if replace.items.is_empty() && replace.new.is_some() {
            // It moves; its new directory may not exist yet.
            return Ok(());
        }
        self.check_dir(dir)?;
        if replace.old.is_some() {
            let path = join(dir, name);
            let stat = self.check_removable(&path)?;
            // A rename of a directory writes its `..`. A directory that cannot be renamed is
            // copied.
            let copied = stat.device != self.view || stat.is_dir() && !self.is_writable(&path)?;
            self.check_backup(&path, &stat, copied)?;
        }
        Ok(())
    }

    fn check_move(&mut self, moved: &Move) -> Result<(), Refusal> {
        let stat = self.check_removable(&moved.from)?;
        let dirs = [&moved.stage, &moved.to].map(|path| split(path).0);
        let own = stat.uid == self.uid;
        let elsewhere = dirs.iter().any(|dir| *dir != split(&moved.from).0);
        if elsewhere && !own && !self.is_writable(&moved.from)? {
            return Err(failed(&moved.from, Errno::ACCESS));
        }
        self.check_backup(&moved.from, &stat, false)
    }

    /// The attributes of a directory of the real tree.
    fn dir_stat(&self, path: &[u8]) -> rustix::io::Result<Option<FileStat>> {
        let mut last = self.last_dir.borrow_mut();
        if let Some((known, stat)) = &*last
            && known == path
        {
            return Ok(stat.clone());
        }
        let stat = self.base.stat(path)?;
        *last = Some((path.to_vec(), stat.clone()));
        Ok(stat)
    }

    /// Checks that names can be made in this directory and removed from it.
    fn check_dir(&self, path: &[u8]) -> Result<(), Refusal> {
        let mut last = self.last_checked.borrow_mut();
        if last.as_deref() != Some(path) {
            self.check_other_dir(path)?;
            *last = Some(path.to_vec());
        }
        Ok(())
    }

    fn check_other_dir(&self, path: &[u8]) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let dir = self.base.dir(path).map_err(fail)?;
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let stat = self.dir_stat(path).map_err(fail)?;
        if let Some(flag) = stat.as_ref().and_then(|stat| stat.fixed) {
            return Err(fixed(path, flag));
        }
        match rustix::fs::accessat(&*dir, ".", access, AtFlags::EACCESS) {
            // It is made writable while the commit works.
            Err(Errno::ACCESS) if stat.as_ref().is_some_and(|f| f.uid == self.uid) => Ok(()),
            done => done.map_err(fail),
        }
    }

    /// Checks that no flag and no read-only mount keeps the attributes of a file as they are.
    fn check_changeable(&self, path: &[u8]) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let held = self.base.hold(path).map_err(fail)?;
        let held = held.ok_or_else(|| fail(Errno::NOENT))?;
        if let Some(flag) = held.stat.fixed {
            return Err(fixed(path, flag));
        }
        let mount = rustix::fs::fstatvfs(held.fd()).map_err(fail)?;
        match mount.f_flag.contains(StatVfsMountFlags::RDONLY) {
            true => Err(fail(Errno::ROFS)),
            false => Ok(()),
        }
    }

    /// Checks that a name can be removed from its directory.
    fn check_removable(&self, path: &[u8]) -> Result<FileStat, Refusal> {
        let fail = |why| failed(path, why);
        let no = |why| denied(path, why);
        let (dir, stat) = (split(path).0, self.base.stat(path).map_err(fail)?);
        let dir = self.dir_stat(dir).map_err(fail)?;
        let (Some(dir), Some(stat)) = (dir, stat) else {
            return Err(fail(Errno::NOENT));
        };
        if let Some(flag) = stat.fixed {
            return Err(fixed(path, flag));
        }
        if stat.mount != dir.mount {
            return Err(no("something is mounted there"));
        }
        let own = self.uid == stat.uid || self.uid == dir.uid;
        if dir.mode & S_ISVTX != 0 && !own && !self.is_root() {
            return Err(no("only its owner may take it from that directory"));
        }
        Ok(stat)
    }

    /// Checks that a replaced file can be kept as a backup, as a copy if need be.
    fn check_backup(&mut self, path: &[u8], stat: &FileStat, copied: bool) -> Result<(), Refusal> {
        let mut todo = vec![(path.to_vec(), stat.clone())];
        while let Some((path, at)) = todo.pop() {
            if at.mount != stat.mount {
                let text = format!("{}: something is mounted there", shown(&path));
                return Err(Refusal::new(RefusalKind::Unsupported, text));
            }
            if copied {
                self.add_space(self.view, b"", at.bytes);
                self.check_copyable(&path, &at)?;
            }
            if !at.is_dir() {
                continue;
            }
            for name in self.base.names(&path).map_err(|why| failed(&path, why))? {
                let below = join(&path, &name);
                let stat = self.base.stat(&below).map_err(|why| failed(&below, why))?;
                todo.extend(stat.map(|stat| (below, stat)));
            }
        }
        Ok(())
    }

    /// Whether this process may write a directory.
    fn is_writable(&self, path: &[u8]) -> Result<bool, Refusal> {
        let fail = |why| failed(path, why);
        let dir = self.base.dir(path).map_err(fail)?;
        match rustix::fs::accessat(&*dir, ".", Access::WRITE_OK, AtFlags::EACCESS) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
            done => done.map(|()| true).map_err(fail),
        }
    }

    /// Checks that a replaced file can be copied as it is.
    fn check_copyable(&self, path: &[u8], stat: &FileStat) -> Result<(), Refusal> {
        let no = |why| Err(denied(path, why));
        if !self.view_keeps_acl {
            let fail = |why| failed(path, why);
            let held = self.base.hold(path).map_err(fail)?;
            let held = held.ok_or_else(|| fail(Errno::NOENT))?;
            if acl::has_acl(&held.attributes().map_err(fail)?.xattrs) {
                return no(
                    "it has an access control list, which the file system of the view cannot keep \
                     for an undo: name a view on another file system",
                );
            }
        }
        if self.is_root() {
            return Ok(());
        }
        if stat.uid != self.uid || !self.groups.contains(&stat.gid) {
            return no(
                "it belongs to another user or group, so the view cannot keep it for an undo",
            );
        }
        if stat.is_file() && stat.mode & S_IRUSR == 0 {
            return no("it may not be read, so the view cannot keep it for an undo");
        }
        Ok(())
    }

    /// Checks that the file system of `place` supports the access control lists of a file made
    /// there.
    fn check_acl(&self, path: &[u8], place: &[u8], to: &Attributes) -> Result<(), Refusal> {
        if !acl::has_acl(&to.xattrs) || keeps_acl(self.base, place)? {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalKind::Unsupported,
            format!(
                "{} has an access control list in the view, which its file system cannot keep: \
                 remove the list (`setfacl -b`) or commit other paths",
                shown(path)
            ),
        ))
    }

    fn check_attrs(
        &self,
        path: &[u8],
        before: &Attributes,
        after: &Attributes,
    ) -> Result<(), Refusal> {
        if self.is_root() {
            return Ok(());
        }
        if before.uid != self.uid {
            return Err(denied(path, "only its owner may change its attributes"));
        }
        self.check_owner(path, after, Some(before.gid))
    }

    /// The group that files made in a directory inherit.
    fn inherited_group(&self, dir: &[u8]) -> Result<Option<u32>, Refusal> {
        let stat = self.dir_stat(dir).map_err(|why| failed(dir, why))?;
        let gives = stat.filter(|stat| stat.mode & S_ISGID != 0);
        Ok(gives.map(|stat| stat.gid))
    }

    /// Checks that a file can get its owner; `has`: a group that it has already.
    fn check_owner(&self, path: &[u8], to: &Attributes, has: Option<u32>) -> Result<(), Refusal> {
        let group = self.groups.contains(&to.gid) || has == Some(to.gid);
        let mine = to.uid == self.uid && group;
        let link = openpath_abi::mode::is_lnk(to.mode);
        if mine || link || self.is_root() || self.journal.any_owner {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalKind::PermissionDenied,
            format!(
                "{} belongs to user {} and group {}, and what you replace becomes yours: `--force` \
             does it all the same",
                shown(path),
                to.uid,
                to.gid
            ),
        ))
    }

    fn add_space(&mut self, device: (u32, u32), path: &[u8], bytes: u64) {
        let known = self.room.entry(device);
        let known = known.or_insert_with(|| (path.to_vec(), 0));
        known.1 = known.1.saturating_add(bytes);
    }

    /// Checks that there is room for new files and for backups.
    fn check_space(&mut self, upper: &Tree) -> Result<(), Refusal> {
        for (device, (path, bytes)) in &self.room {
            let tree = if path.is_empty() && *device == self.view {
                upper
            } else {
                self.base
            };
            let dir = tree.dir(path).map_err(|why| failed(path, why))?;
            let free = self.free_space(&dir).map_err(|why| failed(path, why))?;
            if free < *bytes {
                return Err(Refusal::new(
                    RefusalKind::NoSpace,
                    format!(
                        "{bytes} bytes are needed on the file system of {}, and {free} are free",
                        shown(path)
                    ),
                ));
            }
        }
        Ok(())
    }

    fn free_space(&self, dir: &OwnedFd) -> rustix::io::Result<u64> {
        let space = rustix::fs::fstatvfs(dir)?;
        let blocks = if self.is_root() {
            space.f_bfree
        } else {
            space.f_bavail
        };
        Ok(blocks.saturating_mul(space.f_frsize))
    }
}

/// A call on a path failed.
fn failed(path: &[u8], why: Errno) -> Refusal {
    if why != Errno::ROFS {
        return messages::failed(path, why);
    }
    let text = format!("{} is on a read-only mount: name other paths", shown(path));
    Refusal::new(RefusalKind::PermissionDenied, text)
}

/// A flag keeps a file as it is. Its removal moves the time of change, as a change by others does.
fn fixed(path: &[u8], flag: Fixed) -> Refusal {
    let (flag, option) = match flag {
        Fixed::Immutable => ("immutable", "-i"),
        Fixed::AppendOnly => ("append-only", "-a"),
    };
    let text = format!(
        "{} is {flag}: name other paths, or remove the flag by `chattr {option}`, which counts as \
         a change by others, and commit with `--force`",
        shown(path)
    );
    Refusal::new(RefusalKind::PermissionDenied, text)
}

/// This user may not do what a step needs.
fn denied(path: &[u8], why: &str) -> Refusal {
    let text = format!("{}: {why}", shown(path));
    Refusal::new(RefusalKind::PermissionDenied, text)
}

/// Whether the file system of a path keeps access control lists.
fn keeps_acl(tree: &Tree, path: &[u8]) -> Result<bool, Refusal> {
    let fail = |why| failed(path, why);
    let held: Option<HeldFile> = tree.hold(path).map_err(fail)?;
    let held = held.ok_or_else(|| fail(Errno::NOENT))?;
    acl::are_supported(&held.path()).map_err(fail)
}
