// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leases: an open file is told before somebody else opens its file in a way it would mind, and has
//! some time to let go; delegations, which names and attributes count for too; and layouts, which
//! only backends call back.
//!
//! This is the table of one file, and what its holders are told; no task is known here. Those who
//! mind are asked in `file_locks::leases` and `task::leases`, the calls are in `ops::leases`, and
//! layouts are given in `layout`.
//!
//! # Kernel analogue
//! `fcntl_setlease`, `generic_add_lease`, `__break_lease`, `time_out_leases`; `fcntl_setdeleg`,
//! `try_break_deleg`, `break_deleg_wait`; `break_layout`.
//!
//! # States of a lease
//! Held -> asked for (its holder is told, and has [`Sysctl::lease_break_time`] to obey) -> lowered
//! or given back by its holder, or taken away when the time is up, as soon as anybody looks.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | an inode's [`LEASED`](crate::flag::LEASED) | the table's lock | any time |
//! | leases of a file, who waits for them | the table's lock | the same |
//! | what holders are to be told | the notices' lock, over a table's | the same |
//!
//! # Locks
//! A table -> the notices. None over a call of a backend, and nobody waits with a lock held.
//!
//! # Rules
//! R1. Who opens marks its pin as opened or as written to, and then reads whether there are leases;
//!     who takes a lease sets the flag and then looks for such marks, with a fence that all
//!     processors take part in. So either the taker sees the opener, or the opener the lease.
//! R2. An open with the flag seen goes by the table's lock, and so after who is taking a lease.
//! R3. What is asked for is begun even if who asks does not wait for it.
//! R4. A call that changes names or attributes asks for delegations with its directories and the
//!     file locked; if there are any it lets go of all locks, waits, and begins again.
//! R5. Who takes a delegation holds the names of its directory, or the data and attributes of its
//!     file, and does not wait for them (`EAGAIN`): no change is under way that did not ask.
//!
//! # Guarantees
//! G1. Who opens a file without a lease reads its flags, and nothing else of this.
//! G2. One lease for each open file, and one undelivered notice for each lease: nothing grows
//!     beyond that.
//!
//! # Limits
//! * Taking a lease looks at every open file of the `Vfs`.
//! * What others do to a directory of the host asks for nothing.
//!
//! # Divergence: L87, L88, L90, L91
//!
//! [`Sysctl::lease_break_time`]: crate::Sysctl::lease_break_time

mod layouts;
mod notice;
mod table;

pub(crate) use layouts::{Layouts, Recall};
pub(crate) use notice::Notices;
pub use notice::{LeaseBreak, LeaseBreaks};
pub(crate) use table::{Lease, Leased, Table, Until, Want};

/// What a lease is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum LeaseFlavor {
    /// Opens and truncate(2) ask for it (`F_SETLEASE`).
    Lease,
    /// So do changes of names and attributes (`F_SETDELEG`).
    Delegation,
}
