// SPDX-License-Identifier: MIT OR Apache-2.0
//! Uses the `io_uring` of the host's kernel to read, write and sync files, and to receive the
//! requests of a FUSE mount: any thread starts an operation on a file and continues without
//! waiting.
//!
//! | module | what it is |
//! |---|---|
//! | [`KernelRing`] | the ring: its permits, its thread, its shutdown |
//! | `operation` | operations, their permits, and what all threads share |
//! | `ring_thread` | the thread that owns the kernel's ring |
//! | `sys` | entries of the kernel's ring, and the memory they point to: the unsafe part |
//! | [`fuse`] | another ring, which carries requests of a FUSE mount: rules of its own |
//!
//! # Rules
//! R1. What an entry points to, buffers and the file, stays in a slot until the kernel's
//!     completion, whatever happens to the thread that started it. If that completion cannot be
//!     awaited, it is never freed.
//! R2. One thread submits and reaps. So the kernel does its work for an entry in that thread, never
//!     in a thread that started one: it would interrupt that thread's calls, and the thread's exit
//!     would cancel it.
//! R3. Permits bound everything. A caller that gets none makes the call itself.
//! R4. Every operation completes before the ring goes.
//!
//! # Limits
//! If a file's owner drops it while an operation uses it, the ring's thread closes the descriptor.

#![deny(unsafe_code)]
#![deny(missing_debug_implementations)]

mod errno;
pub mod fuse;
mod operation;
mod ring_thread;
#[expect(unsafe_code, reason = "entries of the kernel's ring point to memory")]
mod sys;

use errno::errno;
use openpath_abi::Errno;
use openpath_sync::{MessageList, Word};
use openpath_vfs::{AsyncIo, IoCompletion, IoRequest};
use operation::{Operation, Permit, Shared};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::AsFd;
use std::fmt;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// The most permits of a ring.
const PERMITS_MAX: u32 = 4096;

/// The file of an operation, owned as long as the kernel uses it.
pub trait OperationFile: AsFd + Send + 'static {}

impl<T: AsFd + Send + 'static> OperationFile for T {}

/// A ring of the host's kernel with its thread.
///
/// ```
/// use openpath_uring::KernelRing;
/// use openpath_vfs::IoRequest;
/// use std::sync::{Arc, mpsc};
///
/// let file = Arc::new(std::fs::File::open("/proc/self/exe")?);
/// let Ok(ring) = KernelRing::new(8, "ring") else {
///     return Ok(()); // This kernel has none, or gives none.
/// };
/// let (done, result) = mpsc::channel();
/// let operation = ring.reserve(file).expect("a place");
/// operation.begin(IoRequest::Read(vec![0; 4]), 0, Box::new(move |request, moved| {
///     let _heard = done.send((request, moved));
/// }));
/// let (request, moved) = result.recv().expect("it comes back");
/// assert_eq!(moved, Ok(4));
/// assert!(matches!(request, IoRequest::Read(buf) if buf == b"\x7fELF"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct KernelRing {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for KernelRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelRing")
            .field("permits", &self.shared.permits)
            .field("under_way", &self.under_way())
            .finish_non_exhaustive()
    }
}

impl KernelRing {
    /// A ring with `places` permits, 1 to 4096, and its thread, called `name`.
    ///
    /// # Errors
    /// `ENOSYS`, `EPERM`, `EINVAL`: the kernel has no `io_uring`, refuses it, or lacks a needed
    /// part. `EMFILE`, `ENOMEM`, `EAGAIN` (no thread).
    pub fn new(permits: u32, name: &str) -> Result<Self, Errno> {
        let permits = permits.clamp(1, PERMITS_MAX);
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(errno)?;
        let shared = Arc::new(Shared {
            operations: MessageList::default(),
            wake_fd,
            permits: u64::from(permits),
            in_use: Word::new(0),
            closing: Word::new(0),
            refused: Word::new(0),
        });
        let theirs = Arc::clone(&shared);
        let (say, made) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || ring_thread::run(&theirs, permits, &say));
        let thread = thread.map_err(|_| Errno::EAGAIN)?;
        made.recv().map_err(|_| Errno::EIO)??;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// A permit for one operation on `file`; `None` if all are in use.
    #[must_use]
    pub fn reserve(&self, file: impl OperationFile) -> Option<Box<dyn AsyncIo>> {
        self.shared.acquire().then(|| {
            let permit = Permit(Arc::clone(&self.shared));
            Box::new(Reservation { permit, file }) as Box<dyn AsyncIo>
        })
    }

    /// Operations in flight, and permits not used yet.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        self.shared.in_use.get()
    }
}

impl Drop for KernelRing {
    /// R4. The thread ends when no permit is in use. Drop waits for it if that is so now, unless
    ///     this thread is it.
    fn drop(&mut self) {
        let idle = self.shared.in_use.get() == 0;
        self.shared.closing.set(1);
        self.shared.wake();
        if let Some(thread) = self.thread.take()
            && idle
            && thread.thread().id() != std::thread::current().id()
        {
            let _ended = thread.join();
        }
    }
}

/// A permit with its file.
struct Reservation<F> {
    permit: Permit,
    file: F,
}

impl<F: OperationFile> AsyncIo for Reservation<F> {
    fn begin(self: Box<Self>, request: IoRequest, offset: u64, then: IoCompletion) {
        let Self { permit, file } = *self;
        let shared = Arc::clone(&permit.0);
        shared.post(Operation {
            request,
            offset,
            file: Box::new(file),
            then,
            permit,
        });
    }
}
