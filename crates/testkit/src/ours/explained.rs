// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks openpath to explain each operation before it runs, and checks that the explanation matches
//! the outcome.
//!
//! # Rules
//! * An error that a backend returns from a change or from its own open is not explained; the
//!   memory backend returns one in these calls only when a case exhausts something.

use openpath_abi::fcntl::{AT_FDCWD, AT_SYMLINK_NOFOLLOW};
use openpath_abi::{AtFlags, Errno, OFlags, OpenHow, ResolveFlags};
use openpath_vfs::{ExplainOp, Explanation, Task};

use super::low;
use crate::op::{Keep, Op};
use crate::outcome::Outcome;

/// Explains an operation, if it is of a kind that can be explained.
pub(super) fn explain(task: &Task, op: &Op) -> Option<Explanation> {
    // The result of the dup2(2) that follows an open is another call's.
    if let Op::Open {
        keep: Keep::At(_), ..
    }
    | Op::Openat2 {
        keep: Keep::At(_), ..
    } = op
    {
        return None;
    }
    let here = AT_FDCWD;
    let op = match op {
        Op::Open {
            at,
            path,
            flags,
            mode,
            ..
        } => ExplainOp::Openat {
            dirfd: at.0,
            path: &path.0,
            flags: OFlags::from_bits_retain(flags.low()),
            mode: low(mode.0).into(),
        },
        Op::Openat2 {
            at,
            path,
            flags,
            mode,
            resolve,
            ..
        } => ExplainOp::Openat2 {
            dirfd: at.0,
            path: &path.0,
            how: OpenHow {
                flags: flags.0,
                mode: mode.0,
                resolve: ResolveFlags::from_bits_retain(resolve.0),
            },
        },
        Op::Stat { path } => stat(here, &path.0, 0),
        Op::Lstat { path } => stat(here, &path.0, AT_SYMLINK_NOFOLLOW.bits()),
        Op::Fstatat { at, path, flags } => stat(at.0, &path.0, flags.low()),
        Op::Access { path, mode } => ExplainOp::Access {
            dirfd: here,
            path: &path.0,
            want: mode.low(),
            at_flags: AtFlags::empty(),
        },
        Op::Faccessat2 {
            at,
            path,
            mode,
            flags,
        } => ExplainOp::Access {
            dirfd: at.0,
            path: &path.0,
            want: mode.low(),
            at_flags: AtFlags::from_bits_retain(flags.low()),
        },
        _ => return None,
    };
    Some(task.explain(&op))
}

fn stat(dirfd: i32, path: &[u8], at_flags: u32) -> ExplainOp<'_> {
    ExplainOp::Stat {
        dirfd,
        path,
        at_flags: AtFlags::from_bits_retain(at_flags),
    }
}

/// The outcome, or a fault if the explanation gave another one.
pub(super) fn confirmed(explained: Option<&Explanation>, outcome: Outcome) -> Outcome {
    let Some(explained) = explained else {
        return outcome;
    };
    let said = explained.result.err();
    let done = match outcome {
        Outcome::Err(errno) => Some(errno),
        _ => None,
    };
    if said == done || done.is_some_and(is_the_backends) {
        return outcome;
    }
    Outcome::Bad(format!(
        "explained as {said:?}, but it is {outcome:?}: {explained}"
    ))
}

/// Whether this is an error of the memory backend that lacks space or inodes.
fn is_the_backends(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSPC | Errno::EDQUOT | Errno::ENOMEM)
}
