// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where two guests meet: lines of shared memory that both store to while they open files of one
//! image.
//!
//! Everything is built by another thread in an arena, guests and all; then two of the guests open
//! the same files by turns, and every store is written down.

use std::collections::HashMap;

use openpath_wasi::Guest;

use super::guests::{House, Shape, use_file};
use crate::create::sys::logged;
use crate::error::Error;
use crate::gate;
use crate::gate::sys::shared;
use crate::row::Row;

/// How often each opens before anything is counted, and then counted.
const HEAT: usize = 8;
const ROUNDS: usize = 16;
const LINE: usize = 64;
/// Guests in the house.
const GUESTS: usize = 16;

/// Stores of one open and close.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    /// To lines that both guests store to.
    common: f64,
    /// All.
    all: f64,
    /// Where the common ones go.
    places: Vec<String>,
}

pub(super) fn row(shape: Shape, stores: &Stores) -> Row {
    let name = format!("{}, common stores", shape.name());
    let mut note = format!("{:.1} stores in all", stores.all);
    if !stores.places.is_empty() {
        note.push_str(&format!("; {}", stores.places.join(" ")));
    }
    Row::count(&name, "", stores.common).with_note(&note)
}

/// Counts them.
pub(super) fn count(shape: Shape) -> Result<Stores, Error> {
    let build = || {
        let house = House::new()?;
        let guests = (0..GUESTS).map(|_| house.guest(shape));
        let guests = guests.collect::<Result<Vec<_>, _>>()?;
        Ok((house, guests))
    };
    gate::apart(build, |(house, guests)| watch(shape, &house, &guests))
}

fn watch(shape: Shape, house: &House, guests: &[Guest]) -> Result<Stores, Error> {
    let pair = [&guests[GUESTS / 2 - 1], &guests[GUESTS / 2]];
    for _ in 0..HEAT {
        for guest in pair {
            use_file(guest, shape)?;
        }
    }
    let spans = shared(gate::spans(&house.vfs));
    let names = spans.clone();
    let seen = logged(spans, |log| {
        let mut seen = Vec::with_capacity(2 * ROUNDS);
        for _ in 0..ROUNDS {
            for (n, guest) in pair.into_iter().enumerate() {
                let first = log.count();
                let used = use_file(guest, shape).is_ok();
                seen.push((n, used, log.since(first)));
            }
        }
        seen
    });
    let seen = seen.map_err(|e| Error::host("watch the shared memory", e))?;
    if seen.iter().any(|(_, used, _)| !used) {
        return Err(Error::Wrong(format!("{}: an open", shape.name())));
    }
    let mut owner: HashMap<usize, Option<usize>> = HashMap::new();
    for (n, _, stores) in &seen {
        for at in stores {
            let line = owner.entry(at / LINE).or_insert(Some(*n));
            *line = line.filter(|known| known == n);
        }
    }
    let all = || seen.iter().flat_map(|(_, _, stores)| stores);
    let common: Vec<usize> = all()
        .filter(|&at| owner[&(at / LINE)].is_none())
        .copied()
        .collect();
    let mut places: Vec<String> = common
        .iter()
        .filter_map(|at| names.iter().find_map(|span| span.place(*at)))
        .collect();
    places.sort();
    places.dedup();
    places.truncate(4);
    let each = |count: usize| count as f64 / seen.len() as f64;
    Ok(Stores {
        common: each(common.len()),
        all: each(all().count()),
        places,
    })
}
