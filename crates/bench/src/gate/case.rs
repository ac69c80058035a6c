// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines what a gate counts: an operation, the objects on its path, and the task that makes it,
//! such as `open-close symlink d5`.

use openpath_abi::AtFlags;
use openpath_vfs::Cred;

use crate::common::*;

/// The objects that the walk meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    #[value(skip)]
    Dirs,
    /// A symbolic link to the directory of the last component.
    Symlink,
    /// A symbolic link to the directory that the last component is in.
    #[value(name = "dirlink")]
    DirLink,
    /// `..` before the last component.
    #[value(name = "dotdot")]
    DotDot,
    /// A mount at the beginning.
    Mount,
    /// A mount at the beginning, one for each path.
    Mounts,
    /// Two mounts at the beginning, one in the other.
    Nested,
    /// A mount at the beginning, entered, left by `..` and entered again.
    MountUp,
    /// A mount at the beginning, of a relative path.
    #[value(name = "relative-mount")]
    Relative,
    /// A mount at the beginning, in a mount namespace of the task's own.
    Namespace,
    /// A directory that the caller may not search: every operation is refused.
    Barred,
    /// The root of a mount, as the object itself.
    Root,
}

/// An operation at a depth, as in `open-close d16`, `open-close symlink d5` or `stat user d1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) op: Op,
    pub(crate) via: Via,
    /// Whether a user without capabilities does it.
    pub(crate) user: bool,
    /// Whether another task shares the table of descriptors.
    pub(crate) shared: bool,
    /// Components of its paths.
    pub(crate) depth: usize,
}

const USER: u32 = 1000;

/// The task of an operation, and perhaps another one with the same table, which could change the
/// table at any time.
pub(crate) struct Actor {
    pub(crate) task: Task,
    _sharer: Option<Task>,
}

impl Case {
    /// Reads `OP [VIA] [user] [shared-table] dDEPTH`.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let unknown = || Error::Setup(format!("no such operation: {text:?}"));
        Self::read(text).ok_or_else(unknown)
    }

    fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let [name, between @ .., depth] = &words[..] else {
            return None;
        };
        let op = Op::from_str(name, false).ok()?;
        let mut case = Self {
            op,
            via: Via::Dirs,
            user: op == Op::Denied,
            shared: false,
            depth: depth.strip_prefix('d')?.parse().ok()?,
        };
        for word in between {
            match *word {
                "user" => case.user = true,
                "shared-table" => case.shared = true,
                via => case.via = Via::from_str(via, false).ok()?,
            }
        }
        case.user |= case.via == Via::Barred;
        let inside = matches!(case.via, Via::DotDot | Via::DirLink | Via::Barred);
        let depth_min = if inside { 2 } else { 1 };
        (depth_min..=100).contains(&case.depth).then_some(case)
    }

    /// Everything but the operation: `symlink d5`, `user d1`.
    pub(crate) fn circumstances(&self) -> String {
        let user = self.user && self.via != Via::Barred && self.op != Op::Denied;
        let mut words = vec![name_of(&self.via)];
        words.extend(user.then(|| "user".to_owned()));
        words.extend(self.shared.then(|| "shared-table".to_owned()));
        words.push(format!("d{}", self.depth));
        words.retain(|word| !word.is_empty());
        words.join(" ")
    }

    /// Creates the files of `chains`, and the objects that the walk is to meet.
    pub(crate) fn lay(self, maker: &Task, chains: &mut [Chain]) -> Result<(), Error> {
        let (of_each, prefix) = match self.via {
            Via::Mounts => (1, &b"/."[..]),
            Via::Mount
            | Via::Nested
            | Via::MountUp
            | Via::Relative
            | Via::Namespace
            | Via::Root => (chains.len(), &b"/mounted-"[..]),
            _ => (0, &b""[..]),
        };
        if of_each != 0 {
            for chains in chains.chunks_mut(of_each) {
                let top = chains.first().map_or(&b""[..], Chain::top);
                let mut point = [prefix, top].concat();
                mount(maker, &point)?;
                if self.via == Via::Nested {
                    point.extend(b"/inner");
                    mount(maker, &point)?;
                }
                chains.iter_mut().for_each(|chain| chain.below(&point));
            }
        }
        maker.grow(chains)?;
        for chain in chains {
            self.prepare(maker, chain).setup("prepare a file")?;
        }
        Ok(())
    }

    fn prepare(self, maker: &Task, chain: &mut Chain) -> Result<(), Errno> {
        let file = chain.file.to_bytes();
        let mode = match self.op {
            Op::Denied => 0,
            _ if self.user => 0o666,
            _ => 0o644,
        };
        maker.fchmodat2(AT_FDCWD, file, mode, AtFlags::empty())?;
        match self.via {
            Via::Dirs | Via::Mount | Via::Mounts | Via::Nested | Via::Namespace => {}
            Via::Root => chain.file = c_string([b"/", chain.top()].concat()),
            Via::MountUp => chain.below(&[b"/", chain.top(), b"/.."].concat()),
            Via::Relative => chain.change(|path| path[1..].to_vec()),
            Via::Symlink => {
                for path in [&chain.file, &chain.missing].map(|path| path.to_bytes()) {
                    maker.symlinkat(path, AT_FDCWD, &[path, b"~"].concat())?;
                }
                chain.change(|path| [path, b"~"].concat());
            }
            Via::DirLink => {
                let (dir, _) = split(file);
                let link = [dir, b"~"].concat();
                maker.symlinkat(dir, AT_FDCWD, &link)?;
                chain.change(|path| [&*link, split(path).1].concat());
            }
            Via::DotDot => chain.change(through_dotdot),
            Via::Barred => maker.fchmodat2(AT_FDCWD, split(file).0, 0o700, AtFlags::empty())?,
        }
        Ok(())
    }

    pub(crate) fn actor(self, vfs: &Vfs) -> Result<Actor, Error> {
        let task = task(vfs, self.user)?;
        if self.via == Via::Namespace {
            task.unshare_mounts().setup("take a mount namespace")?;
        }
        let sharer = self.shared.then(|| task.clone_files()).transpose();
        let _sharer = sharer.setup("share a table")?;
        Ok(Actor { task, _sharer })
    }

    /// Runs `ops` operations; returns how many results were wrong.
    pub(crate) fn burst(self, task: &Task, ops: u64, ring: &mut Ring<'_>) -> u64 {
        if self.via == Via::Barred {
            self.op.barred(task, ops, ring)
        } else {
            self.op.burst(task, ops, ring)
        }
    }

    /// Fails after a run with wrong results.
    pub(crate) fn right(self, wrong: u64) -> Result<(), Error> {
        all_right(wrong, &format!("{self:?}"))
    }
}

/// A task of root, or of a user without capabilities.
pub(crate) fn task(vfs: &Vfs, user: bool) -> Result<Task, Error> {
    let task = ours::task(vfs)?;
    if user {
        task.set_cred(Cred::user(USER, USER, &[]));
    }
    Ok(task)
}

/// Mounts an empty tree on a new directory.
fn mount(maker: &Task, point: &[u8]) -> Result<(), Error> {
    maker.make_dir(point)?;
    let mounted = maker.mount(ours::memory(), point, MountFlags::default());
    mounted.setup("mount")
}

/// Splits a path before the slash of its last component.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    path.split_at(slash)
}

/// `/a/b/file` becomes `/a/b/../b/file`.
fn through_dotdot(path: &[u8]) -> Vec<u8> {
    let (dir, file) = split(path);
    [dir, b"/..", split(dir).1, file].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_parsed_from_row_names() {
        for (text, op, via, user, depth) in [
            (
                "creat-existing d16",
                Op::CreatExisting,
                Via::Dirs,
                false,
                16,
            ),
            ("stat dotdot user d5", Op::Stat, Via::DotDot, true, 5),
            ("stat barred d5", Op::Stat, Via::Barred, true, 5),
            ("denied-open d1", Op::Denied, Via::Dirs, true, 1),
        ] {
            let case = Case::parse(text).unwrap();
            assert_eq!((case.op, case.via, case.user), (op, via, user));
            assert_eq!((case.shared, case.depth), (false, depth));
        }
        let case = Case::parse("open-close user shared-table d16").unwrap();
        assert_eq!(case.circumstances(), "user shared-table d16");
        let bad = "|stat|stat d|stat d0|stat 5|walk d5|stat dotdot d1|stat sideways d5";
        for text in bad.split('|') {
            assert!(Case::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn dotdot_returns_to_same_directory() {
        assert_eq!(through_dotdot(b"/a/bc/file"), b"/a/bc/../bc/file");
    }
}
