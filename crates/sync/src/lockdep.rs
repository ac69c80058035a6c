// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks in debug builds that threads take locks in the declared order, and that no thread sleeps
//! in a wait queue with a lock held, or in a read section. Release builds have
//! `lockdep_disabled.rs` instead.
//!
//! # Kernel analogue
//! lockdep, but the ranks of classes give the order, which is not learnt. So an inversion is found
//! at its first occurrence in any thread, not when two threads meet.
//!
//! # Rules
//! R1. A thread takes classes in the order of their ranks, outermost (lowest) first. A second lock
//!     of a class that it holds needs a class that nests, and a call that says so.
//! R2. An attempt (`try_`) may come in any order, since it does not wait; what it acquired counts.

use crate::primitive::local;
use core::cell::{Cell, RefCell};
use core::marker::PhantomData;

/// How a lock is requested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Waits; no lock of its class or of an inner one is held.
    Wait,
    /// Waits; its own class may be held, in an order that the caller ensures.
    Nested,
    /// Does not wait.
    Try,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Class {
    rank: u16,
    name: &'static str,
}

local! {
    static HELD: RefCell<Vec<Class>> = RefCell::new(Vec::new());
    static SECTIONS: Cell<u64> = Cell::new(0);
}

/// A lock held by this thread, until it is dropped.
pub(crate) struct Held {
    class: Class,
    stays_here: PhantomData<*const ()>,
}

/// Checks the order before a lock is waited for.
///
/// # Panics
/// If the order is wrong, with the names of both classes.
#[track_caller]
pub(crate) fn check(rank: u16, name: &'static str, ask: Ask) {
    let worst = HELD.try_with(|held| held.borrow().iter().copied().max_by_key(|c| c.rank));
    let Ok(Some(worst)) = worst else { return };
    let fine = match ask {
        Ask::Wait => worst.rank < rank,
        Ask::Nested => worst.rank <= rank,
        Ask::Try => true,
    };
    assert!(
        fine,
        "lock order: {name} (rank {rank}) wanted with {} ({}) held",
        worst.name, worst.rank
    );
}

/// Records a lock that was just taken.
pub(crate) fn taken(rank: u16, name: &'static str) -> Held {
    let class = Class { rank, name };
    // A thread that is exiting has no list any more; its order is not checked.
    let _exiting = HELD.try_with(|held| held.borrow_mut().push(class));
    Held {
        class,
        stays_here: PhantomData,
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _exiting = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|c| *c == self.class) {
                held.remove(at);
            }
        });
    }
}

/// Records that this thread entered a read section.
pub(crate) fn enter_section() {
    let _exiting = SECTIONS.try_with(|s| s.set(s.get() + 1));
}

/// Records that this thread left a read section.
pub(crate) fn leave_section() {
    let _exiting = SECTIONS.try_with(|s| s.set(s.get() - 1));
}

/// # Panics
/// If this thread is in a read section.
#[track_caller]
pub(crate) fn assert_outside_section(what: &str) {
    let sections = SECTIONS.try_with(Cell::get).unwrap_or(0);
    assert!(
        sections == 0,
        "{what} called in a read section, for which it would wait"
    );
}

/// # Panics
/// If this thread holds a lock, or is in a read section.
#[track_caller]
pub(crate) fn assert_idle(what: &str) {
    let held = HELD.try_with(|held| held.borrow().last().copied());
    if let Ok(Some(held)) = held {
        panic!("{what} with {} held", held.name);
    }
    assert_outside_section(what);
}
