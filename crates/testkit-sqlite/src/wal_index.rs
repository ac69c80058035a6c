// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the memory of the indices of write-ahead logs, which the connections of this process
//! share.
//!
//! SQLite maps the file `-shm` for this. The tree maps no file for writing, so the memory belongs
//! to this process and is found by device and inode number of the file.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The size of a region, as SQLite asks for it.
pub(crate) const REGION: usize = 32 << 10;
/// The most regions: 4 million pages in the log.
pub(crate) const REGIONS_MAX: usize = 1024;

type Region = Box<[AtomicU64]>;

/// The memory of one index.
#[derive(Default)]
pub(crate) struct Index(Mutex<Vec<Region>>);

impl Index {
    /// The address of region `number`; `None` if it does not exist and `make` is false.
    pub(crate) fn region(&self, number: usize, make: bool) -> Option<*const AtomicU64> {
        let mut regions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while make && regions.len() <= number {
            let zeros = (0..REGION / size_of::<AtomicU64>()).map(|_| AtomicU64::new(0));
            regions.push(zeros.collect());
        }
        regions.get(number).map(|region| region.as_ptr())
    }
}

/// The indices in use, by device and inode.
#[derive(Default)]
pub(crate) struct Indices(Mutex<HashMap<(u64, u64), Weak<Index>>>);

impl Indices {
    /// The index of the file with this device and inode number; it is made if there is none.
    pub(crate) fn get(&self, file: (u64, u64)) -> Arc<Index> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, index| index.strong_count() > 0);
        if let Some(index) = all.get(&file).and_then(Weak::upgrade) {
            return index;
        }
        let index = Arc::default();
        all.insert(file, Arc::downgrade(&index));
        index
    }
}
