// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a thread that exchanges two names until it is told to end, for cases that open these names
//! meanwhile.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{JoinHandle, spawn};

/// The thread.
#[derive(Debug)]
pub(super) struct Swapper {
    stop: Sender<()>,
    thread: JoinHandle<Result<u64, Errno>>,
}

impl Swapper {
    /// Starts it, and waits for the first exchange. It shares the caller's current directory.
    pub(super) fn start(one: &[u8], other: &[u8]) -> Result<Swapper, Errno> {
        let (one, other) = (one.to_vec(), other.to_vec());
        let (stop, stopped) = channel();
        let (begin, begun) = channel();
        let thread = spawn(move || swap(&one, &other, &begin, &stopped));
        if begun.recv().is_err() {
            // It ended without an exchange.
            return Err(thread
                .join()
                .unwrap_or(Err(Errno::IO))
                .err()
                .unwrap_or(Errno::IO));
        }
        Ok(Swapper { stop, thread })
    }

    /// Ends the thread; returns the number of exchanges.
    pub(super) fn stop(self) -> Result<u64, Errno> {
        drop(self.stop);
        self.thread.join().unwrap_or(Err(Errno::IO))
    }
}

fn swap(
    one: &[u8],
    other: &[u8],
    begin: &Sender<()>,
    stopped: &Receiver<()>,
) -> Result<u64, Errno> {
    let mut count = 0;
    while stopped.try_recv() == Err(TryRecvError::Empty) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?;
        if count == 0 && begin.send(()).is_err() {
            break;
        }
        count += 1;
    }
    Ok(count)
}
