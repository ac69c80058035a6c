// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines [`Host`], by which the suite asks an implementation of openat2(2): make a small tree,
//! open in it, evict the cache.
//!
//! # Rules
//! * Paths are bytes, relative to the directory that [`Host::begin`] made, or absolute.
//! * Calls answer as the system call of their name does. Only [`Host::openat2`] is checked; the
//!   others prepare, and their failure fails the case.
//! * [`Host::lacks`] reports what a host cannot do; cases that need it are then skipped, with that
//!   reason.

use crate::errno::Errno;
use crate::how::How;

/// Where a relative path starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// `AT_FDCWD`: the directory of the case.
    Cwd,
    /// A number that is no open descriptor.
    Bad,
    /// A descriptor of this host.
    Fd(i32),
}

/// The object to make at a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node<'a> {
    /// A directory.
    Dir,
    /// A file with these bytes.
    File(&'a [u8]),
    /// A symbolic link to this path.
    Link(&'a [u8]),
    /// A FIFO.
    Fifo,
}

/// What a case may need beyond directories, files, rename(2) and unlink(2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Need {
    /// Eviction of cached names: [`Host::evict`].
    Cold,
    /// Symbolic links.
    Links,
    /// Access times that following a link may have to write: [`Host::set_atime`].
    AccessTimes,
    /// FIFOs.
    Fifos,
    /// Mounts of a fresh tree: [`Host::mount`], [`Host::umount`].
    Mounts,
    /// Bind mounts: [`Host::bind`].
    Binds,
    /// Users without privileges: [`Host::act_as`].
    Users,
    /// renameat2(2) with `RENAME_EXCHANGE`.
    Exchange,
    /// Another thread that renames: [`Host::start_swapping`].
    Threads,
    /// A null pointer for a path.
    NullPath,
    /// proc(5) at `/proc`, with its magic links.
    Proc,
    /// An exact count of free inodes: [`Host::free_nodes`].
    Nodes,
}

/// A host's knowledge of names that do not exist.
///
/// A host may know more or less than ext4 does; its right answers depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knowledge {
    /// A name that was not found stays known (a negative dentry).
    pub negatives: bool,
    /// The host has complete directories: a name that is not cached in one does not exist, even if
    /// it was never asked for.
    pub directories: bool,
    /// The host continues where the lock-free walk of Linux gives up, as long as it need not wait:
    /// a refusal that is certain (`EACCES`, `ENOTDIR`, `EXDEV`, `ENAMETOOLONG`) is then answered at
    /// once, where Linux answers `EAGAIN`.
    pub refusals: bool,
}

/// A host of the suite: a kernel, or code that answers like one.
pub trait Host {
    /// Its name in reports.
    fn name(&self) -> String;

    /// Why the host lacks this; `None` if it has it.
    fn lacks(&self, need: Need) -> Option<String>;

    /// The host's knowledge of absent names.
    fn knowledge(&self) -> Knowledge;

    /// Whether other tasks can cause an `EAGAIN`. On Linux any rename or mount during the walk
    /// does, and so does lack of memory. A wrong `EAGAIN` is then asked again.
    fn is_disturbed(&self) -> bool {
        false
    }

    /// Makes an empty directory for a case and enters it, as root; returns its absolute path.
    ///
    /// # Errors
    /// The reason why there is none.
    fn begin(&mut self) -> Result<Vec<u8>, String>;

    /// Closes every descriptor, ends threads and mounts, and removes the directory.
    ///
    /// # Errors
    /// What the case left behind; the case then fails.
    fn end(&mut self) -> Result<(), String>;

    /// openat2(2); returns a number that stands for the descriptor. `None` is a null pointer.
    ///
    /// # Errors
    /// Those of openat2(2).
    fn openat2(&mut self, at: At, path: Option<&[u8]>, how: How) -> Result<i32, Errno>;

    /// close(2).
    ///
    /// # Errors
    /// `EBADF`.
    fn close(&mut self, fd: i32) -> Result<(), Errno>;

    /// read(2), once; returns the number of bytes.
    ///
    /// # Errors
    /// Those of read(2).
    fn read(&mut self, fd: i32, buf: &mut [u8]) -> Result<usize, Errno>;

    /// stat(2), which follows links.
    ///
    /// # Errors
    /// Those of stat(2).
    fn stat(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// Makes an object with exactly these permission bits.
    ///
    /// # Errors
    /// Those of mkdir(2), open(2), symlink(2), mknod(2).
    fn make(&mut self, path: &[u8], node: Node<'_>, mode: u32) -> Result<(), Errno>;

    /// unlink(2), or rmdir(2) if it is a directory.
    ///
    /// # Errors
    /// Those of unlink(2) and rmdir(2).
    fn remove(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// renameat2(2), with `RENAME_EXCHANGE` or without flags.
    ///
    /// # Errors
    /// Those of rename(2).
    fn rename(&mut self, old: &[u8], new: &[u8], exchange: bool) -> Result<(), Errno>;

    /// chmod(2).
    ///
    /// # Errors
    /// Those of chmod(2).
    fn chmod(&mut self, path: &[u8], mode: u32) -> Result<(), Errno>;

    /// Sets the access time, of a link itself if it is one, this many seconds from now; the
    /// modification time stays.
    ///
    /// # Errors
    /// Those of utimensat(2).
    fn set_atime(&mut self, path: &[u8], seconds: i64) -> Result<(), Errno>;

    /// Mounts a fresh, empty tree.
    ///
    /// # Errors
    /// Those of mount(2).
    fn mount(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// mount(2) with `MS_BIND`.
    ///
    /// # Errors
    /// Those of mount(2).
    fn bind(&mut self, source: &[u8], target: &[u8]) -> Result<(), Errno>;

    /// umount(2), without flags: `EBUSY` while it is in use.
    ///
    /// # Errors
    /// Those of umount(2).
    fn umount(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// Acts as this user, without privileges unless it is 0.
    ///
    /// # Errors
    /// Those of setresuid(2).
    fn act_as(&mut self, uid: u32) -> Result<(), Errno>;

    /// Evicts every unused cached name, including those that do not exist.
    ///
    /// # Errors
    /// Those of the eviction.
    fn evict(&mut self) -> Result<(), Errno>;

    /// Free inodes of the tree that the directory of the case lies in (statfs(2), `f_ffree`).
    ///
    /// # Errors
    /// Those of statfs(2).
    fn free_nodes(&mut self) -> Result<u64, Errno>;

    /// Starts a thread that exchanges the two names repeatedly.
    ///
    /// # Errors
    /// Those of starting it.
    fn start_swapping(&mut self, one: &[u8], other: &[u8]) -> Result<(), Errno>;

    /// Ends that thread after at least one exchange; returns the number of exchanges.
    ///
    /// # Errors
    /// Those of renameat2(2), if one failed.
    fn stop_swapping(&mut self) -> Result<u64, Errno>;
}
