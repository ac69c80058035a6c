// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the tree that all sides have: at each depth 64 files of 4 KiB, as many missing names, and
//! a directory of 1,000 names.

use std::path::Path;

use crate::common::*;

pub(super) const DEPTHS: [usize; 3] = [1, 5, 10];
/// Names in the listed directory.
const LISTED: usize = 1000;
const BLOCK: [u8; 4096] = [b'x'; 4096];

/// The files of one depth. Paths are relative, and have that many names.
pub(super) struct Level {
    /// Every directory, the outer ones first.
    dirs: Vec<String>,
    /// The files and the names that do not exist, in the order of use, and the directory with many
    /// names.
    pub(super) tables: [Vec<String>; 3],
}

pub(super) struct Tree(pub(super) Vec<Level>);

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path.strip_prefix(b"/").unwrap_or(path)).into_owned()
}

impl Level {
    fn new(depth: usize) -> Self {
        // One more than is used, for the directory.
        let mut chains = chains(PATHS + 1, depth, SEED);
        let mut dirs: Vec<String> = chains.iter().flat_map(Chain::dirs).map(text).collect();
        let listed = chains.pop();
        let listed = listed.map_or(String::new(), |chain| text(chain.file.to_bytes()));
        dirs.push(listed.clone());
        let [files, missing] = [false, true].map(|missing| {
            let paths = rotation(&chains, missing);
            paths.iter().map(|path| text(path.to_bytes())).collect()
        });
        let tables = [files, missing, vec![listed]];
        Self { dirs, tables }
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Self(DEPTHS.map(Level::new).into())
    }

    /// Makes it in a directory of one side.
    pub(super) fn grow(&self, side: &impl Calls, root: &Path) -> Result<(), Error> {
        let at = |name: &str| root.join(name).into_os_string().into_encoded_bytes();
        for Level { dirs, tables } in &self.0 {
            let [files, _, listed] = tables;
            for dir in dirs {
                side.make_dir(&at(dir))?;
            }
            for file in files {
                side.make_file(&at(file), &BLOCK)?;
            }
            for i in 0..LISTED {
                side.make_file(&at(&format!("{}/entry-{i:04}", listed[0])), b"")?;
            }
        }
        Ok(())
    }
}
