// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite on openpath over the memory backend, with and without knowledge of whole directories.

mod openpath;

use openpath::{Backend, Fault, Openpath, conforms};
use openpath_conformance::{Errno, Knowledge, Need, Verdict, run, suite};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{SuperBlock, Tuning};
use std::sync::Arc;

/// Whether it knows of whole directories what is not in them.
struct Mem(bool);

impl Backend for Mem {
    fn name(&self) -> String {
        "openpath over memory".to_owned()
    }

    fn lacks(&self, _: Need) -> Option<String> {
        None
    }

    fn knowledge(&self) -> Knowledge {
        Knowledge {
            negatives: true,
            directories: self.0,
            refusals: false,
        }
    }

    fn tree(&mut self) -> Result<Arc<SuperBlock>, String> {
        Ok(MemFs::new(MemOptions {
            mode: 0o755,
            inodes: 1 << 16,
            ..MemOptions::default()
        }))
    }

    fn evict(&mut self) -> Result<(), Errno> {
        Ok(())
    }
}

fn host(directories: bool) -> Openpath<Mem> {
    let mut tuning = Tuning::default();
    tuning.complete_directories = directories;
    Openpath::new(Mem(directories), tuning).expect("a host")
}

#[test]
fn over_memory() {
    conforms(host(true), &[]);
}

#[test]
fn over_memory_with_an_entry_for_each_absent_name() {
    // Divergence: L40
    conforms(host(false), &[("removed", "L40")]);
}

#[test]
fn planted_faults_are_found() {
    for (fault, case) in [
        (Fault::IgnoresTheFlag, "first-open"),
        (Fault::AlwaysWaits, "files/warm"),
        (Fault::LooksUp, "evicted-between"),
        (Fault::Keeps, "nothing-of-the-walk"),
        (Fault::WaitsBeforeInvalid, "invalid-first/warm"),
    ] {
        let report = run(&mut host(false).with_fault(fault), &suite(), "");
        let failed = report.outcomes.iter().find(|outcome| outcome.id == case);
        let found = failed.is_some_and(|outcome| matches!(outcome.verdict, Verdict::Failed(_)));
        assert!(found, "{fault:?}: {}", report.text());
    }
}
