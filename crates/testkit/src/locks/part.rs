// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the part `locks` of the oracle, set by set, and prints each result. Of all sequences of
//! three calls only a share runs, unless that set is requested.

use super::{circles, every, random};
use std::io;
use std::time::Instant;

/// The sets: random scripts, circles of waits, all sequences of three calls.
pub const SETS: [&str; 3] = ["random", "circles", "all-3"];
/// Without a set, every sequence whose number this divides runs: a prime, so that every call comes
/// in each place.
pub const SHARE: u64 = 211;

/// The requested part.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Only this set.
    pub set: Option<&'a str>,
    /// How many random calls; one circle per hundred.
    pub ops: u64,
    /// The first seed.
    pub seed: u64,
    /// How many differences end a set.
    pub reports: usize,
}

/// Runs the sets up to the first that differs, and prints the results line by line; returns whether
/// all agreed.
///
/// # Errors
/// Those of making a side; `InvalidInput`: no such set.
pub fn run(wanted: &Wanted<'_>, mut say: impl FnMut(&str)) -> io::Result<bool> {
    if let Some(set) = wanted.set
        && !SETS.contains(&set)
    {
        let text = format!("no such set: choose one of {}", SETS.join(", "));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for set in SETS
        .iter()
        .filter(|set| wanted.set.is_none_or(|w| w == **set))
    {
        let began = Instant::now();
        let (said, reports) = match *set {
            "all-3" => sequences(wanted)?,
            "random" => scripts(wanted)?,
            _ => waits(wanted)?,
        };
        let seconds = began.elapsed().as_secs_f64();
        say(&format!("Locks {set}: {said}, {seconds:.1} s"));
        for report in &reports {
            say(&format!("DIVERGENCE in locks, {report}"));
        }
        say(&format!("  {} different divergences", reports.len()));
        if !reports.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sequences(wanted: &Wanted<'_>) -> io::Result<(String, Vec<String>)> {
    let sum = every::run(wanted.set.map_or(SHARE, |_| 1), wanted.reports)?;
    let (sequences, count) = (sum.sequences, every::count());
    Ok((format!("{sequences} of {count} sequences"), sum.reports))
}

fn scripts(wanted: &Wanted<'_>) -> io::Result<(String, Vec<String>)> {
    let sum = random::run(wanted.seed, wanted.ops, wanted.reports)?;
    let worked = sum.worked * 100 / sum.calls.max(1);
    let (ops, answers) = (sum.ops, sum.answers);
    let said = format!("{ops} operations, {worked}% worked, {answers} answers");
    Ok((said, sum.reports))
}

fn waits(wanted: &Wanted<'_>) -> io::Result<(String, Vec<String>)> {
    let count = wanted.ops.div_ceil(100);
    let sum = circles::run(wanted.seed, count, wanted.reports)?;
    let lengths = sum.lengths.iter();
    let lengths = lengths.map(|(length, [all, refused])| format!("of {length} {all}, {refused}"));
    let said = format!(
        "{} circles, {} calls, {} waited, {} refused; circles alone, and refused: {}",
        sum.circles,
        sum.calls,
        sum.waited,
        sum.refused,
        lengths.collect::<Vec<_>>().join("; "),
    );
    Ok((said, sum.reports))
}
