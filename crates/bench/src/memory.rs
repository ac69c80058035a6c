// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the memory of a cached name: a fresh instance looks up a tree that its backend holds
//! already, and the process's resident set grows by the cache.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::calls::Calls;
use crate::error::Error;
use crate::ours;
use crate::row::Row;

const FILES: usize = 1_000_000;
const IN_ONE_DIR: usize = 1000;
const PAGE: u64 = 4096;

/// The row's name.
pub(crate) const NAME: &str = "bytes-per-dentry";

/// The row.
pub(crate) fn row() -> Result<Row, Error> {
    let root = ours::memory();
    let first = ours::over(root.clone())?;
    let task = ours::task(&first)?;
    for i in 0..FILES {
        if i % IN_ONE_DIR == 0 {
            task.make_dir(dir(i).as_bytes())?;
        }
        task.make_file(file(i).as_bytes(), b"")?;
    }
    drop((task, first));
    let second = ours::over(root)?;
    let task = ours::task(&second)?;
    let resident = Resident::open()?;
    let before = resident.bytes()?;
    for i in 0..FILES {
        task.stat(file(i).as_bytes())
            .map_err(|e| Error::setup("look a file up", e))?;
    }
    let grown = resident.bytes()?.saturating_sub(before);
    let cached = FILES + FILES / IN_ONE_DIR;
    Ok(Row::count(NAME, "B", grown as f64 / cached as f64))
}

fn dir(i: usize) -> String {
    format!("/directory-{:06}", i / IN_ONE_DIR)
}

fn file(i: usize) -> String {
    format!("{}/sixteen-b-{i:06}", dir(i))
}

/// The size of this process's resident set, even after a change of root directory.
pub(crate) struct Resident(File);

impl Resident {
    /// Opens the counter.
    pub(crate) fn open() -> Result<Self, Error> {
        File::open("/proc/self/statm")
            .map(Self)
            .map_err(|e| Error::host("open statm", e))
    }

    /// The size now.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        let mut text = [0; 128];
        let len = self
            .0
            .read_at(&mut text, 0)
            .map_err(|e| Error::host("read statm", e))?;
        let text = String::from_utf8_lossy(&text[..len]);
        let pages: Option<u64> = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        Ok(pages.unwrap_or(0) * PAGE)
    }
}
