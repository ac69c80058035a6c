// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each thread does that reads the device, until the mount is gone: reads a request, and
//! answers it. Where requests come by rings (`rings`) it has what does not: what is given back, and
//! interrupts.

use crate::answer::Clerk;
use crate::beside::Beside;
use crate::linger::Linger;
use crate::one::one;
use crate::shift::{Shift, Turn};
use crate::vigil::Vigil;
use crate::wire::device::{Came, REQUEST_MAX};
use crate::wire::{Device, Header, Sheet};
use crate::worker::Worker;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// After so many requests without a pause it looks whether there are still more.
const MANY: u32 = 16;

/// Begins a thread for each worker; all of them, or none answers. They look for what comes next
/// before they wait for it, if `hurries`: if somebody waits for what is read.
///
/// # Errors
/// `EAGAIN`: no thread.
pub(crate) fn begin(
    clerk: &Arc<Clerk>,
    device: &Arc<Device>,
    workers: Vec<Worker>,
    hurries: bool,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let shift = Arc::new(Shift::new(workers.len()));
    let vigil = hurries.then(Vigil::begin).flatten().map(Arc::new);
    let mut gates = Vec::with_capacity(workers.len());
    let begin = |(number, worker)| {
        let (clerk, device) = (Arc::clone(clerk), Arc::clone(device));
        let (shift, vigil) = (Arc::clone(&shift), vigil.clone());
        let (gate, opens) = sync_channel::<()>(1);
        gates.push(gate);
        let body = move || match opens.recv() {
            Ok(()) => run(
                &clerk,
                &device,
                &shift.join(number),
                worker,
                hurries,
                vigil.as_deref(),
            ),
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

fn run(
    clerk: &Clerk,
    device: &Device,
    turn: &Turn<'_>,
    mut worker: Worker,
    hurries: bool,
    vigil: Option<&Vigil>,
) -> io::Result<()> {
    worker.seat.take();
    let mut room = vec![0; REQUEST_MAX];
    let mut sheet = Sheet::new();
    let mut linger = Linger::default();
    let mut in_a_row = 0u32;
    let mut beside = Beside::default();
    loop {
        turn.wait(|| device.has_more());
        match device.read(&mut room)? {
            Came::Request(len) => {
                turn.begin();
                if let Some(vigil) = vigil {
                    let header = Header::of(&room[..len]);
                    beside.request(header.map_or(0, |(header, _)| header.pid), vigil);
                }
                in_a_row = in_a_row.wrapping_add(1);
                if in_a_row.is_multiple_of(MANY) && device.has_more() {
                    turn.more();
                }
                if let Some(reply) = one(clerk, &mut worker, &room[..len], sheet.room()) {
                    // Who does not wait any more was torn down with the mount.
                    let _sent = device.send(sheet.message(&reply));
                }
                turn.end();
            }
            Came::Nothing => {
                in_a_row = 0;
                if !turn.leaves() {
                    let wait = || device.wait(turn.patience());
                    if hurries {
                        linger.pause(|| device.has_more(), wait)?;
                    } else {
                        wait()?;
                    }
                }
            }
            Came::End => return Ok(()),
        }
    }
}
