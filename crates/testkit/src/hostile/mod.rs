// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the attacks of a hostile guest, which tries to exhaust or block resources, and checks the
//! bounds.
//!
//! Each attack has a host of its own. It reports what it did, the memory before, at the peak and
//! after, and every bound that did not hold.
//!
//! # What is checked
//! * A limit holds: the call that exceeds it fails with Linux's errno.
//! * Nothing is left: when the guest and its objects are gone, so is their memory.
//! * Others do not pay: another tenant's names stay cached, and its calls are as fast as before.
//!
//! # Rules
//! * Resident memory is of the whole process: one suite runs at a time, in a process of its own.

mod chains;
mod context;
mod deep;
mod files;
mod incomplete;
mod links;
mod mounts;
mod names;
mod tables;
mod wide;

use std::time::Instant;

use openpath_abi::Errno;

pub use context::Plan;
pub(crate) use context::resident;
use context::{Context, high_water, mib};

/// One attack.
struct Attack {
    name: &'static str,
    run: fn(&mut Context) -> Result<(), Errno>,
}

const ATTACKS: &[Attack] = &[
    Attack {
        name: "failing-names",
        run: names::failing,
    },
    Attack {
        name: "failing-names-of-others",
        run: names::failing_beside_others,
    },
    Attack {
        name: "collisions",
        run: chains::collisions,
    },
    Attack {
        name: "long-paths",
        run: names::long_paths,
    },
    Attack {
        name: "link-bombs",
        run: links::bombs,
    },
    Attack {
        name: "wide-directory",
        run: wide::directory,
    },
    Attack {
        name: "deep-tree",
        run: deep::tree,
    },
    Attack {
        name: "deep-tree-in-a-budget",
        run: deep::in_a_budget,
    },
    Attack {
        name: "deep-renames",
        run: deep::renames,
    },
    Attack {
        name: "mount-bombs",
        run: mounts::bombs,
    },
    Attack {
        name: "namespaces",
        run: mounts::namespaces,
    },
    Attack {
        name: "descriptors",
        run: tables::descriptors,
    },
    Attack {
        name: "pipes",
        run: tables::pipes,
    },
    Attack {
        name: "watches",
        run: tables::watches,
    },
    Attack {
        name: "files",
        run: files::bytes_and_inodes,
    },
    Attack {
        name: "attributes",
        run: files::attributes,
    },
];

/// Growth of resident memory over one attack that counts as a leak: above what an allocator cannot
/// return and tables that keep their size.
const LEFT_MAX: u64 = 24 << 20;

/// Runs all attacks; returns the bounds that did not hold.
#[must_use]
pub fn run(plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    let wanted = |name: &str| plan.only.as_ref().is_none_or(|only| name.contains(only));
    for attack in ATTACKS.iter().filter(|a| wanted(a.name)) {
        (plan.say)(attack.name);
        let mut context = Context::new(plan, attack.name);
        context::settle_heap();
        let before = resident();
        high_water::reset();
        let begun = Instant::now();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (attack.run)(&mut context)))
        {
            Ok(Ok(())) => {}
            Ok(Err(e)) => context.wrong(format!("stopped by {e}")),
            Err(_) => context.wrong("panicked".to_owned()),
        }
        let most = high_water::read();
        context::settle_heap();
        let after = resident();
        (plan.say)(&format!(
            "  memory: {} MiB before, {} at most, {} after; {:.1} s",
            mib(before),
            mib(most),
            mib(after),
            begun.elapsed().as_secs_f64()
        ));
        if after > before + LEFT_MAX {
            context.wrong(format!("{} MiB are left behind", mib(after - before)));
        }
        wrong.append(&mut context.found);
    }
    wrong
}
