// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the threads that get requests by the kernel's `io_uring` queues (rings), and reply by them.
//!
//! # States
//! Each thread has made its ring -> the kernel is told that rings are used -> each has the
//! dispatcher, and registers its ring -> serving, until the mount is gone. Threads that were not
//! told to start end when [`RingThreads`] is dropped.
//!
//! # Rules
//! R1. The kernel is told of rings only when all are made. From then on callers wait until all
//!     queues are registered, or one registration fails, with which the kernel gives rings up.
//! R2. A request that came by a ring is answered by it; a request that wants no reply is read from
//!     the device.

use crate::dispatch::Dispatcher;
use crate::keep_awake::KeepAwake;
use crate::message::answer_message;
use crate::rings::{Rings, ThreadPlan};
use crate::wire::entry::{PREFIX_MAX, RingEntry, SHORT_MAX};
use crate::wire::init::PAGES;
use crate::wire::{Device, ONCE_MAX, Reply, ReplyBuilder};
use crate::worker::Worker;
use openpath_abi::Errno;
use openpath_uring::fuse::{FuseRing, RingEvent};
use rustix::param::page_size;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

type Ended = io::Result<()>;
/// What each thread starts with.
type Start = (Arc<Dispatcher>, Option<Arc<KeepAwake>>);
/// A thread reports on its ring, then on its registration.
type StatusSender = SyncSender<Result<(), Errno>>;

/// Threads with rings that wait to be started.
pub(crate) struct RingThreads {
    threads: Vec<JoinHandle<Ended>>,
    /// Starts each thread.
    gates: Vec<SyncSender<Start>>,
    /// What each thread reports.
    statuses: Vec<Receiver<Result<(), Errno>>>,
}

impl RingThreads {
    /// Makes all threads and their rings, or none.
    ///
    /// # Errors
    /// Those of [`FuseRing::new`]; `EAGAIN`: no thread.
    pub(crate) fn build(
        device: &Arc<Device>,
        plans: impl Iterator<Item = (ThreadPlan, Worker)>,
    ) -> Result<Self, Errno> {
        let plans: Vec<_> = plans.collect();
        let mut all = Self {
            threads: Vec::with_capacity(plans.len()),
            gates: Vec::with_capacity(plans.len()),
            statuses: Vec::with_capacity(plans.len()),
        };
        for (plan, worker) in plans {
            let (gate, opened) = sync_channel(1);
            let (status, reported) = sync_channel(2);
            let device = Arc::clone(device);
            let body = move || run(device, &plan, worker, &status, &opened);
            let named = Builder::new().name("openpath-fuse".to_owned());
            all.threads
                .push(named.spawn(body).map_err(|_| Errno::EAGAIN)?);
            all.gates.push(gate);
            all.statuses.push(reported);
        }
        all.next_status()?;
        Ok(all)
    }

    /// Has the threads register their rings and serve; returns them, and whether rings are used.
    pub(crate) fn start(
        self,
        dispatcher: &Arc<Dispatcher>,
        keeps_awake: bool,
    ) -> (Vec<JoinHandle<Ended>>, Rings) {
        let keep_awake = keeps_awake.then(KeepAwake::start_if_useful).flatten();
        let keep_awake = keep_awake.map(Arc::new);
        for gate in &self.gates {
            // The channel has room, and its thread is there.
            let _opened = gate.send((Arc::clone(dispatcher), keep_awake.clone()));
        }
        let rings = self
            .next_status()
            .map_or_else(Rings::Refused, |()| Rings::Used);
        (self.threads, rings)
    }

    /// The next report of all threads; of several errors the first.
    fn next_status(&self) -> Result<(), Errno> {
        let statuses = self.statuses.iter();
        let statuses = statuses.map(|status| status.recv().unwrap_or(Err(Errno::EIO)));
        statuses.fold(Ok(()), Result::and)
    }
}

/// One of the threads.
fn run(
    device: Arc<Device>,
    plan: &ThreadPlan,
    worker: Worker,
    status: &StatusSender,
    opened: &Receiver<Start>,
) -> Ended {
    if let Some(cpu) = plan.cpu.filter(|n| *n < CpuSet::MAX_CPU) {
        let mut set = CpuSet::new();
        set.set(cpu);
        // A CPU that this thread may not use is served from another one.
        let _stays = sched_setaffinity(None, &set);
    }
    let room = ONCE_MAX.max(usize::from(PAGES) * page_size());
    let ring = FuseRing::new(device, plan.queues.clone(), PREFIX_MAX + room, PREFIX_MAX);
    // The channel has room for both reports.
    let mut ring = match ring {
        Ok(ring) => ring,
        Err(errno) => {
            let _reported = status.send(Err(errno));
            return Ok(());
        }
    };
    let _reported = status.send(Ok(()));
    let Ok((dispatcher, keep_awake)) = opened.recv() else {
        return Ok(());
    };
    let registered = ring.register();
    let _reported = status.send(registered);
    if registered.is_err() {
        return Ok(());
    }
    serve(&dispatcher, keep_awake.as_deref(), ring, worker)
}

fn serve(
    dispatcher: &Dispatcher,
    keep_awake: Option<&KeepAwake>,
    mut ring: FuseRing<Arc<Device>>,
    mut worker: Worker,
) -> Ended {
    worker.in_flight.bind_thread();
    let mut short = vec![0; SHORT_MAX];
    let failed = |errno: Errno| io::Error::from_raw_os_error(errno.raw());
    loop {
        let at = match ring.wait().map_err(failed)? {
            RingEvent::Request(at) => at,
            RingEvent::End => return Ok(()),
        };
        dispatcher.count_ring_request();
        if let Some(keep_awake) = keep_awake {
            keep_awake.request();
        }
        if let Some((head, room)) = ring.entry(at) {
            let mut entry = RingEntry::of(head, room, &mut short);
            let (message, body) = entry.parts();
            let reply = answer_message(dispatcher, &mut worker, message, body);
            let reply = reply.unwrap_or_else(|| empty_reply(message));
            entry.store(&reply);
        }
        ring.commit(at).map_err(failed)?;
    }
}

/// The reply to a request that wants none, but came by a ring.
fn empty_reply(message: &[u8]) -> Reply {
    let unique = message.get(8..16).and_then(|bytes| bytes.try_into().ok());
    let unique = unique.map_or(0, u64::from_ne_bytes);
    ReplyBuilder::new(&mut [], unique).done()
}
