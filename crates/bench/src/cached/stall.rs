// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a tree in which every lookup waits, as on a disk that does not answer.

use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Inode, InodeOps, LookupResult, SuperBlock, SuperBlockOps, SuperBlockOptions, WaitMode,
};

/// Blocks the lookups until it is opened.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    open: bool,
    waiting: usize,
}

impl Gate {
    /// How many lookups wait.
    pub(super) fn waiting(&self) -> usize {
        let (state, _) = &*self.0;
        state.lock().unwrap_or_else(PoisonError::into_inner).waiting
    }

    /// Lets all present and later lookups continue.
    pub(super) fn open(&self) {
        let (state, opened) = &*self.0;
        state.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        opened.notify_all();
    }

    fn pass(&self) {
        let (state, opened) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        while !state.open {
            state = opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
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
        self.0.pass();
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
