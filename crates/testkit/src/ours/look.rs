// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at our tree, for a picture.

use openpath_abi::{Errno, Stat, fcntl as f};
use openpath_vfs::{At, OpenFile, Task};

use super::Reader;
use crate::eye::{Eye, Xattrs};
use crate::scan::{self, Entry};

/// The task that looks: root, in the root of the case.
pub(super) struct Look<'t> {
    pub(super) task: &'t Task,
}

/// The path as seen from the root.
fn absolute(path: &[u8]) -> Vec<u8> {
    [b"/", path].concat()
}

impl Look<'_> {
    fn open(&self, path: &[u8], flags: u32) -> Result<OpenFile<'_>, Errno> {
        let flags = flags | f::O_RDONLY | f::O_NOATIME | f::O_NOFOLLOW | f::O_NONBLOCK;
        self.task.open(&absolute(path), flags, 0)
    }
}

impl Eye for Look<'_> {
    fn lstat(&mut self, path: &[u8]) -> Result<Stat, Errno> {
        self.task.lstat(&absolute(path))
    }

    fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, Errno> {
        scan::all(&mut Reader(&self.open(path, f::O_DIRECTORY)?), 16384)
    }

    fn data(&mut self, path: &[u8], max: usize) -> Result<Vec<u8>, Errno> {
        let mut data = vec![0; max];
        let got = self.open(path, 0)?.pread(&mut data, 0)?;
        data.truncate(got);
        Ok(data)
    }

    fn body(&mut self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.task.readlinkat(At::Cwd, &absolute(path))
    }

    fn xattrs(&mut self, path: &[u8]) -> Result<Xattrs, Errno> {
        let path = absolute(path);
        let list = self.task.llistxattr(&path)?;
        let names = list.split(|&b| b == 0).filter(|n| !n.is_empty());
        names
            .map(|n| Ok((n.to_vec(), self.task.lgetxattr(&path, n)?)))
            .collect()
    }
}
