// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the caller's own choosing, made by a worker one after the other.

use super::plan::Plan;
use super::{AsyncTask, Call, Local};
use crate::attempt::Tried;
use crate::op::{Op, Outcome, Own};
use openpath_abi::Errno;
use openpath_vfs::{Fd, Reason, Task};
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;

struct Work<T> {
    own: Cell<Own>,
    out: PhantomData<fn() -> T>,
}

impl<T: Send + 'static> Work<T> {
    fn new(
        files: [Option<Fd>; 2],
        work: impl FnOnce(&Task, [Fd; 2]) -> Result<T, Errno> + Send + 'static,
    ) -> Self {
        let work = move |task: &Task, fds: [Fd; 2]| {
            let came: Box<dyn Any + Send> = Box::new(work(task, fds)?);
            Ok(came)
        };
        Self {
            own: Cell::new(Own {
                files,
                work: Some(Box::new(work)),
            }),
            out: PhantomData,
        }
    }
}

impl<T: 'static> Plan for Work<T> {
    type Out = T;
    const CODE: u8 = 255;

    fn attempt(&mut self, _task: &Task) -> Tried<T> {
        Tried::Later(Some(Reason::Change))
    }

    fn op(&self) -> Op {
        Op::Own(self.own.take())
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<T, Errno> {
        let came = outcome.map_err(|failed| failed.errno)?.own;
        let came = came.and_then(|came| came.downcast().ok());
        came.map(|came| *came).ok_or(Errno::EIO)
    }
}

impl AsyncTask {
    /// Has a worker make calls as this task; `work` is given who makes them, and where the open
    /// files `files` are in that one's table meanwhile, or -1. Nothing is tried in place.
    ///
    /// What `work` opens it takes out of the table ([`Task::take_file`]), for its caller to install
    /// or to drop; what it leaves there is closed. Dropped before, the future drops what `work`
    /// gave.
    ///
    /// ```
    /// # use openpath_abi::fcntl::{O_DIRECTORY, O_RDONLY};
    /// # use openpath_mem::{MemFs, MemOptions};
    /// # use openpath_ring::{AsyncTask, Pool, PoolOptions, RingOptions};
    /// # use openpath_vfs::{Cred, Vfs};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), openpath_abi::Errno> {
    /// # let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
    /// # let pool = Pool::new(PoolOptions::default());
    /// # let mut task = AsyncTask::new(vfs.task(Cred::root())?, &pool, RingOptions::default())?;
    /// let dir = task.open(b"/", O_RDONLY | O_DIRECTORY, 0).await?;
    /// let made = task.work([Some(dir), None], |task, [dir, _]| {
    ///     task.beneath().mkdirat(dir, b"d", 0o755)?;
    ///     task.beneath().fstatat(dir, b"d", 0)
    /// });
    /// assert_eq!(made.await?.nlink, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `work`; `EAGAIN`, `ENOMEM`: there is no worker to be had; `EIO`: it panicked.
    pub fn work<'a, T: Send + 'static>(
        &'a mut self,
        files: [Option<Fd>; 2],
        work: impl FnOnce(&Task, [Fd; 2]) -> Result<T, Errno> + Send + 'static,
    ) -> impl Future<Output = Result<T, Errno>> + Send + 'a {
        Call::new(self, Work::new(files, work))
    }
}

impl<'t> Local<'t> {
    /// As [`AsyncTask::work`].
    ///
    /// # Errors
    /// As [`AsyncTask::work`].
    pub fn work<T: Send + 'static>(
        self,
        files: [Option<Fd>; 2],
        work: impl FnOnce(&Task, [Fd; 2]) -> Result<T, Errno> + Send + 'static,
    ) -> impl Future<Output = Result<T, Errno>> + 't {
        Call::new(self.0, Work::new(files, work))
    }
}
