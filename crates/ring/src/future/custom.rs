// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `work`: a worker runs a function of the caller, with files of the task, and a future
//! returns its result.

use super::ops::AsyncOp;
use super::{AsyncTask, Call, Local};
use crate::attempt::Attempted;
use crate::op::{Custom, Op, Outcome};
use openpath_abi::Errno;
use openpath_vfs::{Fd, Reason, Task};
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;

struct CustomOp<T> {
    op: Cell<Custom>,
    out: PhantomData<fn() -> T>,
}

impl<T: Send + 'static> CustomOp<T> {
    fn new(
        files: [Option<Fd>; 2],
        work: impl FnOnce(&Task, [Fd; 2]) -> Result<T, Errno> + Send + 'static,
    ) -> Self {
        let work = move |task: &Task, fds: [Fd; 2]| {
            let result: Box<dyn Any + Send> = Box::new(work(task, fds)?);
            Ok(result)
        };
        Self {
            op: Cell::new(Custom {
                files,
                work: Some(Box::new(work)),
            }),
            out: PhantomData,
        }
    }
}

impl<T: 'static> AsyncOp for CustomOp<T> {
    type Out = T;
    const CODE: u8 = 255;

    fn attempt(&mut self, _task: &Task) -> Attempted<T> {
        Attempted::WouldBlock(Some(Reason::Change))
    }

    fn op(&self) -> Op {
        Op::Custom(self.op.take())
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<T, Errno> {
        let result = outcome.map_err(|failed| failed.errno)?.custom;
        let result = result.and_then(|result| result.downcast().ok());
        result.map(|result| *result).ok_or(Errno::EIO)
    }
}

impl AsyncTask {
    /// Has a worker call `work` with a proxy of this task, and with the descriptors of `files` in
    /// the proxy's table, or -1. Nothing is attempted inline.
    ///
    /// A file that `work` opens is for it to take out of the table ([`Task::take_file`]), and for
    /// its caller to install or drop; files that are left there are closed. If the future is
    /// dropped, the result of `work` is dropped.
    ///
    /// ```
    /// # use openpath_abi::{AtFlags, fcntl::{O_DIRECTORY, O_RDONLY}};
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
    ///     task.beneath().fstatat(dir, b"d", AtFlags::empty())
    /// });
    /// assert_eq!(made.await?.nlink, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `work`; `EAGAIN`, `ENOMEM`: no worker; `EIO`: it panicked.
    pub fn work<'a, T: Send + 'static>(
        &'a mut self,
        files: [Option<Fd>; 2],
        work: impl FnOnce(&Task, [Fd; 2]) -> Result<T, Errno> + Send + 'static,
    ) -> impl Future<Output = Result<T, Errno>> + Send + 'a {
        Call::new(self, CustomOp::new(files, work))
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
        Call::new(self.0, CustomOp::new(files, work))
    }
}
