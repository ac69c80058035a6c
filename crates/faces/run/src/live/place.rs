// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories with the sockets of servers: one for each user, closed to others.
//!
//! It is `openpath` in `$XDG_RUNTIME_DIR`; without that, in `/run/user/UID`, or `/run` for the
//! superuser; where there is none, `/tmp/openpath-UID`.

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

/// The directory in the one of the user.
const NAME: &str = "openpath";
/// What a socket's name ends with.
const SUFFIX: &str = ".sock";
/// How often a directory that goes away is made again.
const TRIES: u32 = 16;

/// A directory of sockets.
#[derive(Debug)]
pub(super) struct Place {
    fd: OwnedFd,
    path: PathBuf,
    /// Whose it is.
    pub(super) uid: u32,
}

impl Place {
    /// That of the user, made if there is none.
    ///
    /// # Errors
    /// What the file system says; it is somebody else's, or open to others.
    fn own() -> io::Result<Place> {
        let path = own_path();
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(why) => return Err(why.into()),
        }
        let place = Self::open(path)?;
        if place.uid == me() {
            Ok(place)
        } else {
            Err(Errno::PERM.into())
        }
    }

    /// Those that this user may look into: his own; of the superuser, everybody's, and its own
    /// first. In `/tmp` a user has the one that has the user's number in its name.
    pub(super) fn all() -> Vec<Place> {
        let mut places: Vec<Place> = Self::open(own_path()).into_iter().collect();
        places.retain(|place| me() == 0 || place.uid == me());
        if me() == 0 {
            let users = std::fs::read_dir("/run/user").into_iter().flatten();
            let theirs = users.flatten().map(|user| user.path().join(NAME));
            places.extend(theirs.filter_map(|path| Self::open(path).ok()));
            let others = std::fs::read_dir("/tmp").into_iter().flatten();
            places.extend(others.flatten().filter_map(|entry| {
                let uid = uid_in(&entry.file_name())?;
                Self::open(entry.path())
                    .ok()
                    .filter(|place| place.uid == uid)
            }));
        }
        places.dedup_by(|a, b| a.path == b.path);
        places
    }

    fn open(path: PathBuf) -> io::Result<Place> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_mode & 0o077 != 0 {
            return Err(Errno::PERM.into());
        }
        Ok(Place {
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

    /// The user's own directory, and in it a socket that is listened at, under the number of its
    /// server. It has its name once it can be connected to.
    ///
    /// # Errors
    /// Those of [`Place::own`], what the kernel says.
    pub(super) fn listen(id: u32) -> io::Result<(Place, UnixListener)> {
        let mut tries = 0..TRIES;
        loop {
            let place = Self::own()?;
            match place.listen_at(id) {
                // Whoever was the last there took the directory away.
                Err(why) if why.kind() == io::ErrorKind::NotFound && tries.next().is_some() => {}
                listener => return Ok((place, listener?)),
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

    /// Connects to the server of this number; a socket nobody listens at is removed.
    ///
    /// # Errors
    /// `EAGAIN` if more wait there already than it lets, what the kernel says.
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
        // Not while there are others.
        std::fs::remove_dir(&self.path).ok();
    }

    fn remove(&self, name: &str) {
        // It need not be there.
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()).ok();
    }

    /// A path that is short enough for a socket, however long that of the directory is.
    fn at(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd")
            .join(self.fd.as_raw_fd().to_string())
            .join(name)
    }
}

/// Connects to a socket. Unlike [`UnixStream::connect`] it does not wait for ever where too many
/// wait already.
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

/// Whose directory in `/tmp` has this name.
fn uid_in(name: &OsStr) -> Option<u32> {
    let number = name.to_str()?.strip_prefix(NAME)?.strip_prefix('-')?;
    number.parse().ok()
}

/// This user.
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

/// All directories that may be this user's for sockets, whichever is used now.
pub(crate) fn own_dirs() -> Vec<PathBuf> {
    let dirs = runtime_dirs().into_iter().map(|dir| dir.join(NAME));
    dirs.chain([last_path()]).collect()
}

/// Directories of the user in which there may be one for sockets, the preferred first.
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
