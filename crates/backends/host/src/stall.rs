// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests a gate at which the host's calls below one directory hang until it opens, and a
//! directory of files to use it on.
//!
//! # Rules
//! R1. A call that looks at, opens, reads or renames a file below the directory waits at its gate;
//!     a call that may not wait fails with `EAGAIN`. Everything else passes.

mod lookups;
mod moves;
mod notify;

use openpath_abi::{Errno, OFlags};
use openpath_vfs::{Task, WaitMode};
use rustix::fd::{AsFd, AsRawFd as _};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// All shut gates.
static GATES: Mutex<Vec<Arc<Gate>>> = Mutex::new(Vec::new());

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called before a call of the host that is about `name` in `dir`.
///
/// # Errors
/// `EAGAIN`: it would wait and may not.
pub(crate) fn pass(dir: impl AsFd, name: &[u8], wait_mode: WaitMode) -> Result<(), Errno> {
    let gates = lock(&GATES).clone();
    if gates.is_empty() {
        return Ok(());
    }
    let link = format!("/proc/self/fd/{}", dir.as_fd().as_raw_fd());
    let Ok(mut path) = std::fs::read_link(link) else {
        return Ok(());
    };
    if !name.is_empty() {
        path.push(OsStr::from_bytes(name));
    }
    for gate in gates {
        if path != gate.dir && path.starts_with(&gate.dir) {
            gate.wait(wait_mode)?;
        }
    }
    Ok(())
}

/// Blocks calls below a directory.
struct Gate {
    dir: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: bool,
    waiting: usize,
    refused: usize,
}

impl Gate {
    fn shut(dir: PathBuf) -> ShutGate {
        let gate = Arc::new(Self {
            dir,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        lock(&GATES).push(Arc::clone(&gate));
        ShutGate(gate)
    }

    fn wait(&self, wait_mode: WaitMode) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if wait_mode == WaitMode::Cached && !state.open {
            state.refused += 1;
            return Err(Errno::EAGAIN);
        }
        state.waiting += 1;
        self.changed.notify_all();
        while !state.open {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        Ok(())
    }
}

/// A shut gate, which opens when this is dropped.
struct ShutGate(Arc<Gate>);

impl ShutGate {
    /// Waits until so many calls wait at the gate.
    fn await_waiting(&self, count: usize) {
        let mut state = lock(&self.0.state);
        while state.waiting < count {
            let woken = self.0.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many calls wait, and how many were refused.
    fn counts(&self) -> (usize, usize) {
        let state = lock(&self.0.state);
        (state.waiting, state.refused)
    }
}

impl Drop for ShutGate {
    fn drop(&mut self) {
        lock(&GATES).retain(|gate| !Arc::ptr_eq(gate, &self.0));
        lock(&self.0.state).open = true;
        self.0.changed.notify_all();
    }
}

/// A directory with one subdirectory that hangs and one that does not.
struct TestDir(PathBuf);

/// Files of the quick directory, each used once.
const QUICK_FILES: usize = 200;
impl TestDir {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir();
        let place = place.join(format!("openpath-stall-{}-{name}", std::process::id()));
        let _left_over = std::fs::remove_dir_all(&place);
        for (dir, count) in [("slow", 4), ("quick", QUICK_FILES)] {
            std::fs::create_dir_all(place.join(dir)).expect("a directory");
            for n in 0..count {
                std::fs::write(place.join(dir).join(format!("f{n}")), "x").expect("a file");
            }
        }
        Self(place.canonicalize().expect("a path"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _goes_if_it_can = std::fs::remove_dir_all(&self.0);
    }
}

fn opens(task: &Task, path: &str, flags: OFlags) -> Result<(), Errno> {
    let fd = task.open(path.as_bytes(), flags, 0o644)?;
    task.close(fd)
}
