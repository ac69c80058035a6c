// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists wrong rules of descriptors, reads and writes, for `cargo xtask mutate`.

use super::Mutant;

/// All rules.
pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "dup2-keeps-the-mark",
        wrong: "dup2 keeps the close-on-exec mark of the replaced descriptor",
        file: "fd/calls.rs",
        right: "        map.set_cloexec(slot, cloexec);\n",
        planted: "        if cloexec {\n            map.set_cloexec(slot, true);\n        }\n",
    },
    Mutant {
        name: "lowest-forgotten",
        wrong: "a closed number does not become the lowest free one",
        file: "fd_table/map.rs",
        right: "        if fd < self.next {\n            self.next = fd;\n        }\n        true",
        planted: "        true",
    },
    Mutant {
        name: "setfl-access-mode",
        wrong: "F_SETFL changes the access mode that F_GETFL shows",
        file: "ops/fcntl.rs",
        right: "let new = wanted & changeable | now & !changeable;",
        planted: "let new = wanted & (changeable | 3) | now & !(changeable | 3);",
    },
    Mutant {
        name: "pwrite-at-offset",
        wrong: "pwrite uses its offset despite O_APPEND",
        file: "io/write.rs",
        right: "file.write(data, position)?",
        planted: "file.write_pieces(&[IoSlice::new(data)], position, RWF_NOAPPEND)?",
    },
    Mutant {
        name: "fork-shares",
        wrong: "fork shares the table instead of copying it",
        file: "fd/share.rs",
        right: "let copy = self.core.fds().copy(&self.core, None)?;",
        planted: "let copy = self.core.fds().share(&self.core);",
    },
    Mutant {
        name: "range-without-its-end",
        wrong: "close_range leaves the last descriptor open",
        file: "fd/range.rs",
        right: "slot.filter(|&slot| slot <= last)?",
        planted: "slot.filter(|&slot| slot < last)?",
    },
    Mutant {
        name: "dup3-itself",
        wrong: "dup3 of a descriptor to itself is allowed",
        file: "fd/calls.rs",
        right: "if flags.intersects(!O_CLOEXEC) || old == new {",
        planted: "if flags.intersects(!O_CLOEXEC) {",
    },
    Mutant {
        name: "dup2-at-the-limit",
        wrong: "dup2 accepts the limit itself as a number",
        file: "fd/calls.rs",
        right: "if slot >= core.fd_end() {",
        planted: "if slot > core.fd_end() {",
    },
    Mutant {
        name: "dupfd-at-the-limit",
        wrong: "F_DUPFD from the limit on returns EMFILE, not EINVAL",
        file: "ops/fcntl.rs",
        right: "if start >= end {",
        planted: "if start > end {",
    },
    Mutant {
        name: "exec-spares-the-first",
        wrong: "descriptor 0 survives exec though it is marked",
        file: "fd/range.rs",
        right: "self.core.close_each(0, u32::MAX, true);",
        planted: "self.core.close_each(1, u32::MAX, true);",
    },
    Mutant {
        name: "full-table-last",
        wrong: "an open without a free descriptor returns ENOENT first",
        file: "open/mod.rs",
        right: "if !core.fds().has_room(core.fd_end()) {",
        planted: "if core.fd_end() == 0 && !core.fds().has_room(core.fd_end()) {",
    },
    Mutant {
        name: "opened-unmarked",
        wrong: "a cached open ignores O_CLOEXEC",
        file: "open/mod.rs",
        right: "return core.add_fd(file?, op.has(O_CLOEXEC));",
        planted: "return core.add_fd(file?, false);",
    },
];
