// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a tree in which every lookup waits, as on a disk that does not answer.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Inode, InodeOps, LookupResult, SuperBlock, SuperBlockOps, SuperBlockOptions, WaitMode,
};

/// Blocks the lookups while it is shut, and counts those that wait.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<(Mutex<()>, AtomicUsize)>);

impl Gate {
    /// How many lookups wait.
    pub(super) fn waiting(&self) -> usize {
        self.0.1.load(Relaxed)
    }

    /// Shuts it until the guard is dropped.
    pub(super) fn shut(&self) -> MutexGuard<'_, ()> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Dir(Gate);
struct Tree;

impl InodeOps for Dir {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, _: &Inode, _: &[u8], wait_mode: WaitMode) -> Result<LookupResult, Errno> {
        if wait_mode == WaitMode::Cached {
            return Ok(LookupResult::WouldBlock);
        }
        self.0.0.1.fetch_add(1, Relaxed);
        drop(self.0.shut());
        self.0.0.1.fetch_sub(1, Relaxed);
        Ok(LookupResult::Absent)
    }
}

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

/// A tree behind this gate: an empty directory.
pub(super) fn tree(gate: &Gate) -> Arc<SuperBlock> {
    let attr = Attr {
        mode: mode::S_IFDIR | 0o755,
        nlink: 2,
        ..Attr::default()
    };
    let root = Inode::new(1, 0, attr, Timespec::default(), Box::new(Dir(gate.clone())));
    let options = SuperBlockOptions::default().tries(true);
    SuperBlock::new(root, Box::new(Tree), options)
}
