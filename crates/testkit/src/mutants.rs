// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wrong rules that the oracle must notice: what `mutate` plants, one at a time.
//!
//! # Rules
//! * The number is what the hidden hook of `openpath_vfs` takes; 0 is none of them.
//! * Each wrong rule is one that somebody could have written.

/// A wrong rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// What is wrong.
    pub wrong: &'static str,
}

/// All of them.
pub const ALL: &[Mutant] = &[
    mutant(
        1,
        "excl-follows",
        "O_CREAT|O_EXCL follows a symbolic link at the end",
    ),
    mutant(2, "links-41", "41 symbolic links may be followed"),
    mutant(
        3,
        "slash-ignored",
        "a slash after a file's name does no harm to open",
    ),
    mutant(
        4,
        "xdev-bind",
        "RESOLVE_NO_XDEV lets a bind of the same file system pass",
    ),
    mutant(
        5,
        "sticky-unchecked",
        "anybody removes from a sticky directory",
    ),
    mutant(6, "umask-ignored", "a new file gets its mode whole"),
    mutant(
        7,
        "isdir-for-excl",
        "O_CREAT|O_EXCL of a directory says EISDIR, not EEXIST",
    ),
    mutant(
        8,
        "rofs-first",
        "a read-only bind says EROFS to who has no right either",
    ),
    mutant(
        9,
        "dotdot-lexical",
        "`link/..` is the directory of the link",
    ),
    mutant(10, "noreplace-ignored", "RENAME_NOREPLACE replaces"),
    mutant(
        11,
        "beneath-start",
        "RESOLVE_BENEATH lets `..` pass at its start",
    ),
    mutant(
        12,
        "nofollow-dir",
        "O_NOFOLLOW|O_DIRECTORY of a link says ELOOP, not ENOTDIR",
    ),
    mutant(13, "path-asks-read", "O_PATH asks for the right to read"),
    mutant(
        14,
        "suid-kept",
        "a write by another user keeps the set-user-id bit",
    ),
    mutant(
        15,
        "rename-into-self",
        "a directory may be renamed into what is below it",
    ),
    mutant(
        16,
        "chmod-keeps-sgid",
        "chmod by who is not in the group keeps the set-group-id bit",
    ),
    mutant(
        17,
        "trunc-needs-no-right",
        "O_RDONLY|O_TRUNC does not ask for the right to write",
    ),
    mutant(
        18,
        "relatime-always",
        "a link's access time moves each time it is followed",
    ),
    mutant(
        19,
        "sgid-not-inherited",
        "a directory made in a set-group-id one is not one itself",
    ),
    mutant(20, "noatime-anybody", "O_NOATIME is for everybody"),
];

const fn mutant(number: u32, name: &'static str, wrong: &'static str) -> Mutant {
    Mutant {
        number,
        name,
        wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn numbers_and_names_are_unique() {
        for (i, m) in ALL.iter().enumerate() {
            assert!(
                m.number > 0
                    && ALL[..i]
                        .iter()
                        .all(|o| o.number != m.number && o.name != m.name)
            );
        }
    }
}
