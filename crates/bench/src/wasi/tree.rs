// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the tree that all sides have: at each depth 64 files of 4 KiB, as many missing names, and
//! a directory of 1,000 names.

use std::path::Path;

use crate::calls::Calls;
use crate::error::Error;
use crate::paths::{Chain, chains, rotation};
use crate::{PATHS, SEED};

/// The depths.
pub(super) const DEPTHS: [usize; 3] = [1, 5, 10];
/// Names in the listed directory.
const LISTED: usize = 1000;
/// The content of a file.
const BLOCK: [u8; 4096] = [b'x'; 4096];

/// The files of one depth. Paths are relative, and have that many names.
pub(super) struct Level {
    chains: Vec<Chain>,
    /// The files, in the order of use.
    pub(super) files: Vec<String>,
    /// Names that do not exist, in the order of use.
    pub(super) missing: Vec<String>,
    /// The directory with many names.
    pub(super) listed: String,
}

/// The tree.
pub(super) struct Tree(pub(super) Vec<Level>);

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path.strip_prefix(b"/").unwrap_or(path)).into_owned()
}

impl Level {
    fn new(depth: usize) -> Self {
        // One more than is used, for the directory.
        let mut chains = chains(PATHS + 1, depth, SEED);
        let listed = chains
            .pop()
            .map_or(String::new(), |c| text(c.file.to_bytes()));
        let used = |missing| {
            let paths = rotation(&chains, missing);
            paths.iter().map(|path| text(path.to_bytes())).collect()
        };
        Self {
            files: used(false),
            missing: used(true),
            listed,
            chains,
        }
    }

    /// Every directory, the outer ones first.
    fn dirs(&self) -> Vec<String> {
        let mut dirs: Vec<String> = self.chains.iter().flat_map(Chain::dirs).map(text).collect();
        let ends = self.listed.match_indices('/').map(|(at, _)| at);
        dirs.extend(ends.map(|at| self.listed[..at].to_owned()));
        dirs.push(self.listed.clone());
        dirs
    }

    /// Every file that only has to exist.
    fn names(&self) -> impl Iterator<Item = String> + '_ {
        (0..LISTED).map(|i| format!("{}/entry-{i:04}", self.listed))
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Self(DEPTHS.map(Level::new).into())
    }

    /// Makes it in a directory of one side.
    pub(super) fn grow(&self, side: &impl Calls, root: &Path) -> Result<(), Error> {
        let at = |name: &str| root.join(name).into_os_string().into_encoded_bytes();
        for level in &self.0 {
            for dir in level.dirs() {
                side.make_dir(&at(&dir))?;
            }
            for file in &level.files {
                side.make_file(&at(file), &BLOCK)?;
            }
            for file in level.names() {
                side.make_file(&at(&file), b"")?;
            }
        }
        Ok(())
    }
}
