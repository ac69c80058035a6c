// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements mount propagation: peer groups of mounts, and the groups that slaves receive from.
//!
//! # Kernel analogue
//! `fs/pnode.c`: `mnt_share`, `mnt_slave_list`, `mnt_master`, `mnt_group_id`. A slave's master is
//! the group here, not one mount of it: the difference never shows.
//!
//! # States
//! | a mount is | group | master |
//! |---|---|---|
//! | private | none | none |
//! | shared | its peers' | none |
//! | slave | none | the group it receives from |
//! | slave and shared | its peers' | the same for all peers |
//!
//! # Rules
//! R1. A group without members is gone; its slaves receive from the group that its last member
//!     received from.

use super::topology::Topology;
use openpath_abi::mount::{MS_PRIVATE, MS_SHARED, MS_SLAVE, MS_UNBINDABLE};
use std::collections::{BTreeSet, HashMap};

/// How mounts and unmounts spread between a mount and its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Propagation {
    /// To its peers, and from them.
    Shared,
    /// From the group it was in, and to none.
    Slave,
    /// Neither.
    Private,
    /// Neither, and cannot be bound.
    Unbindable,
}

impl Propagation {
    /// The type that a flag of mount(2) names; `None` if it is not exactly one of the four.
    #[must_use]
    pub fn from_ms(flag: u64) -> Option<Self> {
        match flag {
            MS_SHARED => Some(Self::Shared),
            MS_SLAVE => Some(Self::Slave),
            MS_PRIVATE => Some(Self::Private),
            MS_UNBINDABLE => Some(Self::Unbindable),
            _ => None,
        }
    }
}

/// One peer group.
#[derive(Default)]
struct PeerGroup {
    members: BTreeSet<u32>,
    /// Mounts whose master it is.
    slaves: BTreeSet<u32>,
}

/// All peer groups of a `Vfs`.
#[derive(Default)]
pub(crate) struct Groups {
    groups: HashMap<u32, PeerGroup>,
    /// No mounts.
    pub(super) none: BTreeSet<u32>,
    /// Numbers below `fresh` that are not in use.
    free: BTreeSet<u32>,
    fresh: u32,
}

impl Groups {
    /// The peers of a group.
    pub(crate) fn members(&self, group: u32) -> &BTreeSet<u32> {
        self.groups.get(&group).map_or(&self.none, |g| &g.members)
    }

    /// The mounts that receive from a group.
    pub(crate) fn slaves(&self, group: u32) -> &BTreeSet<u32> {
        self.groups.get(&group).map_or(&self.none, |g| &g.slaves)
    }

    /// A new group; the lowest number that is free.
    fn add(&mut self) -> u32 {
        let id = self.free.pop_first().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh
        });
        self.groups.insert(id, PeerGroup::default());
        id
    }
}

impl Topology {
    /// Makes `mount` a member of `group`.
    pub(crate) fn join(&mut self, mount: u32, group: u32) {
        if let Some(peers) = self.groups.groups.get_mut(&group)
            && let Some(node) = self.nodes.get_mut(&mount)
        {
            peers.members.insert(mount);
            node.group = group;
            node.unbindable = false;
        }
    }

    /// Makes `mount` shared, in a group of its own if it is in none (`set_mnt_shared`).
    pub(crate) fn share(&mut self, mount: u32) {
        if self.group_of(mount) == 0 {
            let group = self.groups.add();
            self.join(mount, group);
        } else if let Some(node) = self.nodes.get_mut(&mount) {
            node.unbindable = false;
        }
    }

    /// Makes `mount`, which has no master, receive from `group`.
    pub(crate) fn receive_from(&mut self, mount: u32, group: u32) {
        if let Some(master) = self.groups.groups.get_mut(&group)
            && let Some(node) = self.nodes.get_mut(&mount)
        {
            master.slaves.insert(mount);
            node.master = group;
        }
    }

    /// Takes `mount` out of its group (R1).
    pub(crate) fn leave_group(&mut self, mount: u32) {
        let Some(node) = self.nodes.get_mut(&mount) else {
            return;
        };
        let (id, master) = (core::mem::take(&mut node.group), node.master);
        let Some(group) = self.groups.groups.get_mut(&id) else {
            return;
        };
        group.members.remove(&mount);
        if !group.members.is_empty() {
            return;
        }
        let orphans = core::mem::take(&mut group.slaves);
        self.groups.groups.remove(&id);
        self.groups.free.insert(id);
        for orphan in orphans {
            if let Some(node) = self.nodes.get_mut(&orphan) {
                node.master = 0;
            }
            self.receive_from(orphan, master);
        }
    }

    fn leave_master(&mut self, mount: u32) {
        let Some(node) = self.nodes.get_mut(&mount) else {
            return;
        };
        let master = core::mem::take(&mut node.master);
        if let Some(group) = self.groups.groups.get_mut(&master) {
            group.slaves.remove(&mount);
        }
    }

    /// Changes the propagation type of `mount` (`change_mnt_propagation`).
    pub(crate) fn set_propagation(&mut self, mount: u32, how: Propagation) {
        let group = self.group_of(mount);
        match how {
            Propagation::Shared => self.share(mount),
            Propagation::Slave => {
                let alone = self.groups.members(group).len() < 2;
                self.leave_group(mount);
                if !alone {
                    self.leave_master(mount);
                    self.receive_from(mount, group);
                }
            }
            Propagation::Private | Propagation::Unbindable => {
                self.leave_group(mount);
                self.leave_master(mount);
                if let Some(node) = self.nodes.get_mut(&mount) {
                    node.unbindable = how == Propagation::Unbindable;
                }
            }
        }
    }

    /// The mounts, besides `mount`, that receive what is mounted in it: its peers, then group by
    /// group their slaves (`propagation_next`).
    pub(crate) fn receivers(&self, mount: u32) -> Vec<u32> {
        let first = self.group_of(mount);
        let mut heard: Vec<u32> = Vec::new();
        let mut pending = vec![first];
        let mut seen = BTreeSet::from([first]);
        let mut next = 0;
        while let Some(&group) = pending.get(next) {
            next += 1;
            let members = self.groups.members(group).iter();
            heard.extend(members.filter(|&&m| m != mount));
            for &slave in self.groups.slaves(group) {
                match self.group_of(slave) {
                    0 => heard.push(slave),
                    inner if seen.insert(inner) => pending.push(inner),
                    _ => {}
                }
            }
        }
        heard
    }
}
