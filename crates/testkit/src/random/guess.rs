// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guesses which files, directories and descriptors exist, so that random operations mostly meet
//! some. The generator runs nothing: it assumes that operations succeed.

use openpath_abi::{fcntl as f, mode};

use super::tables::{Held, Tables};
use crate::op::{CWD, Dir, Keep, Op, Path};

/// What kind of thing is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dir,
    File,
    Link,
    /// A FIFO, or a pipe of pipe2(2).
    Pipe,
    Other,
    /// Not in the tree: a queue of events.
    Queue,
}

/// An object that may exist.
#[derive(Clone, Debug)]
pub(super) struct Thing {
    /// Path from the root, without slashes at either end.
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
}

/// All guessed objects.
#[derive(Clone, Debug, Default)]
pub(super) struct Guess {
    pub(super) things: Vec<Thing>,
    pub(super) tables: Tables,
    pub(super) mounts: Vec<Vec<u8>>,
    /// The last used objects, by path.
    pub(super) hot: Vec<Vec<u8>>,
}

/// How many last used objects are remembered.
const HOT: usize = 4;

/// A path without outer or doubled slashes, and without `.` and `..`.
pub(super) fn plain(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join(&b'/')
}

impl Guess {
    /// The path from the root that an operation's path leads to.
    fn resolve(&self, at: Dir, path: &Path) -> Vec<u8> {
        if path.0.first() == Some(&b'/') {
            return plain(&path.0);
        }
        let base = if at == CWD {
            self.tables.cwd()
        } else {
            let held = self.tables.open().get(&at.0);
            held.map_or_else(Vec::new, |held| held.path.clone())
        };
        plain(&[base, path.0.clone()].join(&b'/'))
    }

    pub(super) fn kind(&self, path: &[u8]) -> Option<Kind> {
        if path.is_empty() {
            return Some(Kind::Dir);
        }
        self.things.iter().find(|t| t.path == path).map(|t| t.kind)
    }

    fn add(&mut self, path: Vec<u8>, kind: Kind) {
        if path.is_empty() || path.len() > 600 || self.kind(&path).is_some() {
            return;
        }
        let parent = path
            .iter()
            .rposition(|&b| b == b'/')
            .map_or(&b""[..], |i| &path[..i]);
        if matches!(self.kind(parent), Some(Kind::Dir | Kind::Link)) {
            self.warm(path.clone());
            self.things.push(Thing { path, kind });
        }
    }

    fn remove(&mut self, path: &[u8]) {
        self.things.retain(|t| t.path != path);
        self.hot.retain(|h| h != path);
    }

    /// Records that an object was used.
    fn warm(&mut self, path: Vec<u8>) {
        self.hot.retain(|h| *h != path);
        self.hot.push(path);
        if self.hot.len() > HOT {
            self.hot.remove(0);
        }
    }

    fn moved(&mut self, old: &[u8], new: &[u8], swap: bool) {
        let (Some(kind), other) = (self.kind(old), self.kind(new)) else {
            return;
        };
        let rebase = |path: &[u8], from: &[u8], to: &[u8]| -> Option<Vec<u8>> {
            let rest = path.strip_prefix(from)?;
            (rest.is_empty() || rest[0] == b'/').then(|| [to, rest].concat())
        };
        if swap && other.is_some() {
            for t in &mut self.things {
                let there = rebase(&t.path, old, new).or_else(|| rebase(&t.path, new, old));
                t.path = there.unwrap_or_else(|| t.path.clone());
            }
            return;
        }
        self.remove(new);
        for t in &mut self.things {
            t.path = rebase(&t.path, old, new).unwrap_or_else(|| t.path.clone());
        }
        self.add(new.to_vec(), kind);
    }

    fn opened(&mut self, keep: Keep, path: Vec<u8>, flags: u32) {
        let creates = flags & f::O_CREAT.bits() != 0 && flags & f::O_PATH.bits() == 0;
        let tmp = flags & f::O_TMPFILE.bits() == f::O_TMPFILE.bits();
        let was_there = self.kind(&path).is_some();
        if creates && !tmp {
            self.add(path.clone(), Kind::File);
        }
        let held = self.kind(&path).map(|kind| {
            let usable = flags & f::O_PATH.bits() == 0;
            let acc = flags & f::O_ACCMODE.bits();
            Held {
                kind: if tmp { Kind::File } else { kind },
                path,
                reads: usable && (acc == 0 || acc == 2),
                writes: usable && (acc == 1 || acc == 2),
                cloexec: flags & f::O_CLOEXEC.bits() != 0,
            }
        });
        let there = !creates || flags & f::O_EXCL.bits() == 0 || !was_there;
        match (keep, held) {
            (Keep::Open, Some(held)) if there => self.tables.put(held),
            (Keep::At(n), held) if there => self.tables.put_at(n, held),
            _ => {}
        }
    }

    /// Records what a successful operation does.
    pub(super) fn learn(&mut self, op: &Op) {
        match op {
            Op::Mkdir { at, path, .. } => self.add(self.resolve(*at, path), Kind::Dir),
            Op::Symlink { at, path, .. } => self.add(self.resolve(*at, path), Kind::Link),
            Op::Mknod {
                at, path, mode: m, ..
            } => {
                let kind = match mode::file_type((m.0 & 0xffff) as u32) {
                    0 | mode::S_IFREG => Kind::File,
                    mode::S_IFIFO => Kind::Pipe,
                    _ => Kind::Other,
                };
                self.add(self.resolve(*at, path), kind);
            }
            Op::Link {
                at, old, at2, new, ..
            } => {
                let kind = self.kind(&self.resolve(*at, old)).unwrap_or(Kind::File);
                self.add(self.resolve(*at2, new), kind);
            }
            Op::Tmplink { new, .. } => self.add(self.resolve(CWD, new), Kind::File),
            Op::Unlink { at, path, .. } => self.remove(&self.resolve(*at, path)),
            Op::Rename {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (old, new) = (self.resolve(*at, old), self.resolve(*at2, new));
                self.moved(&old, &new, flags.0 & 2 != 0);
            }
            Op::Open {
                keep,
                at,
                path,
                flags,
                ..
            }
            | Op::Openat2 {
                keep,
                at,
                path,
                flags,
                ..
            } => {
                self.opened(*keep, self.resolve(*at, path), flags.low());
            }
            Op::Chdir { path } => self.tables.set_cwd(self.resolve(CWD, path)),
            Op::Mount { path, .. } | Op::Bind { target: path, .. } => {
                let path = self.resolve(CWD, path);
                if self.kind(&path) == Some(Kind::Dir) {
                    self.mounts.push(path);
                }
            }
            Op::Umount { path, .. } => {
                let path = self.resolve(CWD, path);
                self.mounts.retain(|m| *m != path);
            }
            op => self.tables.learn(op),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successful_operations_are_recorded() {
        let mut guess = Guess::default();
        for line in [
            "mkdir cwd a 0755",
            "mkdir cwd /a/b 0755",
            "open + cwd a/./f RDWR|CREAT 0644",
            "chdir a",
            "rename cwd b cwd ../c 0",
            "mkdir cwd nodir/x 0755",
            "unlink cwd f 0",
        ] {
            guess.learn(&line.parse().expect(line));
        }
        let paths: Vec<&[u8]> = guess.things.iter().map(|t| &t.path[..]).collect();
        assert_eq!(paths, [&b"a"[..], b"c"]);
        assert_eq!(guess.tables.open().get(&0).map(|h| h.writes), Some(true));
    }
}
