// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes random scenes (batches of ring entries); the same seed gives the same scene.
//!
//! # Rules
//! R1. Each chain of one submission has a directory, a descriptor and a slot of its own. A chain
//!     that is alone, or drained, may use anything.
//! R2. A worker of the kernel makes no cancel: it would find itself. After a drain the kernel
//!     begins the next entries when their owner enters it, so nothing is cancelled then.
//! R3. An entry that waits, waits for the FIFO, or for a time-out that never expires. The scene
//!     ends it in a way that has one outcome.

use super::{Act, DIRS, Entry, NAMES, SLOTS, Scene, Step, flag};
use crate::rng::Rng;
use openpath_abi::fcntl::{
    AT_REMOVEDIR, AT_SYMLINK_NOFOLLOW, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL,
    O_NOFOLLOW, O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};
use openpath_abi::resolve::{RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS};
use openpath_ring::{Cancel, Destination, File};

/// Milliseconds of a time-out that never expires.
const LONG: u64 = 600_000;
/// The FIFO.
const FIFO: File = File::Fd(0);

/// The scene of a seed.
#[must_use]
pub fn scene(seed: u64) -> Scene {
    let mut maker = Maker {
        rng: Rng::new(seed),
        data: 0,
        ticks: 0,
        skips: false,
        drained: false,
        any: false,
        tame: false,
        mixed: false,
    };
    maker.any = maker.rng.one_in(4);
    let mut steps = Vec::new();
    // A ring that has had a silent entry refuses to drain.
    maker.skips = maker.rng.one_in(6);
    // No completion marks the end of a silent entry, so nothing follows it.
    let parts = if maker.skips { 0 } else { maker.rng.below(3) };
    for _ in 0..=parts {
        let waits = !maker.skips && maker.rng.one_in(3);
        if waits {
            maker.waiting(&mut steps);
        } else {
            maker.quick(&mut steps);
        }
    }
    Scene(steps)
}

struct Maker {
    rng: Rng,
    data: u64,
    /// Completions besides one for each entry.
    ticks: usize,
    skips: bool,
    /// Whether an entry was drained.
    drained: bool,
    /// Whether entries request any free slot and never a chosen one: the slot that is free then is
    /// L23.
    any: bool,
    /// Whether no chain may fail before it begins, because it waits to be fed.
    tame: bool,
    /// Whether files may have left their directories and descriptors: chains cannot be separated.
    mixed: bool,
}

impl Maker {
    fn entry(&mut self, act: Act, flags: u8) -> Entry {
        self.data += 1;
        Entry {
            act,
            data: self.data,
            flags,
        }
    }

    /// Adds chains that end by themselves.
    fn quick(&mut self, steps: &mut Vec<Step>) {
        let drains = !self.skips && self.rng.one_in(3);
        let alone = self.skips || self.mixed && !drains;
        let units = if alone { 1 } else { 1 + self.rng.below(DIRS) };
        let mut entries = Vec::new();
        for k in 0..units {
            let drained = drains && (self.rng.one_in(2) || k > 0 || self.mixed);
            let free = units == 1 || drained;
            let k = if free { None } else { Some(k) };
            let unit = self.chain(k, drained);
            entries.extend(unit);
        }
        steps.push(Step::Submit(entries));
        // Later entries may use the results of these.
        steps.push(self.settled());
    }

    /// Waits until all submitted entries are done, as far as they can be counted.
    fn settled(&self) -> Step {
        self.settled_before(0)
    }

    /// The same, except for this many that wait.
    fn settled_before(&self, waiting: usize) -> Step {
        let all = usize::try_from(self.data).unwrap_or(0) + self.ticks - waiting;
        Step::Await(if self.skips { 0 } else { all })
    }

    fn chain(&mut self, k: Option<usize>, drained: bool) -> Vec<Entry> {
        let len = 1 + self.rng.below(5);
        self.drained |= drained;
        self.mixed |= k.is_none();
        let mut unit = Vec::new();
        for at in 0..len {
            let mut act = self.act(k);
            if (self.drained || self.tame) && is_odd(&act) || self.any && chooses(&act) {
                act = Act::Nop;
            }
            let mut flags = match self.rng.below(4) {
                _ if at + 1 == len => 0,
                _ if act.fails_softly() => flag::HARDLINK,
                0 => flag::HARDLINK,
                _ => flag::LINK,
            };
            if drained && (at == 0 || self.rng.one_in(3)) {
                flags |= flag::DRAIN;
            }
            if self.rng.one_in(6) && !matches!(act, Act::Cancel(_)) {
                flags |= flag::ASYNC;
            }
            if self.skips && self.rng.one_in(3) && !act.fails_softly() {
                flags |= flag::SKIP;
            }
            unit.push(self.entry(act, flags));
        }
        unit
    }

    fn path(&mut self, k: Option<usize>) -> String {
        let k = k.unwrap_or_else(|| self.rng.below(DIRS));
        format!("k{k}/{}", self.rng.pick(&NAMES))
    }

    /// A file, seldom a closed one.
    fn file(&mut self, k: Option<usize>) -> File {
        let slot = self.rng.one_in(3);
        match k {
            Some(k) if slot => File::Slot(k as u32),
            Some(k) => File::Fd(1 + k as i32),
            None if slot => File::Slot(self.rng.below(SLOTS as usize + 1) as u32),
            None if self.rng.one_in(12) => File::Fd(*self.rng.pick(&[-1, -100, 23, 999])),
            None => File::Fd(1 + self.rng.below(7) as i32),
        }
    }

    fn place(&mut self, k: Option<usize>) -> Destination {
        match (k, self.rng.below(4)) {
            (None, 0) if !self.any => Destination::Fd,
            (Some(k), _) => Destination::Slot(k as u32),
            (None, 0) => Destination::AnySlot,
            (None, 1) => Destination::Slot(self.rng.below(SLOTS as usize + 1) as u32),
            _ => Destination::Fd,
        }
    }

    fn offset(&mut self) -> i64 {
        *self.rng.pick(&[0, 0, 0, 1, 5, 9, 10, 20, 100, -1, -1, -2])
    }

    /// Flags of an open, including one into a slot.
    fn flags(&mut self, into: Destination) -> u32 {
        let rng = &mut self.rng;
        let mut flags = *rng.pick(&[O_RDONLY, O_RDWR, O_RDWR, O_WRONLY]);
        for (chance, more) in [
            (3, O_CREAT),
            (8, O_EXCL),
            (8, O_TRUNC),
            (8, O_APPEND),
            (12, O_NOFOLLOW),
            (12, O_DIRECTORY),
            (20, O_PATH),
        ] {
            if rng.one_in(chance) {
                flags |= more;
            }
        }
        if into != Destination::Fd {
            // The kernel takes a slot that is open as `O_PATH` for open. L23
            flags &= !O_PATH;
        }
        if rng.one_in(if into == Destination::Fd { 4 } else { 20 }) {
            flags |= O_CLOEXEC;
        }
        flags.bits()
    }

    /// An entry that does not wait.
    fn act(&mut self, k: Option<usize>) -> Act {
        let file = self.file(k);
        let len = *self.rng.pick(&[0, 1, 5, 10, 20]);
        match self.rng.below(if k.is_some() { 34 } else { 44 }) {
            0..2 => Act::Nop,
            2..7 => {
                let into = self.place(k);
                let (path, flags) = (self.path(k), self.flags(into));
                Act::Open(path, flags, *self.rng.pick(&[0o644, 0o600]), into)
            }
            7..9 => {
                let into = self.place(k);
                let resolve = *self.rng.pick(&[
                    0,
                    RESOLVE_BENEATH.bits(),
                    RESOLVE_IN_ROOT.bits(),
                    RESOLVE_NO_SYMLINKS.bits(),
                    1 << 40,
                ]);
                let flags = self.flags(into) & !O_CREAT.bits();
                Act::Open2(self.path(k), u64::from(flags), resolve, into)
            }
            // The kernel returns 0 for an empty read of a directory.
            9..13 => Act::Read(file, len.max(1), self.offset()),
            13 => Act::Readv(file, vec![len, 3], self.offset()),
            14..17 => Act::Write(file, b'a' + self.rng.below(26) as u8, len, self.offset()),
            17 => Act::Writev(file, vec![(b'v', len), (b'w', 2)], self.offset()),
            18 => Act::Sync(file, self.rng.one_in(2)),
            19 => Act::Truncate(file, *self.rng.pick(&[0, 3, 10, 50, -1])),
            20 => {
                let how = *self.rng.pick(&[0, 1, 3, 0x100]);
                Act::Allocate(
                    file,
                    how,
                    *self.rng.pick(&[0, 5, -1]),
                    *self.rng.pick(&[0, 8, 40]),
                )
            }
            21..23 => {
                let flags = *self.rng.pick(&[0, AT_SYMLINK_NOFOLLOW.bits(), 1 << 20]);
                Act::Statx(self.path(k), flags)
            }
            23..25 => Act::Unlink(
                self.path(k),
                *self.rng.pick(&[0, 0, AT_REMOVEDIR.bits(), 1]),
            ),
            25..28 => {
                let flags = *self.rng.pick(&[0, 0, 0, 1, 2, 3]);
                Act::Rename(self.path(k), self.path(k), flags)
            }
            28..30 => Act::Mkdir(self.path(k), 0o755),
            30..32 => {
                let target = *self.rng.pick(&["f", "a", "nowhere", "b"]);
                Act::Symlink(target.to_owned(), self.path(k))
            }
            32..34 => Act::Link(
                self.path(k),
                self.path(k),
                *self.rng.pick(&[0, 0, 0x400, 1]),
            ),
            _ => self.own(file),
        }
    }

    /// An entry about descriptors, slots or the ring itself.
    fn own(&mut self, file: File) -> Act {
        match self.rng.below(10) {
            0..3 => Act::Close(file),
            3..5 => Act::Install(
                self.rng.below(SLOTS as usize + 1) as u32,
                self.rng.one_in(2),
            ),
            5..7 => {
                let fd = *self.rng.pick(&[1, 2, 3, 4, 5, 6, 23]);
                let place = match self.any {
                    true => Destination::AnySlot,
                    false => Destination::Slot(self.rng.below(SLOTS as usize + 1) as u32),
                };
                Act::Keep(fd, place)
            }
            7 => Act::TimeoutRemove(999),
            8 => Act::TimeoutUpdate(999, 1),
            _ => {
                let which = *self.rng.pick(&[Cancel::UserData(999), Cancel::File(file)]);
                Act::Cancel(which)
            }
        }
    }

    /// Adds an entry that waits, and its end.
    fn waiting(&mut self, steps: &mut Vec<Step>) {
        self.tame = true;
        match self.rng.below(8) {
            0..4 if self.drained => self.fed(steps),
            _ if self.drained => self.drained(steps),
            0 => self.fed(steps),
            1 => self.guarded(steps),
            2 | 3 => self.cancelled(steps),
            4 => self.timed(steps),
            5 => self.drained(steps),
            6 => self.counted(steps),
            _ => self.held(steps),
        }
        self.tame = false;
        steps.push(self.settled());
    }

    fn link(&mut self) -> u8 {
        *self.rng.pick(&[flag::LINK, flag::HARDLINK])
    }

    fn read(&mut self, len: u32, flags: u8) -> Entry {
        self.entry(Act::Read(FIFO, len, -1), flags)
    }

    /// Adds a chain that continues when the FIFO is fed; the next entry reads surplus bytes.
    fn fed(&mut self, steps: &mut Vec<Step>) {
        let len = *self.rng.pick(&[5, 10]);
        let link = self.link();
        let mut entries = vec![self.read(len, link)];
        entries.extend(self.chain(None, false));
        steps.push(Step::Submit(entries));
        steps.push(Step::Feed(5));
    }

    /// Adds a linked time-out: one that expires, or one that does not.
    fn guarded(&mut self, steps: &mut Vec<Step>) {
        let comes = self.rng.one_in(2);
        let (link, then) = (self.link(), self.link());
        let mut entries = vec![self.read(5, link)];
        let guard = Act::LinkTimeout(if comes { 5 } else { LONG });
        let ends = self.rng.one_in(2);
        entries.push(self.entry(guard, if ends { 0 } else { then }));
        if !ends {
            entries.extend(self.chain(None, false));
        }
        steps.push(Step::Submit(entries));
        if !comes {
            steps.push(Step::Feed(5));
        }
    }

    /// Cancels reads of the FIFO and time-outs, in one way or another. Each is seen to end before
    /// the next cancel, because a worker takes its time.
    fn cancelled(&mut self, steps: &mut Vec<Step>) {
        let mut entries = Vec::new();
        let mut units = Vec::new();
        for _ in 0..=self.rng.below(3) {
            let reads = !self.rng.one_in(3);
            let act = if reads {
                Act::Read(FIFO, 5, -1)
            } else {
                Act::Timeout(LONG, 0)
            };
            let flags = if self.rng.one_in(4) { self.link() } else { 0 };
            entries.push(self.entry(act, flags));
            units.push((self.data, reads, 1 + usize::from(flags != 0)));
            if flags != 0 {
                entries.push(self.entry(Act::Nop, 0));
            }
        }
        steps.push(self.settled_before(entries.len()));
        steps.push(Step::Submit(entries));
        let mut left = units.iter().map(|unit| unit.2).sum::<usize>();
        if self.rng.one_in(2) {
            let (data, _, members) = units.remove(self.rng.below(units.len()));
            let cancel = self.entry(Act::Cancel(Cancel::UserData(data)), 0);
            steps.push(Step::Submit(vec![cancel]));
            left -= members;
            steps.push(self.settled_before(left));
        }
        if self.rng.one_in(2) {
            let cancel = self.entry(Act::CancelAll(Cancel::File(FIFO)), 0);
            steps.push(Step::Submit(vec![cancel]));
            left -= units
                .iter()
                .filter(|unit| unit.1)
                .map(|unit| unit.2)
                .sum::<usize>();
            steps.push(self.settled_before(left));
        }
        let cancel = self.entry(Act::CancelAll(Cancel::Any), 0);
        steps.push(Step::Submit(vec![cancel]));
    }

    /// Adds time-outs that expire, are removed and are updated.
    fn timed(&mut self, steps: &mut Vec<Step>) {
        let link = if self.rng.one_in(2) { self.link() } else { 0 };
        let act = match self.rng.below(4) {
            0 => Act::Timeout(2, 0),
            1 => {
                let times = 1 + self.rng.below(3);
                self.ticks += times - 1;
                Act::Ticks(1, times as u32)
            }
            2 => Act::Pause(2),
            _ => Act::Timeout(LONG, 0),
        };
        let waits = matches!(act, Act::Timeout(LONG, _));
        let mut entries = vec![self.entry(act, link)];
        let of = self.data;
        if link != 0 {
            entries.extend(self.chain(None, false));
        }
        steps.push(Step::Submit(entries));
        if waits {
            let end = match self.rng.below(3) {
                0 => Act::TimeoutUpdate(of, 2),
                1 => Act::Cancel(Cancel::UserData(of)),
                _ => Act::TimeoutRemove(of),
            };
            let end = self.entry(end, 0);
            steps.push(Step::Submit(vec![end]));
        }
    }

    /// Adds a chain in a directory of its own, or in none.
    fn beside(&mut self, apart: bool, k: usize) -> Vec<Entry> {
        if apart {
            return self.chain(Some(k), false);
        }
        let first = self.entry(Act::Nop, flag::LINK);
        vec![first, self.entry(Act::Nop, 0)]
    }

    /// Adds a drained entry that waits for a read that is fed later, and blocks others.
    fn drained(&mut self, steps: &mut Vec<Step>) {
        let mut entries = vec![self.read(5, 0)];
        let apart = !self.mixed;
        entries.extend(self.beside(apart, 0));
        entries.extend(self.chain(apart.then_some(3), true));
        entries.extend(self.beside(apart, 1));
        steps.push(Step::Submit(entries));
        if self.rng.one_in(2) {
            let later = self.beside(apart, 2);
            steps.push(Step::Submit(later));
        }
        steps.push(Step::Feed(5));
    }

    /// Adds a time-out that this many completions end.
    fn counted(&mut self, steps: &mut Vec<Step>) {
        let count = 1 + self.rng.below(4) as u32;
        let mut entries = vec![self.entry(Act::Timeout(LONG, count), 0)];
        for _ in 0..count + self.rng.below(2) as u32 {
            entries.push(self.entry(Act::Nop, 0));
        }
        steps.push(Step::Submit(entries));
    }

    /// Adds a cancel that does not find an entry, because the entry is held back by its chain and
    /// runs later.
    fn held(&mut self, steps: &mut Vec<Step>) {
        let link = self.link();
        let mut entries = vec![self.read(5, link)];
        entries.push(self.entry(Act::Nop, 0));
        let of = self.data;
        steps.push(Step::Submit(entries));
        let act = match self.rng.below(2) {
            0 => Act::Cancel(Cancel::UserData(of)),
            _ => Act::TimeoutRemove(of),
        };
        let act = self.entry(act, 0);
        steps.push(Step::Submit(vec![act]));
        steps.push(Step::Feed(5));
    }
}

/// Whether a drain makes it behave oddly in the kernel: a cancel finds itself, and a chain with an
/// invalid entry ends later than entries after it.
fn is_odd(act: &Act) -> bool {
    match act {
        Act::Cancel(_) => true,
        Act::Unlink(_, flags) => flags & !AT_REMOVEDIR.bits() != 0,
        Act::Open(_, flags, _, into) => *into != Destination::Fd && flags & O_CLOEXEC.bits() != 0,
        Act::Open2(_, flags, _, into) => {
            *into != Destination::Fd && flags & u64::from(O_CLOEXEC) != 0
        }
        _ => false,
    }
}

/// Whether it fills or empties a slot that it chooses.
fn chooses(act: &Act) -> bool {
    match act {
        Act::Open(.., into) | Act::Open2(.., into) | Act::Keep(_, into) => {
            matches!(into, Destination::Slot(_))
        }
        Act::Close(file) => matches!(file, File::Slot(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_scene() {
        assert_eq!(scene(7), scene(7));
        assert_ne!(scene(7), scene(8));
        assert!((0..100).all(|seed| scene(seed).entries().count() > 0));
    }
}
