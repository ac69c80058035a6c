// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the body of a symbolic link, and lends it without a copy.

use crate::space::{Block, Charge, Payer};
use openpath_abi::Errno;

/// Shorter bodies live in the inode; a longer one takes a block (`SHORT_SYMLINK_LEN`).
const SHORT: usize = 128;

/// A symbolic link.
pub(crate) struct Link {
    body: Box<[u8]>,
    /// The block of a long body.
    block: Option<Charge<Block>>,
}

impl Link {
    /// A link with this body.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT` if it takes a block and none is left.
    pub(crate) fn new(body: &[u8], payer: &Payer) -> Result<Self, Errno> {
        let block = if body.len() < SHORT {
            None
        } else {
            let mut charge = Charge::none(payer);
            charge.take(1)?;
            Some(charge)
        };
        Ok(Self {
            body: body.into(),
            block,
        })
    }

    /// The path that it holds.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Blocks of 4096 bytes that it takes.
    pub(crate) fn blocks(&self) -> u64 {
        u64::from(self.block.is_some())
    }
}
