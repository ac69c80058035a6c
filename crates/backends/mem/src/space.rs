// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a whole tree may use and has left: blocks, room for inodes, inode numbers.
//!
//! # Fields
//! | field | changed by |
//! |---|---|
//! | blocks | one for each page of a file and each long symbolic link |
//! | room | [`INODE_ROOM`] for each inode and second name; the size of extended attributes |
//! | next number | each new inode, never back |

use crate::options::MemOptions;
use crate::page_map::PAGE;
use openpath_abi::Errno;
use openpath_sync::Word;
use std::sync::Arc;

/// What an inode takes of the room for inodes (`BOGO_INODE_SIZE`).
pub(crate) const INODE_ROOM: u64 = 1024;

/// A quantity with a limit.
pub(crate) struct Pool {
    /// 0: no limit, and nothing is counted.
    limit: u64,
    free: Word,
}

impl Pool {
    fn new(limit: u64) -> Self {
        Self {
            limit,
            free: Word::new(limit),
        }
    }

    /// Takes `amount`.
    ///
    /// # Errors
    /// `ENOSPC` if less is left.
    pub(crate) fn take(&self, amount: u64) -> Result<(), Errno> {
        if self.limit == 0 {
            return Ok(());
        }
        loop {
            let free = self.free.get();
            let left = free.checked_sub(amount).ok_or(Errno::ENOSPC)?;
            if self.free.swap_if(free, left) {
                return Ok(());
            }
        }
    }

    /// The most that anybody could take.
    pub(crate) fn most(&self) -> u64 {
        if self.limit == 0 {
            u64::MAX
        } else {
            self.limit
        }
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, amount: u64) {
        if self.limit != 0 {
            self.free.add(amount);
        }
    }

    /// The limit and what is left of it; both 0 without a limit.
    pub(crate) fn figures(&self) -> (u64, u64) {
        (self.limit, self.free.get())
    }
}

/// What its holder has taken from a pool; given back when it is dropped.
pub(crate) struct Charge {
    pool: Arc<Pool>,
    held: u64,
}

impl Charge {
    /// Nothing yet.
    pub(crate) fn none(pool: &Arc<Pool>) -> Self {
        Self {
            pool: Arc::clone(pool),
            held: 0,
        }
    }

    /// How much it has taken.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Takes `amount` more.
    ///
    /// # Errors
    /// `ENOSPC` if less is left.
    pub(crate) fn take(&mut self, amount: u64) -> Result<(), Errno> {
        self.pool.take(amount)?;
        self.held += amount;
        Ok(())
    }

    /// Gives `amount` back.
    pub(crate) fn give(&mut self, amount: u64) {
        let amount = amount.min(self.held);
        self.held -= amount;
        self.pool.give(amount);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.pool.give(self.held);
    }
}

/// The counters of one tree. Its address is the tree's identity.
pub(crate) struct Space {
    pub(crate) blocks: Arc<Pool>,
    pub(crate) room: Arc<Pool>,
    /// New files can be sealed.
    pub(crate) sealable: bool,
    next_ino: Word,
}

impl Space {
    /// As the options say, with nothing taken.
    pub(crate) fn new(options: &MemOptions) -> Arc<Self> {
        let inodes = options.inodes.min(u64::MAX / INODE_ROOM);
        Arc::new(Self {
            blocks: Arc::new(Pool::new(options.size.div_ceil(PAGE as u64))),
            room: Arc::new(Pool::new(inodes * INODE_ROOM)),
            sealable: options.sealable,
            next_ino: Word::new(1),
        })
    }

    /// An inode number that was never given out before; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.next_ino.add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_given_back() {
        let pool = Arc::new(Pool::new(10));
        let mut charge = Charge::none(&pool);
        charge.take(7).expect("room for 7");
        assert_eq!(charge.take(4), Err(Errno::ENOSPC));
        charge.take(3).expect("room for 3");
        assert_eq!(pool.figures(), (10, 0));
        charge.give(5);
        assert_eq!(pool.figures(), (10, 5));
        drop(charge);
        assert_eq!(pool.figures(), (10, 10));
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let pool = Arc::new(Pool::new(0));
        let mut charge = Charge::none(&pool);
        charge.take(u64::MAX / 2).expect("no limit");
        drop(charge);
        assert_eq!(pool.figures(), (0, 0));
    }
}
