// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a file is when the commit has made it, so that a later change by others is seen whatever
//! was interrupted in between.
//!
//! # Rules
//! R1. A stamp is taken by the descriptor of the new file, before the file gets its name. It has
//!     what no rename, exchange or further name changes, so it holds from then on.
//!
//! # Limits
//! * A stamp does not show that others wrote a file and put its size and its modification time
//!   back. The time of change shows it, from the end of the commit on.

use crate::facts::Attributes;
use crate::held::Held;
use openpath_abi::mode;
use rustix::io::Result;
use serde::{Deserialize, Serialize};

/// What a file of the commit has (R1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    size: u64,
    attributes: Attributes,
}

impl Stamp {
    /// Takes the stamp of a file that is held.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn of(held: &Held) -> Result<Stamp> {
        Ok(Stamp {
            size: held.facts.size,
            attributes: held.attributes()?,
        })
    }

    /// Whether a file is as it was made.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn is(&self, held: &Held) -> Result<bool> {
        let now = Stamp::of(held)?;
        let sizes = now.size == self.size || !mode::is_reg(self.attributes.mode);
        let times = now.attributes.mtime == self.attributes.mtime;
        Ok(sizes && times && now.attributes.same(&self.attributes))
    }
}
