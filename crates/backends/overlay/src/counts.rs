// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was copied up so far, and whether a path was.

use crate::fs::Fs;
use crate::layer::look;
use crate::node::Node;
use crate::superblock::OverlayFs;
use crate::whiteout::is_whiteout;
use openpath_abi::Errno;
use openpath_sync::Word;
use openpath_vfs::{Patience, SuperBlock};
use std::sync::Arc;

/// What an overlay copied up since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes of files, holes included.
    pub bytes: u64,
}

/// The same, while it is counted.
#[derive(Default)]
pub(crate) struct Counts {
    files: Word,
    bytes: Word,
}

impl Counts {
    pub(crate) fn file(&self) {
        self.files.add(1);
    }

    pub(crate) fn bytes(&self, n: u64) {
        self.bytes.add(n);
    }
}

fn fs_of(sb: &SuperBlock) -> Result<&Arc<Fs>, Errno> {
    let node = Node::of(sb.root()).ok_or(Errno::EINVAL)?;
    Ok(&node.fs)
}

impl OverlayFs {
    /// What this overlay copied up since it was made.
    ///
    /// # Errors
    /// `EINVAL`: it is no overlay.
    pub fn copied(sb: &SuperBlock) -> Result<Copied, Errno> {
        let counts = &fs_of(sb)?.copied;
        Ok(Copied {
            files: counts.files.get(),
            bytes: counts.bytes.get(),
        })
    }

    /// Whether the upper tree has something by this path, without links, from the root on: there a
    /// change needs no copy first.
    ///
    /// # Errors
    /// `EINVAL` (it is no overlay), what the upper tree meets.
    pub fn is_above(sb: &SuperBlock, path: &[u8]) -> Result<bool, Errno> {
        let Some(upper) = &fs_of(sb)?.upper else {
            return Ok(false);
        };
        let mut at = Arc::clone(&upper.root);
        for name in path.split(|byte| *byte == b'/').filter(|n| !n.is_empty()) {
            if !at.is_dir() {
                return Ok(false);
            }
            match look(&at, name, Patience::Wait)? {
                Some(next) if !is_whiteout(&next) => at = next,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}
