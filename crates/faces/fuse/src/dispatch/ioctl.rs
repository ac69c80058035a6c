// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatches `IOCTL`, which gets and sets the flags of a file or directory. Every other request of
//! ioctl(2) is `ENOTTY`.
//!
//! The kernel sends these requests for lsattr(1), chattr(1), and an overlay of its own above the
//! mount. It has checked the owner and `CAP_LINUX_IMMUTABLE` before.

use super::{Dispatcher, RequestContext, fd_of};
use crate::stats::Request as Kind;
use crate::wire::Request;
use openpath_abi::Errno;
use openpath_vfs::fileattr::{
    FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS,
};

/// Bytes of the longest argument, `struct fsxattr`.
const ARG_MAX: usize = 28;

impl Dispatcher {
    /// Passes a request about flags to the tree.
    pub(super) fn ioctl(
        &self,
        cx: &mut RequestContext<'_>,
        asking: Request<'_>,
    ) -> Result<(), Errno> {
        let Request::Ioctl {
            handle,
            request,
            given,
            room,
        } = asking
        else {
            return Err(Errno::ENOTTY);
        };
        self.count(Kind::Ioctl);
        let len = match request {
            FS_IOC_GETFLAGS | FS_IOC_FSGETXATTR => room as usize,
            FS_IOC_SETFLAGS | FS_IOC_FSSETXATTR => given.len(),
            _ => return Err(Errno::ENOTTY),
        };
        let mut arg = [0; ARG_MAX];
        let arg = arg.get_mut(..len).ok_or(Errno::EINVAL)?;
        let back = if matches!(request, FS_IOC_SETFLAGS | FS_IOC_FSSETXATTR) {
            arg.copy_from_slice(given);
            0
        } else {
            len
        };
        let (actor, at) = (cx.owner(), (cx.node(), fd_of(handle)));
        let result = self.fs.ioctl(cx.w, actor, at, request, arg)?;
        // `fuse_ioctl_out`: the result, flags, and two counts that have no meaning here.
        cx.reply.u32((result as i32).cast_unsigned());
        cx.reply.zeros(12);
        cx.reply.bytes(&arg[..back]);
        Ok(())
    }
}
