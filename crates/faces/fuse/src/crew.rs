// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that serve by rings.
//!
//! # States
//! Made, each with a ring -> the kernel is told -> each has the clerk, and registers -> serving,
//! until the mount is gone. What is not begun ends when the crew is dropped.
//!
//! # Rules
//! R1. The kernel is told of rings only when all are made: from then on who asks waits until all
//!     queues are registered, or one registration fails, with which the kernel gives rings up.
//! R2. What comes by rings is answered by them; what the kernel wants no answer to is read.

use crate::answer::Clerk;
use crate::one::one;
use crate::rings::{Post, Rings};
use crate::vigil::Vigil;
use crate::wire::entry::{BRIEF, Entry, SLACK};
use crate::wire::init::PAGES;
use crate::wire::{Answer, Device, ONCE_MAX, Reply};
use crate::worker::Worker;
use openpath_abi::Errno;
use openpath_uring::fuse::{Came, FuseRing};
use rustix::param::page_size;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

type Ended = io::Result<()>;
/// What each begins with.
type Start = (Arc<Clerk>, Option<Arc<Vigil>>);
/// What a thread says: of its ring, and of its registration.
type Says = SyncSender<Result<(), Errno>>;

/// Threads with rings that wait for their beginning.
pub(crate) struct Crew {
    threads: Vec<JoinHandle<Ended>>,
    /// Each takes a clerk to begin with.
    gates: Vec<SyncSender<Start>>,
    /// What each says.
    heard: Vec<Receiver<Result<(), Errno>>>,
}

impl Crew {
    /// Makes them; all of them, or none.
    ///
    /// # Errors
    /// Those of [`FuseRing::new`]; `EAGAIN`: no thread.
    pub(crate) fn build(
        device: &Arc<Device>,
        posts: impl Iterator<Item = (Post, Worker)>,
    ) -> Result<Self, Errno> {
        let posts: Vec<_> = posts.collect();
        let mut crew = Self {
            threads: Vec::with_capacity(posts.len()),
            gates: Vec::with_capacity(posts.len()),
            heard: Vec::with_capacity(posts.len()),
        };
        for (post, worker) in posts {
            let (gate, opens) = sync_channel(1);
            let (says, heard) = sync_channel(2);
            let device = Arc::clone(device);
            let body = move || work(device, &post, worker, &says, &opens);
            let named = Builder::new().name("openpath-fuse".to_owned());
            crew.threads
                .push(named.spawn(body).map_err(|_| Errno::EAGAIN)?);
            crew.gates.push(gate);
            crew.heard.push(heard);
        }
        crew.hear()?;
        Ok(crew)
    }

    /// Has them register and serve; the threads, and what came of it.
    pub(crate) fn begin(self, clerk: &Arc<Clerk>) -> (Vec<JoinHandle<Ended>>, Rings) {
        let vigil = Vigil::begin().map(Arc::new);
        for gate in &self.gates {
            // There is room for it, and who waits is there.
            let _opened = gate.send((Arc::clone(clerk), vigil.clone()));
        }
        let rings = self.hear().map_or_else(Rings::Refused, |()| Rings::Used);
        (self.threads, rings)
    }

    /// What all of them say; of several errors the first.
    fn hear(&self) -> Result<(), Errno> {
        let said = self.heard.iter();
        let said = said.map(|heard| heard.recv().unwrap_or(Err(Errno::EIO)));
        said.fold(Ok(()), Result::and)
    }
}

/// What one of them does.
fn work(
    device: Arc<Device>,
    post: &Post,
    worker: Worker,
    says: &Says,
    opens: &Receiver<Start>,
) -> Ended {
    if let Some(processor) = post.processor.filter(|n| *n < CpuSet::MAX_CPU) {
        let mut set = CpuSet::new();
        set.set(processor);
        // One that it may not be on is served from where it is.
        let _stays = sched_setaffinity(None, &set);
    }
    let room = ONCE_MAX.max(usize::from(PAGES) * page_size());
    let ring = FuseRing::new(device, post.queues.clone(), SLACK + room, SLACK);
    // There is room for what each says.
    let mut ring = match ring {
        Ok(ring) => ring,
        Err(errno) => {
            let _said = says.send(Err(errno));
            return Ok(());
        }
    };
    let _said = says.send(Ok(()));
    let Ok((clerk, vigil)) = opens.recv() else {
        return Ok(());
    };
    let registered = ring.register();
    let _said = says.send(registered);
    if registered.is_err() {
        return Ok(());
    }
    serve(&clerk, vigil.as_deref(), ring, worker)
}

fn serve(
    clerk: &Clerk,
    vigil: Option<&Vigil>,
    mut ring: FuseRing<Arc<Device>>,
    mut worker: Worker,
) -> Ended {
    worker.seat.take();
    let mut brief = vec![0; BRIEF];
    let failed = |errno: Errno| io::Error::from_raw_os_error(errno.raw());
    loop {
        let at = match ring.wait().map_err(failed)? {
            Came::Request(at) => at,
            Came::End => return Ok(()),
        };
        clerk.ringed();
        if let Some(vigil) = vigil {
            vigil.request();
        }
        if let Some((head, room)) = ring.entry(at) {
            let mut entry = Entry::of(head, room, &mut brief);
            let (message, body) = entry.parts();
            let reply = one(clerk, &mut worker, message, body);
            let reply = reply.unwrap_or_else(|| nothing(message));
            entry.answer(&reply);
        }
        ring.commit(at).map_err(failed)?;
    }
}

/// The answer to what wants none, but came by a ring.
fn nothing(message: &[u8]) -> Reply {
    let unique = message.get(8..16).and_then(|bytes| bytes.try_into().ok());
    let unique = unique.map_or(0, u64::from_ne_bytes);
    Answer::new(&mut [], unique).done()
}
