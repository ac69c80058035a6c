// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes pipes without a name: pipe(2), pipe2(2).
//!
//! # Kernel analogue
//! `do_pipe2`, `create_pipe_files`, pipefs.

use crate::file::{Filp, NewFileArgs};
use crate::file_ops::{Fd, FileOps};
use crate::inode::{Attr, Inode, InodeOps};
use crate::mount::InternalTree;
use crate::pipe::{Pipe, PipeEnd};
use crate::task::{Core, Task};
use openpath_abi::fcntl::{O_CLOEXEC, O_DIRECT, O_EXCL, O_NONBLOCK, O_RDONLY, O_WRONLY};
use openpath_abi::{Errno, OFlags, mode};
use openpath_sync::Pin;
use std::sync::Arc;

const PIPEFS: InternalTree = InternalTree {
    kind: "pipefs",
    // PIPEFS_MAGIC
    magic: 0x5049_5045,
    mode: mode::S_IFDIR | 0o600,
    nlink: 2,
};
/// Messages of the kernel through a pipe (`O_NOTIFICATION_PIPE`).
const O_NOTIFICATION_PIPE: OFlags = O_EXCL;

struct NoOps;

impl InodeOps for NoOps {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

impl Core {
    /// Files of a new inode of pipefs: for reading and for writing, with these flags.
    ///
    /// # Errors
    /// `ENFILE`, `ENOSPC` (no more mounts), `ENOMEM`.
    fn pipe_files(
        &self,
        inode: Arc<Inode>,
        ends: [(OFlags, PipeEnd); 2],
    ) -> Result<[Filp<'_>; 2], Errno> {
        let vfs = &self.vfs;
        let tree = |now| PIPEFS.tree(Box::new(NoOps), now);
        let mount = vfs.inner_mount(&vfs.pipe_mount, tree)?;
        let root = vfs.mounts.at(mount).root.get();
        let (entry, _) = vfs.dcache.add_nameless(self.tenant().lru(), root, inode)?;
        let pins = [(); 2].map(|()| self.pins.pin_now(mount, entry));
        // No lookup finds it: it lives as long as it is open.
        vfs.dcache.defer_free(entry);
        let [Some(first), Some(second)] = pins else {
            pins.into_iter()
                .flatten()
                .for_each(|pin| self.pins.release(pin));
            return Err(Errno::ENOMEM);
        };
        let [(flags, end), (other_flags, other_end)] = ends;
        let file = self.pipe_file(first, flags, end);
        Ok([file, self.pipe_file(second, other_flags, other_end)])
    }

    fn pipe_file(&self, pin: Pin, flags: OFlags, end: PipeEnd) -> Filp<'_> {
        let args = NewFileArgs {
            flags,
            created: false,
            shared: self.fds().is_shared(),
        };
        let file = Filp::hold(self, self.make_file(pin, args));
        let own: Box<dyn FileOps> = Box::new(end);
        let store = &self.vfs.dcache.store;
        // A file just made has nothing of its own yet.
        let _none = store.set_file_payload(file.file(), Arc::new(own));
        file
    }
}

impl Task {
    /// A pipe without a name: descriptors of its reading and its writing end. Linux: pipe2(2).
    ///
    /// # Errors
    /// `EINVAL` (flags), `ENFILE` (as many files, or as many pages of the user's pipes, as
    /// allowed), `ENOPKG` (`O_NOTIFICATION_PIPE`), `EMFILE`, `ENOMEM`.
    #[doc(alias = "pipe")]
    pub fn pipe2(&self, flags: OFlags) -> Result<(Fd, Fd), Errno> {
        if flags.intersects(!(O_CLOEXEC | O_NONBLOCK | O_DIRECT | O_NOTIFICATION_PIPE)) {
            return Err(Errno::EINVAL);
        }
        let core = &self.core;
        let vfs = &core.vfs;
        let share = vfs.pipes.share(&core.cred(), &vfs.config.limits);
        let share = share.map_err(|_| Errno::ENFILE)?;
        if flags.contains(O_NOTIFICATION_PIPE) {
            return Err(Errno::ENOPKG);
        }
        let now = vfs.clock.now();
        let (uid, gid) = (core.cred().fsuid, core.cred().fsgid);
        let attr = Attr {
            mode: mode::S_IFIFO | 0o600,
            nlink: 1,
            uid,
            gid,
            atime: now,
            mtime: now,
            ctime: now,
            ..Attr::default()
        };
        let ino = vfs.next_pipe.add(1);
        let inode = Inode::new(ino, 0, attr, now, Box::new(NoOps));
        let (read_end, write_end) = Pipe::ends(share);
        core.check_files_max()?;
        let kept = flags & O_NONBLOCK;
        let write_flags = O_WRONLY | kept | flags & O_DIRECT;
        let ends = [(O_RDONLY | kept, read_end), (write_flags, write_end)];
        let [reader, writer] = core.pipe_files(inode, ends)?;
        let cloexec = flags.contains(O_CLOEXEC);
        let first = core.reserve_fd(cloexec)?;
        let second = core.reserve_fd(cloexec)?;
        let first = first.install(reader)?;
        match second.install(writer) {
            Ok(second) => Ok((first, second)),
            Err(errno) => {
                // Closes the descriptor that could be made.
                let _gone = self.close(first);
                Err(errno)
            }
        }
    }
}
