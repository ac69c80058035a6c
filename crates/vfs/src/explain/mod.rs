// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains a call: runs it up to its first change, and records the steps of the walk and the check
//! that gave the errno.
//!
//! # Kernel analogue
//! None. strace(1) shows the errno of a call, and not which of a dozen rules gave it.
//!
//! # How
//! An explanation runs the call itself, with hooks (`task::tell`): the same walk, the same order of
//! checks. It walks with references, since only those walks have hooks; the answer of the lock-free
//! walk is found beforehand (`probe`).
//!
//! # Side effects
//! None that a call could see: no file is made, opened or truncated, no time moves. Names that were
//! not cached are looked up and cached, link bodies are kept, and the path may enter the path
//! cache; the explanation tells what was cached before. A backend is asked to look names up, and to
//! read links. It is not asked about a change, or about the open itself.

mod probe;
mod text;

pub use probe::{FastPath, Lane};

use crate::file_ops::Fd;
use crate::open;
use crate::ops::at_lookup;
use crate::steps::{Check, Step};
use crate::task::{Core, Task};
use crate::walk::lflag;
use openpath_abi::fcntl::O_CREAT;
use openpath_abi::{AtFlags, Errno, Mode, OFlags, OpenHow};

/// A call that can be explained.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ExplainOp<'a> {
    /// openat(2).
    Openat {
        /// The start of a relative path.
        dirfd: Fd,
        /// The path.
        path: &'a [u8],
        /// `O_*`.
        flags: OFlags,
        /// Permission bits of a new file.
        mode: Mode,
    },
    /// openat2(2).
    Openat2 {
        /// The start of a relative path.
        dirfd: Fd,
        /// The path.
        path: &'a [u8],
        /// How to open it.
        how: OpenHow,
    },
    /// newfstatat(2); stat(2) and lstat(2) by their flags.
    Stat {
        /// The start of a relative path.
        dirfd: Fd,
        /// The path.
        path: &'a [u8],
        /// `AT_*`.
        at_flags: AtFlags,
    },
    /// faccessat2(2).
    Access {
        /// The start of a relative path.
        dirfd: Fd,
        /// The path.
        path: &'a [u8],
        /// `R_OK`, `W_OK`, `X_OK`.
        want: u32,
        /// `AT_*`.
        at_flags: AtFlags,
    },
}

/// The course of a call that was not made.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The name of the call.
    pub call: &'static str,
    /// Its path.
    pub path: Vec<u8>,
    /// The lane that answers its path; `None` for a call that fails by its arguments.
    pub fast: Option<FastPath>,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// Its result: as of the call itself, unless a backend would decide it.
    pub result: Result<(), Errno>,
}

impl Explanation {
    /// The check that gave the errno.
    #[must_use]
    pub fn refused_by(&self) -> Option<Check> {
        self.result.err()?;
        self.steps.iter().rev().find_map(|step| match step {
            Step::Refused { check, .. } => Some(*check),
            _ => None,
        })
    }
}

impl Task {
    /// Explains a call without making it; the head of this module lists the side effects.
    ///
    /// ```
    /// # fn main() -> Result<(), openpath_abi::Errno> {
    /// # use openpath_abi::AtFlags;
    /// # use openpath_vfs::{Check, ExplainOp, Task};
    /// # fn explained(task: &Task) {
    /// let at_flags = AtFlags::empty();
    /// let why = task.explain(&ExplainOp::Stat { dirfd: -100, path: b"/no/such", at_flags });
    /// assert_eq!(why.refused_by(), Some(Check::Absent));
    /// print!("{why}");
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn explain(&self, op: &ExplainOp<'_>) -> Explanation {
        match *op {
            ExplainOp::Openat {
                dirfd,
                path,
                flags,
                mode,
            } => {
                let asked = open::openat_op(&self.core, flags, mode.bits());
                self.explain_open("openat", dirfd, path, asked)
            }
            ExplainOp::Openat2 { dirfd, path, how } => {
                let asked = open::openat2_op(&self.core, &how);
                self.explain_open("openat2", dirfd, path, asked)
            }
            ExplainOp::Stat {
                dirfd,
                path,
                at_flags,
            } => self.explain_call("stat", dirfd, path, at_lookup(at_flags), || {
                self.fstatat(dirfd, path, at_flags).map(drop)
            }),
            ExplainOp::Access {
                dirfd,
                path,
                want,
                at_flags,
            } => self.explain_call("access", dirfd, path, at_lookup(at_flags), || {
                self.faccessat2(dirfd, path, want, at_flags)
            }),
        }
    }

    fn explain_open(
        &self,
        call: &'static str,
        dirfd: Fd,
        path: &[u8],
        asked: Result<open::OpenOp, Errno>,
    ) -> Explanation {
        let core = &self.core;
        let op = match asked {
            Ok(op) => op,
            Err(errno) => return Explanation::of_arguments(call, path, errno),
        };
        let last = if op.has(O_CREAT) {
            probe::LastUse::Create
        } else {
            probe::LastUse::Enter
        };
        let fast = probe::ask(core, core.base(dirfd).at(), path, op.lookup, last);
        let cached = op.lookup & lflag::CACHED != 0;
        let left = cached && !fast.is_lock_free() && open::admit(core, path, &op).is_ok();
        if left && !fast.goes_on {
            return Explanation::not_cached(call, path, fast);
        }
        let op = open::OpenOp {
            lookup: if left {
                op.lookup
            } else {
                // A cached answer is the same with references.
                op.lookup & !lflag::CACHED
            },
            ..op
        };
        let telling = ExplainGuard::begin(core);
        let result = open::dry_run(core, dirfd, path, &op);
        Explanation::of(call, path, Some(fast), telling, result)
    }

    fn explain_call(
        &self,
        name: &'static str,
        dirfd: Fd,
        path: &[u8],
        lookup: u32,
        call: impl FnOnce() -> Result<(), Errno>,
    ) -> Explanation {
        let core = &self.core;
        let enter = probe::LastUse::Enter;
        let fast = probe::ask(core, core.base(dirfd).at(), path, lookup, enter);
        let telling = ExplainGuard::begin(core);
        let result = call();
        Explanation::of(name, path, Some(fast), telling, result)
    }
}

/// A call is being explained until this is dropped.
struct ExplainGuard<'t> {
    core: &'t Core,
    lock_free: bool,
}

impl<'t> ExplainGuard<'t> {
    /// From now on the task reports its steps, and walks with references.
    fn begin(core: &'t Core) -> Self {
        core.step_log.begin();
        Self {
            core,
            lock_free: core.lock_free.replace(false),
        }
    }

    /// The steps, and whether the call stopped before a change.
    fn end(self) -> (Vec<Step>, bool) {
        self.core.step_log.take()
    }
}

impl Drop for ExplainGuard<'_> {
    fn drop(&mut self) {
        self.core.step_log.end();
        self.core.lock_free.set(self.lock_free);
    }
}

impl Explanation {
    fn of(
        call: &'static str,
        path: &[u8],
        fast: Option<FastPath>,
        telling: ExplainGuard<'_>,
        result: Result<(), Errno>,
    ) -> Self {
        let (mut steps, stopped) = telling.end();
        let result = if stopped { Ok(()) } else { result };
        if let Err(errno) = result {
            let told = matches!(steps.last(), Some(Step::Refused { errno: e, .. }) if *e == errno);
            let check = if steps.is_empty() {
                Check::before_walk(errno)
            } else {
                Check::Call
            };
            if !told {
                steps.push(Step::Refused { check, errno });
            }
        }
        Self {
            call,
            path: path.to_vec(),
            fast: fast.filter(|_| steps.len() > 1 || result.is_ok()),
            steps,
            result,
        }
    }

    /// Of a call that fails by its arguments.
    fn of_arguments(call: &'static str, path: &[u8], errno: Errno) -> Self {
        Self {
            call,
            path: path.to_vec(),
            fast: None,
            steps: vec![Step::Refused {
                check: Check::Arguments,
                errno,
            }],
            result: Err(errno),
        }
    }

    /// Of a call that had to be answered from the cache, and cannot be.
    fn not_cached(call: &'static str, path: &[u8], fast: FastPath) -> Self {
        let errno = Errno::EAGAIN;
        Self {
            call,
            path: path.to_vec(),
            fast: Some(fast),
            steps: vec![Step::Refused {
                check: Check::Cached,
                errno,
            }],
            result: Err(errno),
        }
    }
}
