// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two threads, each with its own task, on the same file.

use openpath_vfs::Task;

use super::Options;
use crate::error::Error;
use crate::harness::Steal;
use crate::ops::Op;
use crate::paths::{Ring, chains, rotation};
use crate::row::Row;
use crate::scale::scaling;
use crate::{SEED, ours, sys};

const NAME: &str = "two-threads same-file";
const FLOOR: &str = "two-threads nothing-shared";
const DEPTH: usize = 5;

pub(super) fn rows(options: &Options, steal: &Steal) -> Result<Vec<Row>, Error> {
    if !options.wants(NAME) {
        return Ok(Vec::new());
    }
    if sys::processors().len() < 2 {
        return Ok(vec![Row::missing(NAME, "only one processor")]);
    }
    let tree = chains(1, DEPTH, SEED);
    let vfs = ours::instance()?;
    ours::grow(&ours::task(&vfs)?, &tree)?;
    let paths = rotation(&tree, false);
    let burst = |task: Task, turns: u64| {
        let mut ring = Ring::new(&paths, 0);
        move |ops| {
            (0..turns)
                .map(|_| Op::OpenClose.ours(&task, ops, &mut ring))
                .sum()
        }
    };
    let (one, other) = (ours::task(&vfs)?, ours::task(&vfs)?);
    let same = scaling(
        options.effort,
        steal,
        [burst(one, 1), burst(other, options.turns())],
    )?;
    // The same calls, each thread in a `Vfs` of its own: two processors that are one core's need
    // not be twice as fast as one at this, though they are at adding numbers.
    let apart = ours::instance()?;
    ours::grow(&ours::task(&apart)?, &tree)?;
    let (one, other) = (ours::task(&vfs)?, ours::task(&apart)?);
    let floor = scaling(options.effort, steal, [burst(one, 1), burst(other, 1)])?;
    Ok(vec![
        Row::faster(NAME, &same.two, "one thread", &same.one),
        Row::faster(FLOOR, &floor.two, "one thread", &floor.one)
            .with_note("each in a Vfs of its own: what this machine allows"),
    ])
}
