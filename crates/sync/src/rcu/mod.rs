// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements read-copy-update (RCU): readers write no shared cache line, and retired memory
//! outlives their sections.
//!
//! ADR 29 compares this module with `crossbeam-epoch` and `seize`.
//!
//! # Kernel analogue
//! `rcu_read_lock`, `synchronize_rcu`, `call_rcu`, `rcu_assign_pointer`/`rcu_dereference` and the
//! stall detector. This code runs in threads of its host, so a reader is a value ([`Reader`]), not
//! a CPU, and a grace period costs a `membarrier` instead of the scheduler's help.
//!
//! # States
//! A reader: outside (0) -> in a section (the epoch at its entry) -> outside; its owner changes the
//! state. Retired memory: in an open bag -> sealed (has its ticket, fenced) -> ready (no reader
//! older than the ticket) -> dropped. The thread that fills a bag seals it, and drops what is
//! ready.
//!
//! # Fields
//! | field | written under | read under | freed |
//! |---|---|---|---|
//! | epoch | one atomic step | no lock | never |
//! | slot: active, counts | its reader alone | no lock | never; reused |
//! | slot: name, observation | the slot's lock | the same | with its next reader |
//! | list of slots | the registry's lock | no lock | never |
//! | open bag | its shard's lock | the same | when sealed |
//! | sealed bags | the limbo's lock | the same | when ready |
//!
//! # Locks
//! Three leaf locks: registry, shard, limbo. None is held together with another, nor while a value
//! is dropped; slots are scanned under the limbo's. A slot's own lock may be taken under the
//! registry's.
//!
//! # Rules
//! R1. Enter: load the epoch (acquire), store it in the slot (release), light fence. Leave: store 0
//!     (release). Grace period: unlink, advance the epoch to `t`, heavy fence, then scan the slots.
//!     PAIR(rcu.enter): if the reader's fence is first, the scan sees its slot and waits for it. If
//!     the heavy fence is first, the reader sees that the memory was unlinked and cannot reach it.
//! R2. PAIR(rcu.leave): a scan that finds a slot outside, or in a section entered at `t` or later,
//!     acquires what the slot's owner released: all that it did in earlier sections happened
//!     before.
//! R3. A bag enters the limbo after its heavy fence, and slots are scanned under the limbo's lock.
//!     So a scan older than a bag's fence never frees the bag.
//! R4. A section never waits, never calls foreign code and never calls [`synchronize`]; debug
//!     builds check the last.
//!
//! # Guarantees
//! G1. A value returned by [`RcuCell::read`] stays valid and unchanged while its guard is borrowed.
//! G2. A retired value is dropped once, after every section that could have seen it.
//! G3. Entering and leaving a section neither lock, allocate, loop nor write a cache line that
//!     another thread writes. With `membarrier` they cost about a nanosecond (example `rcu_peers`).
//! G4. [`retire`] returns. Past the limits it waits for a bounded time, then keeps the value,
//!     counts an overrun and reports it ([`Pressure::Over`], [`admit`]). It never frees early.
//! G5. [`stalled`] names a reader that stays in one section.
//! G6. A thread that exits or panics leaves its section by dropping its guard.
//!
//! # Limits
//! One domain per process, as for `membarrier`. A grace period scans as many slots as ever were in
//! use at one time: 256 bytes and about a nanosecond each when cached. A guard that is forgotten
//! (`mem::forget`) is a section that ends with its reader. After fork(2) the sections of threads
//! that do not exist in the child never end there: call exec, or enter no section in the child.

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
