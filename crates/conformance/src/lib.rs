// SPDX-License-Identifier: MIT OR Apache-2.0
//! A conformance suite of openat2(2) with `RESOLVE_CACHED`: what a try may answer that must not
//! wait.
//!
//! The flag turns an open into a question to the cache: a descriptor or an error if everything on
//! the way is known, `EAGAIN` if the answer would have to be waited for. Which of the two it is has
//! many corners: links whose access time is due, names known not to exist, files where a directory
//! should be, flags that can never be answered from a cache. The cases here say what Linux answers.
//!
//! Whoever answers openat2(2) can be asked: a kernel, a user-space kernel, a library, a FUSE or
//! network file system below a kernel. It implements [`Host`], and [`run`] gives a [`Report`]:
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
//! # What is right
//! `EAGAIN` is never wrong by the man page alone, so a host could pass with nothing else. The cases
//! ask for what Linux 6.18 answers on ext4. Two things differ between file systems, and a host
//! says them of itself ([`Knowledge`]): whether it keeps names that were not found, and whether it
//! knows of whole directories what is not in them.

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
