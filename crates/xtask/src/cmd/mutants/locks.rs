// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists wrong rules of file locks, for `cargo xtask mutate`.

use super::Mutant;

/// All rules.
pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "unlock-to-the-end",
        wrong: "an unlock within a lock also ends the part behind it",
        file: "lock/spans.rs",
        right: "[left, set, right].into_iter()",
        planted: "[left, set, right.filter(|_| kind.is_some())].into_iter()",
    },
    Mutant {
        name: "beside-is-apart",
        wrong: "adjacent locks are not merged",
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
        wrong: "the last close of an open file leaves its range locks",
        file: "file_locks/close.rs",
        right: "            self.end_locks(inode, LockOwner::File(last.id()));\n",
        planted: "",
    },
    Mutant {
        name: "write-beside-read",
        wrong: "an exclusive lock is granted beside a shared one",
        file: "lock/ranges.rs",
        right: "held.kind == LockKind::Write || kind == LockKind::Write",
        planted: "held.kind == LockKind::Write",
    },
    Mutant {
        name: "flock-keeps",
        wrong: "a refused conversion of a flock keeps the old lock",
        file: "lock/context.rs",
        right: "if had == Some(kind) {\n                return Ok(None);",
        planted: "let other = self.ranges.conflict(Some(owner), range, kind);\n\
                  if had.is_some() && other.is_some() { return Err(Errno::EAGAIN); }\n\
                  if had == Some(kind) {\n                return Ok(None);",
    },
    Mutant {
        name: "place-kept",
        wrong: "an owner without locks is found at its old place when it locks again",
        file: "lock/owner_table.rs",
        right: ".is_some_and(|g| g.spans.is_empty())",
        planted: ".is_some_and(|g| g.spans.is_empty() && self.groups.len() == 1)",
    },
    Mutant {
        name: "back-to-itself",
        wrong: "a range of negative length includes the byte at its start",
        file: "ops/locks/args.rs",
        right: "(start.checked_add(len).ok_or(Errno::EINVAL)?, start - 1)",
        planted: "(start.checked_add(len).ok_or(Errno::EINVAL)?, start)",
    },
    Mutant {
        name: "one-hop-more",
        wrong: "a circle of thirteen waits is detected",
        file: "config.rs",
        right: "pub fn deadlock_hops(self) -> u32 {\n        10\n",
        planted: "pub fn deadlock_hops(self) -> u32 {\n        11\n",
    },
    Mutant {
        name: "first-wait",
        wrong: "the check follows the first wait of a process, not the last",
        file: "lock/graph.rs",
        right: "self.waits.get(&owner)?.by_age.values().rev();",
        planted: "self.waits.get(&owner)?.by_age.values();",
    },
];
