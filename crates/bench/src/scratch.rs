// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes directories of the host that are removed when dropped.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A directory of the host for this process alone, removed when dropped.
pub(crate) struct Scratch(PathBuf);

/// The most of them in one process at once.
const MOST: usize = 1000;

impl Scratch {
    /// Makes an empty directory in `folder`; its path has no symbolic link.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let (folder, process) = (fs::canonicalize(folder)?, std::process::id());
        for n in 0..MOST {
            let path = folder.join(format!("openpath-bench-scratch-{process}-{n}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
