// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a `Vfs` and the state inside it: dentry cache, mounts, locks, tenants and the rest. A
//! process may have several. `vfs` builds a `Vfs` and has its calls.

use crate::clock::Clock;
use crate::config::Config;
use crate::dcache::{Dcache, Flights};
use crate::device::Devices;
use crate::lease::Notices;
use crate::lock::Locks;
use crate::lock_order::{MountPins, SuperNumbers, Tenants};
use crate::mount::{Mounts, Numbers};
use crate::notify::{Notify, Watchers};
use crate::object::Pins;
use crate::path_cache::PathCache;
use crate::pipe::PipeAccounting;
use crate::pressure::PressureHook;
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
    pub(crate) mount_pins: Mutex<Pins, MountPins>,
    /// The number of the first namespace.
    pub(crate) initial: u64,
    /// The mount of anonymous files, once there is one.
    pub(crate) anonymous: WriteOnce<u32>,
    /// The mount of pipes without a name, once there is one.
    pub(crate) pipe_mount: WriteOnce<u32>,
    /// Capacities of all pipes.
    pub(crate) pipes: Arc<PipeAccounting>,
    /// The inode number of the next pipe without a name.
    pub(crate) next_pipe: Word,
    pub(crate) devices: Devices,
    /// Locks of files.
    pub(crate) locks: Locks,
    /// The undelivered notices for holders of leases.
    pub(crate) notices: Arc<Notices>,
    /// Open files, counted only where there is a limit.
    pub(crate) files: Word,
    pub(crate) next_cred: Word,
    /// The tenant of tasks that were given no other.
    pub(crate) tenant: Arc<Tenant>,
    /// All tenants, in the order they came.
    pub(crate) tenants: Mutex<Vec<Weak<Tenant>>, Tenants>,
    /// The callback for memory pressure.
    pub(crate) told: Option<PressureHook>,
    /// The notification groups.
    pub(crate) notify: Notify,
    pub(crate) id: u64,
    /// A weak reference to itself.
    pub(crate) weak_self: WriteOnce<Weak<Shared>>,
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
    /// Frees the superblocks for another `Vfs`, and ends the listening for leases.
    fn drop(&mut self) {
        for node in self.mounts.topology.get_mut().nodes.values() {
            *node.data.sb.binding.lock() = None;
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
