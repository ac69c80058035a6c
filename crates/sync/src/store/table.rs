// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds references to open files in numbered slots: the base of a descriptor table.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | slot | a guard of the table, or `&mut` to the table | no lock; the result is a number |
//! | claimed | the same | no lock, as a hint |
//! | noted | no lock: set once | no lock |
//!
//! # Rules
//! R1. A slot that is not 0 holds one reference to the file of that number. Only a guard takes a
//!     reference out or puts one in, so it is taken once.

use super::Store;
use super::files::{FileItem, FileRef};
use super::item::Item;
use crate::biased::BiasedGuard;
use crate::lock::LockClass;
use crate::slots::Slots;
use crate::word::Word32;

/// Slots for references to files of one store.
pub struct FileSlots {
    slots: Slots,
    store: u32,
    /// The number of claimed descriptors, kept by the table's owner.
    pub claimed: Word32,
    /// A mark of the table's owner, to check when a reference is taken out; never cleared.
    pub noted: Word32,
}

/// No table has more (`sysctl_nr_open_max`).
const SLOTS_MAX: u32 = 1 << 31;

impl FileSlots {
    /// Empty slots, for files of `store`.
    pub fn new<M: Item, D: Item, F: FileItem>(store: &Store<M, D, F>) -> Self {
        Self {
            slots: Slots::new(SLOTS_MAX),
            store: store.id,
            claimed: Word32::new(0),
            noted: Word32::new(0),
        }
    }

    /// The number of the file at `slot`; 0: none. Look it up with [`super::PinSet::get_file`], then
    /// read the slot again.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> u32 {
        self.slots.get(slot)
    }

    #[inline(always)]
    fn put(&self, slot: u32, file: FileRef) -> Result<(), FileRef> {
        let pin = file.pin();
        assert_eq!(
            pin.store(),
            self.store,
            "a file is put into slots of its own store"
        );
        if let Some(word) = self.slots.word(slot) {
            assert_eq!(word.peek(), 0, "a file is put into a free slot");
            word.set(file.id());
            return Ok(());
        }
        self.slots.set(slot, file.id()).map_err(|_| file)
    }

    #[inline(always)]
    fn take<M: Item, D: Item, F: FileItem>(
        &self,
        store: &Store<M, D, F>,
        slot: u32,
    ) -> Option<FileRef> {
        assert_eq!(
            store.id, self.store,
            "files are taken out into their own store"
        );
        let word = self.slots.word(slot)?;
        let id = word.get();
        if id == 0 {
            return None;
        }
        // R1: this is the slot's reference, so the file is alive.
        let file = FileRef::of(store.pin_of(id));
        word.set(0);
        Some(file)
    }

    #[inline(always)]
    fn exchange<M: Item, D: Item, F: FileItem>(
        &self,
        store: &Store<M, D, F>,
        slot: u32,
        file: FileRef,
    ) -> Result<Option<FileRef>, FileRef> {
        assert!(
            file.pin().store() == self.store && store.id == self.store,
            "files are exchanged in their own store"
        );
        let id = self.slots.get(slot);
        // R1: this is the slot's reference, so the file is alive.
        let was = (id != 0).then(|| FileRef::of(store.pin_of(id)));
        match self.slots.set(slot, file.id()) {
            Ok(()) => Ok(was),
            Err(_) => Err(file),
        }
    }

    /// Puts a reference into a free slot.
    ///
    /// # Errors
    /// Hands the file back if there is no memory for the slot.
    ///
    /// # Panics
    /// If the slot is not free, or the file belongs to another store.
    pub fn put_in(&mut self, slot: u32, file: FileRef) -> Result<(), FileRef> {
        self.put(slot, file)
    }

    /// Takes the reference at `slot` out.
    ///
    /// # Panics
    /// If `store` is not that of the slots.
    pub fn take_out<M: Item, D: Item, F: FileItem>(
        &mut self,
        store: &Store<M, D, F>,
        slot: u32,
    ) -> Option<FileRef> {
        self.take(store, slot)
    }
}

impl<T, C: LockClass> BiasedGuard<'_, FileSlots, T, C> {
    /// As [`FileSlots::put_in`], with the table locked.
    ///
    /// # Errors
    /// Hands the file back if there is no memory for the slot.
    ///
    /// # Panics
    /// If the slot is not free, or the file belongs to another store.
    #[inline(always)]
    pub fn put_in(&mut self, slot: u32, file: FileRef) -> Result<(), FileRef> {
        Self::shared(self).put(slot, file)
    }

    /// Stores a reference in a slot and returns the old one, if any. A concurrent reader sees one
    /// or the other.
    ///
    /// # Errors
    /// Hands the file back if there is no memory for the slot.
    ///
    /// # Panics
    /// If the file or `store` is not that of the slots.
    pub fn replace<M: Item, D: Item, F: FileItem>(
        &mut self,
        store: &Store<M, D, F>,
        slot: u32,
        file: FileRef,
    ) -> Result<Option<FileRef>, FileRef> {
        Self::shared(self).exchange(store, slot, file)
    }

    /// As [`FileSlots::take_out`], with the table locked.
    ///
    /// # Panics
    /// If `store` is not that of the slots.
    #[inline(always)]
    pub fn take_out<M: Item, D: Item, F: FileItem>(
        &mut self,
        store: &Store<M, D, F>,
        slot: u32,
    ) -> Option<FileRef> {
        Self::shared(self).take(store, slot)
    }
}
