// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layouts in use: the uses of a file's blocks in its backend that `layout` keeps with an inode.

use crate::lock_order;
use openpath_sync::{Mutex, WaitQueue};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Recall = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub(crate) struct LayoutTable {
    pub(crate) next: u64,
    /// The layouts that are held, each with its recall while that was not called.
    pub(crate) held: BTreeMap<u64, Option<Recall>>,
    pub(crate) wanted: usize,
    pub(crate) queue: WaitQueue,
}

/// The layouts of a file.
#[derive(Default)]
pub(crate) struct Layouts(pub(crate) Mutex<LayoutTable, lock_order::LayoutTable>);
