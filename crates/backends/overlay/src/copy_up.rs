// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies a file to the upper tree before its first change.
//!
//! # Kernel analogue
//! `ovl_copy_up`. As there, the directories above it come first; of a lower file with several
//! names, only this one is copied; and open files of it read the copy from then on.
//!
//! # Rules
//! R1. The copy is staged completely: data with its holes, attributes, owner, mode and times. Then
//!     it gets its name. The directory's own times do not move.
//! R2. A file is copied up by one thread at a time, with its `copy_up_lock` held; no thread holds
//!     two.
//! R3. The copy of a file that has lost its name has no name.
//! R4. The times of change of the directories above move, as in Linux. Listeners are told at once:
//!     if a mount showed it only when a directory is read next, that would look like a change by
//!     others.

use crate::attrs::{Values, values};
use crate::layer::{set_attr, with_lock};
use crate::marks::NUMBER;
use crate::merged_lookup::{Origin, address};
use crate::node::Node;
use crate::progress::CopyProgress;
use crate::staged::Destination;
use crate::whiteout::stored_mode;
use openpath_abi::{Errno, Timespec, XattrFlags, mode};
use openpath_vfs::{Acls, Attr, Extent, Inode, NewInode, SetAttr, WaitMode};
use std::borrow::Cow;
use std::sync::{Arc, Weak};

/// The size of the copy buffer.
const BUFFER: usize = 1 << 17;
/// All of a file's data.
pub(crate) const ALL: u64 = u64::MAX;

impl Node {
    /// The inode of the upper tree, copied up now if there is none; with as much of its data as is
    /// needed.
    ///
    /// # Errors
    /// `EROFS`: there is no upper tree. `EINTR`: the copy is cancelled. Those of the layers.
    pub(crate) fn copy_up(&self, now: Timespec, data: u64) -> Result<&Arc<Inode>, Errno> {
        if let Some(upper) = self.upper() {
            return Ok(upper);
        }
        self.fs.upper()?;
        let (mut ancestors, mut above) = (Vec::new(), None);
        let mut at = self.parent();
        while let Some(dir) = at {
            let node = Self::of(&dir).ok_or(Errno::EIO)?;
            if node.upper().is_some() {
                above = Some(dir);
                break;
            }
            at = node.parent();
            ancestors.push(dir);
        }
        for dir in ancestors.iter().rev() {
            let node = Self::of(dir).ok_or(Errno::EIO)?;
            node.copy_up_one(now, ALL)?;
        }
        let upper = self.copy_up_one(now, data)?;
        // R4
        ancestors.extend(above);
        ancestors.extend(self.inode().ok().filter(|_| self.is_dir()));
        if let Some(sb) = self.fs.sb.get().and_then(Weak::upgrade) {
            ancestors.iter().for_each(|dir| sb.forget_attributes(dir));
        }
        Ok(upper)
    }

    /// The directory of the overlay that it was found in, while it has no inode of the upper tree.
    fn parent(&self) -> Option<Arc<Inode>> {
        match &self.origin {
            Origin::Name(dir, _) => Some(Arc::clone(dir)),
            _ => None,
        }
    }

    /// As [`Node::copy_up`], once all directories above are in the upper tree.
    fn copy_up_one(&self, now: Timespec, data: u64) -> Result<&Arc<Inode>, Errno> {
        let _locked = self.copy_up_lock.lock_nested();
        if let Some(upper) = self.upper() {
            return Ok(upper);
        }
        let Origin::Name(dir, name) = &self.origin else {
            return Err(Errno::EROFS);
        };
        let inode = self.inode()?;
        let parent = Self::of(dir).ok_or(Errno::EIO)?;
        let upper = if self.has_lost_name() {
            self.copy_nameless(now, data)?
        } else {
            let into = parent.upper().ok_or(Errno::EIO)?;
            self.copy_named(Destination { dir: into, name }, now, data)?
        };
        self.fs.counts.file();
        let old = self.lower_key();
        let upper = self.set_upper(upper);
        self.fs
            .rekey(&inode, (address(upper), 0, Box::default()), old);
        for key in self.further_keys() {
            self.fs.rekey(&inode, key, None);
        }
        self.copy_attr(&inode);
        parent.copy_attr(dir);
        Ok(upper)
    }

    /// The lower inode with its current attributes.
    fn lower(&self) -> Result<(&Arc<Inode>, Attr), Errno> {
        let lower = self.real();
        lower.ops().refresh(lower, WaitMode::Wait)?;
        Ok((lower, lower.attr()))
    }

    /// A copy in the upper tree, with a name.
    fn copy_named(
        &self,
        destination: Destination<'_>,
        now: Timespec,
        data: u64,
    ) -> Result<Arc<Inode>, Errno> {
        let (lower, attr) = self.lower()?;
        let body = if mode::is_lnk(attr.mode) {
            lower.ops().readlink(lower, WaitMode::Wait)?
        } else {
            Cow::Borrowed(&[][..])
        };
        let acls = lower.acls();
        let new = new_inode((&attr, &acls), lower.rdev(), &body, now);
        let mut staged = self
            .fs
            .stage(now, |work, name| crate::layer::create(work, name, &new))?;
        let made = Arc::clone(staged.inode.as_ref().ok_or(Errno::EIO)?);
        self.copy_content(&made, lower, (&attr, &acls), now, data)?;
        staged.install_copy(destination)?;
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
        let new = new_inode((&attr, &acls), 0, &[], now);
        let made = with_lock(work, |ops| ops.tmpfile(work, &new))?;
        self.copy_content(&made, lower, (&attr, &acls), now, data)?;
        Ok(made)
    }

    /// Copies content and attributes to a new file (R1).
    fn copy_content(
        &self,
        made: &Inode,
        lower: &Inode,
        (attr, acls): (&Attr, &Acls),
        now: Timespec,
        data: u64,
    ) -> Result<(), Errno> {
        if mode::is_reg(attr.mode) {
            let size = attr.size.min(data);
            let mut progress = CopyProgress::begin(self.fs.options.copying.as_deref(), size);
            copy_data(lower, made, size, now, &mut progress)?;
            self.fs.counts.bytes(size);
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
                // A file that cannot keep the mark shows another number next time.
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
            set_attr(made, &bits)?;
        }
        if mode::is_dir(attr.mode) && self.fs.options.records_taken {
            let source = (attr, acls, &copied);
            crate::attrs::note(made, lower, source, self.fs.options.marks, now)?;
        }
        set_attr(
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
        let all = values(lower, self.fs.lower_marks())?;
        for (name, value) in &all {
            let name = marks.stored_name(name);
            match with_lock(made, |ops| {
                ops.setxattr(made, &name, value, XattrFlags::empty(), now)
            }) {
                // A tree without such attributes goes without. With marks of any user the tree may
                // be an ordinary user's, and cannot have all attributes of the lower file.
                Err(Errno::EOPNOTSUPP) => {}
                Err(Errno::EPERM) if marks == crate::options::Marks::User => {}
                done => done?,
            }
        }
        Ok(all)
    }
}

fn new_inode<'a>(
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

/// Copies the first `size` bytes, and leaves holes as holes.
fn copy_data(
    from: &Inode,
    to: &Inode,
    size: u64,
    now: Timespec,
    progress: &mut CopyProgress<'_>,
) -> Result<(), Errno> {
    let mut buffer = vec![0; BUFFER];
    let mut at = 0;
    while at < size {
        let (begin, end) = next_data(from, at, size)?;
        at = begin;
        progress.reached(at, size)?;
        while at < end {
            let room = usize::try_from(end - at).unwrap_or(BUFFER).min(BUFFER);
            let read = from.ops().read_at(from, &mut buffer[..room], at)?;
            if read == 0 {
                return Ok(());
            }
            let mut done = 0;
            while done < read {
                let piece = &buffer[done..read];
                let written = with_lock(to, |ops| ops.write_at(to, piece, at + done as u64, now))?;
                if written == 0 {
                    return Err(Errno::EIO);
                }
                done += written;
            }
            at += read as u64;
            progress.reached(at, size)?;
        }
    }
    if to.size() != size {
        let length = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        set_attr(to, &length)?;
    }
    Ok(())
}

/// The next range of data before `size`.
pub(crate) fn next_data(from: &Inode, at: u64, size: u64) -> Result<(u64, u64), Errno> {
    let begin = match from.ops().seek_extent(from, at, Extent::Data) {
        Ok(begin) => begin.min(size),
        Err(Errno::ENXIO) => return Ok((size, size)),
        // The layer does not report holes.
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok((at, size)),
        Err(errno) => return Err(errno),
    };
    if begin == size {
        return Ok((size, size));
    }
    let end = from.ops().seek_extent(from, begin, Extent::Hole)?;
    Ok((begin, end.min(size)))
}
