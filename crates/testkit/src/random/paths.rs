// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random paths: mostly paths that lead to an object, in all spellings.

use super::Gen;
use super::guess::Kind;
use super::tables::Held;
use crate::op::{CWD, Dir, Fd, NEVER, Path};

/// Names of new objects.
const NAMES: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"x"];
/// Links that exist in some tree.
const LINKS: &[&[u8]] = &[
    b"lf", b"la", b"labs", b"dot", b"dang", b"loop1", b"lroot", b"l2", b"lslash", b"lp",
];

impl Gen {
    fn name(&mut self) -> Vec<u8> {
        match self.rng.below(100) {
            0 => vec![b'n'; 255],
            1 => vec![b'n'; 256],
            2 | 3 => self.rng.pick(LINKS).to_vec(),
            _ => self.rng.pick(NAMES).to_vec(),
        }
    }

    /// The path of an object that may exist, of this kind if there is one.
    fn known(&mut self, kind: Option<Kind>) -> Vec<u8> {
        if self.rng.below(3) == 0 && !self.guess.hot.is_empty() {
            let hot = self.rng.pick(&self.guess.hot).clone();
            if kind.is_none() || self.guess.kind(&hot) == kind {
                return hot;
            }
        }
        let fits = |k: Kind| kind.is_none_or(|want| want == k);
        let all: Vec<&Vec<u8>> = self
            .guess
            .things
            .iter()
            .filter(|t| fits(t.kind))
            .map(|t| &t.path)
            .collect();
        if all.is_empty() {
            return if kind == Some(Kind::Dir) {
                Vec::new()
            } else {
                self.name()
            };
        }
        (*self.rng.pick(&all)).clone()
    }

    fn below(&mut self, dir: Vec<u8>) -> Vec<u8> {
        let name = self.name();
        if dir.is_empty() {
            name
        } else {
            [dir, name].join(&b'/')
        }
    }

    /// The path of an object of this kind, from the root.
    pub(super) fn there(&mut self, kind: Kind) -> Path {
        Path([b"/".to_vec(), self.known(Some(kind))].concat())
    }

    /// A path to an object that may exist.
    pub(super) fn old(&mut self) -> Path {
        self.old_of(None).1
    }

    /// A start and a path to an object that may exist, of this kind.
    pub(super) fn old_of(&mut self, kind: Option<Kind>) -> (Dir, Path) {
        let base = match self.rng.below(40) {
            0..34 => self.known(kind),
            34 | 35 => self.known(None),
            36 | 37 => {
                let dir = self.known(Some(Kind::Dir));
                self.below(dir)
            }
            38 => return (self.dir(), Path(self.wild())),
            _ => return (self.dir(), Path(self.odd())),
        };
        self.spell(base)
    }

    /// A path to a name that may be created.
    pub(super) fn new_of(&mut self) -> (Dir, Path) {
        let base = match self.rng.below(40) {
            0..30 => {
                let dir = self.known(Some(Kind::Dir));
                self.below(dir)
            }
            30..34 => self.name(),
            34..38 => self.known(None),
            38 => return (self.dir(), Path(self.wild())),
            _ => return (self.dir(), Path(self.odd())),
        };
        self.spell(base)
    }

    /// A mount point to be; half of the time, one that is in use.
    pub(super) fn mounted(&mut self) -> Path {
        if !self.guess.mounts.is_empty() && self.rng.below(5) > 0 {
            let at = self.rng.pick(&self.guess.mounts).clone();
            return self.spell(at).1;
        }
        self.old_of(Some(Kind::Dir)).1
    }

    /// A path of random components.
    fn wild(&mut self) -> Vec<u8> {
        let parts: Vec<Vec<u8>> = (0..=self.rng.below(5))
            .map(|_| match self.rng.below(8) {
                0 => b"..".to_vec(),
                1 => b".".to_vec(),
                2 => self.rng.pick(LINKS).to_vec(),
                _ => self.name(),
            })
            .collect();
        parts.join(&b'/')
    }

    /// An unusual path.
    fn odd(&mut self) -> Vec<u8> {
        match self.rng.below(9) {
            0 => Vec::new(),
            1 => b"/".to_vec(),
            2 => b".".to_vec(),
            3 => b"..".to_vec(),
            4 => [b"dot/".repeat(38 + self.rng.below(4)), self.known(None)].concat(),
            5 => [b"/".repeat(4090 + self.rng.below(8)), b"f".to_vec()].concat(),
            6 => [self.known(None), vec![b'q'; 254 + self.rng.below(3)]].join(&b'/'),
            7 => [self.known(None), b"../..".to_vec(), self.known(None)].join(&b'/'),
            _ => b"//a".to_vec(),
        }
    }

    /// A path from the root, respelled from some start; now and then replaced by another one.
    fn spell(&mut self, path: Vec<u8>) -> (Dir, Path) {
        let (at, mut path) = self.base(path);
        match self.rng.below(50) {
            0 | 1 => path.push(b'/'),
            2 => path.extend_from_slice(b"/."),
            3 => path.extend_from_slice(b"/.."),
            4 => path.extend_from_slice(b"//"),
            5 => self.splice(&mut path, b"//"),
            6 => self.splice(&mut path, b"/./"),
            7 => {
                let there = self.known(None);
                let detour = [b"/".to_vec(), there, b"/../".to_vec()].concat();
                self.splice(&mut path, &detour);
            }
            8 => path = [b"../".to_vec(), path].concat(),
            9 => path = [b"dot/".to_vec(), path].concat(),
            _ => {}
        }
        (at, Path(path))
    }

    /// Spells a path from the root, the working directory, or a directory's descriptor.
    fn base(&mut self, path: Vec<u8>) -> (Dir, Vec<u8>) {
        let rest = |base: &[u8], path: &[u8]| -> Option<Vec<u8>> {
            if base.is_empty() {
                return Some(path.to_vec());
            }
            let rest = path.strip_prefix(base)?;
            match rest.first() {
                None => Some(b".".to_vec()),
                Some(b'/') => Some(rest[1..].to_vec()),
                Some(_) => None,
            }
        };
        if self.rng.below(4) == 0 {
            for (n, held) in self.guess.tables.open() {
                if held.kind == Kind::Dir
                    && let Some(rest) = rest(&held.path, &path)
                {
                    return (Dir(*n), rest);
                }
            }
        }
        if self.rng.one_in(25) {
            return (self.dir(), path);
        }
        match rest(&self.guess.tables.cwd(), &path) {
            Some(rest) if self.rng.below(2) == 0 => (CWD, rest),
            _ => (CWD, [b"/".to_vec(), path].concat()),
        }
    }

    /// Replaces one slash.
    fn splice(&mut self, path: &mut Vec<u8>, with: &[u8]) {
        let slashes: Vec<usize> = path
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'/')
            .map(|(i, _)| i)
            .collect();
        if !slashes.is_empty() {
            let at = *self.rng.pick(&slashes);
            path.splice(at..=at, with.iter().copied());
        }
    }

    /// A start for any relative path.
    pub(super) fn dir(&mut self) -> Dir {
        match self.rng.below(12) {
            0..8 => CWD,
            _ => Dir(self.fd().0),
        }
    }

    /// A number; low ones more often, so that operations meet.
    pub(super) fn fd(&mut self) -> Fd {
        let limit = self.guess.tables.limit();
        Fd(match self.rng.below(40) {
            0..30 => self
                .rng
                .weighted(&[(6, 0), (6, 1), (5, 2), (3, 3), (2, 4), (1, 5)]),
            30..36 => self.rng.below(13) as i32,
            36 => *self.rng.pick(&[limit - 1, limit, limit + 1]),
            37 => *self.rng.pick(&[-1, -1, -100, i32::MIN]),
            38 => *self.rng.pick(&[NEVER, i32::MAX, 64, 63]),
            _ => *self.rng.pick(&[20, 40, 62, 255, 256]),
        })
    }

    /// A descriptor that may be open on such an object.
    fn held(&mut self, fits: impl Fn(&Held) -> bool) -> Fd {
        let open = self.guess.tables.open();
        let all: Vec<i32> = open
            .iter()
            .filter(|(_, h)| fits(h))
            .map(|(n, _)| *n)
            .collect();
        if all.is_empty() || self.rng.one_in(25) {
            return self.fd();
        }
        Fd(*self.rng.pick(&all))
    }

    /// A descriptor of such an object that may be used this way.
    pub(super) fn fd_of(&mut self, kind: Kind, reads: bool, writes: bool) -> Fd {
        self.held(|h| h.kind == kind && (h.reads || !reads) && (h.writes || !writes))
    }

    /// A descriptor of any object.
    pub(super) fn any_fd(&mut self) -> Fd {
        self.held(|_| true)
    }

    /// A link body.
    pub(super) fn body(&mut self) -> Path {
        match self.rng.below(14) {
            0 => Path(Vec::new()),
            1 => Path(self.wild()),
            2 => Path(vec![b'k'; 126 + self.rng.below(4)]),
            3 => Path(b"./".repeat(2047)),
            4 => Path(vec![b'k'; 4094 + self.rng.below(3)]),
            5..8 => Path(self.name()),
            _ => self.old(),
        }
    }
}
