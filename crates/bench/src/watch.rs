// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the stores to shared memory of one operation, by address.
//!
//! Memory that existed before the measured task may be shared: another thread builds the tree in an
//! arena, and the arena, the regions of the instance and the program's variables are watched. The
//! task's own memory is not.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;

use openpath_vfs::Vfs;

use super::scene::grow_ours;
use super::sys::logged;
use crate::error::Error;
use crate::gate::sys::{Span, shared};
use crate::paths::Ring;
use crate::scene::Scene;
use crate::{gate, ours};

/// Stores per operation, as the mean over one operation in each mount.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stores {
    /// To the root directory's entry.
    pub(super) root: f64,
    /// To lines that operations in other mounts store to as well.
    pub(crate) common: f64,
    /// All.
    pub(crate) all: f64,
    /// Where the common stores go, most first.
    pub(crate) places: Vec<(String, f64)>,
}

impl Stores {
    /// The counts as text.
    pub(super) fn words(&self) -> String {
        let (root, common, all) = (self.root, self.common, self.all);
        format!("stores: root {root:.1}, common {common:.1}, all {all:.1}")
    }
}

/// How often every path is walked before the count, and again during it.
const HEAT: usize = 4;
const ROUNDS: usize = 2;
const LINE: usize = 64;

/// Counts what `scene` does on an instance made by `make`.
pub(super) fn count(
    scene: &Scene,
    mounts: usize,
    make: impl FnOnce() -> Result<Vfs, Error> + Send,
) -> Result<Stores, Error> {
    let build = || {
        let vfs = make()?;
        let maker = grow_ours(mounts, &vfs)?;
        Ok((vfs, maker))
    };
    gate::apart(build, |(vfs, _maker)| watch(scene, &vfs))
}

fn watch(scene: &Scene, vfs: &Vfs) -> Result<Stores, Error> {
    let task = ours::task(vfs)?;
    let paths: Vec<_> = scene.paths.iter().flatten().collect();
    let once = |path: &CString| {
        let mut ring = Ring::new(std::slice::from_ref(path), 0);
        scene.op.burst(&task, 1, &mut ring)
    };
    let mut wrong = 0;
    for _ in 0..HEAT {
        wrong += paths.iter().map(|path| once(path)).sum::<u64>();
    }
    let spans = shared(gate::spans(vfs));
    let names = spans.clone();
    let seen = logged(spans, |log| {
        let mut seen = Vec::with_capacity(ROUNDS * paths.len());
        for (mount, path) in (0..ROUNDS).flat_map(|_| paths.iter().enumerate()) {
            let first = log.count();
            wrong += once(path);
            seen.push((mount, log.since(first)));
        }
        seen
    });
    let seen = seen.map_err(|e| Error::host("watch the shared memory", e))?;
    if wrong != 0 {
        return Err(Error::Wrong(format!("{}: {wrong} operations", scene.name)));
    }
    let root = task.root_spans();
    let is_root = |at| {
        let inside = |&(start, bytes): &(usize, usize)| (start..start + bytes).contains(&at);
        root.iter().any(inside)
    };
    Ok(sum(&seen, is_root, |at| name_of(&names, at)))
}

/// The name of the memory at an address.
pub(crate) fn name_of(spans: &[Span], at: usize) -> &str {
    let span = spans.iter().find(|span| span.place(at).is_some());
    span.map_or("", |span| &span.name)
}

/// Sums stores by the mount, or other group, that made them.
pub(crate) fn sum<'n>(
    seen: &[(usize, Vec<usize>)],
    is_root: impl Fn(usize) -> bool,
    name: impl Fn(usize) -> &'n str,
) -> Stores {
    // The only mount with operations that store to a line; none if there are several.
    let mut owner: HashMap<usize, Option<usize>> = HashMap::new();
    for (mount, stores) in seen {
        for at in stores {
            let line = owner.entry(at / LINE).or_insert(Some(*mount));
            *line = line.filter(|known| known == mount);
        }
    }
    let all = || seen.iter().flat_map(|(_, stores)| stores);
    let common = || all().filter(|&at| owner[&(at / LINE)].is_none());
    let each = |count: usize| count as f64 / seen.len().max(1) as f64;
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for &at in common() {
        *places.entry(name(at)).or_default() += 1;
    }
    let mut places: Vec<(&str, usize)> = places.into_iter().collect();
    places.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let place = |(name, count): (&str, usize)| (name.to_owned(), each(count));
    Stores {
        root: each(all().filter(|&&at| is_root(at)).count()),
        common: each(common().count()),
        all: each(all().count()),
        places: places.into_iter().map(place).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_two_mounts_is_common() {
        let seen = vec![(0, vec![0, 8, 640]), (1, vec![16]), (0, vec![640, 704])];
        let name = |at| if at < 64 { "low" } else { "high" };
        let stores = sum(&seen, |at| at == 8, name);
        let third = |n: f64| n / 3.0;
        assert_eq!(stores.root, third(1.0));
        assert_eq!((stores.common, stores.all), (third(3.0), third(6.0)));
        assert_eq!(stores.places, [("low".to_owned(), third(3.0))]);
    }
}
