// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads from `/proc/self/mountinfo` which mounts of the host can be reached, with their flags.
//!
//! No file system is asked: a server that has gone, or that another user stopped, delays nothing.

use openpath_commit::Refusal;
use openpath_host::HELD;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The most mounts of the host that are read.
const MOUNTS_MAX: usize = 100_000;

/// The usual size of the list, in bytes.
const TEXT_SIZE: usize = 32 << 10;

/// A mount of the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostMount {
    /// Bits of [`HELD`].
    pub(crate) flags: u64,
    /// The type of its file system, as in mount(8); empty for a root that is no mount point.
    pub(crate) kind: String,
}

/// The mounts of the host that can be reached, by path.
#[derive(Debug, Default)]
pub(crate) struct HostMounts(BTreeMap<PathBuf, HostMount>);

struct MountInfoLine {
    id: u64,
    parent: u64,
    path: PathBuf,
    mount: HostMount,
}

impl HostMounts {
    /// Reads them.
    ///
    /// # Errors
    /// They cannot be read, or are too many.
    pub(crate) fn read() -> Result<HostMounts, Refusal> {
        let text = mountinfo()?;
        let root = rustix::fs::statvfs("/").map_err(|why| Refusal::step("cannot read /", why))?;
        HostMounts::parse(&text, root.f_flag.bits() & HELD.bits())
    }

    /// Reads `mountinfo`; `root` are the flags of the root directory.
    pub(crate) fn parse(text: &[u8], root: u64) -> Result<HostMounts, Refusal> {
        let strange = || Refusal::system("a line of /proc/self/mountinfo cannot be understood");
        let mut lines = Vec::new();
        for line in text.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            lines.push(MountInfoLine::parse(line).ok_or_else(strange)?);
        }
        if lines.len() > MOUNTS_MAX {
            let text = format!("the host has more than {MOUNTS_MAX} mounts: unmount some");
            return Err(Refusal::system(text));
        }
        let known: BTreeSet<u64> = lines.iter().map(|line| line.id).collect();
        let mut children: BTreeMap<Option<u64>, Vec<&MountInfoLine>> = BTreeMap::new();
        for line in &lines {
            let is_top = line.parent == line.id || !known.contains(&line.parent);
            let parent = (!is_top).then_some(line.parent);
            children.entry(parent).or_default().push(line);
        }
        let root = HostMount {
            flags: root,
            kind: String::new(),
        };
        let mut mounts = HostMounts(BTreeMap::from([(PathBuf::from("/"), root)]));
        let mut todo = vec![None];
        while let Some(parent) = todo.pop() {
            let mut here: Vec<&MountInfoLine> = children.remove(&parent).unwrap_or_default();
            here.sort_by(|a, b| a.path.cmp(&b.path));
            let mut above: Option<&Path> = None;
            for line in here {
                // A mount below another one of the same parent is covered by it.
                if above.is_some_and(|above| line.path != above && line.path.starts_with(above)) {
                    continue;
                }
                if parent.is_some() || line.path != Path::new("/") {
                    above = Some(&line.path);
                }
                mounts.cover(&line.path, &line.mount);
                todo.push(Some(line.id));
            }
        }
        Ok(mounts)
    }

    /// Adds a mount at `path`, which covers all mounts below.
    fn cover(&mut self, path: &Path, mount: &HostMount) {
        let after = (Bound::Excluded(path), Bound::Unbounded);
        let below = self.0.range::<Path, _>(after).map(|(known, _)| known);
        let below = below.take_while(|known| known.starts_with(path));
        for known in below.cloned().collect::<Vec<_>>() {
            self.0.remove(&known);
        }
        self.0.insert(path.to_owned(), mount.clone());
    }

    /// All of them, outer ones first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &HostMount)> {
        self.0.iter().map(|(path, mount)| (path.as_path(), mount))
    }

    /// The mount that `path` is in, with its place.
    pub(crate) fn mount_of(&self, path: &Path) -> Option<(&Path, &HostMount)> {
        let mut above = path.ancestors();
        let entry = above.find_map(|path| self.0.get_key_value(path));
        entry.map(|(place, mount)| (place.as_path(), mount))
    }

    /// The flags of the mount that `path` is in.
    pub(crate) fn flags_at(&self, path: &Path) -> u64 {
        self.mount_of(path).map_or(0, |(_, mount)| mount.flags)
    }
}

/// The list of mounts of this process.
///
/// # Errors
/// It cannot be read.
pub(crate) fn mountinfo() -> Result<Vec<u8>, Refusal> {
    // Without room the standard library reads it in small pieces.
    let mut text = Vec::with_capacity(TEXT_SIZE);
    let read = File::open("/proc/self/mountinfo");
    read.and_then(|mut file| file.read_to_end(&mut text))
        .map_err(|why| Refusal::step("cannot read /proc/self/mountinfo", why))?;
    Ok(text)
}

impl MountInfoLine {
    fn parse(line: &[u8]) -> Option<MountInfoLine> {
        let mut fields = line.split(|b| *b == b' ');
        let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
        let (id, parent) = (number()?, number()?);
        let path = fields.nth(2)?;
        let options = fields.next()?;
        let flags = options.split(|b| *b == b',').map(|option| match option {
            b"nosuid" => openpath_abi::mount::MOUNT_ATTR_NOSUID.bits(),
            b"nodev" => openpath_abi::mount::MOUNT_ATTR_NODEV.bits(),
            b"noexec" => openpath_abi::mount::MOUNT_ATTR_NOEXEC.bits(),
            _ => 0,
        });
        let flags = flags.fold(0, |all, flag| all | flag);
        // Optional fields end with a dash.
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        let kind = String::from_utf8_lossy(&unescaped(kind)).into_owned();
        Some(MountInfoLine {
            id,
            parent,
            path: PathBuf::from(OsStr::from_bytes(&unescaped(path))),
            mount: HostMount { flags, kind },
        })
    }
}

/// A path of `mountinfo`, in which some bytes are written as a backslash and three octal digits.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let byte = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        if byte.is_some() {
            rest = &tail[3..];
        }
        bytes.push(byte.unwrap_or(*first));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{HostMounts, unescaped};
    use std::path::Path;

    #[test]
    fn mounts_have_their_flags_and_the_type_of_their_file_system() {
        let info = b"20 1 0:1 / / rw shared:1 master:2 - ext4 /dev/a rw\n\
            21 20 0:2 / /a\\040b rw,nosuid - fuse.sshfs s rw\n";
        let mounts = HostMounts::parse(info, 0).unwrap();
        let all = mounts
            .iter()
            .map(|(path, mount)| (path, mount.flags, &*mount.kind));
        let all: Vec<_> = all.collect();
        assert_eq!(
            all,
            [
                (Path::new("/"), 0, "ext4"),
                (Path::new("/a b"), 2, "fuse.sshfs")
            ]
        );
        assert_eq!(mounts.flags_at(Path::new("/a b/c")), 2);
        assert!(HostMounts::parse(b"20 1 0:1 / / rw shared:1\n", 0).is_err());
    }

    #[test]
    fn escapes_of_mountinfo_are_bytes() {
        assert_eq!(unescaped(b"/a\\040b\\134\\0"), b"/a b\\\\0");
    }
}
