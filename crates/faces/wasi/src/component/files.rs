// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the files of one component guest: the task that makes its calls, and its preopened
//! directories.
//!
//! # States
//! Created with a task -> directories are preopened -> in a store, where the guest's calls borrow
//! it.
//!
//! # Rules
//! R1. A call is tried in the guest's thread. If it would wait, a worker makes it, and the guest's
//!     future waits.
//! R2. A preopened directory stays open as long as this value lives, however often the guest drops
//!     its handle.

use super::bindings::wasi::filesystem::types::DescriptorFlags;
use super::descriptor::{Access, Open};
use super::stream_ring::StreamRing;
use openpath_abi::fcntl::{O_CLOEXEC, O_DIRECTORY, O_RDONLY};
use openpath_abi::{Errno, mode};
use openpath_ring::{AsyncTask, Pool, RingOptions};
use openpath_vfs::Task;
use std::sync::Arc;

/// The files of one guest. See the module head.
///
/// ```
/// use openpath_mem::{MemFs, MemOptions};
/// use openpath_ring::{Pool, PoolOptions};
/// use openpath_vfs::{Cred, Vfs};
/// use openpath_wasi::component::{Access, Files};
///
/// # fn main() -> Result<(), openpath_abi::Errno> {
/// let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
/// let task = vfs.task(Cred::root())?;
/// task.mkdir(b"/home", 0o755)?;
/// let mut files = Files::new(task, &Pool::new(PoolOptions::default()))?;
/// files.preopen("/", b"/home", Access::ReadWrite)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Files {
    pub(super) task: AsyncTask,
    pool: Pool,
    /// The ring of its streams, once there was a stream.
    stream_ring: Option<Arc<StreamRing>>,
    pub(super) preopens: Vec<(String, Arc<Open>)>,
    pub(super) in_place: bool,
}

/// The ring entries of one guest: it awaits each of its calls.
const ENTRIES: u32 = 4;

impl Files {
    /// Creates the files of a guest that acts as `task`, with its namespace, credentials and
    /// limits. `pool` makes the calls that would wait.
    ///
    /// # Errors
    /// As [`AsyncTask::new`].
    pub fn new(task: Task, pool: &Pool) -> Result<Self, Errno> {
        let mut options = RingOptions::default();
        options.entries = ENTRIES;
        Ok(Self {
            task: AsyncTask::new(task, pool, options)?,
            pool: pool.clone(),
            stream_ring: None,
            preopens: Vec::new(),
            in_place: false,
        })
    }

    /// Preopens the directory `path` for the guest, under the name that the guest sees.
    ///
    /// # Errors
    /// As [`Task::open`] with `O_DIRECTORY`.
    pub fn preopen(
        &mut self,
        guest_name: impl Into<String>,
        path: &[u8],
        access: Access,
    ) -> Result<(), Errno> {
        let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
        let fd = self.task.task().open(path, flags, 0)?;
        let mut flags = DescriptorFlags::READ;
        if access == Access::ReadWrite {
            flags |= DescriptorFlags::MUTATE_DIRECTORY;
        }
        let open = Open {
            fd,
            format: mode::S_IFDIR,
            flags,
            access,
        };
        self.preopens.push((guest_name.into(), Arc::new(open)));
        Ok(())
    }

    /// Makes every call in the thread that runs the guest, which then waits where the call waits.
    /// This suits trees in memory, which a worker would change no sooner, and hosts with one thread
    /// per guest. Streams are not affected.
    pub fn set_in_place(&mut self, in_place: bool) {
        self.in_place = in_place;
    }

    /// The task that makes the guest's calls, for use between them.
    #[must_use]
    pub fn task(&self) -> &Task {
        self.task.task()
    }

    /// The ring of the streams.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn stream_ring(&mut self) -> Result<Arc<StreamRing>, Errno> {
        let stream_ring = match self.stream_ring.take() {
            Some(stream_ring) => stream_ring,
            None => Arc::new(StreamRing::new(
                self.task.task().clone_files()?,
                &self.pool,
            )?),
        };
        self.stream_ring = Some(Arc::clone(&stream_ring));
        Ok(stream_ring)
    }
}
