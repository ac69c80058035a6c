// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the suite asks of a host: make a small tree, open in it, forget what is cached.
//!
//! # Rules
//! * Paths are bytes, relative to the directory that [`Host::begin`] made, or absolute.
//! * Calls answer as the system call of their name does. Only [`Host::openat2`] is judged; the
//!   others prepare, and a failure of theirs fails the case.
//! * What a host cannot do it says in [`Host::lacks`]; cases that need it are then reported as
//!   skipped, with that reason.

use crate::errno::Errno;
use crate::how::How;

/// Where a path that does not begin with `/` starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// `AT_FDCWD`: the directory of the case.
    Cwd,
    /// A number that is no open descriptor.
    Bad,
    /// A descriptor of this host.
    Fd(i32),
}

/// What there is at a path.
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
    /// Cached names can be forgotten: [`Host::evict`].
    Cold,
    /// Symbolic links.
    Links,
    /// Access times, which following a link may have to write: [`Host::set_atime`].
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
    /// A count of free inodes that is exact: [`Host::free_nodes`].
    Nodes,
}

/// What a host knows of names that do not exist.
///
/// A host is free to know more or less than ext4 does; that changes which answers are right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knowledge {
    /// A name that was looked up and not found stays known (a negative dentry).
    pub negatives: bool,
    /// Knows of some directories that all their names are cached, so that what is not cached there
    /// does not exist, whether or not it was ever asked for.
    pub directories: bool,
    /// Goes on where the lock-free walk of Linux gives up, as long as nothing has to be waited for:
    /// a refusal that is certain (`EACCES`, `ENOTDIR`, `EXDEV`, `ENAMETOOLONG`) is then given at
    /// once, where Linux says `EAGAIN`.
    pub refusals: bool,
}

/// A host of the suite: a kernel, or what answers as one.
pub trait Host {
    /// What reports call it.
    fn name(&self) -> String;

    /// Why it lacks this; `None` if it has it.
    fn lacks(&self, need: Need) -> Option<String>;

    /// What it knows of absent names.
    fn knowledge(&self) -> Knowledge;

    /// May it answer `EAGAIN` for what others do? Linux does when anything is renamed or mounted
    /// anywhere while it walks, and when memory is short. A wrong `EAGAIN` is then asked again.
    fn is_disturbed(&self) -> bool {
        false
    }

    /// Makes an empty directory for a case and stands in it, as root. Its absolute path.
    ///
    /// # Errors
    /// Why there is none.
    fn begin(&mut self) -> Result<Vec<u8>, String>;

    /// Closes every descriptor, ends what runs or is mounted, and removes the directory.
    ///
    /// # Errors
    /// What the case left behind: it fails for it.
    fn end(&mut self) -> Result<(), String>;

    /// openat2(2); a number that stands for the descriptor. No path is a null pointer.
    ///
    /// # Errors
    /// Those of openat2(2).
    fn openat2(&mut self, at: At, path: Option<&[u8]>, how: How) -> Result<i32, Errno>;

    /// close(2).
    ///
    /// # Errors
    /// `EBADF`.
    fn close(&mut self, fd: i32) -> Result<(), Errno>;

    /// read(2), once; how many bytes there were.
    ///
    /// # Errors
    /// Those of read(2).
    fn read(&mut self, fd: i32, buf: &mut [u8]) -> Result<usize, Errno>;

    /// stat(2), which follows links.
    ///
    /// # Errors
    /// Those of stat(2).
    fn stat(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// Makes what there is to be, with exactly these permission bits.
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

    /// umount(2), without flags: `EBUSY` while anything uses it.
    ///
    /// # Errors
    /// Those of umount(2).
    fn umount(&mut self, path: &[u8]) -> Result<(), Errno>;

    /// Acts as this user, without privileges unless it is 0.
    ///
    /// # Errors
    /// Those of setresuid(2).
    fn act_as(&mut self, uid: u32) -> Result<(), Errno>;

    /// Forgets every cached name, also of what does not exist, that nobody uses.
    ///
    /// # Errors
    /// Whatever keeps it from that.
    fn evict(&mut self) -> Result<(), Errno>;

    /// Free inodes of the tree that the directory of the case lies in (statfs(2), `f_ffree`).
    ///
    /// # Errors
    /// Those of statfs(2).
    fn free_nodes(&mut self) -> Result<u64, Errno>;

    /// Another thread starts to exchange the two names, again and again.
    ///
    /// # Errors
    /// Whatever keeps it from that.
    fn start_swapping(&mut self, one: &[u8], other: &[u8]) -> Result<(), Errno>;

    /// That thread ends, after at least one exchange; how many there were.
    ///
    /// # Errors
    /// Those of renameat2(2), if one failed.
    fn stop_swapping(&mut self) -> Result<u64, Errno>;
}
