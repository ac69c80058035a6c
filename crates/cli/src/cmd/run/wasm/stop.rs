// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals that end a guest: those that end a program which does nothing about them, and that
//! people send.

use super::Told;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::sync::mpsc::Sender;

/// Tells of the first of them; the next is died of at once. What was ignored at the beginning stays
/// so.
pub(super) fn listen(tell: Sender<Told>) -> io::Result<()> {
    let ignored = ignored();
    let wanted = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
    let wanted = wanted.into_iter().filter(|n| ignored >> (n - 1) & 1 == 0);
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new().spawn(move || {
        let mut all = signals.forever();
        if let Some(first) = all.next() {
            tell.send(Told::Signal(first)).ok();
        }
        for signal in all {
            emulate_default_handler(signal).ok();
        }
    })?;
    Ok(())
}

/// The signals that are ignored, a bit each; none where nobody says so.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
