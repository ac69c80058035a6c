// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each thread of a server does, until the mount is gone: reads a request, and answers it.
//!
//! # Rules
//! R1. What is no request is answered where it says whom (`EINVAL`; `EIO` where its length lies),
//!     counted, and said in the log; the thread goes on.

use crate::answer::{Asked, Clerk};
use crate::linger::Linger;
use crate::shift::{Shift, Turn};
use crate::wire::device::{Came, REQUEST_MAX};
use crate::wire::fields::Malformed;
use crate::wire::{Answer, Device, Header, Request};
use crate::worker::Worker;
use openpath_abi::Errno;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// After so many requests without a pause it looks whether there are still more.
const MANY: u32 = 16;

/// Begins a thread for each worker; all of them, or none answers.
///
/// # Errors
/// `EAGAIN`: no thread.
pub(crate) fn begin(
    clerk: Clerk,
    device: &Arc<Device>,
    workers: Vec<Worker>,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let clerk = Arc::new(clerk);
    let shift = Arc::new(Shift::new(workers.len()));
    let mut gates = Vec::with_capacity(workers.len());
    let begin = |(number, worker)| {
        let (clerk, device) = (Arc::clone(&clerk), Arc::clone(device));
        let shift = Arc::clone(&shift);
        let (gate, opens) = sync_channel::<()>(1);
        gates.push(gate);
        let body = move || match opens.recv() {
            Ok(()) => run(&clerk, &device, &shift.join(number), worker),
            Err(_) => Ok(()),
        };
        let named = std::thread::Builder::new().name("openpath-fuse".to_owned());
        named.spawn(body)
    };
    let begun = workers.into_iter().enumerate().map(begin);
    let begun: Vec<_> = begun.collect::<io::Result<_>>()?;
    for gate in gates {
        // There is room for it, and who waits is there.
        let _opened = gate.send(());
    }
    Ok(begun)
}

fn run(clerk: &Clerk, device: &Device, turn: &Turn<'_>, mut worker: Worker) -> io::Result<()> {
    worker.seat.take();
    let mut room = vec![0; REQUEST_MAX];
    let mut answer = Answer::new();
    let mut linger = Linger::default();
    let mut in_a_row = 0u32;
    loop {
        turn.wait(|| device.has_more());
        match device.read(&mut room)? {
            Came::Request(len) => {
                turn.begin();
                in_a_row = in_a_row.wrapping_add(1);
                if in_a_row.is_multiple_of(MANY) && device.has_more() {
                    turn.more();
                }
                if one(clerk, &mut worker, &room[..len], &mut answer) {
                    // Who does not wait any more was torn down with the mount.
                    let _sent = device.send(answer.message());
                }
                turn.end();
            }
            Came::Nothing => {
                in_a_row = 0;
                if !turn.leaves() {
                    let wait = || device.wait(turn.patience());
                    linger.pause(|| device.has_more(), wait)?;
                }
            }
            Came::End => return Ok(()),
        }
    }
}

/// Answers one message; whether there is an answer.
fn one(clerk: &Clerk, worker: &mut Worker, message: &[u8], answer: &mut Answer) -> bool {
    let (header, body) = match Header::of(message) {
        Ok(parts) => parts,
        Err(why) => {
            strange(clerk, None, why);
            return false;
        }
    };
    answer.begin(header.unique);
    let (errno, why) = match body {
        Ok(body) => match Request::of(&header, body) {
            Ok(request) => {
                let seat = Arc::clone(&worker.seat);
                seat.begin(header.unique, header.pid);
                let mut asked = Asked {
                    w: worker,
                    header,
                    answer,
                };
                let answered = clerk.answer(&mut asked, request);
                seat.end();
                return answered;
            }
            Err(why) => (Errno::EINVAL, why),
        },
        Err(why) => (Errno::EIO, why),
    };
    strange(clerk, Some(&header), why);
    answer.fail(errno);
    header.is_answered()
}

fn strange(clerk: &Clerk, header: Option<&Header>, why: Malformed) {
    clerk.count(crate::stats::Request::Malformed);
    tracing::warn!(target: "openpath::fuse", ?header, %why, "what came is no request");
}

#[cfg(test)]
mod tests;
