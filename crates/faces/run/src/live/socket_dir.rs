// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes and checks the directories with the sockets of servers (one for each user, closed to
//! others), and makes, connects to and removes sockets in them.
//!
//! It is `openpath` in `$XDG_RUNTIME_DIR`; without that, in `/run/user/UID`, or in `/run` for root.
//! If there is no such directory, it is `/tmp/openpath-UID`.

use super::PATIENCE;
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The name of the directory.
const NAME: &str = "openpath";
/// The suffix of a socket's name.
const SUFFIX: &str = ".sock";
/// How often a directory that another process removes is made again.
const TRIES: u32 = 16;

/// A directory of sockets.
#[derive(Debug)]
pub(super) struct SocketDir {
    fd: OwnedFd,
    path: PathBuf,
    /// The user that it belongs to.
    pub(super) uid: u32,
}

impl SocketDir {
    /// The directory of this user, made if there is none.
    ///
    /// # Errors
    /// Errors of the file system; it belongs to another user, or is open to others.
    fn own() -> io::Result<SocketDir> {
        let path = own_path();
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(why) => return Err(why.into()),
        }
        let dir = Self::open(path)?;
        if dir.uid != me() {
            return Err(Errno::PERM.into());
        }
        // A caller's umask took them away when it was made: no later view would have a socket.
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&dir.fd)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            rustix::fs::chmod(dir.at(""), Mode::RWXU)?;
        }
        Ok(dir)
    }

    /// The directories that this user may read: the own one; for root, those of all users, root's
    /// first. A directory in `/tmp` counts only if it belongs to the user in its name.
    pub(super) fn all() -> Vec<SocketDir> {
        let mut dirs: Vec<SocketDir> = Self::open(own_path()).into_iter().collect();
        dirs.retain(|dir| me() == 0 || dir.uid == me());
        if me() == 0 {
            let users = std::fs::read_dir("/run/user").into_iter().flatten();
            let theirs = users.flatten().map(|user| user.path().join(NAME));
            dirs.extend(theirs.filter_map(|path| Self::open(path).ok()));
            let others = std::fs::read_dir("/tmp").into_iter().flatten();
            dirs.extend(others.flatten().filter_map(|entry| {
                let uid = uid_in(&entry.file_name())?;
                Self::open(entry.path()).ok().filter(|dir| dir.uid == uid)
            }));
        }
        dirs.dedup_by(|a, b| a.path == b.path);
        dirs
    }

    fn open(path: PathBuf) -> io::Result<SocketDir> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_mode & 0o077 != 0 {
            return Err(Errno::PERM.into());
        }
        Ok(SocketDir {
            fd,
            path,
            uid: stat.st_uid,
        })
    }

    /// The numbers of the servers that have a socket here.
    pub(super) fn ids(&self) -> Vec<u32> {
        let names = std::fs::read_dir(self.at("")).into_iter().flatten();
        let mut ids: Vec<u32> = names
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok())
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Makes a listening socket in the user's own directory, named by the number of its server. It
    /// gets its name when clients can connect to it.
    ///
    /// # Errors
    /// Those of [`SocketDir::own`]; errors of the kernel.
    pub(super) fn listen(id: u32) -> io::Result<(SocketDir, UnixListener)> {
        let mut tries = 0..TRIES;
        loop {
            let dir = Self::own()?;
            match dir.listen_at(id) {
                // Another server removed the directory with its last socket.
                Err(why) if why.kind() == io::ErrorKind::NotFound && tries.next().is_some() => {}
                listener => return Ok((dir, listener?)),
            }
        }
    }

    fn listen_at(&self, id: u32) -> io::Result<UnixListener> {
        let (name, first) = (format!("{id}{SUFFIX}"), format!(".{id}.new"));
        self.remove(&first);
        let listener = UnixListener::bind(self.at(&first))?;
        rustix::fs::renameat(&self.fd, &first, &self.fd, &name)?;
        Ok(listener)
    }

    /// Connects to the server of this number, and removes a socket that has no listener.
    ///
    /// # Errors
    /// `EAGAIN` if its queue is full; errors of the kernel.
    pub(super) fn connect(&self, id: u32) -> io::Result<UnixStream> {
        let stream = connect(&self.at(&format!("{id}{SUFFIX}")));
        stream.inspect_err(|why| {
            if why.kind() == io::ErrorKind::ConnectionRefused && self.uid == me() {
                self.forget(id);
            }
        })
    }

    /// Removes the socket of this number, and the directory with the last one.
    pub(super) fn forget(&self, id: u32) {
        self.remove(&format!("{id}{SUFFIX}"));
        // It fails while there are others.
        std::fs::remove_dir(&self.path).ok();
    }

    fn remove(&self, name: &str) {
        // It may not exist.
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()).ok();
    }

    /// A path that is short enough for a socket, however long the path of the directory is.
    fn at(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd")
            .join(self.fd.as_raw_fd().to_string())
            .join(name)
    }
}

/// Connects to a socket. Unlike [`UnixStream::connect`] it does not wait for ever if the queue is
/// full.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let kind = (
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
    );
    let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, None)?;
    rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(2 * PATIENCE))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// The user ID in the name of a directory in `/tmp`.
fn uid_in(name: &OsStr) -> Option<u32> {
    let number = name.to_str()?.strip_prefix(NAME)?.strip_prefix('-')?;
    number.parse().ok()
}

/// The user ID of this process.
fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn own_path() -> PathBuf {
    let dirs = runtime_dirs();
    match dirs.into_iter().find(|dir| is_mine(dir)) {
        Some(dir) => dir.join(NAME),
        None => last_path(),
    }
}

/// All directories that this user's sockets may be in, whichever is used now.
pub(crate) fn own_dirs() -> Vec<PathBuf> {
    let dirs = runtime_dirs().into_iter().map(|dir| dir.join(NAME));
    dirs.chain([last_path()]).collect()
}

/// Runtime directories of the user, the preferred one first.
fn runtime_dirs() -> Vec<PathBuf> {
    let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let told = told.filter(|dir| dir.is_absolute());
    let usual = match me() {
        0 => PathBuf::from("/run"),
        uid => format!("/run/user/{uid}").into(),
    };
    told.into_iter().chain([usual]).collect()
}

fn last_path() -> PathBuf {
    format!("/tmp/{NAME}-{}", me()).into()
}

fn is_mine(dir: &Path) -> bool {
    rustix::fs::stat(dir).is_ok_and(|stat| stat.st_uid == me())
}
