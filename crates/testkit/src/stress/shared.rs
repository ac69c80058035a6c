// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes one folder of the mount from all processes at once. Each call must succeed, or fail with
//! an error that another process's change explains.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::rng::Rng;

/// Names that all processes use.
const NAMES: usize = 16;
/// Errors that a call may meet when others change its objects: `ENOENT`, `EEXIST`, `ENOTDIR`,
/// `EISDIR`, `ENOTEMPTY`, `EINVAL` (a folder into itself), `ESTALE` (it vanished meanwhile).
const EXPECTED: [i32; 7] = [2, 17, 20, 21, 39, 22, 116];

/// The folder, as one process uses it.
pub(super) struct SharedFolder {
    top: PathBuf,
    number: u64,
}

impl SharedFolder {
    pub(super) fn new(top: PathBuf, number: u64) -> io::Result<Self> {
        fs::create_dir_all(&top)?;
        Ok(Self { top, number })
    }

    /// Makes one random change.
    pub(super) fn step(&mut self, rng: &mut Rng, wrong: &mut Vec<String>) {
        let mut name = || self.top.join(format!("n{}", rng.below(NAMES)));
        let (one, two) = (name(), name());
        let what = rng.below(9);
        let done = match what {
            0 => File::create(&one).and_then(|mut f| writeln!(f, "{}", self.number)),
            1 => fs::create_dir(&one),
            2 | 3 => fs::rename(&one, &two),
            4 => fs::remove_file(&one),
            5 => fs::remove_dir(&one),
            6 => fs::hard_link(&one, &two),
            7 => fs::read_dir(&self.top)
                .and_then(|all| all.into_iter().try_for_each(|e| e.map(drop))),
            _ => fs::metadata(&one).map(drop),
        };
        if let Err(why) = done
            && !why
                .raw_os_error()
                .is_some_and(|errno| EXPECTED.contains(&errno) || (what == 6 && errno == 1))
        {
            let (one, two) = (one.display(), two.display());
            wrong.push(format!("shared, kind {what}, {one}, {two}: {why}"));
        }
    }
}
