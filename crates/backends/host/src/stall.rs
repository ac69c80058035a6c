// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that stands still below one directory, for as long as a test wants, and what goes on
//! meanwhile.
//!
//! # Rules
//! R1. Who looks at, opens, reads or renames what is below the directory waits at its gate; who may
//!     not wait is told `EAGAIN`. Everything else passes.

mod goes_on;
mod moves;
mod told;

use openpath_abi::Errno;
use openpath_vfs::{Patience, Task};
use rustix::fd::{AsFd, AsRawFd as _};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// All gates that are shut.
static GATES: Mutex<Vec<Arc<Gate>>> = Mutex::new(Vec::new());

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called before a call of the host that is about `name` in `dir`.
///
/// # Errors
/// `EAGAIN`: it would wait and may not.
pub(crate) fn pass(dir: impl AsFd, name: &[u8], patience: Patience) -> Result<(), Errno> {
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
            gate.stand(patience)?;
        }
    }
    Ok(())
}

/// What holds up who goes below a directory.
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
    fn shut(dir: PathBuf) -> Shut {
        let gate = Arc::new(Self {
            dir,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        lock(&GATES).push(Arc::clone(&gate));
        Shut(gate)
    }

    fn stand(&self, patience: Patience) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        if patience == Patience::Cached && !state.open {
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

/// A gate that opens when this goes.
struct Shut(Arc<Gate>);

impl Shut {
    /// Waits until so many stand before it.
    fn await_waiting(&self, count: usize) {
        let mut state = lock(&self.0.state);
        while state.waiting < count {
            let woken = self.0.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many stand before it, and how many were told not to.
    fn counts(&self) -> (usize, usize) {
        let state = lock(&self.0.state);
        (state.waiting, state.refused)
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        lock(&GATES).retain(|gate| !Arc::ptr_eq(gate, &self.0));
        lock(&self.0.state).open = true;
        self.0.changed.notify_all();
    }
}

/// A directory with one below that is to stand still and one that is not.
struct Stage(PathBuf);

/// Files of the quiet directory that are asked for once each.
const OTHERS: usize = 200;
impl Stage {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir();
        let place = place.join(format!("openpath-stall-{}-{name}", std::process::id()));
        let _left_over = std::fs::remove_dir_all(&place);
        for (dir, count) in [("slow", 4), ("quick", OTHERS)] {
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

impl Drop for Stage {
    fn drop(&mut self) {
        let _goes_if_it_can = std::fs::remove_dir_all(&self.0);
    }
}

fn opens(task: &Task, path: &str, flags: u32) -> Result<(), Errno> {
    let fd = task.open(path.as_bytes(), flags, 0o644)?;
    task.close(fd)
}
