// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the limits of a whole tree: blocks, space for inodes, memory and inode numbers, and what
//! is charged for them.
//!
//! # Fields
//! | field | changed by |
//! |---|---|
//! | blocks | one for each page of a file and each long symbolic link |
//! | room | [`INODE_ROOM`] for each inode and further name; the size of extended attributes |
//! | memory | with [`crate::Charging::Memory`]: all of the above, by its bytes (see `memory`) |
//! | next number | each new inode, never back |
//!
//! # Rules
//! R1. What is taken from the tree is also charged to the tenant of the task that made the inode:
//!     an inode or further name as an inode, pages and extended attributes by their bytes. The
//!     charge stays with that tenant, whichever task writes, owns or links the file later.
//! R2. Both are charged or neither, and both charges are given back by a drop.

use crate::budget::Budget;
use crate::memory::{self, INODE, MemoryBudget};
use crate::options::MemOptions;
use crate::page_map::PAGE;
use openpath_abi::Errno;
use openpath_sync::{Page, Pages, Word, WriteOnce};
use openpath_vfs::TenantRef;
use std::marker::PhantomData;
use std::sync::Arc;

/// What an inode takes of the room for inodes (`BOGO_INODE_SIZE`).
pub(crate) const INODE_ROOM: u64 = 1024;

/// What an extended attribute takes of it besides its name and value.
const XATTR_HEAD: u64 = 40;

/// Pools of pages, so that threads seldom wait for each other; a file uses one of them.
const SHARDS: usize = 4;

/// A quantity of a tree, and how it counts for a tenant.
pub(crate) trait Unit {
    /// Bytes for a tenant and for memory.
    const BYTES: u64;
    /// The budget that it is taken from.
    fn budget(space: &Space) -> &Budget;
}

/// A page of a file or a long symbolic link.
pub(crate) enum Block {}

impl Unit for Block {
    const BYTES: u64 = PAGE as u64;
    fn budget(space: &Space) -> &Budget {
        &space.blocks
    }
}

/// A byte of an extended attribute.
pub(crate) enum Byte {}

impl Unit for Byte {
    const BYTES: u64 = 1;
    fn budget(space: &Space) -> &Budget {
        &space.room
    }
}

/// The payers of an inode: the tree and a tenant. The tree is asked first, as in the kernel, where
/// a quota comes after the limits of a tmpfs.
#[derive(Clone)]
pub(crate) struct Payer {
    pub(crate) space: Arc<Space>,
    tenant: Option<TenantRef>,
}

impl Payer {
    pub(crate) fn new(space: &Arc<Space>, tenant: Option<&TenantRef>) -> Self {
        Self {
            space: Arc::clone(space),
            tenant: tenant.cloned(),
        }
    }

    /// Takes `amount`.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`; if both would refuse, the one that would refuse first if the amount were
    /// taken one by one.
    fn take<U: Unit>(&self, amount: u64) -> Result<(), Errno> {
        let space = &self.space;
        let Some(tenant) = &self.tenant else {
            return space.take::<U>(amount);
        };
        let bytes = amount.saturating_mul(U::BYTES);
        if let Err(errno) = space.take::<U>(amount) {
            let left = tenant.limits().bytes_max - tenant.stats().bytes;
            let is_first = amount > 1 && left / U::BYTES < space.left::<U>();
            return Err(if is_first { Errno::EDQUOT } else { errno });
        }
        tenant
            .charge_bytes(bytes)
            .inspect_err(|_| space.give::<U>(amount))
    }

    /// Gives back what was taken.
    fn give<U: Unit>(&self, amount: u64) {
        self.space.give::<U>(amount);
        if let Some(tenant) = &self.tenant {
            tenant.uncharge_bytes(amount * U::BYTES);
        }
    }
}

/// The amount that its holder has taken; given back when it is dropped.
pub(crate) struct Charge<U: Unit> {
    pub(crate) payer: Payer,
    held: u64,
    unit: PhantomData<U>,
}

impl<U: Unit> Charge<U> {
    /// Nothing is taken yet.
    pub(crate) fn none(payer: &Payer) -> Self {
        Self {
            payer: payer.clone(),
            held: 0,
            unit: PhantomData,
        }
    }

    /// How much is taken.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Takes `amount` more.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn take(&mut self, amount: u64) -> Result<(), Errno> {
        self.payer.take::<U>(amount)?;
        self.held += amount;
        Ok(())
    }

    /// Gives `amount` back.
    pub(crate) fn give(&mut self, amount: u64) {
        let amount = amount.min(self.held);
        self.held -= amount;
        self.payer.give::<U>(amount);
    }
}

impl<U: Unit> Drop for Charge<U> {
    fn drop(&mut self) {
        self.payer.give::<U>(self.held);
    }
}

/// The charge of an inode: one for itself with its first name, and one for each further name. Given
/// back when it is dropped.
pub(crate) struct InodeCharge {
    pub(crate) payer: Payer,
    taken: Word,
}

impl InodeCharge {
    /// The charge of a new inode.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn new(payer: Payer) -> Result<Self, Errno> {
        let charge = Self {
            payer,
            taken: Word::new(0),
        };
        charge.take()?;
        Ok(charge)
    }

    /// Charges one more name.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn take(&self) -> Result<(), Errno> {
        let is_first = self.taken.get() == 0;
        let space = &self.payer.space;
        space.take_name(is_first)?;
        if let Some(tenant) = &self.payer.tenant {
            let charged = tenant.charge_inode();
            charged.inspect_err(|_| space.give_names(is_first, 1))?;
        }
        self.taken.add(1);
        Ok(())
    }

    /// Gives back one name that is not the first.
    pub(crate) fn give(&self) {
        self.taken.sub(1);
        self.give_back(false, 1);
    }

    /// Gives some names back; `with_first`: the first is one of them.
    fn give_back(&self, with_first: bool, names: u64) {
        self.payer.space.give_names(with_first, names);
        if let Some(tenant) = &self.payer.tenant {
            (0..names).for_each(|_| tenant.uncharge_inode());
        }
    }
}

impl Drop for InodeCharge {
    fn drop(&mut self) {
        let taken = self.taken.get();
        self.give_back(taken > 0, taken);
    }
}

/// The limits of one tree, and its pools of pages. Its address is the tree's identity.
pub(crate) struct Space {
    pub(crate) blocks: Budget,
    pub(crate) room: Budget,
    /// The budget of everything, where the tree has one.
    pub(crate) memory: Option<MemoryBudget>,
    /// New files can be sealed.
    pub(crate) sealable: bool,
    next_ino: Word,
    /// Each is made for the first page that comes from it: a process may have very many trees, and
    /// most hold no page.
    pages: [WriteOnce<Pages>; SHARDS],
}

impl Space {
    /// The limits of the options, with nothing taken.
    pub(crate) fn new(options: &MemOptions) -> Arc<Self> {
        let inodes = options.inodes.min(u64::MAX / INODE_ROOM);
        Arc::new(Self {
            blocks: Budget::new(options.size.div_ceil(PAGE as u64)),
            room: Budget::new(inodes * INODE_ROOM),
            memory: MemoryBudget::new(options),
            sealable: options.sealable,
            next_ino: Word::new(1),
            pages: Default::default(),
        })
    }

    /// Takes `amount` of a unit.
    ///
    /// # Errors
    /// `ENOSPC`.
    fn take<U: Unit>(&self, amount: u64) -> Result<(), Errno> {
        let budget = U::budget(self);
        budget.take(amount)?;
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let taken = memory.budget.take(amount.saturating_mul(U::BYTES));
        taken.inspect_err(|_| budget.give(amount))
    }

    fn give<U: Unit>(&self, amount: u64) {
        U::budget(self).give(amount);
        if let Some(memory) = &self.memory {
            memory.budget.give(amount * U::BYTES);
        }
    }

    fn left<U: Unit>(&self) -> u64 {
        let memory = self.memory.as_ref();
        let most = memory.map_or(u64::MAX, |memory| memory.budget.left() / U::BYTES);
        U::budget(self).left().min(most)
    }

    /// Takes the room of an inode, or else of one more name.
    ///
    /// # Errors
    /// `ENOSPC`.
    fn take_name(&self, is_inode: bool) -> Result<(), Errno> {
        self.room.take(INODE_ROOM)?;
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let taken = memory.budget.take(MemoryBudget::bytes_of(is_inode, 1));
        taken.inspect_err(|_| self.room.give(INODE_ROOM))
    }

    fn give_names(&self, with_inode: bool, names: u64) {
        self.room.give(names * INODE_ROOM);
        if let Some(memory) = &self.memory {
            memory
                .budget
                .give(MemoryBudget::bytes_of(with_inode, names));
        }
    }

    /// Blocks: the limit, and how many are free.
    pub(crate) fn blocks(&self) -> (u64, u64) {
        let (blocks, free) = self.blocks.limit_and_left();
        let memory = self.memory.as_ref();
        (
            blocks,
            memory.map_or(free, |m| free.min(m.left() / PAGE as u64)),
        )
    }

    /// Inodes: the limit, and how many are free.
    pub(crate) fn inodes(&self) -> (u64, u64) {
        let (room, free) = self.room.limit_and_left();
        let (inodes, free) = (room / INODE_ROOM, free / INODE_ROOM);
        let Some(memory) = &self.memory else {
            return (inodes, free);
        };
        let (most, left) = (memory.size / INODE, memory.left() / INODE);
        if room == 0 {
            (most, left)
        } else {
            (inodes.min(most), free.min(left))
        }
    }

    /// What an extended attribute takes besides its name and its value.
    pub(crate) fn xattr_head(&self) -> u64 {
        if self.memory.is_some() {
            memory::XATTR_HEAD
        } else {
            XATTR_HEAD
        }
    }

    /// An inode number that was never used before; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.next_ino.add(1)
    }

    /// A page for the file `ino` that holds `part` from byte `from` on, and zeroes elsewhere.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn page(&self, ino: u64, part: &[u8], from: usize) -> Result<Page, Errno> {
        // Less than the number of pools.
        let pool = &self.pages[(ino % SHARDS as u64) as usize];
        let pool = pool.get().unwrap_or_else(|| pool.set(Pages::default()));
        pool.page(part, from).map_err(|_| Errno::ENOMEM)
    }

    /// Releases pages that are cached for the next file.
    pub(crate) fn release_cached_pages(&self) {
        let pools = self.pages.iter().filter_map(WriteOnce::get);
        pools.for_each(Pages::cool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payer(blocks: u64) -> Payer {
        let options = MemOptions {
            size: blocks * PAGE as u64,
            ..MemOptions::default()
        };
        Payer::new(&Space::new(&options), None)
    }

    #[test]
    fn dropped_charge_is_given_back() {
        let payer = payer(10);
        let blocks = || payer.space.blocks.limit_and_left();
        let mut charge = Charge::<Block>::none(&payer);
        charge.take(7).expect("room for 7");
        assert_eq!(charge.take(4), Err(Errno::ENOSPC));
        charge.take(3).expect("room for 3");
        assert_eq!(blocks(), (10, 0));
        charge.give(5);
        assert_eq!(blocks(), (10, 5));
        drop(charge);
        assert_eq!(blocks(), (10, 10));
    }

    #[test]
    fn budget_without_limit_counts_nothing() {
        let payer = payer(0);
        let mut charge = Charge::<Block>::none(&payer);
        charge.take(u64::MAX / 2).expect("no limit");
        drop(charge);
        assert_eq!(payer.space.blocks.limit_and_left(), (0, 0));
    }
}
