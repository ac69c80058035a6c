// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a whole tree may use and has left: blocks, room for inodes, memory, inode numbers; and who
//! pays.
//!
//! # Fields
//! | field | changed by |
//! |---|---|
//! | blocks | one for each page of a file and each long symbolic link |
//! | room | [`INODE_ROOM`] for each inode and second name; the size of extended attributes |
//! | memory | with [`Charging::Memory`]: all of the above, by its bytes (see `memory`) |
//! | next number | each new inode, never back |
//!
//! # Rules
//! R1. What is taken of the tree is also charged to the tenant of the task that made the inode: an
//!     inode or second name as an inode, pages and extended attributes by their bytes. It follows
//!     the inode: whoever writes, whatever its owner, and whoever gives it another name.
//! R2. Both are paid or none, and both are given back by a drop.

use crate::memory::{self, INODE, Memory};
use crate::options::MemOptions;
use crate::page_map::PAGE;
use crate::pool::Pool;
use openpath_abi::Errno;
use openpath_sync::{Page, Pages, Word, WriteOnce};
use openpath_vfs::TenantRef;
use std::marker::PhantomData;
use std::sync::Arc;

/// What an inode takes of the room for inodes (`BOGO_INODE_SIZE`).
pub(crate) const INODE_ROOM: u64 = 1024;

/// What an extended attribute takes of it besides name and value.
const XATTR_HEAD: u64 = 40;

/// Pools that pages come from, so that threads seldom wait for each other; a file has one.
const SHARDS: usize = 4;

/// A pool of a tree, and how what is taken from it counts for a tenant.
pub(crate) trait Unit {
    /// Bytes of a tenant and of memory.
    const BYTES: u64;
    /// The pool.
    fn pool(space: &Space) -> &Pool;
}

/// A page of a file or a long symbolic link.
pub(crate) enum Block {}

impl Unit for Block {
    const BYTES: u64 = PAGE as u64;
    fn pool(space: &Space) -> &Pool {
        &space.blocks
    }
}

/// A byte of an extended attribute.
pub(crate) enum Byte {}

impl Unit for Byte {
    const BYTES: u64 = 1;
    fn pool(space: &Space) -> &Pool {
        &space.room
    }
}

/// Who pays for an inode: the tree and a tenant. The tree is asked first, as in the kernel, where a
/// quota comes after the limits of a tmpfs.
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
    /// `ENOSPC`, `EDQUOT`; if both would refuse, who would first if it were taken one by one.
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

/// What its holder has taken; given back when it is dropped.
pub(crate) struct Charge<U: Unit> {
    pub(crate) payer: Payer,
    held: u64,
    unit: PhantomData<U>,
}

impl<U: Unit> Charge<U> {
    /// Nothing yet.
    pub(crate) fn none(payer: &Payer) -> Self {
        Self {
            payer: payer.clone(),
            held: 0,
            unit: PhantomData,
        }
    }

    /// How much it has taken.
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

/// The places that an inode takes: one for itself, and one for each name after the first. Given
/// back when it is dropped.
pub(crate) struct Places {
    pub(crate) payer: Payer,
    taken: Word,
}

impl Places {
    /// The place of a new inode.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn new(payer: Payer) -> Result<Self, Errno> {
        let places = Self {
            payer,
            taken: Word::new(0),
        };
        places.take()?;
        Ok(places)
    }

    /// Takes one more.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn take(&self) -> Result<(), Errno> {
        let is_first = self.taken.get() == 0;
        let space = &self.payer.space;
        space.take_place(is_first)?;
        if let Some(tenant) = &self.payer.tenant {
            let charged = tenant.charge_inode();
            charged.inspect_err(|_| space.give_places(is_first, 1))?;
        }
        self.taken.add(1);
        Ok(())
    }

    /// Gives one back that is not the first.
    pub(crate) fn give(&self) {
        self.taken.sub(1);
        self.give_back(false, 1);
    }

    /// Gives some back; whether the first is one of them.
    fn give_back(&self, with_first: bool, places: u64) {
        self.payer.space.give_places(with_first, places);
        if let Some(tenant) = &self.payer.tenant {
            (0..places).for_each(|_| tenant.uncharge_inode());
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let taken = self.taken.get();
        self.give_back(taken > 0, taken);
    }
}

/// The counters of one tree, and where its pages come from. Its address is the tree's identity.
pub(crate) struct Space {
    pub(crate) blocks: Pool,
    pub(crate) room: Pool,
    /// Where everything is charged by what it takes.
    pub(crate) memory: Option<Memory>,
    /// New files can be sealed.
    pub(crate) sealable: bool,
    next_ino: Word,
    /// Each made for the first page that comes from it: most trees of very many hold none.
    pages: [WriteOnce<Pages>; SHARDS],
}

impl Space {
    /// As the options say, with nothing taken.
    pub(crate) fn new(options: &MemOptions) -> Arc<Self> {
        let inodes = options.inodes.min(u64::MAX / INODE_ROOM);
        Arc::new(Self {
            blocks: Pool::new(options.size.div_ceil(PAGE as u64)),
            room: Pool::new(inodes * INODE_ROOM),
            memory: Memory::new(options),
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
        let pool = U::pool(self);
        pool.take(amount)?;
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let taken = memory.pool.take(amount.saturating_mul(U::BYTES));
        taken.inspect_err(|_| pool.give(amount))
    }

    fn give<U: Unit>(&self, amount: u64) {
        U::pool(self).give(amount);
        if let Some(memory) = &self.memory {
            memory.pool.give(amount * U::BYTES);
        }
    }

    fn left<U: Unit>(&self) -> u64 {
        let memory = self.memory.as_ref();
        let most = memory.map_or(u64::MAX, |memory| memory.pool.left() / U::BYTES);
        U::pool(self).left().min(most)
    }

    /// Takes the place of an inode, or else of one more name.
    ///
    /// # Errors
    /// `ENOSPC`.
    fn take_place(&self, is_inode: bool) -> Result<(), Errno> {
        self.room.take(INODE_ROOM)?;
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let taken = memory.pool.take(Memory::of_places(is_inode, 1));
        taken.inspect_err(|_| self.room.give(INODE_ROOM))
    }

    fn give_places(&self, with_inode: bool, places: u64) {
        self.room.give(places * INODE_ROOM);
        if let Some(memory) = &self.memory {
            memory.pool.give(Memory::of_places(with_inode, places));
        }
    }

    /// Blocks: how many there are, and how many are free.
    pub(crate) fn blocks(&self) -> (u64, u64) {
        let (blocks, free) = self.blocks.figures();
        let memory = self.memory.as_ref();
        (
            blocks,
            memory.map_or(free, |m| free.min(m.left() / PAGE as u64)),
        )
    }

    /// Inodes: how many there may be, and how many more.
    pub(crate) fn inodes(&self) -> (u64, u64) {
        let (room, free) = self.room.figures();
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

    /// An inode number that was never given out before; the first is 1.
    pub(crate) fn number(&self) -> u64 {
        self.next_ino.add(1)
    }

    /// A page for the file `ino` that holds `part` from byte `from` on, and zeroes else.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn page(&self, ino: u64, part: &[u8], from: usize) -> Result<Page, Errno> {
        // Below the number of pools.
        let pool = &self.pages[(ino % SHARDS as u64) as usize];
        let pool = pool.get().unwrap_or_else(|| pool.set(Pages::default()));
        pool.page(part, from).map_err(|_| Errno::ENOMEM)
    }

    /// Gives the memory of pages back that are kept for the next file.
    pub(crate) fn cool(&self) {
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
    fn a_charge_is_given_back() {
        let payer = payer(10);
        let figures = || payer.space.blocks.figures();
        let mut charge = Charge::<Block>::none(&payer);
        charge.take(7).expect("room for 7");
        assert_eq!(charge.take(4), Err(Errno::ENOSPC));
        charge.take(3).expect("room for 3");
        assert_eq!(figures(), (10, 0));
        charge.give(5);
        assert_eq!(figures(), (10, 5));
        drop(charge);
        assert_eq!(figures(), (10, 10));
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let payer = payer(0);
        let mut charge = Charge::<Block>::none(&payer);
        charge.take(u64::MAX / 2).expect("no limit");
        drop(charge);
        assert_eq!(payer.space.blocks.figures(), (0, 0));
    }
}
