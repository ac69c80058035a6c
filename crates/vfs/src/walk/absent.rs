// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a step of a walk in a mount that has rules of absent names: asks the rules before the
//! cache.
//!
//! # Rules
//! R1. A name's rule is asked before the cache: it counts whatever is cached.
//! R2. Without references a rule's answer counts if mount and directory are still as sampled.

use super::{Reason, Walk, WalkError};
use crate::name::NameKey;
use crate::steps::Check;
use crate::task::RuleAnswer;
use openpath_abi::Errno;
use openpath_sync::Sample;

impl Walk<'_> {
    /// The step into `text[start..end]`, as far as rules or the cache decide it; `None`: it needs
    /// references.
    #[cold]
    pub(super) fn step_ruled(
        &mut self,
        key: NameKey,
        text: &[u8],
        start: usize,
        end: usize,
    ) -> Option<Result<(), WalkError>> {
        let name = &text[start..end];
        match self.is_absent_by_rule(name) {
            Ok(true) => {
                self.tell_name(key, name);
                Some(Err(self.refuse(Check::AbsentRule, Errno::ENOENT)))
            }
            Ok(false) if self.fast => self.step_cached(key, text, start, end),
            Ok(false) => None,
            Err(fail) => Some(Err(fail)),
        }
    }

    /// Whether `name` is absent in the directory stood at, by a rule of the mount.
    ///
    /// # Errors
    /// [`WalkError::Restart`] if mount or directory changed (fast mode only).
    #[cold]
    pub(super) fn is_absent_by_rule(&self, name: &[u8]) -> Result<bool, WalkError> {
        let store = &self.dcache().store;
        let dir = self.at.dentry;
        if let Some(pin) = &self.pin {
            let mount = store.mount_payload(pin);
            let absent = |mount| self.core.absent(self.at.mount, mount, dir, name);
            return Ok(mount.and_then(absent).is_some());
        }
        let none = Sample::default();
        let pin = self
            .core
            .pins
            .try_pin(self.at.mount, self.at_mount, 0, none);
        let pin = pin.ok_or_else(|| self.not_pinned())?;
        let answer = match (store.mount_payload(&pin), &self.section) {
            (Some(mount), Some(section)) => self.core.ask_rules(section, mount, dir, name),
            _ => RuleAnswer::Moved,
        };
        self.core.pins.release(pin);
        // R2.
        if answer == RuleAnswer::Moved || !self.dcache().at(dir).word().is_unchanged(self.at_dentry)
        {
            return Err(self.restart(Reason::NamesChanged));
        }
        Ok(answer != RuleAnswer::Nothing)
    }
}
