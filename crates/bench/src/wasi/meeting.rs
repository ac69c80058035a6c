// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the lines of shared memory that two guests both store to while they open files of one
//! image.
//!
//! Another thread builds everything in an arena, including the guests; then two guests open the
//! same files in turns, and every store is logged.

use openpath_wasi::Guest;

use super::guests::{Image, Shape, use_file};
use crate::create::stores::{Stores, name_of, sum};
use crate::create::sys::logged;
use crate::error::Error;
use crate::gate;
use crate::gate::sys::shared;
use crate::row::Row;

/// How often each guest opens before the count, and again during it.
const HEAT: usize = 8;
const ROUNDS: usize = 16;
/// How many guests the image has.
const GUESTS: usize = 16;

/// The row of one open and close.
pub(super) fn row(shape: Shape) -> Result<Row, Error> {
    let stores = count(shape)?;
    let mut note = format!("{:.1} stores in all", stores.all);
    for (name, count) in &stores.places {
        note.push_str(&format!("; {name} {count:.1}"));
    }
    let name = format!("{}, common stores", shape.name());
    Ok(Row::count(&name, "", stores.common).with_note(&note))
}

fn count(shape: Shape) -> Result<Stores, Error> {
    let build = || {
        let image = Image::new()?;
        let guests = (0..GUESTS).map(|_| image.guest(shape));
        let guests = guests.collect::<Result<Vec<_>, _>>()?;
        Ok((image, guests))
    };
    gate::apart(build, |(image, guests)| watch(shape, &image, &guests))
}

fn watch(shape: Shape, image: &Image, guests: &[Guest]) -> Result<Stores, Error> {
    let pair = [&guests[GUESTS / 2 - 1], &guests[GUESTS / 2]];
    for _ in 0..HEAT {
        for guest in pair {
            use_file(guest, shape)?;
        }
    }
    let spans = shared(gate::spans(&image.vfs));
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
    let seen: Vec<(usize, Vec<usize>)> = seen.into_iter().map(|(n, _, at)| (n, at)).collect();
    Ok(sum(&seen, |_| false, |at| name_of(&names, at)))
}
