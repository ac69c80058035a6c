// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the golden facts on the kernel's overlay, made as `openpath run --engine kernel` makes
//! it: the tree of a fact is the lower layer, and the fact's operations change the upper one.
//!
//! A fact that does not hold there is a difference that a user of that engine can meet. The known
//! ones are in `conformance/cases/kernel_overlay.txt`, each with its reason.

use crate::case::{self, Snapshots, Trace};
use crate::golden::{Expect, Fact};
use crate::host::HostWorld;
use crate::outcome::Outcome;
use crate::stack;
use openpath_abi::Errno;
use std::collections::BTreeMap;

/// The known differences: lines of a fact's name and, after a space, the reason.
const KNOWN: &str = include_str!("../../../conformance/cases/kernel_overlay.txt");
/// How often a difference is checked again.
const AGAIN: usize = 3;

/// A fact that does not hold on the overlay.
#[derive(Debug)]
pub struct Difference {
    /// The name of the fact.
    pub name: String,
    /// The operation.
    pub op: String,
    /// The answer of tmpfs.
    pub wanted: Expect,
    /// The answer of the overlay.
    pub got: Outcome,
    /// The reason, if it is a known one.
    pub known: Option<&'static str>,
}

/// What the facts showed.
#[derive(Debug, Default)]
pub struct Checked {
    /// How many facts held.
    pub held: usize,
    /// How many facts have no tree before their operations, so that nothing is in a lower layer.
    pub without_lower: usize,
    /// Those that did not, in the order of the facts.
    pub differences: Vec<Difference>,
    /// Names of known differences that were not seen.
    pub gone: Vec<&'static str>,
}

/// Checks these facts. The process can do nothing else afterwards.
///
/// # Errors
/// Those of leaving the mount namespace, and of starting a case.
pub fn check(facts: &[Fact]) -> Result<Checked, Errno> {
    let mut known: BTreeMap<_, _> = known().collect();
    let world = HostWorld::enter()?;
    let mut checked = Checked::default();
    for fact in facts {
        let (case, at) = stack::with_lower(&fact.case);
        checked.without_lower += usize::from(at == 0);
        let run = || -> Result<Trace, Errno> {
            let mut trace = case::run(&mut world.begin()?, &case, Snapshots::Last, None);
            trace.outcomes.remove(at);
            Ok(trace)
        };
        let mut trace = run()?;
        let mut wrong = fact.wrong(&trace);
        for _ in 0..AGAIN {
            if wrong.is_some() {
                trace = run()?;
                wrong = fact.wrong(&trace);
            }
        }
        match wrong {
            None => checked.held += 1,
            Some((op, wanted)) => checked.differences.push(Difference {
                name: fact.name.clone(),
                op: fact.case.ops[op].to_string(),
                wanted,
                got: trace.outcomes[op].clone(),
                known: known.remove(fact.name.as_str()),
            }),
        }
    }
    checked.gone = known.into_keys().collect();
    Ok(checked)
}

/// The names of the known differences, and the reasons.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = KNOWN.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' '))
}
