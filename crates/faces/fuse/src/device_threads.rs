// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the threads that read requests from `/dev/fuse` and reply to them, until the mount is gone.
//!
//! Where requests come by rings ([`crate::rings`]), these threads get what the kernel wants no
//! reply to: forgets and interrupts.

use crate::adaptive_spin::AdaptiveSpin;
use crate::affinity::CpuAffinity;
use crate::dispatch::Dispatcher;
use crate::keep_awake::KeepAwake;
use crate::message::answer_message;
use crate::poll_group::{PollGroup, PollSlot};
use crate::wire::device::{REQUEST_MAX, Received};
use crate::wire::{Device, Header, ReplyBuffer};
use crate::worker::Worker;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// After so many requests without a pause a thread checks whether there are still more.
const BUSY_CHECK: u32 = 16;

/// How the threads wait for requests.
pub(crate) struct Waiting {
    /// They spin before they sleep, and follow their caller's CPU: for requests that a caller waits
    /// for.
    pub(crate) eager: bool,
    /// They may keep a CPU awake meanwhile.
    pub(crate) keep_awake: bool,
}

/// What all of the threads share.
struct Threads {
    dispatcher: Arc<Dispatcher>,
    device: Arc<Device>,
    group: PollGroup,
    keep_awake: Option<KeepAwake>,
    waiting: Waiting,
}

/// Starts a thread for each worker. If one cannot be started, none serves.
///
/// # Errors
/// `EAGAIN`: no thread.
pub(crate) fn start(
    dispatcher: &Arc<Dispatcher>,
    device: &Arc<Device>,
    workers: Vec<Worker>,
    waiting: Waiting,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let keeps_awake = waiting.eager && waiting.keep_awake;
    let threads = Arc::new(Threads {
        dispatcher: Arc::clone(dispatcher),
        device: Arc::clone(device),
        group: PollGroup::new(workers.len()),
        keep_awake: keeps_awake.then(KeepAwake::start_if_useful).flatten(),
        waiting,
    });
    let mut gates = Vec::with_capacity(workers.len());
    let spawn = |(number, worker)| {
        let threads = Arc::clone(&threads);
        let (gate, opened) = sync_channel::<()>(1);
        gates.push(gate);
        let body = move || match opened.recv() {
            Ok(()) => threads.run(&threads.group.join(number), worker),
            Err(_) => Ok(()),
        };
        let named = std::thread::Builder::new().name("openpath-fuse".to_owned());
        named.spawn(body)
    };
    let running = workers.into_iter().enumerate().map(spawn);
    let running: Vec<_> = running.collect::<io::Result<_>>()?;
    for gate in gates {
        // The channel has room, and its thread is there.
        let _opened = gate.send(());
    }
    Ok(running)
}

impl Threads {
    /// One of the threads.
    fn run(&self, slot: &PollSlot<'_>, mut worker: Worker) -> io::Result<()> {
        worker.in_flight.bind_thread();
        let mut request = vec![0; REQUEST_MAX];
        let mut buffer = ReplyBuffer::new();
        let mut spin = AdaptiveSpin::default();
        let mut in_a_row = 0u32;
        let mut affinity = CpuAffinity::default();
        let mut found = None;
        loop {
            let received = match found.take() {
                Some(received) => received,
                None => {
                    slot.wait_until_polling(|| self.device.has_request());
                    self.device.read(&mut request)?
                }
            };
            match received {
                Received::Request(len) => {
                    slot.begin_request();
                    self.place(&mut affinity, &request[..len]);
                    in_a_row = in_a_row.wrapping_add(1);
                    if in_a_row.is_multiple_of(BUSY_CHECK) && self.device.has_request() {
                        slot.add_poller();
                    }
                    let message = &request[..len];
                    let room = buffer.body();
                    let reply = answer_message(&self.dispatcher, &mut worker, message, room);
                    if let Some(reply) = reply {
                        // A caller that no longer waits went with the mount.
                        let _sent = self.device.send(buffer.message(&reply));
                    }
                    slot.end_request();
                }
                Received::Empty => {
                    in_a_row = 0;
                    if !slot.try_leave() {
                        let sleep = || self.device.wait(slot.sleep_limit());
                        if self.waiting.eager {
                            let take = || match self.device.read(&mut request)? {
                                Received::Empty => Ok(None),
                                received => Ok(Some(received)),
                            };
                            found = spin.wait(take, sleep)?;
                        } else {
                            sleep()?;
                        }
                    }
                }
                Received::Unmounted => return Ok(()),
            }
        }
    }

    /// Sees to the CPUs on which the caller and this thread run.
    fn place(&self, affinity: &mut CpuAffinity, message: &[u8]) {
        if let Some(keep_awake) = &self.keep_awake {
            keep_awake.request();
            let header = Header::of(message);
            affinity.request(header.map_or(0, |(header, _)| header.pid), keep_awake);
        }
    }
}
