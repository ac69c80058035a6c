// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens files of an overlay: copies a file up if it is opened for writing, and opens it in its
//! layer.
//!
//! # Kernel analogue
//! `ovl_open`, `ovl_real_fdget`. A file that was opened for reading before its copy-up reads the
//! copy afterwards: all open files of one file see the same data.
//!
//! # Divergence: L92

use crate::copy_up::ALL;
use crate::node::Node;
use openpath_abi::fcntl::{O_ACCMODE, O_RDWR, O_TRUNC, O_WRONLY};
use openpath_abi::{Errno, OFlags, mode};
use openpath_vfs::{FileOps, Inode, Io, WaitMode, flag};
use std::any::Any;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// An opening with one of the layer beneath it.
struct Opening {
    node: Arc<Node>,
    /// The layer inode that was opened.
    real: Arc<Inode>,
    inner: Box<dyn FileOps>,
}

impl Opening {
    /// The layer's opening, while its inode is the current one.
    fn inner(&self) -> Option<&dyn FileOps> {
        Arc::ptr_eq(self.node.real(), &self.real).then_some(&*self.inner)
    }
}

impl FileOps for Opening {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn read(&self, buf: &mut [u8], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        self.inner()?.read(buf, io)
    }
    fn read_vectored(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        io: &Io<'_>,
    ) -> Option<Result<usize, Errno>> {
        self.inner()?.read_vectored(bufs, io)
    }
    fn write(&self, data: &[u8], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        let done = self.inner()?.write(data, io);
        self.node.copy_attr_own();
        done
    }
    fn write_vectored(&self, data: &[IoSlice<'_>], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        let done = self.inner()?.write_vectored(data, io);
        self.node.copy_attr_own();
        done
    }
    fn rw_flags(&self, writing: bool) -> u32 {
        self.inner.rw_flags(writing)
    }
    fn is_stream(&self) -> bool {
        self.inner.is_stream()
    }
    fn moves(&self) -> bool {
        self.inner.moves()
    }
    fn seek(&self, at: i64, offset: i64, whence: u32) -> Option<Result<i64, Errno>> {
        self.inner()?.seek(at, offset, whence)
    }
    fn splices(&self, writing: bool) -> bool {
        self.inner.splices(writing)
    }
    fn poll(&self) -> Option<u32> {
        self.inner()?.poll()
    }
    fn ioctl(&self, request: u32, arg: &mut [u8]) -> Option<Result<i64, Errno>> {
        self.inner()?.ioctl(request, arg)
    }
    fn flush(&self) -> Result<(), Errno> {
        self.inner.flush()
    }
    fn release(&self) {
        self.inner.release();
    }
}

impl Node {
    /// As `InodeOps::open`.
    ///
    /// # Errors
    /// `EAGAIN`: it would have to be copied up and may not wait; those of the copy-up and of the
    /// layer.
    pub(crate) fn open(
        self: &Arc<Self>,
        inode: &Inode,
        flags: OFlags,
        wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        let writes = matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR);
        if writes && inode.kind() == mode::S_IFREG && self.upper().is_none() {
            if wait_mode == WaitMode::Cached {
                return Err(Errno::EAGAIN);
            }
            let data = if !flags.contains(O_TRUNC) { ALL } else { 0 };
            self.copy_up(self.fs.options.clock.now(), data)?;
        }
        let asks = if writes {
            flag::OPEN_HOOK | flag::WRITE_HOOK
        } else {
            flag::OPEN_HOOK
        };
        let real = self.real();
        let inner = if real.flags() & asks == 0 {
            None
        } else {
            real.ops().open(real, flags, wait_mode)?
        };
        // The layer may not need to be asked any more.
        self.copy_attr(inode);
        let opening = inner.map(|inner| Opening {
            node: Arc::clone(self),
            real: Arc::clone(real),
            inner,
        });
        Ok(opening.map(|opening| Box::new(opening) as Box<dyn FileOps>))
    }
}
