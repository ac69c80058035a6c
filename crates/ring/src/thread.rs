// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a thread: one of the system, or in tests one of shuttle, which chooses the thread that
//! runs.

use std::io;

/// Starts a named thread, which is not joined.
///
/// # Errors
/// The system has none.
#[cfg(not(shuttle))]
pub(crate) fn start(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name);
    thread.spawn(body).map(drop)
}

/// As without shuttle.
///
/// # Errors
/// None.
#[cfg(shuttle)]
pub(crate) fn start(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = shuttle::thread::Builder::new().name(name);
    thread.spawn(body).map(drop)
}
