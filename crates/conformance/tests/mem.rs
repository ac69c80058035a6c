// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that openpath over the memory backend passes the suite, with and without complete
//! directories (those of which all names are cached), and that the suite finds planted faults.

mod openpath;

use openpath::{Backend, Fault, Openpath, conforms};
use openpath_conformance::{Errno, Knowledge, Need, Verdict, run, suite};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{SuperBlock, Tuning};
use std::sync::Arc;

/// Whether it has complete directories.
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
        Ok(MemFs::new(
            MemOptions::default().mode(0o755).inodes(1 << 16),
        ))
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
fn memory_with_complete_directories_conforms() {
    conforms(host(true), &[]);
}

#[test]
fn memory_with_negative_entries_conforms() {
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
