// SPDX-License-Identifier: MIT OR Apache-2.0
//! Books: which entries are on whose account, how many, and how many may be.
//!
//! # States
//! A book is open as long as its tenant lives. Then it is left: what is on it may go before
//! anything else, and when all of that is gone its number is free.

use super::kids::ColdSlot;
use super::queue::{Kind, Queue};
use super::{Dcache, Dentry};
use crate::lock_order::{Bookshelf, Eviction, Queues};
use openpath_sync::{Mutex, Word, Word32, unfailing};
use std::sync::Arc;

/// The entries of one tenant.
pub(crate) struct Book {
    number: u32,
    /// How many entries may be on it, by [`Kind`].
    limits: [u32; 2],
    queues: Mutex<[Queue; 2], Queues>,
    /// How many there are, for who does not hold the queues.
    lens: [Word32; 2],
    /// How many went to make room, by kind.
    evicted: [Word; 2],
    /// Bytes of blocks with long names.
    name_bytes: Word,
    /// Its tenant is gone.
    left: Word32,
    /// Held by who makes room.
    pub(super) evicting: Mutex<(), Eviction>,
}

/// What is on a book.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Account {
    pub(crate) entries: [u32; 2],
    pub(crate) evicted: [u64; 2],
    pub(crate) name_bytes: u64,
}

impl Account {
    /// Bytes of the entries and their names, without the table's share and the path cache.
    pub(crate) fn bytes(&self) -> u64 {
        let entry = (size_of::<Dentry>() + size_of::<ColdSlot>()) as u64;
        let entries: u64 = self.entries.iter().map(|&n| u64::from(n)).sum();
        entries * entry + self.name_bytes
    }
}

impl Book {
    fn new(number: u32, limits: [u32; 2]) -> Self {
        Self {
            number,
            limits,
            queues: Mutex::default(),
            lens: Default::default(),
            evicted: Default::default(),
            name_bytes: Word::new(0),
            left: Word32::new(0),
            evicting: Mutex::default(),
        }
    }

    /// Its number, from 1.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// How many entries of a kind are on it.
    pub(super) fn len(&self, kind: Kind) -> u32 {
        self.lens[kind as usize].peek()
    }

    /// How many entries of a kind may be on it.
    pub(super) fn limit(&self, kind: Kind) -> u32 {
        self.limits[kind as usize]
    }

    /// Its tenant is gone.
    pub(crate) fn leave(&self) {
        self.left.set(1);
    }

    pub(super) fn is_left(&self) -> bool {
        self.left.get() != 0
    }

    /// The kind that it has more of.
    pub(super) fn fuller(&self) -> Kind {
        if self.len(Kind::Negative) >= self.len(Kind::Positive) {
            Kind::Negative
        } else {
            Kind::Positive
        }
    }

    fn is_empty(&self) -> bool {
        Kind::ALL.iter().all(|&kind| self.len(kind) == 0)
    }

    /// What is on it now.
    pub(crate) fn account(&self) -> Account {
        Account {
            entries: Kind::ALL.map(|kind| self.len(kind)),
            evicted: [0, 1].map(|kind: usize| self.evicted[kind].get()),
            name_bytes: self.name_bytes.get(),
        }
    }

    pub(super) fn note_evicted(&self, kind: Kind, count: usize) {
        self.evicted[kind as usize].add(count as u64);
    }

    /// As [`Queue::sweep`].
    pub(super) fn sweep(
        &self,
        dcache: &Dcache,
        kind: Kind,
        victims: &mut Vec<u32>,
        goal: usize,
        steps: u32,
    ) -> u32 {
        self.queues.lock()[kind as usize].sweep(dcache, victims, goal, steps)
    }
}

/// All books of one `Vfs`, by number.
#[derive(Default)]
pub(super) struct Books {
    shelf: Mutex<Vec<Option<Arc<Book>>>, Bookshelf>,
}

impl Books {
    /// A new book with these limits.
    pub(super) fn open(&self, limits: [u32; 2]) -> Arc<Book> {
        let mut shelf = self.shelf.lock();
        for place in shelf.iter_mut() {
            let over = |book: &Arc<Book>| book.is_left() && book.is_empty();
            if place.as_ref().is_some_and(over) {
                *place = None;
            }
        }
        let at = shelf.iter().position(Option::is_none);
        let at = at.unwrap_or(shelf.len());
        let book = Arc::new(Book::new(at as u32 + 1, limits));
        match shelf.get_mut(at) {
            Some(place) => *place = Some(Arc::clone(&book)),
            None => shelf.push(Some(Arc::clone(&book))),
        }
        book
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<Book>> {
        let at = (number as usize).checked_sub(1)?;
        self.shelf.lock().get(at)?.as_ref().map(Arc::clone)
    }

    pub(super) fn all(&self) -> Vec<Arc<Book>> {
        self.shelf.lock().iter().flatten().map(Arc::clone).collect()
    }
}

impl Dcache {
    /// A book for a new tenant.
    pub(crate) fn open_book(&self, limits: [u32; 2]) -> Arc<Book> {
        self.books.open(limits)
    }

    /// Puts an entry on a book. Nobody else sees the entry yet, or it is pinned and on no book.
    pub(super) fn enter_book(&self, book: &Book, index: u32, kind: Kind) {
        let _step = unfailing();
        let mut queues = book.queues.lock();
        self.cold(index).account.set(book.number << 1 | kind as u32);
        queues[kind as usize].push(self, index);
        book.lens[kind as usize].set(queues[kind as usize].len);
        drop(queues);
        self.entries[kind as usize].add(1);
        book.name_bytes
            .add(self.names.bytes(self.at(index).block.get()));
    }

    /// Takes an entry off the book it is on. It is pinned or about to be freed.
    pub(super) fn leave_book(&self, shelf: &mut Shelf, index: u32) {
        let _step = unfailing();
        let account = self.cold(index).account.get();
        let Some((book, kind)) = shelf.of(self, account) else {
            return;
        };
        let mut queues = book.queues.lock();
        queues[kind as usize].remove(self, index);
        self.cold(index).account.set(0);
        book.lens[kind as usize].set(queues[kind as usize].len);
        drop(queues);
        self.entries[kind as usize].sub(1);
        book.name_bytes
            .sub(self.names.bytes(self.at(index).block.get()));
    }

    /// Moves the bytes of a name from what an entry had to what it gets.
    pub(super) fn rebook_name(&self, index: u32, had: u32, gets: u32) {
        if had | gets == 0 {
            return;
        }
        if let Some((book, _)) = Shelf::default().of(self, self.cold(index).account.get()) {
            book.name_bytes.add(self.names.bytes(gets));
            book.name_bytes.sub(self.names.bytes(had));
        }
    }
}

/// The book that was asked for last: entries that go together are mostly on one.
#[derive(Default)]
pub(super) struct Shelf(Option<Arc<Book>>);

impl Shelf {
    /// The book and the kind of an account; none for entries that are on no book.
    fn of(&mut self, dcache: &Dcache, account: u32) -> Option<(&Book, Kind)> {
        let number = account >> 1;
        if self.0.as_ref().is_none_or(|book| book.number != number) {
            self.0 = dcache.books.get(number);
        }
        Some((self.0.as_deref()?, Kind::ALL[account as usize & 1]))
    }
}
