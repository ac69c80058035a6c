// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the bitmap of claimed descriptors agrees with a set of numbers, at the sizes where
//! its layout changes, and that a search for a free descriptor reads at most a few words.

use super::{FdMap, WORD, Words};
use openpath_abi::Errno;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

const NR_OPEN: u32 = 1 << 20;
const SWITCHES: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

fn map() -> FdMap {
    FdMap::new(NR_OPEN, true, true)
}

fn filled(count: u32) -> FdMap {
    let mut map = map();
    for fd in 0..count {
        assert_eq!(map.alloc(0, NR_OPEN, false), Ok(fd));
    }
    map
}

/// A generator of numbers, the same in every run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % u64::from(bound)) as u32
    }
}

/// Every summary says what is below it, and `next`, `top` and `count` hold.
fn check(map: &FdMap) {
    for level in 1..map.levels {
        for index in 0..map.len(level - 1).next_multiple_of(WORD) {
            let full = index >= map.len(level - 1) || map.word(level - 1, index) == u64::MAX;
            let says = map.word(level, index / WORD) & super::bit(index) != 0;
            assert_eq!(says, full, "level {level}, word {index} below it");
        }
    }
    assert_eq!(map.len(map.levels - 1), 1);
    assert!((0..map.next).all(|fd| map.is_open(fd)), "{}", map.next);
    let open = map.open_in(0, u32::MAX).count();
    assert_eq!(open, map.count() as usize);
    assert!((map.top..map.capacity).all(|fd| !map.is_open(fd)));
}

/// What a map must do, by its specification.
#[derive(Clone, Default)]
struct Model {
    open: BTreeMap<u32, bool>,
    next: u32,
}

impl Model {
    fn lowest(&self, start: u32) -> u32 {
        let mut fd = start;
        for &open in self.open.range(start..).map(|(fd, _)| fd) {
            if open != fd {
                break;
            }
            fd += 1;
        }
        fd
    }

    fn alloc(&mut self, start: u32, end: u32, cloexec: bool) -> Result<u32, Errno> {
        let fd = self.lowest(start);
        if fd >= end || fd >= NR_OPEN {
            return Err(Errno::EMFILE);
        }
        if start <= self.next {
            self.next = fd + 1;
        }
        self.open.insert(fd, cloexec);
        Ok(fd)
    }

    fn free(&mut self, fd: u32) -> bool {
        let was = self.open.remove(&fd).is_some();
        if was {
            self.next = self.next.min(fd);
        }
        was
    }
}

/// One step: on the model and on a map it must answer the same text.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u32, u32, bool),
    Free(u32),
    Claim(u32, bool),
    Mark(u32, bool),
    MarkRange(u32, u32),
    HasFree(u32),
    Open(u32, u32),
    Cloexec(u32, u32),
    Highest,
    Copy(u32),
}

/// Which descriptors a copy keeps.
fn kept(fd: u32) -> bool {
    fd % 3 != 1
}

impl Step {
    fn random(random: &mut Random, span: u32) -> Self {
        let (a, b) = (random.below(span), random.below(span));
        let (low, high) = (a.min(b), a.max(b));
        let on = random.below(2) == 1;
        let start = if random.below(4) == 0 { low } else { 0 };
        match random.below(1000) {
            0..=399 => Self::Alloc(start, high, on),
            400..=799 => Self::Free(a),
            800..=869 => Self::Claim(a, on),
            870..=909 => Self::Mark(a, on),
            910..=919 => Self::MarkRange(low, high),
            920..=959 => Self::HasFree(high),
            960..=969 => Self::Open(low, high),
            970..=979 => Self::Cloexec(low, high),
            980..=989 => Self::Highest,
            _ => Self::Copy(high),
        }
    }

    fn expected(self, model: &mut Model) -> String {
        match self {
            Self::Alloc(start, end, on) => format!("{:?}", model.alloc(start, end, on)),
            Self::Free(fd) => model.free(fd).to_string(),
            Self::Claim(fd, on) => {
                let free = !model.open.contains_key(&fd);
                if free {
                    model.open.insert(fd, on);
                }
                free.to_string()
            }
            Self::Mark(fd, on) => {
                model.open.entry(fd).and_modify(|cloexec| *cloexec = on);
                String::new()
            }
            Self::MarkRange(first, last) => {
                let these = model.open.range_mut(first..=last);
                these.for_each(|(_, cloexec)| *cloexec = true);
                String::new()
            }
            Self::HasFree(end) => (model.lowest(0) < end).to_string(),
            Self::Open(first, last) => {
                let these = model.open.range(first..=last);
                format!("{:?}", these.map(|(fd, _)| fd).collect::<Vec<_>>())
            }
            Self::Cloexec(first, last) => {
                let these = model.open.range(first..=last).filter(|(_, on)| **on);
                format!("{:?}", these.map(|(fd, _)| fd).collect::<Vec<_>>())
            }
            Self::Highest => format!("{:?}", model.open.keys().next_back()),
            Self::Copy(end) => {
                model.open.retain(|&fd, _| fd < end);
                let asked: Vec<u32> = model.open.keys().copied().collect();
                model.open.retain(|&fd, _| kept(fd));
                format!("{asked:?}")
            }
        }
    }

    fn on(self, map: &mut FdMap) -> String {
        match self {
            Self::Alloc(start, end, on) => format!("{:?}", map.alloc(start, end, on)),
            Self::Free(fd) => map.free(fd).to_string(),
            Self::Claim(fd, on) => map.claim(fd, on).unwrap().to_string(),
            Self::Mark(fd, on) => {
                map.set_cloexec(fd, on);
                String::new()
            }
            Self::MarkRange(first, last) => {
                map.set_cloexec_range(first, last);
                String::new()
            }
            Self::HasFree(end) => map.has_free_below(end).to_string(),
            Self::Open(first, last) => {
                format!("{:?}", map.open_in(first, last).collect::<Vec<_>>())
            }
            Self::Cloexec(first, last) => {
                format!("{:?}", map.cloexec_in(first, last).collect::<Vec<_>>())
            }
            Self::Highest => format!("{:?}", map.highest()),
            Self::Copy(end) => {
                let mut asked = Vec::new();
                let copy = map.copy_upto(end, |fd| {
                    asked.push(fd);
                    kept(fd)
                });
                *map = copy.unwrap();
                format!("{asked:?}")
            }
        }
    }
}

#[test]
fn random_steps_agree_with_a_set_whatever_the_switches() {
    for (seed, span) in [
        (1, 40),
        (2, 70),
        (3, 200),
        (4, 5000),
        (5, 9000),
        (6, 300_000),
    ] {
        let mut random = Random(seed);
        let mut maps = SWITCHES.map(|(peek, lazy)| FdMap::new(NR_OPEN, peek, lazy));
        let mut model = Model::default();
        for round in 0..20_000 {
            let step = Step::random(&mut random, span);
            let expected = step.expected(&mut model);
            for map in &mut maps {
                assert_eq!(step.on(map), expected, "{step:?}");
            }
            if let Step::Copy(_) = step {
                model.next = maps[0].next;
            }
            assert!(maps.iter().all(|map| map.next == model.next), "{step:?}");
            if round % 2000 == 0 {
                maps.iter().for_each(check);
            }
        }
        for map in &maps {
            check(map);
            let open: Vec<_> = map.open_in(0, u32::MAX).collect();
            assert_eq!(open, model.open.keys().copied().collect::<Vec<_>>());
            let set: BTreeSet<_> = map.cloexec_in(0, u32::MAX).collect();
            let want = model.open.iter().filter(|(_, on)| **on);
            assert_eq!(set, want.map(|(&fd, _)| fd).collect());
        }
    }
}

#[test]
fn growth_at_every_boundary_keeps_what_was_claimed() {
    for edge in [64, 128, 4096, 8192, 262_144, 524_288] {
        for count in [edge - 1, edge, edge + 1] {
            let mut map = filled(count);
            check(&map);
            assert_eq!(map.capacity(), count.next_power_of_two().max(64));
            assert_eq!((map.count(), map.highest()), (count, Some(count - 1)));
            assert!(!map.has_free_below(count) && map.has_free_below(count + 1));
            assert!(map.free(count / 2));
            assert_eq!(map.alloc(0, NR_OPEN, true), Ok(count / 2));
            assert_eq!(map.alloc(0, NR_OPEN, true), Ok(count));
            assert_eq!(
                map.cloexec_in(0, count).collect::<Vec<_>>(),
                [count / 2, count]
            );
        }
    }
}

#[test]
fn sixty_four_descriptors_need_no_memory() {
    let mut map = filled(64);
    assert!(matches!(map.words, Words::Few(_)));
    assert_eq!(map.alloc(0, 64, false), Err(Errno::EMFILE));
    assert!(matches!(map.words, Words::Few(_)));
    assert_eq!(map.alloc(0, 65, false), Ok(64));
    assert!(map.free(64));
    assert!(matches!(
        map.copy_upto(NR_OPEN, |_| true).unwrap().words,
        Words::Few(_)
    ));
}

#[test]
fn the_end_is_looked_at_before_nr_open() {
    let mut map = FdMap::new(200, true, true);
    assert_eq!(map.claim(200, false), Err(Errno::EMFILE));
    assert_eq!(map.alloc(200, u32::MAX, false), Err(Errno::EMFILE));
    assert_eq!(map.alloc(u32::MAX, u32::MAX, false), Err(Errno::EMFILE));
    assert_eq!(map.claim(199, false), Ok(true));
    // The table was rounded up to whole words, and what it holds is not refused.
    assert_eq!((map.capacity(), map.claim(200, false)), (256, Ok(true)));
    for fd in (0..256).filter(|fd| !(199..=200).contains(fd)) {
        assert!(map.has_free_below(u32::MAX));
        assert_eq!(map.alloc(0, u32::MAX, false), Ok(fd));
    }
    assert!(!map.has_free_below(u32::MAX));
    assert_eq!(map.alloc(0, u32::MAX, false), Err(Errno::EMFILE));
}

#[test]
fn the_largest_table_is_laid_out_right() {
    let map = FdMap::new(u32::MAX, true, true);
    assert_eq!(map.nr_open, (1 << 31) - 64);
    let mut map = FdMap::new(1 << 26, true, true);
    assert_eq!(map.claim((1 << 26) - 1, true), Ok(true));
    assert_eq!(map.levels, 5);
    assert_eq!(map.alloc(0, 1, false), Ok(0));
    assert_eq!(map.next_open(1), Some((1 << 26) - 1));
    assert!(map.free((1 << 26) - 1));
    assert_eq!((map.highest(), map.top), (Some(0), 1));
}

#[test]
fn a_range_marks_slots_that_nobody_claimed() {
    let mut map = filled(10);
    map.set_cloexec_range(4, u32::MAX);
    assert!(map.cloexec(63) && !map.cloexec(3) && !map.cloexec(64));
    assert_eq!(
        map.cloexec_in(0, u32::MAX).collect::<Vec<_>>(),
        [4, 5, 6, 7, 8, 9]
    );
    assert_eq!(map.alloc(0, NR_OPEN, false), Ok(10));
    assert!(!map.cloexec(10), "a claim sets its own");
    map.set_cloexec_range(64, 70);
    map.set_cloexec_range(9, 8);
    assert_eq!(map.next_cloexec(9), Some(9));
    assert_eq!(map.next_cloexec(10), None);
}

#[test]
fn a_copy_leaves_out_what_is_not_installed() {
    let mut map = filled(5000);
    map.set_cloexec_range(4990, 4999);
    let mut copy = map.copy_upto(NR_OPEN, |fd| fd != 70 && fd < 4995).unwrap();
    check(&copy);
    assert_eq!((copy.count(), copy.highest()), (4994, Some(4994)));
    assert_eq!(
        copy.cloexec_in(0, u32::MAX).collect::<Vec<_>>(),
        [4990, 4991, 4992, 4993, 4994]
    );
    assert_eq!(copy.alloc(0, NR_OPEN, false), Ok(70));
    assert_eq!(copy.alloc(0, NR_OPEN, false), Ok(4995));
    let mut low = map.copy_upto(65, |_| true).unwrap();
    check(&low);
    assert_eq!(
        (low.capacity(), low.alloc(0, NR_OPEN, false)),
        (128, Ok(65))
    );
    assert_eq!(map.copy_upto(0, |_| true).unwrap().count(), 0);
}

#[test]
fn next_moves_as_linux_moves_it() {
    let mut map = filled(67);
    assert!(map.free(3));
    assert_eq!(map.next, 3);
    assert_eq!(map.alloc(0, NR_OPEN, false), Ok(3));
    assert_eq!(map.next, 4, "taken, but nothing below it is free");
    assert_eq!(map.alloc(100, NR_OPEN, false), Ok(100));
    assert_eq!(map.next, 4);
    assert_eq!(map.alloc(2, NR_OPEN, false), Ok(67));
    assert_eq!(map.next, 68);
    assert_eq!(map.alloc(0, 68, false), Err(Errno::EMFILE));
    assert_eq!(map.next, 68, "a failure moves nothing");
    assert_eq!(map.claim(68, false), Ok(true));
    assert_eq!(map.next, 68, "a claim by number moves nothing");
}

/// Words that the search for the lowest free descriptor from `start` reads.
fn reads(map: &FdMap, start: u32) -> u32 {
    let seen = Cell::new(0);
    map.lowest_free(start, || seen.set(seen.get() + 1));
    seen.get()
}

/// A full table of a million but for `holes`, its hint at the bottom.
fn full_but(holes: &[u32], (peek, lazy): (bool, bool)) -> FdMap {
    let mut map = FdMap::new(NR_OPEN, peek, lazy);
    for _ in 0..NR_OPEN {
        map.alloc(0, NR_OPEN, false).unwrap();
    }
    for &fd in holes {
        map.free(fd);
    }
    map.free(0);
    map.alloc(0, NR_OPEN, false).unwrap();
    assert_eq!(map.next, 1);
    map
}

#[test]
fn no_search_reads_more_than_a_word_a_level_and_the_peek() {
    let hard: [&[u32]; 6] = [
        &[],
        &[3],
        &[NR_OPEN - 1],
        &[64, NR_OPEN - 1],
        &[4096, 262_144, NR_OPEN - 64],
        &[262_143, 262_145],
    ];
    for switches in SWITCHES {
        for holes in hard {
            let mut map = full_but(holes, switches);
            assert_eq!(map.levels, 4);
            for &hole in holes {
                let most = map.levels + u32::from(switches.0);
                assert!(reads(&map, 0) <= most, "{holes:?} {switches:?}");
                assert_eq!(map.alloc(0, NR_OPEN, false), Ok(hole));
            }
            assert!(reads(&map, 0) <= map.levels + 1);
            assert_eq!(map.alloc(0, NR_OPEN, false), Err(Errno::EMFILE));
        }
    }
}

#[test]
fn a_search_from_above_the_hint_climbs_and_comes_down() {
    let map = full_but(&[3, NR_OPEN - 1], (true, true));
    assert_eq!(map.lowest_free(4, || ()), NR_OPEN - 1);
    assert!(reads(&map, 4) <= 2 * map.levels);
    assert_eq!(map.lowest_free(3, || ()), 3);
    assert_eq!(reads(&map, 3), 1);
}

#[test]
fn a_free_below_the_hint_is_found_in_one_read() {
    let mut map = filled(100_000);
    let mut random = Random(9);
    for _ in 0..1000 {
        let (fd, hint) = (random.below(100_000), map.next);
        map.free(fd);
        let near = fd < hint || fd / WORD == hint / WORD;
        assert_eq!(reads(&map, 0), if near { 1 } else { 1 + map.levels });
        assert_eq!(map.alloc(0, NR_OPEN, false), Ok(fd));
    }
}
