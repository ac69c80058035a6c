// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements leases: a process that holds a lease on a file is notified before a conflicting open
//! of the file, and has limited time to give the lease up.
//!
//! Delegations are leases that changes of names and attributes break too. Layouts are recalled by
//! backends alone.
//!
//! This module has the table of one file and the notices for holders; it knows no task.
//! `file_locks::leases` and `task::leases` ask the conflicting holders, `ops::leases` has the
//! calls, and `layout` gives out layouts.
//!
//! # Kernel analogue
//! `fcntl_setlease`, `generic_add_lease`, `__break_lease`, `time_out_leases`; `fcntl_setdeleg`,
//! `try_break_deleg`, `break_deleg_wait`; `break_layout`.
//!
//! # States of a lease
//! Held -> breaking: its holder is told, and has [`Sysctl::lease_break_time`] to obey -> lowered or
//! given back by its holder. When the time is up, the next look at the table takes it away.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | an inode's [`LEASED`](crate::flag::LEASED) | the table's lock | any time |
//! | leases of a file, and waiters for them | the table's lock | the same |
//! | undelivered notices | the notices' lock, over a table's | the same |
//!
//! # Locks
//! A table -> the notices. None is held over a call of a backend, or during a wait.
//!
//! # Rules
//! R1. An opener marks its pin as opened or as written to, and then reads whether there are leases.
//!     A taker of a lease sets the flag and then looks for such marks, with a fence that all
//!     processors take part in. So either the taker sees the opener, or the opener sees the lease.
//! R2. An open that sees the flag takes the table's lock, and so comes after a lease that is being
//!     taken.
//! R3. A break begins even if the caller does not wait for it.
//! R4. A call that changes names or attributes breaks delegations with its directories and the file
//!     locked. If there are any, it releases all locks, waits, and begins again.
//! R5. A taker of a delegation holds the names of its directory, or the data and attributes of its
//!     file, and does not wait for them (`EAGAIN`). So no change is under way that did not ask.
//!
//! # Guarantees
//! G1. An open of a file without a lease reads the inode's flags, and nothing else of this.
//! G2. An open file has one lease at most, and a lease one undelivered notice: nothing grows beyond
//!     that.
//!
//! # Limits
//! * Taking a lease looks at every open file of the `Vfs`.
//! * A change to a directory of the host by another program breaks nothing.
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
pub(crate) use table::{BreakDeadline, Lease, LeasedFile, PendingAccess, Table};

/// What a lease is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum LeaseFlavor {
    /// Opens and truncate(2) ask for it (`F_SETLEASE`).
    Lease,
    /// So do changes of names and attributes (`F_SETDELEG`).
    Delegation,
}
