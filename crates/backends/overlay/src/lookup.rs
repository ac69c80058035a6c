// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks a name up through the layers, and finds which layer inodes it stands for.
//!
//! # Rules
//! R1. The first layer that has the name determines its type. For a directory the search continues
//!     in the layers below, whose directories of that name are merged. It ends at an opaque
//!     directory, a whiteout, or anything that is no directory.
//! R2. A redirect gives the path at which the layers below its own are searched.

use crate::layer::lookup;
use crate::marks::{DirMarks, NUMBER};
use crate::merged_lookup::{Lower, MergedLookup, Origin};
use crate::node::Node;
use crate::whiteout::is_whiteout;
use openpath_abi::Errno;
use openpath_vfs::{Inode, LookupResult, WaitMode};
use std::sync::Arc;

/// Where the layers below are searched.
enum LowerLocation {
    /// In this directory, for this name.
    Name(Vec<u8>),
    /// At this path from their roots.
    Path(Vec<u8>),
}

impl LowerLocation {
    /// Follows a redirect from here (R2).
    ///
    /// # Errors
    /// `EIO`: it cannot be followed.
    fn follow_redirect(&self, to: &[u8]) -> Result<Self, Errno> {
        let (absolute, to) = match to.strip_prefix(b"/") {
            Some(rest) => (true, rest),
            None => (false, to),
        };
        let proper = |name: &[u8]| !name.is_empty() && name != b"." && name != b"..";
        if !to.split(|byte| *byte == b'/').all(proper) {
            return Err(Errno::EIO);
        }
        if absolute {
            return Ok(Self::Path(to.to_vec()));
        }
        if to.contains(&b'/') {
            return Err(Errno::EIO);
        }
        Ok(match self {
            Self::Name(_) => Self::Name(to.to_vec()),
            Self::Path(path) => {
                let dir = path.iter().rposition(|byte| *byte == b'/');
                let dir = dir.map_or(&path[..0], |slash| &path[..=slash]);
                Self::Path([dir, to].concat())
            }
        })
    }
}

impl Node {
    /// As `InodeOps::lookup`.
    pub(crate) fn lookup(&self, name: &[u8], wait_mode: WaitMode) -> Result<LookupResult, Errno> {
        if !self.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let found = match self.find_layers(name, wait_mode) {
            Err(Errno::EAGAIN) if wait_mode == WaitMode::Cached => {
                return Ok(LookupResult::WouldBlock);
            }
            found => found?,
        };
        let Some(result) = found else {
            return Ok(LookupResult::Absent);
        };
        let inode = self.fs.adopt(result)?;
        if self.fs.revalidates
            && let Some(node) = Self::of(&inode)
        {
            node.copy_attr(&inode);
        }
        Ok(LookupResult::Inode(inode))
    }

    /// The layer inodes of a name in this directory.
    ///
    /// # Errors
    /// Those of a layer; `EAGAIN` if it would have to wait and may not; `EIO` for an invalid
    /// redirect.
    pub(crate) fn find_layers(
        &self,
        name: &[u8],
        wait_mode: WaitMode,
    ) -> Result<Option<MergedLookup>, Errno> {
        let mut location = LowerLocation::Name(name.to_vec());
        let mut result = MergedLookup {
            upper: None,
            lowers: Vec::new(),
            origin: Origin::None,
            number: None,
            impure: false,
        };
        if let Some(dir) = self.upper() {
            match lookup(dir, name, wait_mode)? {
                None => {}
                Some(found) if is_whiteout(&found) => return Ok(None),
                Some(found) if !found.is_dir() => {
                    return self.upper_file(found, wait_mode).map(Some);
                }
                Some(found) => {
                    let marks = self.dir_marks(&found, wait_mode)?;
                    result.upper = Some(found);
                    result.impure = marks.impure;
                    if marks.opaque {
                        return Ok(Some(result));
                    }
                    if let Some(to) = marks.redirect {
                        location = location.follow_redirect(&to)?;
                    }
                }
            }
        }
        self.find_lowers(&mut result, location, wait_mode)?;
        Ok(Some(result).filter(|result| result.upper.is_some() || !result.lowers.is_empty()))
    }

    /// The result for a file of the upper tree.
    fn upper_file(&self, upper: Arc<Inode>, wait_mode: WaitMode) -> Result<MergedLookup, Errno> {
        let number = match self.fs.find_by_upper(&upper) {
            Some(known) => Some(known.ino()),
            None if wait_mode == WaitMode::Cached => return Err(Errno::EAGAIN),
            None => self.stored_number(&upper)?,
        };
        let result = MergedLookup {
            number,
            ..MergedLookup::of_upper(upper)
        };
        Ok(result)
    }

    /// The number that a file of the upper tree shows, if not its own.
    ///
    /// # Errors
    /// Those of the layer.
    pub(crate) fn stored_number(&self, upper: &Inode) -> Result<Option<u64>, Errno> {
        let stored = self.fs.options.marks.get(upper, NUMBER)?;
        let stored = stored.and_then(|value| String::from_utf8(value).ok());
        Ok(stored.and_then(|text| text.parse().ok()))
    }

    fn dir_marks(&self, dir: &Inode, wait_mode: WaitMode) -> Result<DirMarks, Errno> {
        if wait_mode == WaitMode::Cached {
            return Err(Errno::EAGAIN);
        }
        self.fs.options.marks.of_dir(dir)
    }

    /// Adds the inodes of the lower layers (R1).
    fn find_lowers(
        &self,
        result: &mut MergedLookup,
        mut location: LowerLocation,
        wait_mode: WaitMode,
    ) -> Result<(), Errno> {
        let last = self.fs.lowers.len().saturating_sub(1);
        for layer in 0..self.fs.lowers.len() {
            let (found, hides_lower) = match &location {
                LowerLocation::Name(name) => {
                    let dir = self.lowers().iter().find(|lower| lower.layer == layer);
                    match dir {
                        Some(dir) => (lookup(&dir.inode, name, wait_mode)?, false),
                        None => continue,
                    }
                }
                LowerLocation::Path(path) => self.walk(layer, path, wait_mode)?,
            };
            if let Some(found) = found {
                let over = result.upper.is_some() || !result.lowers.is_empty();
                if self.fs.is_lower_whiteout(&found) || over && !found.is_dir() {
                    return Ok(());
                }
                if result.lowers.is_empty() {
                    result.origin = self.origin(&location)?;
                }
                let is_dir = found.is_dir();
                // A mark is about the layers below, and there is none.
                let marks = match is_dir && layer != last {
                    true => self.dir_marks(&found, wait_mode)?,
                    false => DirMarks::default(),
                };
                result.lowers.push(Lower {
                    layer,
                    inode: found,
                });
                if !is_dir || marks.opaque {
                    return Ok(());
                }
                if let Some(to) = marks.redirect {
                    location = location.follow_redirect(&to)?;
                }
            }
            if hides_lower {
                return Ok(());
            }
        }
        Ok(())
    }

    fn origin(&self, location: &LowerLocation) -> Result<Origin, Errno> {
        Ok(match location {
            LowerLocation::Name(name) => Origin::Name(self.inode()?, name.as_slice().into()),
            LowerLocation::Path(path) => Origin::Path(path.as_slice().into()),
        })
    }

    /// The inode at a path of one layer, and whether the path hides the layers below.
    fn walk(
        &self,
        layer: usize,
        path: &[u8],
        wait_mode: WaitMode,
    ) -> Result<(Option<Arc<Inode>>, bool), Errno> {
        let mut at = Arc::clone(self.fs.lowers[layer].root());
        let mut hides_lower = false;
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            let Some(next) = lookup(&at, name, wait_mode)? else {
                return Ok((None, hides_lower));
            };
            if names.peek().is_some() {
                if !next.is_dir() {
                    return Ok((None, true));
                }
                hides_lower |= self.dir_marks(&next, wait_mode)?.opaque;
            }
            at = next;
        }
        Ok((Some(at), hides_lower))
    }

    /// What a name in this directory is in the lower layers alone.
    ///
    /// # Errors
    /// Those of a layer.
    pub(crate) fn find_in_lowers(&self, name: &[u8]) -> Result<Option<MergedLookup>, Errno> {
        let mut result = MergedLookup {
            upper: None,
            lowers: Vec::new(),
            origin: Origin::None,
            number: None,
            impure: false,
        };
        let location = LowerLocation::Name(name.to_vec());
        self.find_lowers(&mut result, location, WaitMode::Wait)?;
        Ok(Some(result).filter(|result| !result.lowers.is_empty()))
    }

    /// Whether a lower layer has something under this name that would show without the upper tree.
    ///
    /// # Errors
    /// Those of a layer.
    pub(crate) fn is_in_lower(&self, name: &[u8]) -> Result<bool, Errno> {
        for lower in self.lowers() {
            if let Some(found) = lookup(&lower.inode, name, WaitMode::Wait)? {
                return Ok(!self.fs.is_lower_whiteout(&found));
            }
        }
        Ok(false)
    }

    /// The path of a directory in the lower layers, from their roots and without a leading slash.
    ///
    /// # Errors
    /// `EIO`: it has none.
    pub(crate) fn lower_path(&self) -> Result<Vec<u8>, Errno> {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        let mut at = match &self.origin {
            Origin::Name(dir, name) => {
                names.push(name.clone());
                Some(Arc::clone(dir))
            }
            Origin::Path(path) => return Ok(path.to_vec()),
            Origin::Root | Origin::None => return Err(Errno::EIO),
        };
        while let Some(dir) = at {
            let node = Self::of(&dir).ok_or(Errno::EIO)?;
            at = match &node.origin {
                Origin::Name(dir, name) => {
                    names.push(name.clone());
                    Some(Arc::clone(dir))
                }
                Origin::Path(path) => {
                    names.push(path.clone());
                    None
                }
                Origin::Root => None,
                Origin::None => return Err(Errno::EIO),
            };
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }
}
