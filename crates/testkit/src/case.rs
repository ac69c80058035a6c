// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a case (operations on an empty file system, and their text form), runs it on one side of
//! the oracle (openpath or the host kernel), and compares two runs.
//!
//! # Rules
//! * A case is a text with one operation per line; `#` starts a comment; a line `---` ends the
//!   set-up, after which no snapshot is taken.
//! * A side runs a whole case before the other side starts, so the sides cannot disturb each other.
//! * The first difference counts; nothing after it is compared.

use std::fmt;

use openpath_abi::Errno;

use crate::op::Op;
use crate::outcome::Outcome;
use crate::side::Side;
use crate::skips::{self, Counts};
use crate::tree::{self, Depth, Tree};

/// A list of operations on a file system that is empty at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// All operations.
    pub ops: Vec<Op>,
    /// How many of the operations belong to the set-up.
    pub setup: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, op) in self.ops.iter().enumerate() {
            if i == self.setup && i > 0 {
                writeln!(f, "---")?;
            }
            writeln!(f, "{op}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let mut case = Case::default();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line == "---" {
                case.setup = case.ops.len();
            } else if !line.is_empty() && !line.starts_with('#') {
                case.ops
                    .push(line.parse().map_err(|e| format!("line {}: {e}", i + 1))?);
            }
        }
        Ok(case)
    }
}

/// When to take snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshots {
    /// After each operation that is not part of the set-up, and at the end.
    Each,
    /// Only at the end.
    Last,
}

/// The result of running a case.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The outcome of each operation.
    pub outcomes: Vec<Outcome>,
    /// The snapshot after each operation, where one was taken.
    pub snapshots: Vec<Option<Tree>>,
    /// The deep snapshot at the end.
    pub end: Tree,
    /// Faults that the side found by itself.
    pub wrong: Vec<String>,
}

impl Trace {
    /// Whether another run gave the same result.
    #[must_use]
    pub fn same(&self, other: &Trace) -> bool {
        self.outcomes == other.outcomes
            && self.snapshots == other.snapshots
            && self.end == other.end
    }
}

/// Runs a case; an operation that `follow` skipped is skipped as well.
pub fn run(side: &mut dyn Side, case: &Case, when: Snapshots, follow: Option<&Trace>) -> Trace {
    let mut trace = Trace::default();
    for (i, op) in case.ops.iter().enumerate() {
        let skipped = follow.and_then(|t| match &t.outcomes[i] {
            Outcome::Skip(name) => Some(*name),
            _ => None,
        });
        let outcome = match skipped {
            Some(name) => {
                side.skip(i, op);
                Outcome::Skip(name)
            }
            None => side.apply(i, op),
        };
        let wanted = when == Snapshots::Each && i >= case.setup;
        // A snapshot uses mounts, and a use clears the mark of the first `MNT_EXPIRE`.
        let marked = outcome == Outcome::Err(Errno::EAGAIN) && matches!(op, Op::Umount { .. });
        let depth = changes(op).filter(|_| wanted && !marked);
        trace.snapshots.push(depth.map(|d| side.snapshot(d)));
        trace.outcomes.push(outcome);
    }
    trace.wrong = side.finish();
    trace.end = side.snapshot(Depth::Deep);
    trace
}

/// The depth of a snapshot that the operation may change, if any.
fn changes(op: &Op) -> Option<Depth> {
    match op {
        Op::Cred { .. } | Op::Umask { .. } | Op::GetFl { .. } | Op::Getcwd {} => None,
        Op::Fstat { .. } | Op::Same { .. } | Op::GetOwnEx { .. } => None,
        Op::SetOwnEx { .. } | Op::Rlimit { .. } | Op::Task { .. } | Op::Poll { .. } => None,
        Op::Fstatfs { .. } | Op::Unwatch { .. } | Op::Events { .. } => None,
        Op::SaveNs { .. } | Op::Statmount { .. } | Op::Listmount { .. } => None,
        Op::Lseek { .. } | Op::Close { .. } | Op::CloseRange { .. } => Some(Depth::Tables),
        Op::Dup { .. } | Op::Dup2 { .. } | Op::Dup3 { .. } => Some(Depth::Tables),
        Op::Fcntl { .. } | Op::SetFl { .. } | Op::Ioctl { .. } => Some(Depth::Tables),
        Op::Fork {} | Op::Clone {} | Op::Unshare {} | Op::Exec {} => Some(Depth::Tables),
        Op::Exit {} | Op::Pass { .. } | Op::InotifyInit { .. } => Some(Depth::Tables),
        Op::Pipe2 { .. } => Some(Depth::Tables),
        Op::Mkdir { .. } | Op::Unlink { .. } | Op::Rename { .. } => Some(Depth::Mounts),
        Op::Chdir { .. } | Op::Fchdir { .. } | Op::Chroot { .. } => Some(Depth::Mounts),
        Op::Mount { .. } | Op::Bind { .. } | Op::Umount { .. } => Some(Depth::Mounts),
        Op::RemountBind { .. } | Op::RemountSb { .. } => Some(Depth::Mounts),
        Op::Move { .. } | Op::Spread { .. } | Op::Pivot { .. } => Some(Depth::Mounts),
        Op::UnshareMounts {} | Op::SetNs { .. } | Op::Stack {} => Some(Depth::Mounts),
        Op::OpenTree { .. } | Op::Fsmount { .. } => Some(Depth::Mounts),
        Op::MoveMount { .. } | Op::MountSetattr { .. } => Some(Depth::Mounts),
        _ => Some(Depth::Light),
    }
}

/// The first difference of two runs.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// The operation after which it showed; the number of operations if at the end.
    pub at: usize,
    /// What differs: an outcome, a snapshot, or a fault that one side found.
    pub kind: &'static str,
    /// The difference as text.
    pub text: String,
}

/// Compares two runs of a case; skips and allowed differences are counted.
#[must_use]
pub fn compare(
    case: &Case,
    left: (&str, &Trace),
    right: (&str, &Trace),
    counts: &mut Counts,
) -> Option<Divergence> {
    let ((ln, l), (rn, r)) = (left, right);
    for (at, op) in case.ops.iter().enumerate() {
        let (a, b) = (&l.outcomes[at], &r.outcomes[at]);
        if let Outcome::Skip(name) = b {
            counts.add(name);
            continue;
        }
        if matches!(a, Outcome::Bad(_)) && b.is_ok() {
            counts.add(skips::HOST_LISTING);
        } else if a != b || matches!(b, Outcome::Bad(_)) {
            match skips::allowed(rn, &case.ops[..at], op, a, b) {
                // From here on the two sides are in different states.
                Some(id) => {
                    counts.add(id);
                    return None;
                }
                None => {
                    let text = format!("    {ln}: {a:?}\n    {rn}: {b:?}\n");
                    return Some(Divergence {
                        at,
                        kind: "outcome",
                        text,
                    });
                }
            }
        }
        if let (Some(a), Some(b)) = (&l.snapshots[at], &r.snapshots[at])
            && (a != b || !a.trouble.is_empty())
        {
            if let Some(id) = skips::allowed_tree(rn, op, &r.outcomes[at], [a, b]) {
                counts.add(id);
                return None;
            }
            let text = tree::diff((ln, a), (rn, b));
            return Some(Divergence {
                at,
                kind: "tree",
                text,
            });
        }
    }
    let at = case.ops.len();
    for (name, trace) in [left, right] {
        if let Some(text) = trace.wrong.first() {
            let text = format!("    {name}: {text}\n");
            return Some(Divergence {
                at,
                kind: "side",
                text,
            });
        }
    }
    if l.end != r.end || !l.end.trouble.is_empty() {
        return Some(Divergence {
            at,
            kind: "end",
            text: tree::diff((ln, &l.end), (rn, &r.end)),
        });
    }
    None
}

/// Renders a case and its divergence for a reader.
#[must_use]
pub fn report(case: &Case, d: &Divergence) -> String {
    let mut out = String::new();
    for (i, line) in case.to_string().lines().filter(|l| *l != "---").enumerate() {
        out.push_str(if i == d.at { "  > " } else { "    " });
        out.push_str(line);
        out.push('\n');
    }
    format!(
        "{out}  differs in {} after operation {}:\n{}",
        d.kind, d.at, d.text
    )
}
