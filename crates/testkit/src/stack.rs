// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns a case into one over an overlay, with the first tree of the case as the lower layer, and
//! makes openpath's overlay for it.

use openpath_abi::falloc::RWF_NOAPPEND;
use openpath_abi::fcntl::O_TMPFILE;
use openpath_abi::{Errno, mode};
use openpath_overlay::{OverlayFs, OverlayOptions};
use openpath_vfs::{Clock, SuperBlock};
use std::sync::Arc;

use crate::case::Case;
use crate::op::{Keep, Op};

/// The size of a block.
const FIGETBSZ: u32 = 2;
/// More than there is space for, and modes that tmpfs supports: on Linux a failed allocation strips
/// set-id bits all the same (L52).
const TOO_MUCH: i64 = 1 << 30;
const ON_TMPFS: u64 = 3;
/// ioctl(2): the space that a file takes.
const FIOQSIZE: u32 = 0x5460;

/// The umask at the end of a prepared tree.
const USUAL: u64 = 0o22;

/// The same case over an overlay whose lower layer is the case's first tree, without operations
/// that cannot be compared. Hard links come after stacking: on Linux one in the lower layer changes
/// its inode number at copy-up (L44).
#[must_use]
pub fn stacked(case: &Case) -> Case {
    let (below, rest) = case.ops.split_at(base(case));
    let (links, mut ops): (Vec<Op>, Vec<Op>) = below
        .iter()
        .cloned()
        .partition(|op| matches!(op, Op::Link { .. }));
    ops.retain(is_compared);
    ops.push(Op::Stack {});
    ops.extend(links);
    // Events name unnamed files by numbers, which each side chooses (L50).
    let watches = case
        .ops
        .iter()
        .any(|op| matches!(op, Op::InotifyInit { .. }));
    let set_up = case.setup.saturating_sub(below.len());
    let mut setup = ops.len();
    for (n, op) in rest.iter().enumerate() {
        let told = watches && makes_nameless(op);
        if is_compared(op) && !told {
            setup += usize::from(n < set_up);
            ops.push(op.clone());
        }
    }
    Case { ops, setup }
}

/// The same operations over the kernel's overlay, whose lower layer is the tree that the first ones
/// make; and the number of the operation that makes the overlay.
#[must_use]
pub fn with_lower(case: &Case) -> (Case, usize) {
    let at = prepared(case);
    let mut ops = case.ops.clone();
    ops.insert(at, Op::Stack {});
    let setup = case.setup.max(at) + 1;
    (Case { ops, setup }, at)
}

/// Whether it makes an unnamed file.
fn makes_nameless(op: &Op) -> bool {
    match op {
        Op::Open { flags, .. } | Op::Openat2 { flags, .. } => {
            flags.0 & u64::from(O_TMPFILE) == u64::from(O_TMPFILE)
        }
        Op::Tmplink { .. } => true,
        _ => false,
    }
}

/// Whether an operation gives the same result over an overlay. Not compared: counts (L46), times of
/// written FIFOs (L45), times after an empty read or a copy (L47), a file's space (L43), and writes
/// that do not append (L53).
fn is_compared(op: &Op) -> bool {
    match op {
        Op::Statfs { .. } | Op::Fstatfs { .. } | Op::CopyRange { .. } => false,
        Op::Mknod { mode, .. } => mode.0 & u64::from(mode::S_IFMT) != u64::from(mode::S_IFIFO),
        Op::Read { len, .. } | Op::Pread { len, .. } => *len != 0,
        Op::Fallocate { mode, len, .. } => *len < TOO_MUCH && mode.0 & !ON_TMPFS == 0,
        Op::Ioctl { request, .. } => !matches!(request.0, FIGETBSZ | FIOQSIZE),
        Op::Pwritev2 { flags, .. } => flags.0 & u64::from(RWF_NOAPPEND) == 0,
        _ => true,
    }
}

/// How many of the first operations make a tree and leave nothing open.
fn prepared(case: &Case) -> usize {
    let (mut at, mut open) = (0, 0_usize);
    for (n, op) in case.ops.iter().take(case.setup).enumerate() {
        match op {
            Op::Open {
                keep: Keep::Look, ..
            } => {}
            Op::Open { .. } => open += 1,
            Op::Close { .. } => open = open.saturating_sub(1),
            _ if makes_tree(op) => {}
            _ => break,
        }
        if open == 0 {
            at = n + 1;
        }
    }
    at
}

/// Whether it makes or changes a part of a tree.
fn makes_tree(op: &Op) -> bool {
    matches!(
        op,
        Op::Mkdir { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Chmod { .. }
            | Op::Chown { .. }
            | Op::Utimens { .. }
            | Op::Umask { .. }
            | Op::SetXattr { .. }
            | Op::Pwrite { .. }
            | Op::Write { .. }
    )
}

/// The same for cases that end with the usual umask.
fn base(case: &Case) -> usize {
    let (mut at, mut usual, mut root) = (0, 0, true);
    for (n, op) in case.ops.iter().take(case.setup).enumerate() {
        match op {
            _ if makes_tree(op) => {}
            Op::Cred { uid } => root = *uid == 0,
            Op::Open {
                keep: Keep::Look, ..
            }
            | Op::Close { .. } => {}
            // It is closed again before the umask is restored.
            Op::Open {
                keep: Keep::At(0), ..
            } => {}
            _ => break,
        }
        if !root {
            continue;
        }
        at = n + 1;
        if matches!(op, Op::Umask { mask } if mask.0 == USUAL) {
            usual = at;
        }
    }
    let opens = |op: &Op| {
        matches!(
            op,
            Op::Open {
                keep: Keep::At(_),
                ..
            }
        )
    };
    match usual {
        0 if case.ops[..at].iter().any(opens) => 0,
        0 => at,
        _ => usual,
    }
}

/// An overlay of `lower` and an empty tree.
///
/// # Errors
/// Those of [`OverlayFs::new`].
pub fn over(
    lower: Arc<SuperBlock>,
    upper: Arc<SuperBlock>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<SuperBlock>, Errno> {
    OverlayFs::new(
        OverlayOptions::default()
            .lowers(vec![lower])
            .upper(Some(upper))
            .marks(openpath_overlay::Marks::Trusted)
            .clock(clock),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_case_begins_with_prepared_tree() {
        for name in ["plain", "links", "people", "deep", "special"] {
            let tree = crate::random::tree(name).expect("a tree");
            let mut case = tree.clone();
            case.setup = case.ops.len();
            let stacked = stacked(&case);
            let at = stacked.ops.iter().position(|op| *op == Op::Stack {});
            let above = &stacked.ops[at.expect("it is stacked")..];
            let links = above.iter().filter(|op| matches!(op, Op::Link { .. }));
            assert_eq!(links.count() + 1, above.len(), "{name}");
            assert_eq!(stacked.setup, stacked.ops.len(), "{name}");
        }
    }
}
