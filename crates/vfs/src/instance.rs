// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a `Vfs` is made of. It owns everything; a process may hold many. `vfs` builds it, and has
//! its calls.

use crate::clock::Clock;
use crate::config::Config;
use crate::dcache::{Dcache, Flights};
use crate::device::Devices;
use crate::lease::Notices;
use crate::lock::Locks;
use crate::lock_order::{House, SuperNumbers, Tenants};
use crate::mount::{Mounts, Numbers};
use crate::notify::{Notify, Watchers};
use crate::object::Pins;
use crate::path_cache::PathCache;
use crate::pipe::Books;
use crate::pressure::Told;
use crate::superblock::SuperBlock;
use crate::tenant::Tenant;
use openpath_sync::{Life, Mutex, Word, WriteOnce};
use std::collections::HashSet;
use std::sync::{Arc, Weak};

/// The inside of a [`Vfs`], shared by its tasks.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) dcache: Dcache,
    pub(crate) mounts: Mounts,
    pub(crate) paths: PathCache,
    pub(crate) flights: Flights,
    /// Sequence of directory moves, which a scoped walk that goes up must not overlap
    /// (`rename_lock`).
    pub(crate) renames: Life,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) superblocks: Mutex<Numbers, SuperNumbers>,
    /// Pins of mounts on their roots and the directories they cover.
    pub(crate) house: Mutex<Pins, House>,
    /// The number of the first namespace.
    pub(crate) initial: u64,
    /// The mount of anonymous files, once there is one.
    pub(crate) anonymous: WriteOnce<u32>,
    /// The mount of pipes without a name, once there is one.
    pub(crate) pipe_mount: WriteOnce<u32>,
    /// Capacities of all pipes.
    pub(crate) pipes: Arc<Books>,
    /// The inode number of the next pipe without a name.
    pub(crate) next_pipe: Word,
    pub(crate) devices: Devices,
    /// Locks of files.
    pub(crate) locks: Locks,
    /// What holders of leases are to be told.
    pub(crate) notices: Arc<Notices>,
    /// Open files, counted only where there is a limit.
    pub(crate) files: Word,
    pub(crate) next_cred: Word,
    /// Whom tasks work for that were told nothing else.
    pub(crate) tenant: Arc<Tenant>,
    /// All tenants, in the order they came.
    pub(crate) tenants: Mutex<Vec<Weak<Tenant>>, Tenants>,
    /// Whom to tell of memory pressure.
    pub(crate) told: Option<Told>,
    /// Who watches inodes.
    pub(crate) notify: Notify,
    pub(crate) id: u64,
    /// Itself, once it is where it stays.
    pub(crate) home: WriteOnce<Weak<Shared>>,
}

impl Shared {
    /// Every tree that is mounted, once.
    pub(crate) fn trees(&self) -> Vec<Arc<SuperBlock>> {
        let mut seen = HashSet::new();
        let topology = self.mounts.topology.lock();
        let trees = topology.nodes.values().map(|node| &node.data.sb);
        let new = trees.filter(|tree| seen.insert(Arc::as_ptr(tree)));
        new.cloned().collect()
    }
}

impl Watchers for Shared {
    fn notify(&self) -> &Notify {
        &self.notify
    }
}

impl Drop for Shared {
    /// Lets the superblocks go, so that another `Vfs` may have them, and whoever listens.
    fn drop(&mut self) {
        for node in self.mounts.topology.get_mut().nodes.values() {
            *node.data.sb.seat.lock() = None;
        }
        self.notices.close();
    }
}

/// The Linux open path as a value.
///
/// # Examples
/// See `openpath_mem`, whose backend most programs start with.
#[derive(Clone)]
pub struct Vfs(pub(crate) Arc<Shared>);
