// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an explanation of a call that is made before the call predicts its errno, for every
//! open, stat and access of the golden facts and of random cases. `oracle --flip explain` does so
//! beside the host, which also shows that an explanation leaves nothing behind.

use openpath_testkit::case::{self, Case, Snapshots};
use openpath_testkit::ours::{EXPLAIN, Ours, SWITCHES, World};
use openpath_testkit::outcome::Outcome;
use openpath_testkit::{golden, random};
use openpath_vfs::Sysctl;

/// How many random cases to try.
const CASES: u64 = 400;

/// The operations with a wrong explanation.
fn wrong(name: &str, case: &Case) -> Vec<String> {
    let switch = SWITCHES.iter().position(|(name, _)| *name == EXPLAIN);
    let switch = switch
        .and_then(|n| u32::try_from(n).ok())
        .expect("a switch");
    let strict = Sysctl::default()
        .protected_symlinks(true)
        .protected_hardlinks(true)
        .protected_fifos(1)
        .protected_regular(2);
    let world = World::new(strict, switch).expect("a world");
    let [first, eye] = world.tasks().expect("tasks");
    let mut side = Ours::new(&world, first, &eye).expect("a side");
    let trace = case::run(&mut side, case, Snapshots::Last, None);
    let outcomes = case.ops.iter().zip(&trace.outcomes);
    outcomes
        .filter_map(|(op, outcome)| match outcome {
            Outcome::Bad(text) if text.starts_with("explained") => {
                Some(format!("{name}: {op}\n{text}"))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn explanations_of_golden_facts_match_outcomes() {
    let facts = golden::all().expect("facts");
    assert!(facts.len() > 500);
    let wrong: Vec<_> = facts.iter().flat_map(|f| wrong(&f.name, &f.case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn explanations_of_random_operations_match_outcomes() {
    let cases = (1..=CASES).map(|seed| (format!("seed {seed}"), random::case(seed)));
    let wrong: Vec<_> = cases.flat_map(|(name, case)| wrong(&name, &case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
