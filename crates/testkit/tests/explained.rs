// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every open, stat and access of the golden facts and of random cases is explained before it is
//! done: the explanation must give the same errno. `oracle --flip explain` asks the same beside the
//! host, which also shows that explaining leaves nothing behind.

use openpath_testkit::case::{self, Case, Pictures};
use openpath_testkit::ours::{EXPLAIN, Ours, SWITCHES, World};
use openpath_testkit::outcome::Outcome;
use openpath_testkit::{golden, random};
use openpath_vfs::Sysctl;

/// Random cases tried.
const CASES: u64 = 400;

/// All that was explained otherwise than it turned out.
fn wrong(name: &str, case: &Case) -> Vec<String> {
    let switch = SWITCHES.iter().position(|(name, _)| *name == EXPLAIN);
    let switch = switch
        .and_then(|n| u32::try_from(n).ok())
        .expect("a switch");
    let strict = Sysctl {
        protected_symlinks: true,
        protected_hardlinks: true,
        protected_fifos: 1,
        protected_regular: 2,
        ..Sysctl::default()
    };
    let world = World::new(strict, switch).expect("a world");
    let [first, eye] = world.tasks().expect("tasks");
    let mut face = Ours::new(&world, first, &eye).expect("a face");
    let trace = case::run(&mut face, case, Pictures::Last, None);
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
fn golden_facts_are_explained_as_they_are_answered() {
    let facts = golden::all().expect("facts");
    assert!(facts.len() > 500);
    let wrong: Vec<_> = facts.iter().flat_map(|f| wrong(&f.name, &f.case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn random_operations_are_explained_as_they_are_answered() {
    let cases = (1..=CASES).map(|seed| (format!("seed {seed}"), random::case(seed)));
    let wrong: Vec<_> = cases.flat_map(|(name, case)| wrong(&name, &case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
