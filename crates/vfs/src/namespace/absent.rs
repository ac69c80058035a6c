// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives a mount rules of absent names, replaces or removes them, and copies them to a copy of the
//! mount.
//!
//! An absent name does not exist for any caller, whatever the tree has ([`crate::absent`]).
//! `openpath run` makes such rules of both its options: `--hide PATH` becomes a rule for one path,
//! `--absent GLOB` a rule for a pattern. The walk asks the rules in `task::rules`; R1 and R2 are
//! explained there.

use crate::absent::{AbsentRules, MountRules};
use crate::instance::Shared;
use crate::mount::Topology;
use crate::object::mflag;
use openpath_abi::Errno;

impl Shared {
    /// Gives the mount at `index` rules in place of those it has, beginning at its root. Held: the
    /// topology lock.
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left; the mount is then as before.
    pub(crate) fn set_absent_rules(
        &self,
        topology: &mut Topology,
        index: u32,
        rules: Option<AbsentRules>,
    ) -> Result<(), Errno> {
        let root = self.mounts.at(index).root.get();
        self.put_absent_rules(topology, index, rules.map(|rules| (rules, root)))
    }

    /// Gives the new mount at `to` the rules of the one it was copied from. Held: the topology
    /// lock.
    ///
    /// # Errors
    /// As [`Shared::set_absent_rules`].
    pub(super) fn copy_absent_rules(
        &self,
        topology: &mut Topology,
        from: u32,
        to: u32,
    ) -> Result<(), Errno> {
        let rules = &topology.node(from)?.rules;
        let rules = rules
            .as_ref()
            .map(|(rules, pin)| (rules.clone(), pin.dentry()));
        match rules {
            None => Ok(()),
            rules => self.put_absent_rules(topology, to, rules),
        }
    }

    fn put_absent_rules(
        &self,
        topology: &mut Topology,
        index: u32,
        absent: Option<(AbsentRules, u32)>,
    ) -> Result<(), Errno> {
        let word = self.mounts.at(index).word();
        let node = topology.nodes.get_mut(&index).ok_or(Errno::EINVAL)?;
        let cell = &node.data.absent;
        let old = match absent {
            Some((rules, anchor)) => {
                // R2.
                let pin = self
                    .mount_pins
                    .lock()
                    .pin_now(0, anchor)
                    .ok_or(Errno::ENOMEM)?;
                let old = node.rules.replace((rules.clone(), pin));
                // R1.
                cell.replace(Some(Box::new(MountRules { rules, anchor })));
                word.change().set(mflag::ABSENT);
                old
            }
            None => {
                word.change().clear(mflag::ABSENT);
                cell.replace(None);
                node.rules.take()
            }
        };
        if let Some((_, pin)) = old {
            self.dcache.store.release(pin);
        }
        Ok(())
    }
}
