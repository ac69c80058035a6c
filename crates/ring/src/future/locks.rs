// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the locking calls of fcntl(2) and flock(2) as futures. A future that waits takes no
//! worker and no slot, but a place in the queue of the lock.

use super::{AsyncTask, Local};
use crate::locks::LockRequest;
use openpath_abi::{Errno, Flock};
use openpath_vfs::{Fd, LockWait};
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A lock as a future. When it is dropped it leaves the queue. A lock that was granted and not
/// reported is freed; locks that the owner had before stay.
#[must_use = "a future does nothing unless it is polled"]
struct Locking<R> {
    host: R,
    fd: Fd,
    stage: Stage,
}

enum Stage {
    New(LockRequest),
    Waiting(LockWait),
    Done,
}

impl<R: Deref<Target = AsyncTask> + Unpin> Future for Locking<R> {
    type Output = Result<(), Errno>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let task = &this.host.task;
        if let Stage::New(request) = &this.stage {
            let begun = request.begin(task, this.fd);
            this.stage = Stage::Done;
            match begun? {
                Some(wait) => this.stage = Stage::Waiting(wait),
                None => return Poll::Ready(Ok(())),
            }
        }
        let Stage::Waiting(wait) = &this.stage else {
            return Poll::Pending;
        };
        let result = task.lock_wait(wait, cx.waker());
        if result.is_ready() {
            this.stage = Stage::Done;
        }
        result
    }
}

/// Makes the same methods for both.
macro_rules! locks {
    ($($(#[$doc:meta])* fn $name:ident($arg:ident: $ty:ty) = $request:expr;)*) => {
        impl AsyncTask {
            $(
                $(#[$doc])*
                pub fn $name(
                    &mut self,
                    fd: Fd,
                    $arg: $ty,
                ) -> impl Future<Output = Result<(), Errno>> + Send + '_ {
                    let stage = Stage::New($request);
                    Locking { host: self, fd, stage }
                }
            )*
        }

        impl<'t> Local<'t> {
            $(
                $(#[$doc])*
                pub fn $name(
                    self,
                    fd: Fd,
                    $arg: $ty,
                ) -> impl Future<Output = Result<(), Errno>> + 't {
                    let stage = Stage::New($request);
                    Locking { host: self.0, fd, stage }
                }
            )*
        }
    };
}

locks! {
    /// fcntl(2) with `F_SETLKW`. Calls that do not wait are [`AsyncTask::task`]'s.
    ///
    /// ```
    /// # use openpath_abi::{Flock, fcntl::{O_CREAT, O_RDWR}, lock::F_WRLCK};
    /// # use openpath_mem::{MemFs, MemOptions};
    /// # use openpath_ring::{AsyncTask, Pool, PoolOptions, RingOptions};
    /// # use openpath_vfs::{Cred, Vfs};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), openpath_abi::Errno> {
    /// # let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
    /// # let pool = Pool::new(PoolOptions::default());
    /// # let mut task = AsyncTask::new(vfs.task(Cred::root())?, &pool, RingOptions::default())?;
    /// let fd = task.open(b"/db", O_CREAT | O_RDWR, 0o600).await?;
    /// task.fcntl_setlkw(fd, Flock::new(F_WRLCK, 0, 0)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::fcntl_setlkw_later`].
    fn fcntl_setlkw(request: Flock) = LockRequest::PosixWait(request);
    /// fcntl(2) with `F_OFD_SETLKW`.
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::ofd_setlkw_later`].
    fn ofd_setlkw(request: Flock) = LockRequest::OfdWait(request);
    /// flock(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::flock_later`].
    fn flock(op: u32) = LockRequest::Flock(op);
}
