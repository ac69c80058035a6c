// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists wrong rules of walks, opens, rights and names, for `cargo xtask mutate`.

use super::Mutant;

/// All rules.
pub(super) const ALL: &[Mutant] = &[
    Mutant {
        name: "excl-follows",
        wrong: "O_CREAT|O_EXCL follows a symbolic link at the end",
        file: "open/how.rs",
        right: "map(!flags.contains(O_NOFOLLOW) && !exclusive, lflag::FOLLOW);",
        planted: "map(!flags.contains(O_NOFOLLOW) || exclusive, lflag::FOLLOW);",
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
        wrong: "a slash after a file's name is ignored",
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
        wrong: "any user may remove from a sticky directory",
        file: "perm/mod.rs",
        right: "&& cred.fsuid != victim_uid",
        planted: "&& cred.fsuid == victim_uid",
    },
    Mutant {
        name: "umask-ignored",
        wrong: "a new file gets its mode without the umask",
        file: "perm/new_file.rs",
        right: "new.mode &= !(umask & 0o777);",
        planted: "new.mode &= !(umask & 0);",
    },
    Mutant {
        name: "isdir-for-excl",
        wrong: "O_CREAT|O_EXCL of a directory returns EISDIR, not EEXIST",
        file: "open/grant.rs",
        right: "if op.has(O_EXCL) && !created {",
        planted: "if op.has(O_EXCL) && !created && !inode.is_dir() {",
    },
    Mutant {
        name: "rofs-first",
        wrong: "a read-only bind returns EROFS before EACCES",
        file: "open/grant.rs",
        right: "    may_open(core, mount, mount_flags, inode, access, flags)?;\n    Ok(writing)",
        planted: "    if access & MAY_WRITE != 0 && mount_flags.has(mflag::READ_ONLY) {\n        \
                  return Err(Errno::EROFS);\n    }\n    \
                  may_open(core, mount, mount_flags, inode, access, flags)?;\n    Ok(writing)",
    },
    Mutant {
        name: "root-escape",
        wrong: "`..` leads above the root of a chroot",
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
        wrong: "O_NOFOLLOW|O_DIRECTORY of a link returns ELOOP, not ENOTDIR",
        file: "open/grant.rs",
        right: "if walked & lflag::DIRECTORY != 0 && sample.has(",
        planted: "if walked & lflag::DIRECTORY != 0 && inode.kind() != mode::S_IFLNK \
                  && sample.has(",
    },
    Mutant {
        name: "suid-kept",
        wrong: "a write by another user keeps the set-user-id bit",
        file: "target/mod.rs",
        right: "let mut kept = bits & !mode::S_ISUID;",
        planted: "let mut kept = bits;",
    },
    Mutant {
        name: "trunc-needs-no-right",
        wrong: "O_RDONLY|O_TRUNC needs no write permission",
        file: "open/how.rs",
        right: "    if flags.contains(O_TRUNC) {\n        access |= MAY_WRITE;",
        planted: "    if flags.contains(O_TRUNC) {\n        access |= MAY_READ;",
    },
    Mutant {
        name: "sgid-not-inherited",
        wrong: "a new directory does not inherit the set-group-id bit",
        file: "perm/mod.rs",
        right: "mode_bits | mode::S_ISGID",
        planted: "mode_bits & !mode::S_ISGID",
    },
    Mutant {
        name: "noatime-anybody",
        wrong: "O_NOATIME is allowed for every user",
        file: "open/grant.rs",
        right: "if flags.contains(O_NOATIME) && !cred.owner_or_capable(inode.ids().0) {",
        planted: "if flags.contains(O_NOATIME) && flags.contains(O_TRUNC) {",
    },
    Mutant {
        name: "stale-negative",
        wrong: "the path cache does not notice that a directory was moved",
        file: "path_cache.rs",
        right: "if validated != query.clock",
        planted: "if validated > query.clock",
    },
];
