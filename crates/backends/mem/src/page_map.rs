// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps page numbers of a file to its pages.
//!
//! # Kernel analogue
//! `i_pages`, the xarray of a page cache.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | first | group 0: a file of up to 256 KiB has no other, and reaches it without a search |
//! | rest | the groups after it that hold a page |
//!
//! A group holds up to 64 pages with neighbouring numbers: one word says which are present, and a
//! vector has them in order. So a small file pays for its own pages alone, an append is a push, and
//! a search for a page or a gap examines 64 numbers at once.

use openpath_sync::{PAGE_SIZE, Page};
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a page and of a block.
pub(crate) const PAGE: usize = PAGE_SIZE;
/// The same, for arithmetic with offsets.
pub(crate) const PAGE_64: u64 = PAGE as u64;
/// Pages of a group.
const GROUP: u64 = 64;

/// Up to 64 pages with neighbouring numbers.
#[derive(Default)]
pub(crate) struct Group {
    /// Bit n: page n is present.
    present: u64,
    /// The pages that are present, in order.
    pages: Vec<Page>,
}

/// The bits from `slot` on.
fn from_slot(slot: u32) -> u64 {
    u64::MAX << slot
}

impl Group {
    /// The index of the page of `slot`, or where it belongs.
    fn rank(&self, slot: u32) -> usize {
        let before = !from_slot(slot);
        let present = self.present & before;
        // Most files have no gaps, and comparing is cheaper than counting.
        if present == before {
            slot as usize
        } else {
            present.count_ones() as usize
        }
    }

    /// Page `number` of the file, which belongs to this group.
    pub(crate) fn get(&self, number: u64) -> Option<&Page> {
        let (_, slot) = locate(number);
        let is_present = self.present & 1 << slot != 0;
        is_present.then(|| &self.pages[self.rank(slot)])
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut Page> {
        let is_present = self.present & 1 << slot != 0;
        let rank = self.rank(slot);
        is_present.then(|| &mut self.pages[rank])
    }

    /// Sets the page of `slot`; returns the previous one.
    fn set(&mut self, slot: u32, page: Page) -> Option<Page> {
        if let Some(old) = self.get_mut(slot) {
            return Some(std::mem::replace(old, page));
        }
        self.pages.insert(self.rank(slot), page);
        self.present |= 1 << slot;
        None
    }

    /// Takes the pages of `slots` out.
    fn take(&mut self, slots: u64) -> Self {
        let present = self.present & slots;
        if present == self.present {
            return std::mem::take(self);
        }
        if present == 0 {
            return Self::default();
        }
        // The slots are neighbours, so their pages are too.
        let start = self.rank(present.trailing_zeros());
        let end = start + present.count_ones() as usize;
        self.present &= !slots;
        Self {
            present,
            pages: self.pages.drain(start..end).collect(),
        }
    }
}

/// The pages of one file.
#[derive(Default)]
pub(crate) struct PageMap {
    first: Group,
    rest: BTreeMap<u64, Group>,
}

/// The group of page `number`, and its slot there.
fn locate(number: u64) -> (u64, u32) {
    // Below 64, so the conversion keeps the value.
    (number / GROUP, (number % GROUP) as u32)
}

impl PageMap {
    /// The group of page `number` if it exists, and the number of the first page after it.
    pub(crate) fn group(&self, number: u64) -> (Option<&Group>, u64) {
        let (group, _) = locate(number);
        let end = (group + 1) * GROUP;
        if group == 0 {
            return (Some(&self.first), end);
        }
        (self.rest.get(&group), end)
    }

    /// Page `number`, to write to.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Page> {
        match locate(number) {
            (0, slot) => self.first.get_mut(slot),
            (group, slot) => self.rest.get_mut(&group)?.get_mut(slot),
        }
    }

    /// Sets page `number`; returns the previous one.
    pub(crate) fn set(&mut self, number: u64, page: Page) -> Option<Page> {
        match locate(number) {
            (0, slot) => self.first.set(slot, page),
            (group, slot) => self.rest.entry(group).or_default().set(slot, page),
        }
    }

    /// Takes pages out, to be dropped when no lock is held.
    pub(crate) fn take(&mut self, numbers: Range<u64>) -> RemovedPages {
        let mut removed = RemovedPages::default();
        if numbers.is_empty() {
            return removed;
        }
        let (start, from) = locate(numbers.start);
        let (end, to) = locate(numbers.end);
        let slots = |group| {
            let after = if group == end { from_slot(to) } else { 0 };
            let before = if group == start { !from_slot(from) } else { 0 };
            !(after | before)
        };
        if start == 0 {
            removed.put(self.first.take(slots(0)));
        }
        let emptied = self.rest.extract_if(start..=end, |number, group| {
            removed.put(group.take(slots(*number)));
            group.present == 0
        });
        emptied.for_each(drop);
        removed
    }

    /// The groups from the one of page `number` on, with the numbers of their first pages, and
    /// without the pages before `number`.
    fn from(&self, number: u64) -> impl Iterator<Item = (u64, u64)> {
        let (start, slot) = locate(number);
        let first = (start == 0).then_some((&0, &self.first));
        let groups = first.into_iter().chain(self.rest.range(start..));
        groups.map(move |(group, pages)| {
            let mask = if *group == start {
                from_slot(slot)
            } else {
                u64::MAX
            };
            (group * GROUP, pages.present & mask)
        })
    }

    /// The first page from `number` on.
    pub(crate) fn next_page(&self, number: u64) -> Option<u64> {
        self.from(number)
            .find(|(_, present)| *present != 0)
            .map(|(base, present)| base + u64::from(present.trailing_zeros()))
    }

    /// The first number from `number` on that has no page.
    pub(crate) fn next_gap(&self, number: u64) -> u64 {
        let mut gap = number;
        for (base, present) in self.from(number) {
            if base > gap {
                break;
            }
            let slot = (gap - base) as u32;
            let run = (present >> slot).trailing_ones();
            gap += u64::from(run);
            if slot + run < GROUP as u32 {
                break;
            }
        }
        gap
    }
}

/// Pages that were taken out.
#[derive(Default)]
pub(crate) struct RemovedPages {
    groups: Vec<Group>,
}

impl RemovedPages {
    fn put(&mut self, group: Group) {
        if group.present != 0 {
            self.groups.push(group);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.groups.iter().map(|g| g.pages.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openpath_sync::Pages;
    use std::collections::BTreeSet;

    fn page_with(part: &[u8], from: usize) -> Page {
        Pages::default().page(part, from).expect("a page")
    }

    fn map(numbers: impl IntoIterator<Item = u64>) -> PageMap {
        let mut map = PageMap::default();
        for number in numbers {
            assert!(
                map.set(number, page_with(&number.to_le_bytes(), 8))
                    .is_none()
            );
        }
        map
    }

    #[test]
    fn pages_and_gaps_are_found() {
        let map = map([3, 4, 63, 64, 65, 127, 128, 1 << 50]);
        let next = [0, 4, 5, 64, 66, 129].map(|n| map.next_page(n));
        let found = [3, 4, 63, 64, 127, 1 << 50];
        assert_eq!(next, found.map(Some));
        assert_eq!(map.next_page((1 << 50) + 1), None);
        let gaps = [0, 3, 4, 5, 63, 64, 127, 129, 1 << 50].map(|n| map.next_gap(n));
        assert_eq!(gaps, [0, 5, 5, 5, 66, 66, 129, 129, (1 << 50) + 1]);
        assert_eq!(self::map(0..1000).next_gap(17), 1000);
    }

    #[test]
    fn setting_a_page_again_returns_the_old_one() {
        let mut map = map([70]);
        let old = map.set(70, page_with(b"new", 0)).expect("the old page");
        assert_eq!(old[8], 70);
        assert_eq!(map.get_mut(70).expect("the new page")[..3], *b"new");
    }

    /// Compares with a set of numbers, by pseudo-random calls.
    #[test]
    fn page_map_agrees_with_a_set() {
        let mut map = PageMap::default();
        let mut set = BTreeSet::new();
        let mut random = 1_u64;
        for _ in 0..3000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (number, len) = ((random >> 33) % 400, (random >> 50) % 90);
            if random >> 63 == 0 {
                let old = map.set(number, page_with(&number.to_le_bytes(), 0));
                assert_eq!(old.is_none(), set.insert(number));
            } else if len < 80 {
                let range = number..number + len;
                let before = set.len();
                set.retain(|n| !range.contains(n));
                assert_eq!(map.take(range).len(), (before - set.len()) as u64);
            }
            assert_eq!(map.next_page(number), set.range(number..).next().copied());
            let gap = (number..).find(|n| !set.contains(n));
            assert_eq!(Some(map.next_gap(number)), gap);
        }
        for number in set {
            let page = map.get_mut(number).expect("a page");
            assert_eq!(page[..8], number.to_le_bytes());
        }
        assert!(map.take(0..u64::MAX).len() > 0);
        assert!(map.rest.is_empty());
        assert_eq!(map.next_page(0), None);
    }
}
