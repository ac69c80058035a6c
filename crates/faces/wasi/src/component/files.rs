// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of one guest: its task, and the directories that it is given.
//!
//! # States
//! Made with a task -> directories are given -> in a store, where the guest's calls borrow it.
//!
//! # Rules
//! R1. A call is tried in place; what would wait is a worker's, and the guest's future with it.
//! R2. A directory that is given stays open as long as the files live, however often the guest
//!     drops its handle.

use super::bindings::wasi::filesystem::types::DescriptorFlags;
use super::descriptor::{Access, Open};
use super::side::Side;
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
    /// Where its streams are served, once there was one.
    side: Option<Arc<Side>>,
    pub(super) preopens: Vec<(String, Arc<Open>)>,
    pub(super) in_place: bool,
}

/// Calls under way of one guest: it waits for each of its own.
const ENTRIES: u32 = 4;

impl Files {
    /// For a guest that acts as `task`, whose namespace, credentials and limits are the guest's.
    /// What would wait is done by `pool`.
    ///
    /// # Errors
    /// As [`AsyncTask::new`].
    pub fn new(task: Task, pool: &Pool) -> Result<Self, Errno> {
        let mut options = RingOptions::default();
        options.entries = ENTRIES;
        Ok(Self {
            task: AsyncTask::new(task, pool, options)?,
            pool: pool.clone(),
            side: None,
            preopens: Vec::new(),
            in_place: false,
        })
    }

    /// Gives the guest the directory `path`, under a name of its own.
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

    /// Has every call of the guest made in the thread that runs it, which waits where the call
    /// waits: for trees in memory, whose changes no worker makes sooner, and for hosts with a
    /// thread for each guest. Streams are served as before.
    pub fn set_in_place(&mut self, in_place: bool) {
        self.in_place = in_place;
    }

    /// The task that the guest acts as, between its calls.
    #[must_use]
    pub fn task(&self) -> &Task {
        self.task.task()
    }

    /// Where streams are served.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn side(&mut self) -> Result<Arc<Side>, Errno> {
        let side = match self.side.take() {
            Some(side) => side,
            None => Arc::new(Side::new(self.task.task().clone_files()?, &self.pool)?),
        };
        self.side = Some(Arc::clone(&side));
        Ok(side)
    }
}
