// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a cached name costs in memory: a tree that a backend holds already is looked up by a
//! fresh instance, and the process's resident set grows by what the cache takes.

use std::fs;

use openpath_mem::{MemFs, MemOptions};

use crate::error::Error;
use crate::ours;
use crate::row::Row;

const FILES: usize = 400_000;
const IN_ONE_DIR: usize = 1000;
const PAGE: u64 = 4096;

/// The row's name.
pub const NAME: &str = "bytes-per-dentry";

/// The row.
///
/// # Errors
/// `Setup` if the tree cannot be built or looked up.
pub fn row() -> Result<Row, Error> {
    let root = MemFs::new(MemOptions::default());
    let first = ours::over(root.clone())?;
    let task = ours::task(&first)?;
    for i in 0..FILES {
        if i % IN_ONE_DIR == 0 {
            ours::mkdir(&task, dir(i).as_bytes())?;
        }
        ours::touch(&task, file(i).as_bytes())?;
    }
    drop((task, first));
    let second = ours::over(root)?;
    let task = ours::task(&second)?;
    let before = resident()?;
    for i in 0..FILES {
        task.stat(file(i).as_bytes())
            .map_err(|e| Error::setup("look a file up", e))?;
    }
    let grown = resident()?.saturating_sub(before);
    let cached = FILES + FILES / IN_ONE_DIR;
    Ok(Row::count(NAME, "B", grown as f64 / cached as f64))
}

fn dir(i: usize) -> String {
    format!("/directory-{:06}", i / IN_ONE_DIR)
}

fn file(i: usize) -> String {
    format!("{}/sixteen-b-{i:06}", dir(i))
}

fn resident() -> Result<u64, Error> {
    let text = fs::read_to_string("/proc/self/statm").map_err(|e| Error::host("read statm", e))?;
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok(pages.unwrap_or(0) * PAGE)
}
