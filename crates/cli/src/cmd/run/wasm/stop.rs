// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for the signals that end a WebAssembly guest: those that people send, and that end a
//! program which does not handle them. A second one kills this process.

use super::GuestEvent;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::sync::mpsc::Sender;

/// Reports the first of these signals; the next one kills this process at once. A signal that was
/// ignored at the start stays ignored.
pub(super) fn listen(tell: Sender<GuestEvent>) -> io::Result<()> {
    let ignored = ignored();
    let wanted = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
    let wanted = wanted.into_iter().filter(|n| ignored >> (n - 1) & 1 == 0);
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new().spawn(move || {
        let mut all = signals.forever();
        if let Some(first) = all.next() {
            tell.send(GuestEvent::Signal(first)).ok();
        }
        for signal in all {
            emulate_default_handler(signal).ok();
        }
    })?;
    Ok(())
}

/// The ignored signals, one bit each; none if `/proc` does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
