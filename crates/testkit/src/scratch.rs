// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes directories of the host that are removed when dropped.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of the host for this process alone, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty directory with this word in its name, among the temporary files.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub fn new(word: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), word)
    }

    /// As [`Scratch::new`], in memory if the host has `/dev/shm`.
    pub(crate) fn in_memory(word: &str) -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        match memory.is_dir() {
            true => Self::within(memory, word),
            false => Self::new(word),
        }
    }

    fn within(base: &Path, word: &str) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("openpath-{word}-{}-{number}", std::process::id()));
        let _left_over = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It holds only small files; one that stays does no harm.
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}
