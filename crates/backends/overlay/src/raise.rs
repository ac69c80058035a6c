// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copying up: what is to be changed is brought to the upper tree first.
//!
//! # Kernel analogue
//! `ovl_copy_up`. As there, the directories above it come first; of a file with several names
//! beneath, only this one is copied; and who has it open reads the copy from then on.
//!
//! # Rules
//! R1. It is made whole aside: data with its holes, attributes, owner, mode, times. Then it gets
//!     its name. The directory's own times stay as they were.
//! R2. One file is copied up at a time by one thread, with its `doing` held; nobody holds two.
//! R3. What has lost its name gets a copy without one.

use crate::aside::Spot;
use crate::attrs::{Values, values};
use crate::copying::Way;
use crate::fs::address;
use crate::layer::{change, set};
use crate::marks::NUMBER;
use crate::node::{Node, Origin};
use crate::whiteout::stored_mode;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Acls, Attr, Extent, Inode, NewInode, Patience, SetAttr};
use std::borrow::Cow;
use std::sync::Arc;

/// How much is read before it is written.
const BUFFER: usize = 1 << 17;
/// All of a file's data.
pub(crate) const ALL: u64 = u64::MAX;

impl Node {
    /// Its inode of the upper tree, copied up now if there is none; with as much of its data as is
    /// needed.
    ///
    /// # Errors
    /// `EROFS`: there is no upper tree. `EINTR`: the copy is not wanted any more. What the layers
    /// meet.
    pub(crate) fn raise(&self, now: Timespec, data: u64) -> Result<&Arc<Inode>, Errno> {
        if let Some(upper) = self.upper() {
            return Ok(upper);
        }
        self.fs.upper()?;
        let mut above = Vec::new();
        let mut at = self.parent();
        while let Some(dir) = at {
            let node = Self::of(&dir).ok_or(Errno::EIO)?;
            if node.upper().is_some() {
                break;
            }
            at = node.parent();
            above.push(dir);
        }
        for dir in above.iter().rev() {
            let node = Self::of(dir).ok_or(Errno::EIO)?;
            node.raise_one(now, ALL)?;
        }
        self.raise_one(now, data)
    }

    /// The directory of the overlay that it was found in, while it has nothing in the upper tree.
    fn parent(&self) -> Option<Arc<Inode>> {
        match &self.origin {
            Origin::Name(dir, _) => Some(Arc::clone(dir)),
            _ => None,
        }
    }

    /// As [`Node::raise`], once everything above is in the upper tree.
    fn raise_one(&self, now: Timespec, data: u64) -> Result<&Arc<Inode>, Errno> {
        let _doing = self.doing.lock_nested();
        if let Some(upper) = self.upper() {
            return Ok(upper);
        }
        let Origin::Name(dir, name) = &self.origin else {
            return Err(Errno::EROFS);
        };
        let inode = self.inode()?;
        let parent = Self::of(dir).ok_or(Errno::EIO)?;
        let upper = if self.is_gone() {
            self.copy_nameless(now, data)?
        } else {
            let into = parent.upper().ok_or(Errno::EIO)?;
            Self::with_times(into, || self.copy(Spot { dir: into, name }, now, data))?
        };
        self.fs.copied.file();
        let old = self.lower_key();
        let upper = self.put_upper(upper);
        self.fs
            .rekey(&inode, (address(upper), 0, Box::default()), old);
        for key in self.further_keys() {
            self.fs.rekey(&inode, key, None);
        }
        self.settle(&inode);
        parent.settle(dir);
        Ok(upper)
    }

    /// The lower inode as it is now.
    fn lower(&self) -> Result<(&Arc<Inode>, Attr), Errno> {
        let lower = self.real();
        lower.ops().refresh(lower, Patience::Wait)?;
        Ok((lower, lower.attr()))
    }

    /// A copy in the upper tree.
    fn copy(&self, spot: Spot<'_>, now: Timespec, data: u64) -> Result<Arc<Inode>, Errno> {
        let (lower, attr) = self.lower()?;
        let body = if mode::is_lnk(attr.mode) {
            lower.ops().readlink(lower, Patience::Wait)?
        } else {
            Cow::Borrowed(&[][..])
        };
        let acls = lower.acls();
        let new = new_of((&attr, &acls), lower.rdev(), &body, now);
        let mut aside = self
            .fs
            .aside(now, |work, name| crate::layer::make(work, name, &new))?;
        let made = Arc::clone(aside.inode.as_ref().ok_or(Errno::EIO)?);
        self.fill(&made, lower, (&attr, &acls), now, data)?;
        aside.put(spot, None, false)?;
        Ok(made)
    }

    /// R3
    fn copy_nameless(&self, now: Timespec, data: u64) -> Result<Arc<Inode>, Errno> {
        let (lower, attr) = self.lower()?;
        if !mode::is_reg(attr.mode) {
            return Err(Errno::ENOENT);
        }
        let work = &self.fs.upper()?.work;
        let acls = lower.acls();
        let new = new_of((&attr, &acls), 0, &[], now);
        let made = change(work, |ops| ops.tmpfile(work, &new))?;
        self.fill(&made, lower, (&attr, &acls), now, data)?;
        Ok(made)
    }

    /// Gives a new file what the lower one has (R1).
    fn fill(
        &self,
        made: &Inode,
        lower: &Inode,
        (attr, acls): (&Attr, &Acls),
        now: Timespec,
        data: u64,
    ) -> Result<(), Errno> {
        if mode::is_reg(attr.mode) {
            let size = attr.size.min(data);
            let mut way = Way::begin(&self.fs, size);
            copy_data(lower, made, size, now, &mut way)?;
            self.fs.copied.bytes(size);
        }
        let copied = self.copy_xattrs(lower, made, now)?;
        if !mode::is_dir(attr.mode) && attr.nlink == 1 {
            let number = self.inode()?.ino().to_string();
            match self
                .fs
                .options
                .marks
                .set(made, NUMBER, number.as_bytes(), now)
            {
                // What cannot keep it shows another number next time.
                Ok(()) | Err(Errno::EPERM | Errno::EOPNOTSUPP) => {}
                Err(errno) => return Err(errno),
            }
        }
        let wanted = stored_mode(attr.mode, lower.rdev());
        if made.mode() != wanted && !mode::is_lnk(attr.mode) {
            let bits = SetAttr {
                mode: Some(mode::permissions(wanted)),
                ..SetAttr::default()
            };
            set(made, &bits)?;
        }
        if mode::is_dir(attr.mode) && self.fs.options.notes_taken {
            let source = (attr, acls, &copied);
            crate::attrs::note(made, source, self.fs.options.marks, now)?;
        }
        set(
            made,
            &SetAttr {
                atime: Some(attr.atime),
                mtime: Some(attr.mtime),
                ..SetAttr::default()
            },
        )
    }

    /// Copies extended attributes, and gives what the lower inode had; its lists were given to the
    /// copy when it was made.
    fn copy_xattrs(&self, lower: &Inode, made: &Inode, now: Timespec) -> Result<Values, Errno> {
        let marks = self.fs.options.marks;
        let all = values(lower, marks)?;
        for (name, value) in &all {
            match change(made, |ops| ops.setxattr(made, name, value, 0, now)) {
                // A tree that cannot keep it goes without; one that keeps marks of anyone's is
                // anyone's, who may not set all that the lower one has.
                Err(Errno::EOPNOTSUPP) => {}
                Err(Errno::EPERM) if marks == crate::options::Marks::User => {}
                done => done?,
            }
        }
        Ok(all)
    }
}

fn new_of<'a>(
    (attr, acls): (&Attr, &'a Acls),
    rdev: u64,
    body: &'a [u8],
    now: Timespec,
) -> NewInode<'a> {
    NewInode {
        mode: stored_mode(attr.mode, rdev),
        uid: attr.uid,
        gid: attr.gid,
        rdev,
        body,
        now,
        tenant: None,
        acls: Some(acls),
    }
}

/// Copies the first `size` bytes, and leaves holes where there are some.
fn copy_data(
    from: &Inode,
    to: &Inode,
    size: u64,
    now: Timespec,
    way: &mut Way<'_>,
) -> Result<(), Errno> {
    let mut buffer = vec![0; BUFFER];
    let mut at = 0;
    while at < size {
        let (begin, end) = next_data(from, at, size)?;
        at = begin;
        way.reached(at, size)?;
        while at < end {
            let room = usize::try_from(end - at).unwrap_or(BUFFER).min(BUFFER);
            let read = from.ops().read_at(from, &mut buffer[..room], at)?;
            if read == 0 {
                return Ok(());
            }
            let mut done = 0;
            while done < read {
                let piece = &buffer[done..read];
                let written = change(to, |ops| ops.write_at(to, piece, at + done as u64, now))?;
                if written == 0 {
                    return Err(Errno::EIO);
                }
                done += written;
            }
            at += read as u64;
            way.reached(at, size)?;
        }
    }
    if to.size() != size {
        let length = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        set(to, &length)?;
    }
    Ok(())
}

/// The next piece of data before `size`.
fn next_data(from: &Inode, at: u64, size: u64) -> Result<(u64, u64), Errno> {
    let begin = match from.ops().seek_extent(from, at, Extent::Data) {
        Ok(begin) => begin.min(size),
        Err(Errno::ENXIO) => return Ok((size, size)),
        // It has no holes that it could tell of.
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok((at, size)),
        Err(errno) => return Err(errno),
    };
    if begin == size {
        return Ok((size, size));
    }
    let end = from.ops().seek_extent(from, begin, Extent::Hole)?;
    Ok((begin, end.min(size)))
}
