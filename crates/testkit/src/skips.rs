// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is not compared, and why: two lists that a person keeps, and the counts of each run.
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

/// A mount taken away by who stands below the root of the case.
pub const BELOW: &str = "below-the-case";
/// More mounts where there are many already: what doubles soon fills the machine.
pub const MANY_MOUNTS: &str = "many-mounts";
/// lseek(2) of a directory: cookies are each file system's own.
pub const LSEEK_DIRECTORY: &str = "lseek-directory";
/// The host's own listing doubled or lost an entry; ours is held to the rule all the same.
pub const HOST_LISTING: &str = "host-listing";
/// sendfile(2) within a file from and to parts that overlap: the kernel passes pages, not bytes.
pub const SENDFILE_OVERLAP: &str = "sendfile-overlap";
/// The host's own answer changed when the case was run again.
pub const HOST_UNSTEADY: &str = "host-unsteady";
/// An operation that a face does not know.
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
    /// One more of this name.
    pub fn add(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_insert(0) += 1;
    }

    /// Those of another run as well.
    pub fn merge(&mut self, other: &Counts) {
        for (name, n) in &other.0 {
            *self.0.entry(name.clone()).or_insert(0) += n;
        }
    }

    /// The names that no list gives a reason for.
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

/// The id of the divergence that allows this difference after these operations, if there is one.
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

/// The rules themselves; each has a line in the list and an entry in the book of divergences.
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

/// Do these figures differ only in the room for inodes, after an access control list was set, which
/// takes of it?
fn paid(before: &[Op], host: &Outcome, ours: &Outcome) -> bool {
    /// Where the inodes in use are.
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

/// Does it mark a mount, or take one off that was marked?
fn expires(op: &Op) -> bool {
    matches!(op, Op::Umount { flags, .. } if flags.low() & MNT_EXPIRE.bits() != 0)
}

/// The rules that hold only where the files are in a directory of the host.
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

/// Is this in the operation, as a case spells it?
fn word_has(op: &Op, word: &str) -> bool {
    op.to_string().to_ascii_uppercase().contains(word)
}

/// The rules that hold only where the kernel asks a server.
fn rule_served(op: &Op, host: &Outcome, ours: &Outcome) -> Option<&'static str> {
    match (op, host, ours) {
        // The access time of a link that would move keeps it from being followed at once.
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

/// Is a file with holes data from its begin to its end for who looks for them?
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

/// Are these the same events but for what files without a name are called?
fn told_alike(host: &[RawEvent], served: &[RawEvent]) -> bool {
    let alike = |(a, b): (&RawEvent, &RawEvent)| {
        let nameless = a.name.starts_with(b"#") && b.name == b"/";
        (a.wd, a.mask, a.cookie) == (b.wd, b.mask, b.cookie) && (a.name == b.name || nameless)
    };
    host.len() == served.len() && host.iter().zip(served).all(alike)
}

/// The rules that hold only where the kernel writes back later.
fn rule_later(op: &Op) -> Option<&'static str> {
    match op {
        Op::Lseek { whence, .. } if matches!(*whence, 3 | 4) => Some("L63"),
        Op::Ioctl { .. } if word_has(op, "FIOQSIZE") => Some("L63"),
        _ => None,
    }
}

/// The rule that holds only where names are confirmed: no access time of a link, which would keep
/// it from being followed at once, is to be moved here.
fn rule_confirmed(op: &Op, host: &Outcome, ours: &Outcome) -> Option<&'static str> {
    let cached =
        matches!(op, Op::Openat2 { resolve, .. } if resolve.0 & RESOLVE_CACHED.bits() != 0);
    let moves = *host == Outcome::Err(Errno::EAGAIN) && ours.is_ok();
    (cached && moves).then_some("L29")
}

/// Was a file's data passed on, maybe to a pipe that is read only now?
fn lends(before: &[Op]) -> bool {
    before.iter().any(|op| matches!(op, Op::Sendfile { .. }))
        && before.iter().any(crate::random::waits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_list_has_a_reason() {
        for (id, why) in entries(SKIPS).chain(entries(DIVERGENCES)) {
            assert!(why.len() > 10, "{id}: no reason");
        }
    }

    #[test]
    fn an_unlisted_skip_is_seen() {
        let mut counts = Counts::default();
        counts.add(HOST_LISTING);
        assert!(counts.unlisted().is_empty());
        counts.add("because");
        assert_eq!(counts.unlisted(), ["because"]);
    }
}
