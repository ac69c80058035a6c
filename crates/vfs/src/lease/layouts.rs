// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the table of the layouts that are held on one file, with the callbacks that recall them.
//!
//! A layout (`FL_LAYOUT`) lets its holder use the blocks that a file has in its backend. Before the
//! backend moves the file, it recalls each layout by a call of the holder's function, and goes on
//! once all are dropped. `layout` has these calls; the table here is a part of the inode.

use crate::lock_order;
use openpath_sync::{Mutex, WaitQueue};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Recall = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub(crate) struct LayoutTable {
    pub(crate) next: u64,
    /// The layouts that are held, each with its recall until that is called.
    pub(crate) held: BTreeMap<u64, Option<Recall>>,
    pub(crate) wanted: usize,
    pub(crate) queue: WaitQueue,
}

/// The layouts of a file.
#[derive(Default)]
pub(crate) struct Layouts(pub(crate) Mutex<LayoutTable, lock_order::LayoutTable>);
