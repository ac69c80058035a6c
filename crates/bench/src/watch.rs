// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the accesses to shared memory of one operation, by address.
//!
//! Memory that existed before the measured task may be shared: another thread builds the tree in an
//! arena, and the arena, the regions of the instance and the program's variables are watched. The
//! task's own memory is not.

pub(crate) mod sys;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::common::*;
use crate::gate::sys::{Span, shared};
use sys::{Access, Kind, watched};

const LINE: usize = 64;
const WATCH: &str = "watch the shared memory";

/// Stores per operation, as the mean over all operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stores {
    /// To the root directory's entry.
    pub(crate) root: f64,
    /// To lines that operations of other groups store to as well.
    pub(crate) common: f64,
    /// All.
    pub(crate) all: f64,
    /// Where the common stores go, most first.
    pub(crate) places: Vec<(String, f64)>,
}

/// The accesses of operations, each with the number of its group: its mount or its task.
pub(crate) struct Seen {
    spans: Vec<Span>,
    accesses: Vec<(usize, Vec<Access>)>,
}

/// Runs the operation of each of `groups` in turn, `heat` times unwatched and `rounds` times
/// watched. `step` returns whether its result was right.
pub(crate) fn observe(
    vfs: &Vfs,
    kind: Kind,
    groups: usize,
    [heat, rounds]: [usize; 2],
    mut step: impl FnMut(usize) -> bool,
) -> Result<Seen, Error> {
    let mut wrong = (0..heat * groups).filter(|i| !step(i % groups)).count();
    let mut spans = shared(gate::spans(vfs)).host(WATCH)?;
    if kind == Kind::Accesses {
        // The memory that the handlers read stays open.
        spans.retain(|span| span.name != "variables");
    }
    let accesses = watched(spans.clone(), kind, |log| {
        let mut seen = Vec::with_capacity(rounds * groups);
        for group in (0..rounds * groups).map(|i| i % groups) {
            let first = log.count();
            wrong += usize::from(!step(group));
            seen.push((group, log.accesses(first)));
        }
        seen
    });
    let accesses = accesses.host(WATCH)?;
    all_right(wrong as u64, "watched operations")?;
    Ok(Seen { spans, accesses })
}

impl Seen {
    /// Sums stores by group; `root` is the memory of the root directory's entry.
    pub(crate) fn stores(&self, root: &[(usize, usize)]) -> Stores {
        // The only group with operations that store to a line; none if there are several.
        let mut owner: HashMap<usize, Option<usize>> = HashMap::new();
        for (group, stores) in &self.accesses {
            for Access { at, .. } in stores {
                let line = owner.entry(at / LINE).or_insert(Some(*group));
                *line = line.filter(|known| known == group);
            }
        }
        let stores = self.accesses.iter().flat_map(|(_, all)| all);
        let all = || stores.clone().map(|one| one.at);
        let common = || all().filter(|at| owner[&(at / LINE)].is_none());
        let is_root = |at: &usize| {
            let inside = |&(start, bytes): &(usize, usize)| (start..start + bytes).contains(at);
            root.iter().any(inside)
        };
        let each = |count: usize| count as f64 / self.accesses.len().max(1) as f64;
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for at in common() {
            let span = self.spans.iter().find(|span| span.holds(at));
            let name = span.map_or("", |span| span.name);
            *places.entry(name).or_default() += 1;
        }
        let mut places: Vec<(&str, usize)> = places.into_iter().collect();
        places.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let place = |(name, count): (&str, usize)| (name.to_owned(), each(count));
        Stores {
            root: each(all().filter(is_root).count()),
            common: each(common().count()),
            all: each(all().count()),
            places: places.into_iter().map(place).collect(),
        }
    }

    /// Lines that both of two groups access, read and written, in one operation.
    pub(crate) fn shared_lines(&self) -> [f64; 2] {
        let lines = |all: &[Access]| all.iter().map(|one| one.at / LINE).collect::<Vec<_>>();
        let touched = |group: usize| -> BTreeSet<usize> {
            let own = self.accesses.iter().filter(|(of, _)| *of == group);
            own.flat_map(|(_, all)| lines(all)).collect()
        };
        let met: BTreeSet<usize> = touched(0).intersection(&touched(1)).copied().collect();
        [false, true].map(|store| {
            let lines = self.accesses.iter().map(|(_, all)| {
                let of = all.iter().filter(|one| one.store == store);
                let of: BTreeSet<usize> = of.map(|one| one.at / LINE).collect();
                of.intersection(&met).count()
            });
            lines.sum::<usize>() as f64 / self.accesses.len().max(1) as f64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(accesses: Vec<(usize, Vec<Access>)>) -> Seen {
        let span = |(name, start, bytes)| Span { name, start, bytes };
        let spans = [("low", 0, 64), ("high", 64, 10_000)].map(span).into();
        Seen { spans, accesses }
    }

    fn access(at: usize, store: bool) -> Access {
        Access { at, store }
    }

    #[test]
    fn line_of_two_mounts_is_common() {
        let stores = |all: &[usize]| all.iter().map(|&at| access(at, true)).collect();
        let seen = seen(vec![
            (0, stores(&[0, 8, 640])),
            (1, stores(&[16])),
            (0, stores(&[640, 704])),
        ]);
        let stores = seen.stores(&[(8, 8)]);
        let third = |n: f64| n / 3.0;
        assert_eq!(stores.root, third(1.0));
        assert_eq!((stores.common, stores.all), (third(3.0), third(6.0)));
        assert_eq!(stores.places, [("low".to_owned(), third(3.0))]);
    }

    #[test]
    fn shared_lines_are_counted_by_kind_of_access() {
        let (read, written) = (|at| access(at, false), |at| access(at, true));
        // Line 0 twice; line 1 by both, read by one and written by the other; line 9 by one alone.
        let one = (0, vec![read(0), read(8), read(64), written(9 * 64)]);
        let other = (1, vec![read(0), written(64), written(72)]);
        assert_eq!(seen(vec![one.clone(), other]).shared_lines(), [1.5, 0.5]);
        assert_eq!(seen(vec![one]).shared_lines()[0], 0.0, "no other task");
        assert_eq!(seen(vec![]).shared_lines()[1], 0.0);
    }
}
