// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the completions of the same entries on the kernel's ring and on openpath's, and decides
//! which differences are deliberate.

use super::{Act, Answer, Entry, Scene, Step, Trace, flag};
use openpath_abi::Errno;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Splits the entries into chains; a single entry is a chain of its own.
fn units(scene: &Scene) -> Vec<Vec<&Entry>> {
    let mut units = Vec::new();
    for step in &scene.0 {
        let Step::Submit(entries) = step else {
            continue;
        };
        let mut unit = Vec::new();
        for entry in entries {
            unit.push(entry);
            if entry.flags & (flag::LINK | flag::HARDLINK) == 0 {
                units.push(std::mem::take(&mut unit));
            }
        }
        if !unit.is_empty() {
            units.push(unit);
        }
    }
    units
}

/// All completions of each entry.
fn by_entry(trace: &Trace) -> BTreeMap<u64, Vec<&Answer>> {
    let mut all: BTreeMap<u64, Vec<&Answer>> = BTreeMap::new();
    for answer in &trace.answers {
        all.entry(answer.data).or_default().push(answer);
    }
    all
}

/// The order in which entries completed.
fn places(trace: &Trace) -> BTreeMap<u64, usize> {
    let last = trace.answers.iter().enumerate().filter(|(_, a)| !a.more);
    last.map(|(at, answer)| (answer.data, at)).collect()
}

/// The order in which the members of each chain completed. A linked time-out is beside its chain.
fn chains(units: &[Vec<&Entry>], trace: &Trace) -> Vec<Vec<u64>> {
    let places = places(trace);
    let order = |unit: &Vec<&Entry>| {
        let members = unit
            .iter()
            .filter(|e| !matches!(e.act, Act::LinkTimeout(_)));
        let mut done: Vec<u64> = members.map(|e| e.data).collect();
        done.retain(|data| places.contains_key(data));
        done.sort_by_key(|data| places[data]);
        done
    };
    units.iter().map(order).collect()
}

/// For each drained chain: whether all earlier entries completed before it, and all later ones
/// after it.
fn drains(units: &[Vec<&Entry>], trace: &Trace) -> Vec<[bool; 2]> {
    let places = places(trace);
    let of = |unit: &Vec<&Entry>| -> Vec<usize> {
        let places = unit.iter().filter_map(|e| places.get(&e.data).copied());
        places.collect()
    };
    let is_drained = |unit: &&Vec<&Entry>| unit.iter().any(|e| e.flags & flag::DRAIN != 0);
    let drained = units
        .iter()
        .enumerate()
        .filter(|(_, unit)| is_drained(unit));
    let sides = drained.map(|(at, unit)| {
        let own = of(unit);
        let (first, last) = (own.iter().min(), own.iter().max());
        let before = units[..at].iter().flat_map(of).max();
        let after = units[at + 1..].iter().flat_map(of).min();
        let kept = |a: Option<usize>, b: Option<usize>| a.is_none() || b.is_none() || a < b;
        [kept(before, first.copied()), kept(last.copied(), after)]
    });
    sides.collect()
}

/// The id of the deliberate difference that explains these answers to one entry.
fn explained(entry: &Entry, theirs: &[&Answer], ours: &[&Answer]) -> Option<&'static str> {
    let ([theirs], [ours]) = (theirs, ours) else {
        return None;
    };
    match (&entry.act, theirs.result, ours.result) {
        (Act::Cancel(_), Ok(0), Err(Errno::EALREADY)) => Some("L34"),
        _ => None,
    }
}

/// Compares; returns the ids of the deliberate differences.
pub(super) fn compare(
    scene: &Scene,
    theirs: &Trace,
    ours: &Trace,
) -> Result<Vec<&'static str>, String> {
    let mut differs = String::new();
    let mut ids = Vec::new();
    let (their_answers, our_answers) = (by_entry(theirs), by_entry(ours));
    for entry in scene.entries() {
        let none = Vec::new();
        let their = their_answers.get(&entry.data).unwrap_or(&none);
        let our = our_answers.get(&entry.data).unwrap_or(&none);
        if their == our {
            continue;
        }
        match explained(entry, their, our) {
            Some(id) => ids.push(id),
            None => note(&mut differs, &format!("{entry:?}"), their, our),
        }
    }
    let units = units(scene);
    let (a, b) = (chains(&units, theirs), chains(&units, ours));
    if differs.is_empty() && a != b {
        note(&mut differs, "order in chains", &a, &b);
    }
    let (a, b) = (drains(&units, theirs), drains(&units, ours));
    if a != b {
        note(&mut differs, "order around drains", &a, &b);
    }
    if theirs.table != ours.table {
        note(&mut differs, "descriptors", &theirs.table, &ours.table);
    }
    if theirs.files != ours.files {
        note(&mut differs, "files", &theirs.files, &ours.files);
    }
    if differs.is_empty() {
        Ok(ids)
    } else {
        Err(differs)
    }
}

fn note(text: &mut String, what: &str, theirs: &impl std::fmt::Debug, ours: &impl std::fmt::Debug) {
    let _always = write!(text, "{what}\n  kernel   {theirs:?}\n  openpath {ours:?}\n");
}
