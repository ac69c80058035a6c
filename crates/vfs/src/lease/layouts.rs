// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who uses a file as it lies in its backend: what `layout` keeps with an inode.

use crate::lock_order;
use openpath_sync::{Mutex, WaitQueue};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Recall = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub(crate) struct LayoutTable {
    pub(crate) next: u64,
    /// Those who have one, and how to call them if that was not done.
    pub(crate) held: BTreeMap<u64, Option<Recall>>,
    pub(crate) wanted: usize,
    pub(crate) queue: WaitQueue,
}

/// The layouts of a file.
#[derive(Default)]
pub(crate) struct Layouts(pub(crate) Mutex<LayoutTable, lock_order::LayoutTable>);
