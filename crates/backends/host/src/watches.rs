// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the inotify(7) watches of one tree: which directories are watched, and the queue of
//! events.
//!
//! # States
//! A directory is watched from the first lookup in it on. When there are too many watches, by our
//! limit or the host's, the oldest watch is removed and the names of its directory are forgotten.
//!
//! # Rules
//! R1. `HostWatches` is held for bookkeeping alone. `HostEvents` is held while events are
//!     processed, over calls of the host and of the core.

use crate::sys::errno;
use openpath_abi::Errno;
use openpath_sync::{Mutex, Word};
use openpath_vfs::Inode;
use openpath_vfs::lock_order::{HostEvents, HostWatches};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};

/// Bytes of events that are read at once.
pub(crate) const EVENTS_SIZE: usize = 16 << 10;
/// The events that are asked for.
const EVENT_MASK: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ONLYDIR);

/// A directory that can be watched.
pub(crate) trait Watched: Send + Sync {
    /// Its inode, while that lives.
    fn inode(&self) -> Option<Arc<Inode>>;
    /// Notes whether it is watched.
    fn set_watched(&self, watched: bool);
}

/// Which directories are watched, and which have lost their watch.
#[derive(Default)]
struct State {
    by_number: HashMap<i32, Weak<dyn Watched>>,
    /// In the order of their creation; some may be gone.
    order: VecDeque<i32>,
    /// Directories that lost their watch: their names are to be forgotten.
    unwatched: Vec<Weak<dyn Watched>>,
}

/// The watches of one tree.
pub(crate) struct Watches {
    max: usize,
    events: OwnedFd,
    wake: OwnedFd,
    stop: Word,
    /// All names are to be forgotten.
    forget: Word,
    state: Mutex<State, HostWatches>,
    /// Held while events are processed.
    pub(crate) processing: Mutex<(), HostEvents>,
}

/// One event of the queue.
pub(crate) struct Event {
    number: i32,
    pub(crate) flags: ReadFlags,
    pub(crate) name: Option<Vec<u8>>,
}

impl Watches {
    /// So many watches; `stays_open` keeps their queue until the process ends.
    ///
    /// # Errors
    /// `EMFILE`: the user has too many inotify instances, or the process too many descriptors.
    pub(crate) fn new(max: usize, stays_open: bool) -> Result<Arc<Self>, Errno> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let events = inotify::init(flags).map_err(errno)?;
        if stays_open {
            std::mem::forget(events.try_clone().map_err(|_| Errno::EMFILE)?);
        }
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(errno)?;
        Ok(Arc::new(Self {
            max: max.max(1),
            events,
            wake,
            stop: Word::new(0),
            forget: Word::new(0),
            state: Mutex::new(State::default()),
            processing: Mutex::new(()),
        }))
    }

    /// Ends the thread that processes events.
    pub(crate) fn end(&self) {
        self.stop.set(1);
        self.wake_up();
    }

    /// Has all names forgotten by the thread, soon.
    pub(crate) fn forget_all_later(&self) {
        self.forget.set(1);
        self.wake_up();
    }

    /// Has the names of one directory forgotten by the thread, soon.
    pub(crate) fn forget_names_later(&self, dir: Weak<dyn Watched>) {
        self.state.lock().unwatched.push(dir);
        self.wake_up();
    }

    fn wake_up(&self) {
        // A full eventfd means that the thread is awake already.
        let _woken = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Waits for an event or a wake-up; whether the thread is to go on.
    pub(crate) fn wait(&self) -> bool {
        let mut both = [
            PollFd::new(&self.events, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        let _awake = poll(&mut both, None);
        if self.stop.get() != 0 {
            return false;
        }
        let _counted = rustix::io::read(&self.wake, &mut [0u8; 8]);
        true
    }

    /// Waits until all earlier events were processed.
    pub(crate) fn catch_up(&self) {
        loop {
            {
                let _idle = self.processing.lock();
                let none_left = rustix::io::ioctl_fionread(&self.events).is_ok_and(|n| n == 0);
                if none_left && self.state.lock().unwatched.is_empty() {
                    return;
                }
            }
            self.wake_up();
            std::thread::yield_now();
        }
    }

    /// Whether all names are to be forgotten; asked once for each request.
    pub(crate) fn take_forget_all(&self) -> bool {
        self.forget.swap_if(1, 0)
    }

    /// The directories that lost their watch: their names are to be forgotten.
    pub(crate) fn take_unwatched(&self) -> Vec<Weak<dyn Watched>> {
        std::mem::take(&mut self.state.lock().unwatched)
    }

    /// Some queued events; none: the queue is empty.
    pub(crate) fn read(&self, buffer: &mut [MaybeUninit<u8>]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut reader = Reader::new(&self.events, buffer);
        while let Ok(event) = reader.next() {
            events.push(Event {
                number: event.wd(),
                flags: event.events(),
                name: event.file_name().map(|name| name.to_bytes().to_vec()),
            });
            if reader.is_buffer_empty() {
                break;
            }
        }
        events
    }

    /// The directory that an event is about; `IN_IGNORED` ends its watch.
    pub(crate) fn watched(&self, event: &Event) -> Option<Arc<dyn Watched>> {
        let dir = {
            let mut state = self.state.lock();
            if event.flags.contains(ReadFlags::IGNORED) {
                state.by_number.remove(&event.number)
            } else {
                state.by_number.get(&event.number).cloned()
            }
        };
        dir?.upgrade()
    }

    /// Watches the directory at `path`, in place of another one if there are too many.
    ///
    /// # Errors
    /// Those of `inotify_add_watch(2)`.
    pub(crate) fn add(&self, path: &str, dir: &Arc<impl Watched + 'static>) -> Result<(), Errno> {
        let mut added = inotify::add_watch(&self.events, path, EVENT_MASK);
        while matches!(added, Err(rustix::io::Errno::NOSPC)) && self.remove_oldest() {
            added = inotify::add_watch(&self.events, path, EVENT_MASK);
        }
        let number = added.map_err(errno)?;
        dir.set_watched(true);
        let weak = Arc::downgrade(dir);
        let is_over = {
            let mut state = self.state.lock();
            state.by_number.insert(number, weak);
            state.order.push_back(number);
            state.by_number.len() > self.max
        };
        if is_over {
            self.remove_oldest();
        }
        Ok(())
    }

    /// Removes the oldest watch; whether there was one.
    fn remove_oldest(&self) -> bool {
        let (number, dir) = {
            let mut state = self.state.lock();
            loop {
                let Some(number) = state.order.pop_front() else {
                    return false;
                };
                if let Some(dir) = state.by_number.remove(&number) {
                    break (number, dir);
                }
            }
        };
        let _gone_already = inotify::remove_watch(&self.events, number);
        if let Some(watched) = dir.upgrade() {
            watched.set_watched(false);
            self.forget_names_later(dir);
        }
        true
    }
}
