// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks openat2(2) with `RESOLVE_CACHED`: the right answers to a try that must not wait.
//!
//! The flag turns an open into a query of the cache: a descriptor or an error if everything on the
//! way is known, `EAGAIN` if the call would have to wait. The choice has many corners: links with
//! an access time that is due, names known not to exist, files in place of a directory, flags that
//! no cache can answer. The cases here give the answers of Linux.
//!
//! Any implementation of openat2(2) can be checked: a kernel, a user-space kernel, a library, a
//! FUSE or network file system below a kernel. It implements [`Host`], and [`run`] returns a
//! [`Report`]:
//!
//! ```no_run
//! use openpath_conformance::{Host, run, suite};
//!
//! fn ask(host: &mut dyn Host) {
//!     let report = run(host, &suite(), "");
//!     assert!(report.is_clean(), "{}", report.text());
//! }
//! ```
//!
//! The running kernel is a host already: [`kernel`], and the program `openpath-conformance`.
//!
//! Cases are texts ([`mod@parse`]) below `cases/`, so that hosts in other languages can use them.
//!
//! # Right answers
//! `EAGAIN` is never wrong by the man page alone, so a host could pass with nothing else. The cases
//! require the answers of Linux 6.18 on ext4. Two things differ between file systems, and a host
//! reports them itself ([`Knowledge`]): whether it keeps names that were not found, and whether it
//! has complete directories.

#![forbid(unsafe_code)]

pub mod case;
mod errno;
pub mod host;
mod how;
#[cfg(feature = "kernel")]
pub mod kernel;
pub mod parse;
mod report;
mod run;
mod suite;

pub use errno::Errno;
pub use host::{At, Host, Knowledge, Need, Node};
pub use how::{How, RESOLVE_CACHED};
pub use report::{Outcome, Report, Verdict};
pub use run::run;
pub use suite::suite;
