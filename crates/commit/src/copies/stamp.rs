// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the stamp of a file that a commit made (its size and metadata), and compares it later: a
//! difference is a change by others, even if the commit was interrupted in between.
//!
//! # Rules
//! R1. A stamp is taken by the descriptor of the new file, before the file gets its name. No
//!     rename, exchange or further name changes what it has.
//!
//! # Limits
//! * A stamp does not detect a write that restores size and modification time. From the end of the
//!   commit on, the time of change detects it.

use crate::attributes::file_stat::{Attributes, InodeId};
use crate::copies::privileges;
use crate::host::held_file::HeldFile;
use openpath_abi::mode;
use rustix::io::Result;
use serde::{Deserialize, Serialize};

/// The size and metadata of a file of the commit (R1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    attributes: Attributes,
    /// Its inode; none in a journal of an older version.
    #[serde(default)]
    pub(crate) id: Option<InodeId>,
}

impl Stamp {
    /// Takes the stamp of a held file.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn of(held: &HeldFile) -> Result<Stamp> {
        Ok(Stamp {
            size: held.stat.size,
            attributes: held.attributes()?,
            id: Some(held.id()),
        })
    }

    /// What it will be once it has its privileges (`privileges`).
    pub(crate) fn with_privileges(mut self, to: &Attributes) -> Stamp {
        privileges::add(&mut self.attributes, to);
        self
    }

    /// The attributes that the commit gave.
    pub(crate) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Whether a file is as it was made.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn matches(&self, held: &HeldFile) -> Result<bool> {
        let now = Stamp::of(held)?;
        let sizes = now.size == self.size || !mode::is_reg(self.attributes.mode);
        let times = now.attributes.mtime == self.attributes.mtime;
        Ok(sizes && times && now.attributes.same(&self.attributes))
    }
}
