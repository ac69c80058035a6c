// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the new files of a replacement their privileges (set-user-ID and set-group-ID bits, file
//! capabilities), right before the names of new and old file are exchanged.
//!
//! # Rules
//! As in [`crate::copies::privileges`].

use crate::attributes::file_stat::are_one;
use crate::copies::privileges::{give, has};
use crate::host::descriptors::reopen_path;
use crate::host::held_file::HeldFile;
use crate::host::tree::Tree;
use crate::journal::Replace;
use crate::transaction::Transaction;
use crate::transaction::name_pair::NamePair;
use rustix::io::{Errno, Result};

impl Transaction<'_> {
    /// Gives the new files under a hidden name their privileges; returns which got some.
    pub(crate) fn give_privileges(
        &self,
        names: &NamePair<'_>,
        replace: &Replace,
    ) -> Result<Vec<HeldFile>> {
        let items = replace.items.iter().zip(&replace.stamps);
        let items = items.filter_map(|(item, stamp)| Some((item, stamp.as_ref()?)));
        let mut items = items
            .filter(|(_, stamp)| has(stamp.attributes()))
            .peekable();
        let mut given = Vec::new();
        if items.peek().is_none() {
            return Ok(given);
        }
        let top = HeldFile::open(names.hidden.0, names.hidden.1)?;
        let is_new = |held: &HeldFile| are_one(Some(held.id()), replace.new);
        let Some(top) = top.filter(is_new) else {
            // It was exchanged before an interruption.
            return Ok(given);
        };
        let within = match top.stat.is_dir() {
            true => Some(Tree::at(reopen_path(top.fd())?)),
            false => None,
        };
        let mut top = Some(top);
        for (item, stamp) in items {
            let held = match &within {
                Some(within) => within.hold(&item[replace.path.len()..])?,
                None => top.take(),
            };
            let held = held.filter(|held| stamp.id.is_none_or(|id| held.id().matches(&id)));
            let held = match held {
                // A journal of an older version has staged it with its privileges.
                Some(_) if stamp.id.is_none() => continue,
                held => held.ok_or(Errno::STALE)?,
            };
            give(&held, stamp.attributes())?;
            given.push(held);
        }
        Ok(given)
    }
}
