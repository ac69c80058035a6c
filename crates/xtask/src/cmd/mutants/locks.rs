// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong rules of locks of files.

use super::Mutant;

/// All of them.
pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "unlock-to-the-end",
        wrong: "an unlock within a lock ends what is behind it too",
        file: "lock/spans.rs",
        right: "[left, set, right].into_iter()",
        planted: "[left, set, right.filter(|_| kind.is_some())].into_iter()",
    },
    Mutant {
        name: "beside-is-apart",
        wrong: "locks that lie side by side do not become one",
        file: "lock/spans.rs",
        right: "self.within(start.saturating_sub(1).max(0), end.saturating_add(1))",
        planted: "self.within(start, end)",
    },
    Mutant {
        name: "close-keeps",
        wrong: "closing a descriptor leaves the locks of its table",
        file: "fd/calls.rs",
        right: "if let Some(table) = table {\n            self.end_table_locks(table);",
        planted: "if let Some(table) = table.filter(|_| false) {\n            \
                  self.end_table_locks(table);",
    },
    Mutant {
        name: "last-close-keeps",
        wrong: "the last close of an open file leaves its locks of ranges",
        file: "file_locks/close.rs",
        right: "            self.end_locks(inode, LockOwner::File(last.id()));\n",
        planted: "",
    },
    Mutant {
        name: "write-beside-read",
        wrong: "who wants to write alone is let in beside one who reads",
        file: "lock/ranges.rs",
        right: "held.kind == LockKind::Write || kind == LockKind::Write",
        planted: "held.kind == LockKind::Write",
    },
    Mutant {
        name: "flock-keeps",
        wrong: "a flock of the other kind that is refused leaves the one there was",
        file: "lock/context.rs",
        right: "if had == Some(kind) {\n                return Ok(None);",
        planted: "let other = self.ranges.conflict(Some(owner), range, kind);\n\
                  if had.is_some() && other.is_some() { return Err(Errno::EAGAIN); }\n\
                  if had == Some(kind) {\n                return Ok(None);",
    },
    Mutant {
        name: "place-kept",
        wrong: "an owner that has let go of all is found where it was when it locks again",
        file: "lock/many.rs",
        right: ".is_some_and(|g| g.spans.is_empty())",
        planted: ".is_some_and(|g| g.spans.is_empty() && self.groups.len() == 1)",
    },
    Mutant {
        name: "back-to-itself",
        wrong: "a range of negative length ends with the byte that it is before",
        file: "ops/locks/args.rs",
        right: "(start.checked_add(len).ok_or(Errno::EINVAL)?, start - 1)",
        planted: "(start.checked_add(len).ok_or(Errno::EINVAL)?, start)",
    },
    Mutant {
        name: "one-hop-more",
        wrong: "a circle of thirteen is seen",
        file: "config.rs",
        right: "pub fn deadlock_hops(self) -> u32 {\n        10\n",
        planted: "pub fn deadlock_hops(self) -> u32 {\n        11\n",
    },
    Mutant {
        name: "first-wait",
        wrong: "of several waits of one process the first is followed, not the last",
        file: "lock/graph.rs",
        right: "self.waits.get(&owner)?.by_age.values().rev();",
        planted: "self.waits.get(&owner)?.by_age.values();",
    },
];
