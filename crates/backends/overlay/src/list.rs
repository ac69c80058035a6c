// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists directories: the names of all layers of a merged directory, each once and without
//! whiteouts, or the entries of the only layer.
//!
//! # Positions
//! A directory that is merged, or may become so, is listed in the order of a hash of its names: the
//! position of a name depends on the name alone, whatever other names come and go. Other
//! directories keep the order of their layer.
//!
//! # Rules
//! R1. A merged listing is cached for the next call, if the directory did not change; the cache is
//!     bounded for all directories together. A listing that is not cached is built again.

use crate::fs::Fs;
use crate::layer::{list_dir, lookup_locked};
use crate::listings::{ListEntry, Listing};
use crate::node::Node;
use openpath_abi::{Errno, dirent, mode};
use openpath_vfs::{Inode, ListedEntry, WaitMode};
use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

/// Bits of a hash that do not fit into a position.
const SPARE_BITS: u32 = 2;

/// How many entries are listed before their numbers are looked up.
const BATCH: usize = 128;

fn position(name: &[u8]) -> i64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    ((hasher.finish() >> SPARE_BITS) | 1).cast_signed()
}

/// A directory of a layer, and the index of that; `None`: the upper tree.
#[derive(Clone, Copy)]
struct LayerDir<'a> {
    fs: &'a Fs,
    layer: Option<usize>,
    dir: &'a Inode,
}

impl LayerDir<'_> {
    /// The type of an entry; `None` for a whiteout. Held: the directory's names.
    fn kind(&self, entry: &ListedEntry<'_>) -> Result<Option<u8>, Errno> {
        if !matches!(entry.kind, dirent::DT_CHR | dirent::DT_UNKNOWN) {
            return Ok(Some(entry.kind));
        }
        Ok(match lookup_locked(self.dir, entry.name, WaitMode::Wait)? {
            Some(inode) if self.fs.is_layer_whiteout(self.layer, &inode) => None,
            Some(inode) => Some(mode::dirent_type(inode.mode())),
            None => Some(entry.kind),
        })
    }

    /// Adds the names that no layer above has, whiteouts among them.
    fn add_names(&self, found: &mut HashMap<Box<[u8]>, Option<(u64, u8)>>) -> Result<(), Errno> {
        list_dir(self.dir, 0, &mut |entry| {
            if let Entry::Vacant(slot) = found.entry(entry.name.into()) {
                let kind = self.kind(&entry)?;
                slot.insert(kind.map(|kind| (self.fs.number(self.layer, entry.ino), kind)));
            }
            Ok(true)
        })
    }
}

impl Node {
    /// As `InodeOps::readdir`.
    pub(crate) fn list(
        &self,
        from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        if !self.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if self.is_merged() {
            self.list_merged(from, emit)
        } else {
            self.list_plain(from, emit)
        }
    }

    fn layer_dir<'a>(&'a self, layer: Option<usize>, dir: &'a Inode) -> LayerDir<'a> {
        let fs = &self.fs;
        LayerDir { fs, layer, dir }
    }

    fn list_merged(
        &self,
        from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        let listing = self.listing(from != 0)?;
        let begin = listing
            .entries
            .partition_point(|entry| entry.position < from);
        for entry in &listing.entries[begin..] {
            let next = entry.position + 1;
            let continues = emit(ListedEntry {
                name: &entry.name,
                ino: entry.ino,
                kind: entry.kind,
                next,
            });
            if !continues {
                break;
            }
        }
        // After a result the caller asks once more, if only to learn the end.
        if begin < listing.entries.len() {
            let dropped = self.fs.listings.lock().insert(self.address(), &listing);
            drop(dropped);
        } else {
            self.fs.listings.lock().remove(self.address());
        }
        Ok(())
    }

    /// The names of a merged directory; the cached ones if the listing `continues` and nothing
    /// changed.
    pub(crate) fn listing(&self, continues: bool) -> Result<Arc<Listing>, Errno> {
        let version = self.version.get();
        if continues || !self.fs.revalidates {
            let kept = self.fs.listings.lock().get(self.address());
            if let Some(kept) = kept.filter(|kept| kept.version == version) {
                return Ok(kept);
            }
        }
        let mut found: HashMap<Box<[u8]>, Option<(u64, u8)>> = HashMap::new();
        if let Some(upper) = self.upper() {
            self.layer_dir(None, upper).add_names(&mut found)?;
        }
        for lower in self.lowers() {
            let layer_dir = self.layer_dir(Some(lower.layer), &lower.inode);
            layer_dir.add_names(&mut found)?;
        }
        let mut entries: Vec<_> = found
            .into_iter()
            .filter_map(|(name, entry)| {
                let (ino, kind) = entry?;
                let position = position(&name);
                Some(ListEntry {
                    name,
                    ino,
                    kind,
                    position,
                })
            })
            .collect();
        entries.sort_unstable_by(|a, b| (a.position, &a.name).cmp(&(b.position, &b.name)));
        let mut before = 0;
        for entry in &mut entries {
            entry.position = entry.position.max(before + 1);
            before = entry.position;
        }
        if let Some(upper) = self.upper() {
            self.renumber(upper, &mut entries)?;
        }
        Ok(Arc::new(Listing { version, entries }))
    }

    /// Gives entries of the upper tree the numbers that they show.
    fn renumber(&self, upper: &Inode, entries: &mut [ListEntry]) -> Result<(), Errno> {
        let own = self.fs.number(None, 0);
        for entry in entries {
            // A name of a lower layer has that layer's number, and is not in the upper tree.
            if entry.ino >> 56 == own >> 56
                && crate::layer::lookup(upper, &entry.name, WaitMode::Wait)?.is_some()
                && let Some(result) = self.find_layers(&entry.name, WaitMode::Wait)?
            {
                entry.ino = self.fs.number_of(&result);
            }
        }
        Ok(())
    }

    fn list_plain(
        &self,
        from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        if self.impure.get() != 0 {
            return self.list_impure(from, emit);
        }
        let dir = self.real();
        let layer = match self.upper() {
            Some(_) => None,
            None => self.lowers().first().map(|lower| lower.layer),
        };
        let layer_dir = self.layer_dir(layer, dir);
        list_dir(dir, from, &mut |entry| {
            let ino = self.fs.number(layer, entry.ino);
            let Some(kind) = layer_dir.kind(&entry)? else {
                return Ok(true);
            };
            Ok(emit(ListedEntry { ino, kind, ..entry }))
        })
    }

    /// As [`Node::list_plain`], where some files show other numbers than their own.
    fn list_impure(
        &self,
        mut from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        let dir = self.real();
        // Only directories of the upper tree are marked as impure.
        let layer_dir = self.layer_dir(None, dir);
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            list_dir(dir, from, &mut |entry| {
                if let Some(kind) = layer_dir.kind(&entry)? {
                    batch.push((entry.name.to_vec(), kind, entry.next));
                }
                from = entry.next;
                Ok(batch.len() < BATCH)
            })?;
            for (name, kind, next) in &batch {
                let (kind, next) = (*kind, *next);
                // A name that was removed meanwhile is left out.
                let Some(result) = self.find_layers(name, WaitMode::Wait)? else {
                    continue;
                };
                let ino = self.fs.number_of(&result);
                if !emit(ListedEntry {
                    name,
                    ino,
                    kind,
                    next,
                }) {
                    return Ok(());
                }
            }
            if batch.len() < BATCH {
                return Ok(());
            }
        }
    }

    /// # Errors
    /// `ENOTEMPTY`: the directory shows a name.
    pub(crate) fn check_empty(&self) -> Result<(), Errno> {
        let mut empty = true;
        self.list(0, &mut |_| {
            empty = false;
            false
        })?;
        if empty { Ok(()) } else { Err(Errno::ENOTEMPTY) }
    }
}
