// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `poll_oneoff`, by which a guest of preview1 waits for clocks, files and streams.
//!
//! # Rules
//! R1. Files are always ready, except for a FIFO, which is polled again and again, at most
//!     [`LONGEST`] apart. A stream counts as ready, but a read of it may wait.
//! R2. Subscriptions are read once, before anything is written; the guest's limit bounds their
//!     number.
//! R3. A wait ends by one of its subscriptions, by [`crate::Interrupt`], or at the guest's limit;
//!     the last two are `EINTR`.
//! R4. The limit is measured by the host's own clock, and the subscriptions by the guest's clocks.

use super::clock::{MONOTONIC, REALTIME};
use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome, Trap};
use crate::table::Object;
use crate::types::rights;
use openpath_abi::poll::{POLLERR, POLLHUP, POLLIN, POLLOUT};
use std::time::{Duration, Instant};

/// Bytes of a subscription, and of an event below.
const SUBSCRIPTION: u32 = 48;
const EVENT: u32 = 32;
/// The longest pause between two polls of a descriptor.
const LONGEST: Duration = Duration::from_millis(10);
/// The first pause; each one after it is twice as long.
const SHORTEST: Duration = Duration::from_micros(50);

/// What a subscription waits for (`eventtype`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Clock = 0,
    Read = 1,
    Write = 2,
}

/// A subscription.
#[derive(Clone, Copy)]
struct Subscription {
    userdata: u64,
    kind: Kind,
    /// The clock or the descriptor.
    id: u32,
    timeout: u64,
    /// The timeout is a point in time, not a duration.
    absolute: bool,
}

impl Subscription {
    fn read(memory: &Memory<'_>, at: u32, n: u32) -> Outcome<Self> {
        let record: &[u8; SUBSCRIPTION as usize] = memory.record(nth(at, n, SUBSCRIPTION)?, 8)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&record[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let kind = match record[8] {
            0 => Kind::Clock,
            1 => Kind::Read,
            2 => Kind::Write,
            _ => return Err(Code::Inval.into()),
        };
        let (id, flags) = (word(16) as u32, word(40) as u16);
        if kind == Kind::Clock && (flags > 1 || !matches!(id, REALTIME | MONOTONIC)) {
            return Err(Code::Inval.into());
        }
        Ok(Self {
            userdata: word(0),
            kind,
            id,
            timeout: word(24),
            absolute: flags == 1,
        })
    }
}

/// The address of the `n`th record of this size.
fn nth(at: u32, n: u32, size: u32) -> Result<u32, Trap> {
    n.checked_mul(size)
        .and_then(|by| at.checked_add(by))
        .ok_or(Trap::OutOfBounds)
}

/// The answer to a subscription.
#[derive(Clone, Copy)]
struct Event {
    code: Code,
    bytes: u64,
    hung_up: bool,
}

impl Event {
    const PLAIN: Self = Self {
        code: Code::Success,
        bytes: 0,
        hung_up: false,
    };

    fn put(
        &self,
        memory: &mut Memory<'_>,
        at: u32,
        subscription: &Subscription,
    ) -> Result<(), Trap> {
        let mut record = [0; EVENT as usize];
        record[..8].copy_from_slice(&subscription.userdata.to_le_bytes());
        record[8..10].copy_from_slice(&self.code.raw().to_le_bytes());
        record[10] = subscription.kind as u8;
        record[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        record[24] = u8::from(self.hung_up);
        memory.put(at, &record, 8)
    }
}

pub(super) fn poll_oneoff(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    subscriptions: u32,
    events: u32,
    count: u32,
    result: u32,
) -> Outcome {
    memory.check(result, 4, 4)?;
    if count == 0 || count > guest.limits.subscriptions {
        return Err(Code::Inval.into());
    }
    let room = count.checked_mul(EVENT).ok_or(Trap::OutOfBounds)?;
    memory.check(events, room, 8)?;
    let waits = Subscriptions::read(guest, memory, subscriptions, count)?;
    let began = guest.clocks.monotonic();
    // R4
    let since = Instant::now();
    let mut pause = SHORTEST;
    loop {
        let mut ready = 0;
        for subscription in &waits.all {
            if let Some(event) = poll_one(guest, subscription, began)? {
                event.put(memory, nth(events, ready, EVENT)?, subscription)?;
                ready += 1;
            }
        }
        if ready > 0 {
            memory.put_u32(result, ready)?;
            return Ok(());
        }
        let Some(left) = guest.limits.wait.checked_sub(since.elapsed()) else {
            return Err(Code::Intr.into());
        };
        let mut time = waits.next(guest).unwrap_or(left).min(left);
        if waits.has_descriptors {
            time = time.min(pause);
            pause = (pause * 2).min(LONGEST);
        }
        if guest.pause.wait(&guest.task.interrupter(), time) {
            return Err(Code::Intr.into());
        }
    }
}

/// The subscriptions of one call.
struct Subscriptions {
    /// Read once, because events may be written over them.
    all: Vec<Subscription>,
    /// The first timeout of each clock: monotonic, wall.
    first: [Option<u64>; 2],
    /// Whether descriptors must be polled again and again.
    has_descriptors: bool,
}

impl Subscriptions {
    /// Reads the subscriptions; one that cannot be waited for is an error.
    fn read(guest: &Guest, memory: &Memory<'_>, at: u32, count: u32) -> Outcome<Self> {
        let mut waits = Self {
            all: Vec::new(),
            first: [None; 2],
            has_descriptors: false,
        };
        let began = guest.clocks.monotonic();
        for n in 0..count {
            let subscription = Subscription::read(memory, at, n)?;
            match subscription.kind {
                Kind::Clock => {
                    let on_wall = subscription.absolute && subscription.id == REALTIME;
                    let moment = if subscription.absolute {
                        subscription.timeout
                    } else {
                        began.saturating_add(subscription.timeout)
                    };
                    let first = &mut waits.first[usize::from(on_wall)];
                    *first = Some(first.map_or(moment, |first| first.min(moment)));
                }
                Kind::Read | Kind::Write => {
                    pollable(guest, &subscription)?;
                    waits.has_descriptors = true;
                }
            }
            waits.all.push(subscription);
        }
        Ok(waits)
    }

    /// The time until the first timeout, if there is one.
    fn next(&self, guest: &Guest) -> Option<Duration> {
        let now = [guest.clocks.monotonic(), guest.clocks.realtime()];
        let left = |which: usize| {
            let moment = self.first[which]?;
            Some(Duration::from_nanos(moment.saturating_sub(now[which])))
        };
        [left(0), left(1)].into_iter().flatten().min()
    }
}

/// Checks that a descriptor can be waited for in this way.
fn pollable(guest: &Guest, subscription: &Subscription) -> Result<(), Code> {
    let entry = guest.table.get(subscription.id)?;
    let fits = match entry.object {
        Object::File => true,
        Object::Stdin => subscription.kind == Kind::Read,
        Object::Stdout | Object::Stderr => subscription.kind == Kind::Write,
        Object::Directory => false,
    };
    if !fits {
        return Err(Code::Badf);
    }
    entry.need(rights::POLL_FD_READWRITE)
}

/// The event of a subscription, if it is ready.
fn poll_one(guest: &Guest, subscription: &Subscription, began: u64) -> Result<Option<Event>, Code> {
    if subscription.kind == Kind::Clock {
        let clocks = &guest.clocks;
        let (now, moment) = match (subscription.absolute, subscription.id) {
            (true, REALTIME) => (clocks.realtime(), subscription.timeout),
            (true, _) => (clocks.monotonic(), subscription.timeout),
            (false, _) => (
                clocks.monotonic(),
                began.saturating_add(subscription.timeout),
            ),
        };
        return Ok((now >= moment).then_some(Event::PLAIN));
    }
    let entry = guest.table.get(subscription.id)?;
    if entry.is_stream() {
        return Ok(Some(Event {
            bytes: 1,
            ..Event::PLAIN
        }));
    }
    let wanted = if subscription.kind == Kind::Read {
        POLLIN
    } else {
        POLLOUT
    };
    let ready = guest.task.poll(entry.fd, wanted);
    if ready == 0 {
        return Ok(None);
    }
    let at_end = subscription.kind == Kind::Read && is_at_end(guest, entry.fd);
    Ok(Some(Event {
        code: if ready & POLLERR == 0 {
            Code::Success
        } else {
            Code::Io
        },
        bytes: 1,
        hung_up: ready & POLLHUP != 0 || at_end,
    }))
}

/// Whether a regular file is at its end.
fn is_at_end(guest: &Guest, fd: openpath_vfs::Fd) -> bool {
    use openpath_abi::fcntl::SEEK_CUR;
    use openpath_abi::mode::{S_IFMT, S_IFREG};
    let Ok(stat) = guest.task.fstat(fd) else {
        return false;
    };
    stat.mode & S_IFMT == S_IFREG
        && guest
            .task
            .lseek(fd, 0, SEEK_CUR)
            .is_ok_and(|at| at >= stat.size)
}
