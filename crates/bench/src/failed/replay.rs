// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays a trace: builds its tree on each side, and makes the same opens and closes there.
//!
//! Files that the compilation created exist from the start, so that every replay finds the same
//! tree. So `O_EXCL` and `O_TRUNC` are left out, and so is an open that failed only because its
//! file did not exist yet. All files are empty; nothing is read.

use std::cell::Cell;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::rc::Rc;

use openpath_abi::fcntl::{AT_FDCWD, O_EXCL, O_TRUNC};
use openpath_abi::{Errno, OFlags};
use openpath_vfs::Task;

use super::trace::Trace;
use crate::error::Error;
use crate::harness::{Heat, Id, Plan};
use crate::host::Root;
use crate::{ours, sys};

/// How many equal parts the trace has; a window is one of them.
const SLICES: usize = 32;

struct Step {
    path: CString,
    flags: u32,
    /// The host's errno, 0 for success.
    errno: i32,
}

/// The repeatable opens of a trace.
pub(super) struct Replay {
    steps: Vec<Step>,
    /// How many of the trace's opens are left out.
    pub(super) left_out: usize,
}

impl Replay {
    /// Builds the tree of `trace` below `root` and finds the opens that can be repeated.
    pub(super) fn new(trace: &Trace, root: &Root) -> Result<Self, Error> {
        grow_host(trace, root)?;
        let mut out = Self {
            steps: Vec::new(),
            left_out: 0,
        };
        for open in &trace.opens {
            let path = CString::new(trace.paths[open.path].as_str())
                .map_err(|e| Error::setup("a path of the trace", e))?;
            let step = Step {
                path,
                flags: open.flags & !(O_EXCL.bits() | O_TRUNC.bits()),
                errno: open.errno,
            };
            if on_host(&step) {
                out.steps.push(step);
            } else {
                out.left_out += 1;
            }
        }
        Ok(out)
    }

    /// The numbers of opens and of failed opens.
    pub(super) fn counts(&self) -> (usize, usize) {
        let failed = self.steps.iter().filter(|step| step.errno != 0).count();
        (self.steps.len(), failed)
    }

    /// Adds the replay on our side.
    pub(super) fn add_ours<'a>(&'a self, plan: &mut Plan<'a>, task: &'a Task) -> Id {
        self.add(
            plan,
            "header-search ours",
            || Ok(()),
            |step| on_ours(task, step),
        )
    }

    /// Adds the replay on the host's side.
    pub(super) fn add_host<'a>(&'a self, plan: &mut Plan<'a>, root: &'a Root, cwd: &'a str) -> Id {
        self.add(
            plan,
            "header-search host",
            move || enter(root, cwd),
            on_host,
        )
    }

    fn add<'a>(
        &'a self,
        plan: &mut Plan<'a>,
        label: &str,
        mut enter: impl FnMut() -> Result<(), Error> + 'a,
        right: impl Fn(&Step) -> bool + 'a,
    ) -> Id {
        let slices = Rc::new(Slices::new(self, right));
        let warm = Rc::clone(&slices);
        let enter = move || {
            enter()?;
            warm.ahead();
            Ok(())
        };
        let id = plan.add(label, Heat::Cold, enter, move |ops| slices.run(ops));
        // An operation of this side is a slice.
        plan.stands_for(id, self.steps.len() as f64 / SLICES as f64);
        id
    }
}

/// Walks the trace slice by slice, repeatedly.
struct Slices<'a, F> {
    steps: &'a [Step],
    right: F,
    at: Cell<usize>,
    /// Slices of the last window: as many run untimed before the next.
    last: Cell<u64>,
}

impl<'a, F: Fn(&Step) -> bool> Slices<'a, F> {
    fn new(replay: &'a Replay, right: F) -> Self {
        Self {
            steps: &replay.steps,
            right,
            at: Cell::new(0),
            last: Cell::new(1),
        }
    }

    fn slice(&self, at: usize) -> &[Step] {
        let count = self.steps.len();
        &self.steps[count * at / SLICES..count * (at + 1) / SLICES]
    }

    fn turns(&self, turns: u64) -> u64 {
        let mut wrong = 0;
        for _ in 0..turns {
            let at = self.at.get();
            for step in self.slice(at) {
                wrong += u64::from(!(self.right)(step));
            }
            self.at.set((at + 1) % SLICES);
        }
        wrong
    }

    /// Runs untimed the slices that the next window will time.
    fn ahead(&self) {
        let at = self.at.get();
        self.turns(self.last.get());
        self.at.set(at);
    }

    fn run(&self, turns: u64) -> u64 {
        self.last.set(turns);
        self.turns(turns)
    }
}

#[inline(always)]
fn on_host(step: &Step) -> bool {
    let fd = sys::open(&step.path, step.flags, 0o644);
    if fd < 0 {
        fd == -step.errno
    } else {
        sys::close(fd) == 0 && step.errno == 0
    }
}

#[inline(always)]
fn on_ours(task: &Task, step: &Step) -> bool {
    match task.open(
        step.path.to_bytes(),
        OFlags::from_bits_retain(step.flags),
        0o644,
    ) {
        Ok(fd) => task.close(fd).is_ok() && step.errno == 0,
        Err(errno) => errno.raw() == step.errno,
    }
}

fn enter(root: &Root, cwd: &str) -> Result<(), Error> {
    root.enter()?;
    std::env::set_current_dir(cwd).map_err(|e| Error::host("enter the project", e))
}

fn grow_host(trace: &Trace, root: &Root) -> Result<(), Error> {
    root.enter()?;
    let grow = || {
        trace.dirs.iter().try_for_each(fs::create_dir_all)?;
        for (path, target) in &trace.links {
            symlink(target, path)?;
        }
        trace.files.iter().try_for_each(|file| fs::write(file, ""))
    };
    grow().map_err(|e| Error::host("build the project's tree", e))?;
    enter(root, &trace.cwd)
}

/// Builds the tree of `trace` in the task's instance and enters its working directory.
pub(super) fn grow_ours(trace: &Trace, task: &Task) -> Result<(), Error> {
    for dir in &trace.dirs {
        ours::mkdir(task, dir.as_bytes())?;
    }
    let made = |result: Result<(), Errno>| result.map_err(|e| Error::setup("build the tree", e));
    for (path, target) in &trace.links {
        made(task.symlinkat(target.as_bytes(), AT_FDCWD, path.as_bytes()))?;
    }
    for file in &trace.files {
        ours::touch(task, file.as_bytes())?;
    }
    made(task.chdir(trace.cwd.as_bytes()))
}
