// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wrong rules that the oracle must notice: each is one that somebody could have written.

/// A wrong rule, as a change of one place in the source.
pub(super) struct Mutant {
    /// What `--only` calls it.
    pub(super) name: &'static str,
    /// What is wrong.
    pub(super) wrong: &'static str,
    /// The file it is planted in, below `crates/vfs/src`.
    pub(super) file: &'static str,
    /// What stands there, once.
    pub(super) right: &'static str,
    /// What is put in its place.
    pub(super) planted: &'static str,
}

/// All of them.
pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "excl-follows",
        wrong: "O_CREAT|O_EXCL follows a symbolic link at the end",
        file: "open/how.rs",
        right: "map(flags & O_NOFOLLOW == 0 && !exclusive, lflag::FOLLOW);",
        planted: "map(flags & O_NOFOLLOW == 0 || exclusive, lflag::FOLLOW);",
    },
    Mutant {
        name: "links-41",
        wrong: "41 symbolic links may be followed",
        file: "walk/link.rs",
        right: "if self.links > limits::MAXSYMLINKS {",
        planted: "if self.links > limits::MAXSYMLINKS + 1 {",
    },
    Mutant {
        name: "slash-ignored",
        wrong: "a slash after a file's name does no harm",
        file: "walk/run.rs",
        right: "self.flags |= lflag::FOLLOW | lflag::DIRECTORY;",
        planted: "self.flags |= lflag::FOLLOW;",
    },
    Mutant {
        name: "xdev-ignored",
        wrong: "RESOLVE_NO_XDEV lets the walk enter a mount",
        file: "walk/step.rs",
        right: "if self.wants(lflag::NO_XDEV) {",
        planted: "if self.wants(lflag::NO_XDEV | lflag::BENEATH) {",
    },
    Mutant {
        name: "sticky-unchecked",
        wrong: "anybody removes from a sticky directory",
        file: "perm.rs",
        right: "&& cred.fsuid != victim_uid",
        planted: "&& cred.fsuid == victim_uid",
    },
    Mutant {
        name: "umask-ignored",
        wrong: "a new file gets its mode whole",
        file: "perm.rs",
        right: "let wanted = mode_bits & !(umask & 0o777);",
        planted: "let wanted = mode_bits & !(umask & 0);",
    },
    Mutant {
        name: "isdir-for-excl",
        wrong: "O_CREAT|O_EXCL of a directory says EISDIR, not EEXIST",
        file: "open/grant.rs",
        right: "if op.has(O_EXCL) && !created {",
        planted: "if op.has(O_EXCL) && !created && !inode.is_dir() {",
    },
    Mutant {
        name: "rofs-first",
        wrong: "a read-only bind says EROFS to who has no right either",
        file: "open/grant.rs",
        right: "    may_open(core, mount, mount_flags, inode, access, flags)?;\n    Ok(writing)",
        planted: "    if access & MAY_WRITE != 0 && mount_flags.has(mflag::READ_ONLY) {\n        \
                  return Err(Errno::EROFS);\n    }\n    \
                  may_open(core, mount, mount_flags, inode, access, flags)?;\n    Ok(writing)",
    },
    Mutant {
        name: "root-escape",
        wrong: "`..` goes on above the root of a chroot",
        file: "walk/dotdot.rs",
        right: "if self.at == root {",
        planted: "if self.at == root && self.wants(lflag::SCOPED) {",
    },
    Mutant {
        name: "noreplace-ignored",
        wrong: "RENAME_NOREPLACE replaces",
        file: "ops/rename.rs",
        right: "if how.keeps_target && target_inode.is_some() {",
        planted: "if how.keeps_target && target_inode.is_none() {",
    },
    Mutant {
        name: "beneath-start",
        wrong: "RESOLVE_BENEATH lets `..` be `.` at its root",
        file: "walk/dotdot.rs",
        right: "if self.wants(lflag::BENEATH) {",
        planted: "if self.wants(lflag::BENEATH | lflag::IN_ROOT) {",
    },
    Mutant {
        name: "nofollow-dir",
        wrong: "O_NOFOLLOW|O_DIRECTORY of a link says ELOOP, not ENOTDIR",
        file: "open/grant.rs",
        right: "if walked & lflag::DIRECTORY != 0 && sample.has(",
        planted: "if walked & lflag::DIRECTORY != 0 && inode.kind() != mode::S_IFLNK \
                  && sample.has(",
    },
    Mutant {
        name: "suid-kept",
        wrong: "a change of data by a stranger keeps the set-user-id bit",
        file: "open/grant.rs",
        right: "let mut kept = bits & !mode::S_ISUID;",
        planted: "let mut kept = bits;",
    },
    Mutant {
        name: "trunc-needs-no-right",
        wrong: "O_RDONLY|O_TRUNC does not ask for the right to write",
        file: "open/how.rs",
        right: "    if flags & O_TRUNC != 0 {\n        access |= MAY_WRITE;",
        planted: "    if flags & O_TRUNC != 0 {\n        access |= MAY_READ;",
    },
    Mutant {
        name: "sgid-not-inherited",
        wrong: "a directory made in a set-group-id one is not one itself",
        file: "perm.rs",
        right: "mode_bits | mode::S_ISGID",
        planted: "mode_bits & !mode::S_ISGID",
    },
    Mutant {
        name: "noatime-anybody",
        wrong: "O_NOATIME is for everybody",
        file: "open/grant.rs",
        right: "if flags & O_NOATIME != 0 && !cred.owner_or_capable(inode.ids().0) {",
        planted: "if flags & O_NOATIME != 0 && flags & O_TRUNC != 0 {",
    },
    Mutant {
        name: "stale-negative",
        wrong: "the path cache does not notice that a directory was moved",
        file: "path_cache.rs",
        right: "if validated != query.clock",
        planted: "if validated > query.clock",
    },
    Mutant {
        name: "dup2-keeps-the-mark",
        wrong: "dup2 leaves the close-on-exec mark of what was there",
        file: "fd/calls.rs",
        right: "        map.set_cloexec(slot, cloexec);\n",
        planted: "        if cloexec {\n            map.set_cloexec(slot, true);\n        }\n",
    },
    Mutant {
        name: "lowest-forgotten",
        wrong: "closing a descriptor does not make its number the lowest free one",
        file: "fd/map.rs",
        right: "        if fd < self.next {\n            self.next = fd;\n        }\n        true",
        planted: "        true",
    },
    Mutant {
        name: "setfl-access-mode",
        wrong: "F_SETFL changes the access mode that F_GETFL shows",
        file: "fd/control.rs",
        right: "let new = wanted & changeable | now & !changeable;",
        planted: "let new = wanted & (changeable | 3) | now & !(changeable | 3);",
    },
    Mutant {
        name: "pwrite-at-offset",
        wrong: "pwrite heeds its offset in spite of O_APPEND",
        file: "io/write.rs",
        right: "file.write(data, place)?",
        planted: "file.write_pieces(&[IoSlice::new(data)], place, RWF_NOAPPEND)?",
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
        right: "if flags & !O_CLOEXEC != 0 || old == new {",
        planted: "if flags & !O_CLOEXEC != 0 {",
    },
    Mutant {
        name: "dup2-at-the-limit",
        wrong: "dup2 reaches the limit itself",
        file: "fd/calls.rs",
        right: "if slot >= core.fd_end() {",
        planted: "if slot > core.fd_end() {",
    },
    Mutant {
        name: "dupfd-at-the-limit",
        wrong: "F_DUPFD from the limit on says EMFILE, not EINVAL",
        file: "fd/control.rs",
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
        wrong: "an open without a free descriptor says first that there is no such file",
        file: "open/mod.rs",
        right: "if !core.fds().has_room(core.fd_end()) {",
        planted: "if core.fd_end() == 0 && !core.fds().has_room(core.fd_end()) {",
    },
    Mutant {
        name: "opened-unmarked",
        wrong: "O_CLOEXEC is forgotten by a cached open",
        file: "open/mod.rs",
        right: "return core.add_fd(file?, op.has(O_CLOEXEC));",
        planted: "return core.add_fd(file?, false);",
    },
];
