// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read-copy-update: readers that write nothing shared, and memory that outlives their sections.
//!
//! # Kernel analogue
//! `rcu_read_lock`, `synchronize_rcu`, `call_rcu`, `rcu_assign_pointer`/`rcu_dereference` and the
//! stall detector. Ours runs in foreign threads, so a reader is a value ([`Reader`]), not a
//! processor, and the grace period costs a `membarrier` in place of a scheduler's help.
//!
//! # States
//! A reader: outside (0) -> in a section (the epoch at its entry) -> outside; the owner moves it.
//! Retired memory: collected in a bag -> sealed (has its ticket, fenced) -> ready (no reader older
//! than the ticket) -> dropped. Whoever fills a bag seals it, and drops what is ready.
//!
//! # Fields
//! | field | written under | read under | freed |
//! |---|---|---|---|
//! | epoch | one atomic step | any | never |
//! | slot: active, counts | its reader alone | any | never; reused |
//! | slot: name, sighting | the slot's lock | the same | with its next reader |
//! | list of slots | the registry's lock | any | never |
//! | open bag | its shard's lock | the same | when sealed |
//! | sealed bags | the limbo's lock | the same | when ready |
//!
//! # Locks
//! Three leaf locks, never held together, nor while a value is dropped: registry, shard, limbo (the
//! last one while slots are looked at). A slot's own lock may be taken under the registry's.
//!
//! # Rules
//! R1. Enter: load the epoch (acquire), store it in the slot (release), light fence. Leave: store 0
//!     (release). Grace: unlink, advance the epoch to `t`, heavy fence, then look at the slots.
//!     PAIR(rcu.enter): if the reader's fence is first, the look sees its slot and waits for it; if
//!     the heavy fence is first, the reader sees what was unlinked and cannot reach it.
//! R2. PAIR(rcu.leave): a look that finds a slot outside, or in a section entered at `t` or later,
//!     acquires what the slot's owner released: all it did in earlier sections comes before.
//! R3. A bag enters the limbo after its heavy fence, and slots are looked at under the limbo's
//!     lock: a look older than a bag's fence never frees the bag.
//! R4. A section never waits, never calls foreign code and never calls [`synchronize`]; checked for
//!     the last in debug builds.
//!
//! # Guarantees
//! G1. What [`RcuCell::read`] returned stays valid and unchanged while its guard is borrowed.
//! G2. What was retired is dropped once, after every section that could have seen it.
//! G3. Entering and leaving neither lock, allocate, loop nor write a line that another thread
//!     writes. They cost less than a nanosecond where `membarrier` is there.
//! G4. [`retire`] returns: past the limits it waits a bounded time, then keeps what it got, counts
//!     an overrun and says so ([`Pressure::Over`], [`admit`]). It never frees early.
//! G5. A reader that sits in one section is named by [`stalled`].
//! G6. A thread that exits or panics leaves its section by dropping its guard.
//!
//! # Limits
//! One domain for a process, as `membarrier` is. A grace period looks at every slot there ever was
//! at one time: 256 bytes and about a nanosecond each when cached. A guard that is forgotten
//! (`mem::forget`) is a section that ends with its reader. After fork(2) sections of threads that
//! are not in the child never end there: exec, or enter nothing in the child.

mod cell;
mod limbo;
mod reader;
mod stall;

pub use cell::RcuCell;
pub use limbo::{
    Backlog, Limits, Pressure, admit, backlog, configure, defer, drain, flush, retire, retire_sized,
};
pub use reader::{Guard, READER_COUNTS, Reader, synchronize, synchronize_within};
pub use stall::{Stalled, stalled};

#[cfg(all(test, not(loom)))]
mod tests;
