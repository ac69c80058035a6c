// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays a trace: builds its tree on each side, and makes the same opens and closes there.
//!
//! Files that the compilation created exist from the start, so that every replay finds the same
//! tree. So `O_EXCL` and `O_TRUNC` are left out, and so is an open that failed only because its
//! file did not exist yet. All files are empty; nothing is read.

use std::cell::Cell;
use std::rc::Rc;

use openpath_abi::fcntl::O_TRUNC;

use super::record::{Open, Trace};
use crate::common::*;

/// How many equal parts the trace has; a window is some of them.
const SLICES: usize = 32;

struct Step {
    path: CString,
    flags: OFlags,
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
        root.enter()?;
        grow(trace, &Kernel)?;
        enter(root, &trace.cwd)?;
        let mut steps = Vec::new();
        for &Open(path, flags, errno) in &trace.opens {
            let path = CString::new(trace.paths[path].as_str()).setup("a path of the trace")?;
            let flags = OFlags::from_bits_retain(flags) & !(O_EXCL | O_TRUNC);
            steps.push(Step { path, flags, errno });
        }
        steps.retain(|step| step.is_right(&Kernel));
        let left_out = trace.opens.len() - steps.len();
        Ok(Self { steps, left_out })
    }

    /// The numbers of opens and of failed opens.
    pub(super) fn counts(&self) -> (usize, usize) {
        let failed = self.steps.iter().filter(|step| step.errno != 0).count();
        (self.steps.len(), failed)
    }

    /// Adds the replay on one side; `enter` makes the tree's root and directory the side's own.
    pub(super) fn add<'a>(
        &'a self,
        plan: &mut Plan<'a>,
        side: &'a impl Calls,
        mut enter: impl FnMut() -> Result<(), Error> + 'a,
    ) -> Id {
        let run = move |first: usize, slices: u64| {
            let (mut wrong, count) = (0, self.steps.len());
            for at in (first..first + slices as usize).map(|at| at % SLICES) {
                for step in &self.steps[count * at / SLICES..count * (at + 1) / SLICES] {
                    wrong += u64::from(!step.is_right(side));
                }
            }
            wrong
        };
        // The next slice, and how many the last window had.
        let state = Rc::new((Cell::new(0), Cell::new(1)));
        let ahead = Rc::clone(&state);
        let enter = move || {
            enter()?;
            // Untimed, the slices that the next window will time.
            run(ahead.0.get(), ahead.1.get());
            Ok(())
        };
        let id = plan.add("header-search", Heat::Cold, enter, move |slices| {
            let (at, last) = &*state;
            last.set(slices);
            let next = (at.get() + slices as usize) % SLICES;
            run(at.replace(next), slices)
        });
        // An operation of this side is a slice.
        plan.stands_for(id, self.steps.len() as f64 / SLICES as f64);
        id
    }
}

impl Step {
    /// Opens and closes; returns whether the result is the recorded one.
    #[inline(always)]
    fn is_right(&self, side: &impl Calls) -> bool {
        match side.open(&self.path, self.flags, 0o644) {
            Ok(fd) => side.close(fd) && self.errno == 0,
            Err(errno) => errno.raw() == self.errno,
        }
    }
}

/// Enters the working directory of a trace below a root of the host.
pub(super) fn enter(root: &Root, cwd: &str) -> Result<(), Error> {
    root.enter()?;
    std::env::set_current_dir(cwd).host("enter the project")
}

/// Builds the tree of `trace` in the root.
fn grow(trace: &Trace, side: &impl Calls) -> Result<(), Error> {
    for dir in &trace.dirs {
        side.make_dir(dir.as_bytes())?;
    }
    for (path, target) in &trace.links {
        side.make_link(target.as_bytes(), path.as_bytes())?;
    }
    let mut files = trace.files.iter();
    files.try_for_each(|file| side.make_file(file.as_bytes(), b""))
}

/// Builds the tree of `trace` in the task's instance and enters its working directory.
pub(super) fn grow_ours(trace: &Trace, task: &Task) -> Result<(), Error> {
    grow(trace, task)?;
    task.chdir(trace.cwd.as_bytes()).setup("enter the project")
}
