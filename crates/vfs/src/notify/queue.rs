// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the event queue of a group: events that were not read yet.
//!
//! # Kernel analogue
//! `fsnotify_insert_event`, `inotify_merge`, `inotify_read`, `copy_event_to_user`.

use crate::lock_order::NotifyQueue;
use openpath_abi::Errno;
use openpath_abi::inotify::{IN_IGNORED, IN_Q_OVERFLOW};
use openpath_sync::{Mutex, WaitQueue, Waiter};
use std::collections::VecDeque;

/// Bytes of `struct inotify_event` before the name; a name is padded to a multiple of them.
const HEADER: usize = 16;

/// One event as it will be read.
struct Event {
    wd: i32,
    mask: u32,
    cookie: u32,
    name: Box<[u8]>,
}

impl Event {
    /// Bytes of the name with its NULs; none for no name.
    fn padded(&self) -> usize {
        match self.name.len() {
            0 => 0,
            len => (len + 1).next_multiple_of(HEADER),
        }
    }

    fn size(&self) -> usize {
        HEADER + self.padded()
    }

    /// Writes it as `struct inotify_event` at the start of `to`, which has room.
    fn write(&self, to: &mut [u8]) {
        // A name is of 255 bytes at most, so its padded length fits.
        let len = self.padded() as u32;
        to[0..4].copy_from_slice(&self.wd.to_ne_bytes());
        to[4..8].copy_from_slice(&self.mask.to_ne_bytes());
        to[8..12].copy_from_slice(&self.cookie.to_ne_bytes());
        to[12..16].copy_from_slice(&len.to_ne_bytes());
        let (name, rest) = to[HEADER..self.size()].split_at_mut(self.name.len());
        name.copy_from_slice(&self.name);
        rest.fill(0);
    }
}

/// What the lock protects.
struct State {
    events: VecDeque<Event>,
    /// Bytes that reading all of them would fill.
    bytes: usize,
    /// The overflow event is among them.
    overflowed: bool,
    /// Readers that wait for an event.
    waiting: WaitQueue,
}

/// Events in the order they came.
pub(super) struct Queue {
    state: Mutex<State, NotifyQueue>,
    limit: usize,
}

impl Queue {
    /// An empty queue for `limit` events.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            state: Mutex::new(State {
                events: VecDeque::new(),
                bytes: 0,
                overflowed: false,
                waiting: WaitQueue::default(),
            }),
            limit: limit as usize,
        }
    }

    /// Adds an event, unless it repeats the last one. Past the limit, one overflow event stands for
    /// the rest.
    pub(super) fn push(&self, wd: i32, mask: u32, cookie: u32, name: &[u8]) {
        let wake = {
            let mut state = self.state.lock();
            let event = if state.events.len() >= self.limit {
                if state.overflowed {
                    return;
                }
                state.overflowed = true;
                Event {
                    wd: -1,
                    mask: IN_Q_OVERFLOW,
                    cookie: 0,
                    name: Box::default(),
                }
            } else if state.events.back().is_some_and(|last| {
                last.mask & IN_IGNORED == 0 && (last.mask, last.wd, &*last.name) == (mask, wd, name)
            }) {
                return;
            } else {
                Event {
                    wd,
                    mask,
                    cookie,
                    name: name.into(),
                }
            };
            state.bytes += event.size();
            state.events.push_back(event);
            // Readers take as much as they can: the rest is for another.
            state.waiting.wake_all()
        };
        drop(wake);
    }

    /// Takes as many whole events as fit; how many bytes they fill. If there is none, `wait` waits
    /// for the first one.
    ///
    /// # Errors
    /// `EINVAL` (no room for the first event), `EAGAIN` (there is none), `EINTR`.
    pub(super) fn read(&self, buf: &mut [u8], wait: Option<&Waiter>) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        loop {
            if !state.events.is_empty() {
                return state.take(buf);
            }
            let sleeper = wait.ok_or(Errno::EAGAIN)?;
            let waited = self
                .state
                .wait(state, |state| &mut state.waiting, sleeper, None);
            state = waited.map_err(|_| Errno::EINTR)?;
        }
    }

    /// Bytes that reading everything would fill (`FIONREAD`).
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        let events = {
            let mut state = self.state.lock();
            state.bytes = 0;
            state.overflowed = false;
            core::mem::take(&mut state.events)
        };
        drop(events);
    }
}

impl State {
    fn take(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while let Some(event) = self.events.front() {
            let size = event.size();
            if size > buf.len() - done {
                if done == 0 {
                    return Err(Errno::EINVAL);
                }
                break;
            }
            event.write(&mut buf[done..]);
            if event.mask == IN_Q_OVERFLOW {
                self.overflowed = false;
            }
            self.events.pop_front();
            self.bytes -= size;
            done += size;
        }
        Ok(done)
    }
}
