// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that openpath over a directory of the host (a fresh ext4) passes the suite under each
//! policy for changes by others, with exactly the listed differences.

#![cfg(feature = "kernel")]

mod openpath;

use openpath::{Backend, Difference, Openpath, conforms};
use openpath_conformance::kernel::{Kernel, Place};
use openpath_conformance::{Errno, Host as _, Knowledge, Need, Node};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_vfs::{SuperBlock, Tuning};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// With names that are kept.
// Divergence: L40, L41
const KEPT: &[Difference] = &[
    ("the-start/cold", "L41"),
    ("removed", "L40"),
    ("paths-that-are-none/cold", "L41"),
];

/// With changes that the host notifies: the watcher has looked for the removed name.
const TOLD: &[Difference] = &[
    ("the-start/cold", "L41"),
    ("paths-that-are-none/cold", "L41"),
];

/// With names that the host confirms at each use.
const CONFIRMED: &[Difference] = &[
    ("the-start/cold", "L41"),
    ("removed", "L40"),
    ("paths-that-are-none/cold", "L41"),
    ("cold-below-a-mount/cold", "L41"),
    ("cached-by-the-other-mount", "L41"),
];

/// Directories of the host, in a place with eviction.
struct Directories {
    policy: Policy,
    kernel: Kernel,
    place: PathBuf,
    made: u32,
    trees: Vec<Weak<SuperBlock>>,
}

impl Directories {
    fn new(policy: Policy) -> Result<Directories, String> {
        let mut kernel = Kernel::new(&Place::Ext4)?;
        let place = OsString::from_vec(kernel.begin()?).into();
        Ok(Directories {
            policy,
            kernel,
            place,
            made: 0,
            trees: Vec::new(),
        })
    }
}

impl Backend for Directories {
    fn name(&self) -> String {
        format!("openpath over ext4, policy {:?}", self.policy)
    }

    fn lacks(&self, need: Need) -> Option<String> {
        let confirms = matches!(self.policy, Policy::Revalidate | Policy::None);
        (confirms && need == Need::AccessTimes).then(|| "access times are the host's".to_owned())
    }

    fn knowledge(&self) -> Knowledge {
        Knowledge {
            negatives: true,
            // The watcher may have asked for a removed name.
            directories: self.policy == Policy::Notify,
            refusals: true,
        }
    }

    /// Because the kernel below is.
    fn is_disturbed(&self) -> bool {
        true
    }

    fn tree(&mut self) -> Result<Arc<SuperBlock>, String> {
        self.made += 1;
        let name = format!("tree-{}", self.made);
        let made = self.kernel.make(name.as_bytes(), Node::Dir, 0o755);
        made.map_err(|why| why.to_string())?;
        let options = HostOptions::default().policy(self.policy);
        let tree = HostFs::open(self.place.join(name), options).map_err(|why| why.to_string())?;
        self.trees.push(Arc::downgrade(&tree));
        Ok(tree)
    }

    fn settle(&mut self) {
        for tree in self.trees.iter().filter_map(Weak::upgrade) {
            HostFs::catch_up(&tree);
        }
    }

    fn evict(&mut self) -> Result<(), Errno> {
        self.kernel.evict()
    }
}

/// Runs on a thread of its own, with a mount namespace that ends with it.
fn ask(policy: Policy, differences: &'static [Difference]) {
    let asking = std::thread::spawn(move || {
        let backend = Directories::new(policy).expect("directories");
        let host = Openpath::new(backend, Tuning::default()).expect("a host");
        conforms(host, differences);
    });
    asking.join().expect("conforms");
}

#[test]
#[ignore = "needs root: cargo xtask conformance"]
fn exclusive() {
    ask(Policy::Exclusive, KEPT);
}

#[test]
#[ignore = "needs root: cargo xtask conformance"]
fn notify() {
    ask(Policy::Notify, TOLD);
}

#[test]
#[ignore = "needs root: cargo xtask conformance"]
fn revalidate() {
    ask(Policy::Revalidate, CONFIRMED);
}

#[test]
#[ignore = "needs root: cargo xtask conformance"]
fn none() {
    ask(Policy::None, CONFIRMED);
}
