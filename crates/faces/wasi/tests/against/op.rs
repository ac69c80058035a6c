// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the random calls of `wasi:filesystem` that openpath and wasmtime-wasi both answer.

/// Random numbers from a seed (`xorshift64*`).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    /// One of `0..sides`.
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn slot(&mut self) -> usize {
        // Often the preopened directory.
        match self.below(SLOTS as u64 * 2) as usize {
            slot if slot < SLOTS => slot,
            _ => 0,
        }
    }

    fn path(&mut self) -> String {
        let before = [
            "", "", "", "", "d/", "d/", "d/e/", "./", "../", "d/../", "l/", "/", "d//", "m/",
        ];
        let after = ["", "", "", "", "", "", "", "/", "/.", "/..", "//"];
        let names = ["a", "b", "c", "d", "e", "l", "m", ".", "..", "", "a\0"];
        let name = if self.below(6) == 0 {
            self.pick(&names)
        } else {
            self.pick(&names[..7])
        };
        let before = self.pick(&before);
        let after = self.pick(&after);
        format!("{before}{name}{after}")
    }

    fn time(&mut self) -> Time {
        match self.below(4) {
            0 => Time::Keep,
            1 => Time::Now,
            2 => Time::At(self.below(900), 7),
            _ => Time::At(self.below(900), 1_500_000_000),
        }
    }
}

/// The number of handles that a guest keeps.
pub(crate) const SLOTS: usize = 6;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Time {
    Keep,
    Now,
    At(u64, u32),
}

/// One call. Handles are numbers of slots; slot 0 is the preopened directory.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Open {
        dir: usize,
        path: String,
        follow: bool,
        how: u8,
        flags: u8,
        slot: usize,
    },
    Drop(usize),
    Stat(usize),
    StatAt(usize, bool, String),
    SetSize(usize, u64),
    Read(usize, u64, u64),
    Write(usize, Vec<u8>, u64),
    List(usize),
    Mkdir(usize, String),
    Rmdir(usize, String),
    Unlink(usize, String),
    Rename(usize, String, usize, String),
    Link(usize, bool, String, usize, String),
    Symlink(usize, String, String),
    Readlink(usize, String),
    SetTimes(usize, Time, Time),
    SetTimesAt(usize, bool, String, Time, Time),
    Same(usize, usize),
    HashAt(usize, bool, String),
    Flags(usize),
    Type(usize),
    Sync(usize, bool),
    Advise(usize, u64, u64, u8),
    StreamIn(usize, u64, u64),
    StreamOut(usize, Option<u64>, Vec<u8>),
}

impl Op {
    pub(crate) fn any(random: &mut Random) -> Self {
        let slot = random.slot();
        let follow = random.below(2) == 0;
        let offset = |random: &mut Random| match random.below(12) {
            0 => u64::MAX,
            1 => i64::MAX.cast_unsigned(),
            _ => random.below(60),
        };
        match random.below(34) {
            0..=8 => Self::Open {
                dir: slot,
                path: random.path(),
                follow,
                how: random.pick(&[0, 0, 1, 1, 1, 2, 2, 4, 5, 8, 9, 3]),
                flags: random.pick(&[0, 1, 1, 3, 3, 3, 2, 32, 33]),
                slot: 1 + random.below(SLOTS as u64 - 1) as usize,
            },
            9 => Self::Drop(slot),
            10 => Self::Stat(slot),
            11 | 12 => Self::StatAt(slot, follow, random.path()),
            13 => Self::SetSize(slot, random.pick(&[0, 5, 70_000, u64::MAX])),
            14 => Self::Read(
                slot,
                random.pick(&[0, 1, 40, 100_000, u64::MAX]),
                offset(random),
            ),
            15 | 16 => {
                let data = vec![b'x'; random.below(50) as usize];
                Self::Write(slot, data, random.pick(&[0, 3, 30, u64::MAX]))
            }
            17 => Self::List(slot),
            18 | 19 => Self::Mkdir(slot, random.path()),
            20 => Self::Rmdir(slot, random.path()),
            21 => Self::Unlink(slot, random.path()),
            22 | 23 => Self::Rename(slot, random.path(), random.slot(), random.path()),
            24 => Self::Link(
                slot,
                random.below(5) == 0,
                random.path(),
                random.slot(),
                random.path(),
            ),
            25 => {
                let targets = [
                    "a", "d", "d/e", "../a", "..", "/a", "l", "m", "d/", "", "x\0",
                ];
                Self::Symlink(slot, random.pick(&targets).to_owned(), random.path())
            }
            26 => Self::Readlink(slot, random.path()),
            27 => match random.below(2) {
                0 => Self::SetTimes(slot, random.time(), random.time()),
                _ => Self::SetTimesAt(slot, follow, random.path(), random.time(), random.time()),
            },
            28 => match random.below(2) {
                0 => Self::Same(slot, random.slot()),
                _ => Self::HashAt(slot, follow, random.path()),
            },
            29 => match random.below(3) {
                0 => Self::Flags(slot),
                1 => Self::Type(slot),
                _ => Self::Sync(slot, follow),
            },
            30 => Self::Advise(slot, offset(random), offset(random), random.below(6) as u8),
            31 => Self::StreamIn(slot, offset(random), random.pick(&[0, 1, 64, 100_000])),
            _ => {
                let at = (random.below(3) > 0).then(|| random.below(80));
                let len = random.pick(&[0, 9, 5_000]);
                Self::StreamOut(slot, at, vec![b'y'; len])
            }
        }
    }

    /// Its paths and link targets.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let (pick, other) = match self {
            Self::Open { path, .. }
            | Self::StatAt(_, _, path)
            | Self::Mkdir(_, path)
            | Self::Rmdir(_, path)
            | Self::Unlink(_, path)
            | Self::Readlink(_, path)
            | Self::SetTimesAt(_, _, path, ..)
            | Self::HashAt(_, _, path) => (Some(path), None),
            Self::Rename(_, path, _, other)
            | Self::Link(_, _, path, _, other)
            | Self::Symlink(_, other, path) => (Some(path), Some(other)),
            _ => (None, None),
        };
        pick.into_iter().chain(other).map(String::as_str)
    }
}
