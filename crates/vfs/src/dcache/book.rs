// SPDX-License-Identifier: MIT OR Apache-2.0
//! Books: the accounts of the dentry cache. Each tenant has one, with the number of its entries and
//! their limits.
//!
//! To make room, a task goes round the queues of a book, in each as far as its part of all entries.
//!
//! # States
//! A book is open as long as its tenant lives. Then it is left: its entries may go before any
//! others, and when all are gone its number is free.

use super::kids::ColdSlot;
use super::{Dcache, Dentry};
use crate::book::{Book, Kind, Part};
use crate::lock_order::Bookshelf;
use openpath_sync::{Mutex, Shards, no_fault_injection};
use std::sync::Arc;

/// The account of an entry in one word: kind in bit 0, part, number of the book; 0: on no book.
#[derive(Clone, Copy, PartialEq, Eq)]
struct AccountWord(u32);

const PART_BITS: u32 = 4;
const _: () = assert!(Shards::<Part>::COUNT <= 1 << PART_BITS);

impl AccountWord {
    fn new(book: &Book, part: u32, kind: Kind) -> Self {
        Self((book.number << PART_BITS | part) << 1 | kind as u32)
    }
    fn book(self) -> u32 {
        self.0 >> (1 + PART_BITS)
    }
    fn part(self) -> u32 {
        self.0 >> 1 & ((1 << PART_BITS) - 1)
    }
    fn kind(self) -> Kind {
        Kind::ALL[self.0 as usize & 1]
    }
}

impl Book {
    /// As [`Queue::sweep`], once round all parts: each part gets its share of `steps`. No lock is
    /// held for longer than a part takes. Held: `evicting`.
    pub(super) fn sweep(
        &self,
        dcache: &Dcache,
        kind: Kind,
        victims: &mut Vec<u32>,
        goal: usize,
        steps: u32,
    ) -> u32 {
        let all = u64::from(self.len(kind).max(1));
        let mut passed = 0;
        for _ in 0..Shards::<Part>::COUNT {
            if victims.len() >= goal {
                break;
            }
            let Some(part) = self.parts.of_if_any(self.next.add(1)) else {
                continue;
            };
            let queue = &mut part.queues.lock()[kind as usize];
            let share = (u64::from(queue.len) * u64::from(steps)).div_ceil(all);
            passed += queue.sweep(dcache, victims, goal, share.min(steps.into()) as u32);
        }
        passed
    }
}

/// All books of one `Vfs`.
#[derive(Default)]
pub(super) struct Books {
    shelf: Mutex<ShelfSlots, Bookshelf>,
}

/// The slots of a shelf.
#[derive(Default)]
struct ShelfSlots {
    /// By number, from 1.
    books: Vec<Option<Arc<Book>>>,
    /// Those that are empty.
    free: Vec<usize>,
}

impl ShelfSlots {
    /// Frees the slots of books that have ended.
    fn sweep(&mut self) {
        for (at, slot) in self.books.iter_mut().enumerate().rev() {
            let over = |book: &Arc<Book>| book.is_left() && book.is_empty();
            if slot.as_ref().is_some_and(over) {
                *slot = None;
                self.free.push(at);
            }
        }
    }

    /// An empty slot. Ended books are looked for where the shelf would grow otherwise: each look
    /// is paid for by the books that came since the last one.
    fn take(&mut self) -> usize {
        if self.free.is_empty() && self.books.len() == self.books.capacity() {
            self.sweep();
            let kept = self.books.len() - self.free.len();
            self.books
                .reserve((kept + 1).saturating_sub(self.free.len()));
        }
        self.free.pop().unwrap_or_else(|| {
            self.books.push(None);
            self.books.len() - 1
        })
    }
}

impl Books {
    /// A new book with these limits.
    pub(super) fn open(&self, limits: [u32; 2]) -> Arc<Book> {
        let entry = (size_of::<Dentry>() + size_of::<ColdSlot>()) as u64;
        let mut shelf = self.shelf.lock();
        let at = shelf.take();
        let book = Arc::new(Book::new(at as u32 + 1, limits, entry));
        shelf.books[at] = Some(Arc::clone(&book));
        book
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<Book>> {
        let at = (number as usize).checked_sub(1)?;
        self.shelf.lock().books.get(at)?.clone()
    }

    pub(super) fn all(&self) -> Vec<Arc<Book>> {
        self.shelf.lock().books.iter().flatten().cloned().collect()
    }
}

impl Dcache {
    /// Gives back ended books: their tenant and all of their names are gone.
    pub(crate) fn sweep_books(&self) {
        self.books.shelf.lock().sweep();
    }

    /// A book for a new tenant.
    pub(crate) fn open_book(&self, limits: [u32; 2]) -> Arc<Book> {
        self.books.open(limits)
    }

    /// Puts an entry on a book. No other thread sees the entry yet, or it is pinned and on no book.
    pub(super) fn enter_book(&self, book: &Book, index: u32, kind: Kind) {
        let _step = no_fault_injection();
        let part = book.parts.here();
        book.entries.force(kind as usize, 1);
        {
            let mut queues = book.parts.of(part).queues.lock();
            let account = AccountWord::new(book, part, kind);
            self.cold(index).account.set(account.0);
            queues[kind as usize].push(self, index);
        }
        if kind == Kind::Negative {
            self.negatives.force(0, 1);
        }
        book.count_names(self.names.bytes(self.at(index).block.get()), 0);
    }

    /// Takes an entry off the book it is on. It is pinned or about to be freed.
    pub(super) fn leave_book(&self, shelf: &mut Shelf, index: u32) {
        if let Some(book) = shelf.of(self, self.account(index)) {
            self.strike(book, index);
        }
    }

    /// Moves an entry to a book, as a name that exists. It is pinned.
    pub(super) fn move_to_book(&self, book: &Book, index: u32) {
        let _step = no_fault_injection();
        if self.account(index).book() == book.number {
            // Does not look at the shelf, which all tenants share.
            self.strike(book, index);
        } else {
            self.leave_book(&mut Shelf::default(), index);
        }
        self.enter_book(book, index, Kind::Positive);
    }

    /// Takes an entry off this book, which it is on.
    fn strike(&self, book: &Book, index: u32) {
        let _step = no_fault_injection();
        let account = self.account(index);
        let kind = account.kind();
        {
            let mut queues = book.parts.of(account.part()).queues.lock();
            queues[kind as usize].remove(self, index);
            self.cold(index).account.set(0);
        }
        book.entries.give(kind as usize, 1);
        if kind == Kind::Negative {
            self.negatives.give(0, 1);
        }
        book.count_names(0, self.names.bytes(self.at(index).block.get()));
    }

    fn account(&self, index: u32) -> AccountWord {
        AccountWord(self.cold(index).account.get())
    }

    /// Whether two entries are on one book, as the same kind.
    pub(super) fn same_account(&self, one: u32, other: u32) -> bool {
        let [one, other] = [one, other].map(|index| self.account(index));
        (one.book(), one.kind()) == (other.book(), other.kind())
    }

    /// Moves the bytes of a name from what an entry had to what it gets.
    pub(super) fn rebook_name(&self, index: u32, had: u32, gets: u32) {
        if had | gets == 0 {
            return;
        }
        if let Some(book) = Shelf::default().of(self, self.account(index)) {
            book.count_names(self.names.bytes(gets), self.names.bytes(had));
        }
    }
}

/// The book that was asked for last: entries that go together are mostly on one.
#[derive(Default)]
pub(super) struct Shelf(Option<Arc<Book>>);

impl Shelf {
    /// The book of an account; none for entries that are on no book.
    fn of(&mut self, dcache: &Dcache, account: AccountWord) -> Option<&Book> {
        let number = account.book();
        if self.0.as_ref().is_none_or(|book| book.number != number) {
            self.0 = dcache.books.get(number);
        }
        self.0.as_deref()
    }
}
