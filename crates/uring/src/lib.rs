// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host kernel's `io_uring` as what moves data of files: reads, writes and syncs at an offset,
//! begun by any thread, which goes on.
//!
//! | module | what it is |
//! |---|---|
//! | [`KernelRing`] | the ring: its places, its thread, its end |
//! | `keeper` | the thread that has the kernel's ring, and nobody else does |
//! | `sys` | entries of the kernel's ring, and what they point to: the unsafe part |
//! | [`fuse`] | another ring, by which requests of a FUSE mount come: rules of its own |
//!
//! # Rules
//! R1. What an entry points to lives in a slot until the kernel's completion came, whatever becomes
//!     of who began it: buffers, and the file. If that cannot be waited for it is never freed.
//! R2. One thread submits and reaps. So the kernel's work for an entry is done in that thread,
//!     never in one of who began it, whose calls it would interrupt, and whose end would cancel it.
//! R3. Everything is bounded by the number of places. Who gets none makes the call itself.
//! R4. Every operation comes back before the ring goes.
//!
//! # Limits
//! A descriptor that its owner gives up while an operation uses it is closed by the ring's thread.

#![deny(unsafe_code)]

pub mod fuse;
mod keeper;
#[expect(unsafe_code, reason = "entries of the kernel's ring point to memory")]
mod sys;

use keeper::Order;
use openpath_abi::Errno;
use openpath_sync::{Inbox, Parcel, Word};
use openpath_vfs::{Cargo, Carried, Carrier};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// The most places of a ring.
const PLACES_MAX: u32 = 4096;

/// A file that an operation is about, for as long as the kernel has it.
pub trait Open: AsFd + Send + 'static {}

impl<T: AsFd + Send + 'static> Open for T {}

/// What the ring's thread and all others share.
struct Shared {
    orders: Inbox<Order>,
    /// Written to, it wakes the ring's thread.
    bell: OwnedFd,
    places: u64,
    /// Places that are taken.
    taken: Word,
    /// No more orders will come.
    over: Word,
    /// The kernel takes no more: nobody is given a place.
    refused: Word,
}

impl Shared {
    /// Wakes the ring's thread.
    fn wake(&self) {
        // It fails only where the count is at its end, and then the thread is awake.
        let _rung = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn put(&self, order: Order) {
        if self.orders.post(Parcel::new(order)) {
            self.wake();
        }
    }

    /// Takes a place, if there is one (R3).
    fn take(&self) -> bool {
        if self.refused.get() != 0 {
            return false;
        }
        let had = self.taken.add(1);
        if had >= self.places {
            self.taken.sub(1);
        }
        had < self.places
    }
}

/// A ring of the host's kernel with its thread.
///
/// ```
/// use openpath_uring::KernelRing;
/// use openpath_vfs::Cargo;
/// use std::sync::{Arc, mpsc};
///
/// let file = Arc::new(std::fs::File::open("/proc/self/exe")?);
/// let Ok(ring) = KernelRing::new(8, "ring") else {
///     return Ok(()); // This kernel has none, or gives none.
/// };
/// let (done, result) = mpsc::channel();
/// let carrier = ring.carrier(file).expect("a place");
/// carrier.begin(Cargo::Read(vec![0; 4]), 0, Box::new(move |cargo, moved| {
///     let _heard = done.send((cargo, moved));
/// }));
/// let (cargo, moved) = result.recv().expect("it comes back");
/// assert_eq!(moved, Ok(4));
/// assert!(matches!(cargo, Cargo::Read(buf) if buf == b"\x7fELF"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct KernelRing {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl KernelRing {
    /// A ring with so many places, 1 to 4096, and its thread, which is called `name`.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM`, `EINVAL`: the kernel has none, gives none, or one that lacks what is
    /// needed. `EMFILE`, `ENOMEM`, `EAGAIN` (no thread).
    pub fn new(places: u32, name: &str) -> Result<Self, Errno> {
        let places = places.clamp(1, PLACES_MAX);
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(errno)?;
        let shared = Arc::new(Shared {
            orders: Inbox::default(),
            bell,
            places: u64::from(places),
            taken: Word::new(0),
            over: Word::new(0),
            refused: Word::new(0),
        });
        let theirs = Arc::clone(&shared);
        let (say, made) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || keeper::keep(&theirs, places, &say));
        let thread = thread.map_err(|_| Errno::EAGAIN)?;
        made.recv().map_err(|_| Errno::EIO)??;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// A place for one operation on `file`; none if all are taken.
    #[must_use]
    pub fn carrier(&self, file: impl Open) -> Option<Box<dyn Carrier>> {
        self.shared.take().then(|| {
            let place = Place(Arc::clone(&self.shared));
            Box::new(Ticket { place, file }) as Box<dyn Carrier>
        })
    }

    /// Operations under way, and places that were given and not used yet.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.shared.taken.get()
    }
}

impl Drop for KernelRing {
    /// R4. The thread ends when nothing is under way; it is waited for if that is now, unless this
    /// is it.
    fn drop(&mut self) {
        let idle = self.shared.taken.get() == 0;
        self.shared.over.set(1);
        self.shared.wake();
        if let Some(thread) = self.thread.take()
            && idle
            && thread.thread().id() != std::thread::current().id()
        {
            let _ended = thread.join();
        }
    }
}

/// A place that is taken until this is dropped.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.sub(1);
        if self.0.over.get() != 0 {
            self.0.wake();
        }
    }
}

/// A place with the file it is for.
struct Ticket<F> {
    place: Place,
    file: F,
}

impl<F: Open> Carrier for Ticket<F> {
    fn begin(self: Box<Self>, cargo: Cargo, offset: u64, then: Carried) {
        let Self { place, file } = *self;
        let shared = Arc::clone(&place.0);
        shared.put(Order {
            cargo,
            offset,
            file: Box::new(file),
            then,
            place,
        });
    }
}

/// The host's error, as ours.
fn errno(error: rustix::io::Errno) -> Errno {
    Errno::checked(error.raw_os_error()).unwrap_or(Errno::EIO)
}
