// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which operations are skipped and which differences are allowed, each for a reason in one
//! of two lists, and counts both.
//!
//! # Rules
//! * A skip or an allowed divergence that is not in its list fails the run.
//! * Both lists are lines of `id reason`; `#` starts a comment.

use std::collections::BTreeMap;

use openpath_abi::Errno;
use openpath_abi::mount::MNT_EXPIRE;
use openpath_abi::resolve::RESOLVE_CACHED;
use openpath_vfs::AclKind;

use crate::op::Op;
use crate::outcome::{Outcome, RawEvent};
use crate::sides::{
    OVER_HOST, OVER_HOST_CONFIRMED, SERVED, SERVED_LATER, STACKED, STACKED_OVER_HOST,
};
use crate::stacked;
use crate::tree::Tree;

/// An unmount by a task that stands below the root of the case.
pub const BELOW: &str = "below-the-case";
/// An operation that adds mounts where there are many: doubling soon exhausts the machine.
pub const MANY_MOUNTS: &str = "many-mounts";
/// lseek(2) of a directory: each file system has its own cookies.
pub const LSEEK_DIRECTORY: &str = "lseek-directory";
/// The host's own listing doubled or lost an entry; ours still must not.
pub const HOST_LISTING: &str = "host-listing";
/// sendfile(2) within a file between overlapping parts: the kernel passes pages, not bytes.
pub const SENDFILE_OVERLAP: &str = "sendfile-overlap";
/// The host's own answer changed when the case ran again.
pub const HOST_UNSTEADY: &str = "host-unsteady";
/// An operation that a side does not support.
pub const UNKNOWN: &str = "unknown";

const SKIPS: &str = include_str!("../cases/skips.txt");
const DIVERGENCES: &str = include_str!("../cases/divergences.txt");

fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(|l| l.split_once(' ').unwrap_or((l, "")))
}

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub BTreeMap<String, u64>);

impl Counts {
    /// Counts one more of this name.
    pub fn add(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_insert(0) += 1;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Counts) {
        for (name, n) in &other.0 {
            *self.0.entry(name.clone()).or_insert(0) += n;
        }
    }

    /// The names without a reason in either list.
    #[must_use]
    pub fn unlisted(&self) -> Vec<&str> {
        let listed = |name: &str| {
            entries(SKIPS)
                .chain(entries(DIVERGENCES))
                .any(|(id, why)| id == name && !why.is_empty())
        };
        self.0
            .keys()
            .map(String::as_str)
            .filter(|n| !listed(n))
            .collect()
    }
}

/// The id of the divergence that allows this difference after these operations, if any.
#[must_use]
pub fn allowed(
    side: &str,
    before: &[Op],
    op: &Op,
    host: &Outcome,
    ours: &Outcome,
) -> Option<&'static str> {
    let id = match side {
        _ if paid(before, host, ours) => Some("L119"),
        SERVED => rule_served(op, host, ours),
        SERVED_LATER => rule_served(op, host, ours).or_else(|| rule_later(op)),
        OVER_HOST => rule(before, op, host, ours).or_else(|| rule_over_host(op, host, ours)),
        OVER_HOST_CONFIRMED => rule(before, op, host, ours)
            .or_else(|| rule_over_host(op, host, ours))
            .or_else(|| rule_confirmed(op, host, ours)),
        STACKED => rule(before, op, host, ours).or_else(|| rule_stacked(op, host, ours)),
        STACKED_OVER_HOST => rule(before, op, host, ours)
            .or_else(|| rule_stacked(op, host, ours))
            .or_else(|| rule_over_host(op, host, ours)),
        _ => rule(before, op, host, ours),
    }?;
    entries(DIVERGENCES)
        .any(|(listed, _)| listed == id)
        .then_some(id)
}

/// The id of the divergence that allows these trees, the host's and ours, to differ after `op`.
#[must_use]
pub fn allowed_tree(
    side: &str,
    op: &Op,
    outcome: &Outcome,
    [host, ours]: [&Tree; 2],
) -> Option<&'static str> {
    let stacked = side == STACKED || side == STACKED_OVER_HOST;
    let id = stacked.then(|| stacked::allowed(op, outcome, host, ours))??;
    entries(DIVERGENCES)
        .any(|(listed, _)| listed == id)
        .then_some(id)
}

/// The rules themselves; each has a line in the list and an entry in `docs/LINUX.md`.
fn rule(before: &[Op], op: &Op, host: &Outcome, ours: &Outcome) -> Option<&'static str> {
    match (op, host, ours) {
        (Op::Openat2 { resolve, .. }, Outcome::Err(Errno::EAGAIN), Outcome::Err(Errno::ENOENT))
            if resolve.0 & RESOLVE_CACHED.bits() != 0 =>
        {
            Some("L1")
        }
        (
            Op::Read { .. } | Op::Readv { .. } | Op::Preadv2 { .. },
            Outcome::Bytes(host),
            Outcome::Bytes(ours),
        ) if host.len() == ours.len() && lends(before) => Some("L17"),
        (
            Op::Umount { flags, .. },
            Outcome::Err(Errno::EAGAIN),
            Outcome::Ok | Outcome::Err(Errno::EBUSY),
        ) if flags.low() & MNT_EXPIRE.bits() != 0 && before.iter().any(expires) => Some("L3"),
        _ => None,
    }
}

/// Whether these figures differ only in the free inodes, after an access control list was set,
/// which reduces them.
fn paid(before: &[Op], host: &Outcome, ours: &Outcome) -> bool {
    /// The index of the used inodes.
    const USED: usize = 7;
    let (Outcome::StatFs(host), Outcome::StatFs(ours)) = (host, ours) else {
        return false;
    };
    let sets_list = |op: &Op| match op {
        Op::SetXattr { name, .. } => AclKind::of_name(&name.0).is_some(),
        _ => false,
    };
    let alike = host[..USED] == ours[..USED];
    alike && host[USED] < ours[USED] && before.iter().any(sets_list)
}

/// Whether it marks a mount, or unmounts a marked one.
fn expires(op: &Op) -> bool {
    matches!(op, Op::Umount { flags, .. } if flags.low() & MNT_EXPIRE.bits() != 0)
}

/// The rules that hold only over a directory of the host.
fn rule_over_host(op: &Op, host: &Outcome, ours: &Outcome) -> Option<&'static str> {
    match (op, host, ours) {
        (
            Op::Openat2 { resolve, .. },
            Outcome::Err(Errno::EAGAIN),
            Outcome::Err(Errno::ENOTDIR | Errno::ENAMETOOLONG),
        ) if resolve.0 & RESOLVE_CACHED.bits() != 0 => Some("L26"),
        (
            Op::SetXattr { .. },
            Outcome::Ok | Outcome::Err(Errno::ENODATA),
            Outcome::Err(Errno::EOPNOTSUPP),
        ) => Some("L33"),
        _ => None,
    }
}

/// The rules that hold only over an overlay.
fn rule_stacked(op: &Op, host: &Outcome, ours: &Outcome) -> Option<&'static str> {
    match (op, host, ours) {
        (Op::Openat2 { resolve, .. }, Outcome::Err(Errno::EAGAIN), _)
            if resolve.0 & RESOLVE_CACHED.bits() != 0 =>
        {
            Some("L51")
        }
        (
            Op::SetXattr { .. }
            | Op::Fchmod { .. }
            | Op::Fchown { .. }
            | Op::Utimens { .. }
            | Op::Futimens { .. },
            Outcome::Err(Errno::ENOTDIR | Errno::EEXIST),
            Outcome::Ok | Outcome::Err(Errno::ENOENT),
        ) => Some("L48"),
        _ => None,
    }
}

/// Whether the text of the operation contains this.
fn word_has(op: &Op, word: &str) -> bool {
    op.to_string().to_ascii_uppercase().contains(word)
}

/// The rules that hold only if the kernel asks a server.
fn rule_served(op: &Op, host: &Outcome, ours: &Outcome) -> Option<&'static str> {
    match (op, host, ours) {
        // A link is not followed at once if that would change its access time.
        (Op::Openat2 { resolve, .. }, Outcome::Err(Errno::EAGAIN), _)
            if resolve.0 & RESOLVE_CACHED.bits() != 0 =>
        {
            Some("L55")
        }
        (Op::Chown { .. } | Op::Fchown { .. }, Outcome::Err(Errno::EPERM), Outcome::Ok) => {
            Some("L61")
        }
        (Op::Cookies { .. }, _, Outcome::Bad(_)) => Some("L62"),
        _ if holeless(op, host, ours) => Some("L63"),
        (Op::Fcntl { .. }, _, Outcome::Err(Errno::EINVAL)) if word_has(op, "_SEALS") => Some("L59"),
        (_, Outcome::Events(a), Outcome::Events(b)) if told_alike(a, b) => Some("L74"),
        _ => None,
    }
}

/// Whether seeks treat a file with holes as data from start to end.
fn holeless(op: &Op, host: &Outcome, ours: &Outcome) -> bool {
    match (op, host, ours) {
        (Op::Lseek { off, whence: 3, .. }, Outcome::Err(Errno::ENXIO), Outcome::Num(to)) => {
            to == off
        }
        (Op::Lseek { off, whence: 3, .. }, Outcome::Num(data), Outcome::Num(to)) => {
            to == off && data > to
        }
        (Op::Lseek { whence: 4, .. }, Outcome::Num(hole), Outcome::Num(to)) => hole < to,
        _ => false,
    }
}

/// Whether these events differ only in the names of unnamed files.
fn told_alike(host: &[RawEvent], served: &[RawEvent]) -> bool {
    let alike = |(a, b): (&RawEvent, &RawEvent)| {
        let nameless = a.name.starts_with(b"#") && b.name == b"/";
        (a.wd, a.mask, a.cookie) == (b.wd, b.mask, b.cookie) && (a.name == b.name || nameless)
    };
    host.len() == served.len() && host.iter().zip(served).all(alike)
}

/// The rules that hold only with the kernel's writeback cache.
fn rule_later(op: &Op) -> Option<&'static str> {
    match op {
        Op::Lseek { whence, .. } if matches!(*whence, 3 | 4) => Some("L63"),
        Op::Ioctl { .. } if word_has(op, "FIOQSIZE") => Some("L63"),
        _ => None,
    }
}

/// The rule that holds only with confirmed names: openpath changes no access time of a link, so it
/// follows the link at once.
fn rule_confirmed(op: &Op, host: &Outcome, ours: &Outcome) -> Option<&'static str> {
    let cached =
        matches!(op, Op::Openat2 { resolve, .. } if resolve.0 & RESOLVE_CACHED.bits() != 0);
    let moves = *host == Outcome::Err(Errno::EAGAIN) && ours.is_ok();
    (cached && moves).then_some("L29")
}

/// Whether a file's pages were passed on, maybe to a pipe that is read only now.
fn lends(before: &[Op]) -> bool {
    before.iter().any(|op| matches!(op, Op::Sendfile { .. }))
        && before.iter().any(crate::random::waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_line_has_a_reason() {
        for (id, why) in entries(SKIPS).chain(entries(DIVERGENCES)) {
            assert!(why.len() > 10, "{id}: no reason");
        }
    }

    #[test]
    fn unlisted_skip_is_reported() {
        let mut counts = Counts::default();
        counts.add(HOST_LISTING);
        assert!(counts.unlisted().is_empty());
        counts.add("because");
        assert_eq!(counts.unlisted(), ["because"]);
    }
}
