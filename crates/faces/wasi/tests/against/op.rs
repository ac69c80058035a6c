// SPDX-License-Identifier: MIT OR Apache-2.0
//! The random calls that both sides make.

/// Random numbers from a seed (`xorshift64*`).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll(2);
        }
        dice
    }

    /// One of `0..sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize]
    }

    fn slot(&mut self) -> usize {
        // Often the preopened directory.
        match self.roll(SLOTS as u64 * 2) as usize {
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
        let name = if self.roll(6) == 0 {
            self.one(&names)
        } else {
            self.one(&names[..7])
        };
        let before = self.one(&before);
        let after = self.one(&after);
        format!("{before}{name}{after}")
    }

    fn time(&mut self) -> Time {
        match self.roll(4) {
            0 => Time::Keep,
            1 => Time::Now,
            2 => Time::At(self.roll(900), 7),
            _ => Time::At(self.roll(900), 1_500_000_000),
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
    pub(crate) fn any(dice: &mut Dice) -> Self {
        let slot = dice.slot();
        let follow = dice.roll(2) == 0;
        let offset = |dice: &mut Dice| match dice.roll(12) {
            0 => u64::MAX,
            1 => i64::MAX.cast_unsigned(),
            _ => dice.roll(60),
        };
        match dice.roll(34) {
            0..=8 => Self::Open {
                dir: slot,
                path: dice.path(),
                follow,
                how: dice.one(&[0, 0, 1, 1, 1, 2, 2, 4, 5, 8, 9, 3]),
                flags: dice.one(&[0, 1, 1, 3, 3, 3, 2, 32, 33]),
                slot: 1 + dice.roll(SLOTS as u64 - 1) as usize,
            },
            9 => Self::Drop(slot),
            10 => Self::Stat(slot),
            11 | 12 => Self::StatAt(slot, follow, dice.path()),
            13 => Self::SetSize(slot, dice.one(&[0, 5, 70_000, u64::MAX])),
            14 => Self::Read(slot, dice.one(&[0, 1, 40, 100_000, u64::MAX]), offset(dice)),
            15 | 16 => {
                let data = vec![b'x'; dice.roll(50) as usize];
                Self::Write(slot, data, dice.one(&[0, 3, 30, u64::MAX]))
            }
            17 => Self::List(slot),
            18 | 19 => Self::Mkdir(slot, dice.path()),
            20 => Self::Rmdir(slot, dice.path()),
            21 => Self::Unlink(slot, dice.path()),
            22 | 23 => Self::Rename(slot, dice.path(), dice.slot(), dice.path()),
            24 => Self::Link(
                slot,
                dice.roll(5) == 0,
                dice.path(),
                dice.slot(),
                dice.path(),
            ),
            25 => {
                let targets = [
                    "a", "d", "d/e", "../a", "..", "/a", "l", "m", "d/", "", "x\0",
                ];
                Self::Symlink(slot, dice.one(&targets).to_owned(), dice.path())
            }
            26 => Self::Readlink(slot, dice.path()),
            27 => match dice.roll(2) {
                0 => Self::SetTimes(slot, dice.time(), dice.time()),
                _ => Self::SetTimesAt(slot, follow, dice.path(), dice.time(), dice.time()),
            },
            28 => match dice.roll(2) {
                0 => Self::Same(slot, dice.slot()),
                _ => Self::HashAt(slot, follow, dice.path()),
            },
            29 => match dice.roll(3) {
                0 => Self::Flags(slot),
                1 => Self::Type(slot),
                _ => Self::Sync(slot, follow),
            },
            30 => Self::Advise(slot, offset(dice), offset(dice), dice.roll(6) as u8),
            31 => Self::StreamIn(slot, offset(dice), dice.one(&[0, 1, 64, 100_000])),
            _ => {
                let at = (dice.roll(3) > 0).then(|| dice.roll(80));
                let len = dice.one(&[0, 9, 5_000]);
                Self::StreamOut(slot, at, vec![b'y'; len])
            }
        }
    }

    /// Its paths and link targets.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
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
        one.into_iter().chain(other).map(String::as_str)
    }
}
