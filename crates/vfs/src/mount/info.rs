// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines what proc(5) and statmount(2) tell of a mount (`MountInfo`), and prints it as a line of
//! `/proc/self/mountinfo`.

use super::MountFlags;
use super::mflag;
use core::fmt::{self, Display, Formatter, Write as _};
use openpath_abi::stat::{major, minor};

/// A mount as proc(5) and statmount(2) describe it. Its `Display` is its line in
/// `/proc/self/mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MountInfo {
    /// Its number, which another mount may get when it is gone.
    pub id: u32,
    /// A number that no other mount of the `Vfs` ever has.
    pub unique_id: u64,
    /// The number of the mount it is mounted in; its own if that is none.
    pub parent: u32,
    /// The unique number of that mount.
    pub unique_parent: u64,
    /// The namespace it is in.
    pub namespace: u64,
    /// Device number of its tree.
    pub dev: u64,
    /// The directory of its tree that it shows.
    pub root: Vec<u8>,
    /// Its path from the root of the asking task; `None` if that does not lead there.
    pub path: Option<Vec<u8>>,
    /// Its flags.
    pub flags: MountFlags,
    /// The peer group it is in.
    pub shared: Option<u32>,
    /// The peer group it receives from.
    pub master: Option<u32>,
    /// The nearest peer group that it receives from, directly or not, with a mount below the asking
    /// task's root; not in its line if that is `master`.
    pub propagate_from: Option<u32>,
    /// It cannot be bound.
    pub unbindable: bool,
    /// Name of the file system type.
    pub kind: &'static str,
    /// Its whole tree is read-only.
    pub read_only_tree: bool,
}

/// Options as they are listed, in this order.
const OPTIONS: [(u64, &str); 7] = [
    (mflag::NO_SUID, ",nosuid"),
    (mflag::NO_DEV, ",nodev"),
    (mflag::NO_EXEC, ",noexec"),
    (mflag::NO_ATIME, ",noatime"),
    (mflag::NO_DIR_ATIME, ",nodiratime"),
    (mflag::REL_ATIME, ",relatime"),
    (mflag::NO_SYM_FOLLOW, ",nosymfollow"),
];

impl Display for MountInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (major, minor) = (major(self.dev), minor(self.dev));
        write!(f, "{} {} {major}:{minor} ", self.id, self.parent)?;
        escape(f, &self.root)?;
        f.write_char(' ')?;
        escape(f, self.path.as_deref().unwrap_or(b"-"))?;
        let mode = |read_only| if read_only { "ro" } else { "rw" };
        write!(f, " {}", mode(self.flags.contains(MountFlags::READ_ONLY)))?;
        for (flag, option) in OPTIONS {
            if self.flags.0 & flag != 0 {
                f.write_str(option)?;
            }
        }
        // The master itself is not listed twice.
        let elsewhere = self.propagate_from != self.master;
        let tags = [
            ("shared", self.shared),
            ("master", self.master),
            ("propagate_from", self.propagate_from.filter(|_| elsewhere)),
        ];
        for (tag, group) in tags {
            if let Some(group) = group {
                write!(f, " {tag}:{group}")?;
            }
        }
        if self.unbindable {
            f.write_str(" unbindable")?;
        }
        write!(f, " - {} none {}", self.kind, mode(self.read_only_tree))
    }
}

/// Writes a path so that it is one word: separators and bytes that are no text become three octal
/// digits.
fn escape(f: &mut Formatter<'_>, path: &[u8]) -> fmt::Result {
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                ' ' | '\t' | '\n' | '\\' => write!(f, "\\{:03o}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\{byte:03o}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_in_proc() {
        let info = MountInfo {
            id: 36,
            unique_id: 40,
            parent: 35,
            unique_parent: 39,
            namespace: 1,
            dev: openpath_abi::stat::makedev(0, 44),
            root: b"/mnt 1".to_vec(),
            path: Some(b"/a\\b\xff".to_vec()),
            flags: MountFlags::default() | MountFlags::NO_DEV,
            shared: Some(2),
            master: Some(1),
            propagate_from: None,
            unbindable: false,
            kind: "tmpfs",
            read_only_tree: true,
        };
        let line = info.to_string();
        let (mount, tree) = line.split_once(" - ").expect("two halves");
        let expected = r"36 35 0:44 /mnt\0401 /a\134b\377 rw,nodev,relatime shared:2 master:1";
        assert_eq!((mount, tree), (expected, "tmpfs none ro"));
    }
}
