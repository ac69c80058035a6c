// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns a process into the command, and decides which of the caller's descriptors it keeps.
//!
//! # Kernel analogue
//! None: a descriptor survives execve(2) unless it was opened with `O_CLOEXEC`.
//!
//! # Table
//! | descriptor | 0 to 2 | others |
//! |---|---|---|
//! | file, pipe, device, eventfd, timerfd | kept | kept |
//! | socket | kept: ssh and CI runners use them as standard streams | closed |
//! | directory, `O_PATH` | refused | closed |
//! | namespace, pidfd, io_uring, epoll, inotify and other kernel objects | refused | closed |
//!
//! # Rules
//! R0. A descriptor that the caller names (`--keep-fd`) is kept, whatever it is.
//! R1. By a directory or an `O_PATH` descriptor all of the real tree around it can be reached. The
//!     queue of a socket can hold such descriptors, and so can an io_uring; a namespace or a pidfd
//!     leads to processes outside. None of these goes to the command.
//! R2. A file that the caller opened is the real file (L76).
//! R3. A descriptor that cannot be examined is not kept. `/proc` must be the kernel's: the view's
//!     own tree could show any descriptors.

use crate::plan::CommandStart;
use openpath_commit::Refusal;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::io::Errno;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// What the kernel shows of this process.
const PROC: &str = "/proc/self";
/// The first descriptor after the standard streams.
const FIRST: i32 = 3;
/// `O_PATH` and `O_CLOEXEC`, as the kernel writes them for a descriptor.
const O_PATH: u32 = 0o10_000_000;
const O_CLOEXEC: u32 = 0o2_000_000;
/// File systems of kernel objects: namespaces, pidfds, and objects without a type.
const NSFS_MAGIC: u64 = 0x6e73_6673;
const PIDFS_MAGIC: u64 = 0x5049_4446;
const ANON_INODE_MAGIC: u64 = 0x0904_1934;
/// Kernel objects that reach nothing else.
const HARMLESS: [&[u8]; 2] = [b"anon_inode:[eventfd]", b"anon_inode:[timerfd]"];

/// Becomes the command, with every descriptor that leads out of the view closed.
///
/// # Errors
/// A standard stream leads out of it; the open descriptors cannot be read; the process cannot be
/// confined; the command cannot be executed.
pub(crate) fn execute(command: &[OsString], go: &CommandStart) -> Result<Infallible, Refusal> {
    let (name, args) = command
        .split_first()
        .ok_or_else(|| Refusal::usage("no command"))?;
    close_leaks(&go.keep_fds)?;
    crate::confine::apply(go)?;
    let why = Command::new(name).args(args).exec();
    Err(Refusal::exec(name, &why))
}

/// Closes the descriptors that lead out of the view. No value in this process owns one: what this
/// program opens has `O_CLOEXEC`. No other thread opens more.
fn close_leaks(kept: &[i32]) -> Result<(), Refusal> {
    let failed = |why| Refusal::step("cannot read the open descriptors from /proc", why);
    let open = OpenFds::read().map_err(failed)?;
    for number in open.numbers().map_err(failed)? {
        // R0
        if kept.contains(&number) {
            continue;
        }
        let Some(what) = open.leak_of(number) else {
            continue;
        };
        if number < FIRST && what != Leak::Socket {
            return Err(Refusal::usage(format!(
                "descriptor {number} is {}: redirect it, as by `{number}</dev/null`, or say \
                 `--keep-fd {number}`",
                what.description()
            )));
        }
        if number >= FIRST {
            // A descriptor that is closed by now was the one that read the directory.
            nix::unistd::close(number).ok();
        }
    }
    Ok(())
}

/// Checks that the descriptors to keep were left open by the caller.
///
/// # Errors
/// One is not open or belongs to this program; the open descriptors cannot be read.
pub(crate) fn check_kept(kept: &[i32]) -> Result<(), Refusal> {
    if kept.is_empty() {
        return Ok(());
    }
    let open = OpenFds::read()
        .map_err(|why| Refusal::step("cannot read the open descriptors from /proc", why))?;
    let is_left = |number| open.flags(number).is_ok_and(|flags| flags & O_CLOEXEC == 0);
    match kept.iter().find(|number| !is_left(**number)) {
        None => Ok(()),
        Some(number) => Err(Refusal::usage(format!(
            "--keep-fd {number}: there is no open descriptor {number}: open it before, as by \
             `{number}<FILE`"
        ))),
    }
}

/// Closes all descriptors that the caller left open except the standard streams.
///
/// # Errors
/// The open descriptors cannot be read.
pub(crate) fn close_others() -> Result<(), Refusal> {
    let failed = |why| Refusal::step("cannot read the open descriptors from /proc", why);
    let open = OpenFds::read().map_err(failed)?;
    for number in open.numbers().map_err(failed)? {
        // A descriptor that cannot be examined is closed as well: each of this program's has the
        // flag.
        let inherited = !matches!(open.flags(number), Ok(flags) if flags & O_CLOEXEC != 0);
        if number >= FIRST && inherited {
            nix::unistd::close(number).ok();
        }
    }
    Ok(())
}

/// How a descriptor leads out of the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leak {
    Directory,
    PathOnly,
    Socket,
    Object,
    Unknown,
}

impl Leak {
    fn description(self) -> &'static str {
        match self {
            Self::Directory => "a directory, by which all files are reached",
            Self::PathOnly => "a place in the real tree (O_PATH), by which all files are reached",
            Self::Socket => "a socket, which can carry descriptors of directories",
            Self::Object => "a kernel object that leads out of the view",
            Self::Unknown => "nothing that can be examined",
        }
    }
}

/// The open descriptors of this process, as `/proc/self` shows them.
struct OpenFds(OwnedFd);

impl OpenFds {
    fn read() -> Result<OpenFds, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open(PROC, flags, Mode::empty())?;
        // R3
        if rustix::fs::fstatfs(&proc)?.f_type != PROC_SUPER_MAGIC {
            return Err(Errno::NODEV);
        }
        Ok(OpenFds(proc))
    }

    fn numbers(&self) -> Result<Vec<i32>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.0, "fd", flags, Mode::empty())?;
        let mut numbers = Vec::new();
        for entry in Dir::new(dir)? {
            let entry = entry?;
            numbers.extend(
                entry
                    .file_name()
                    .to_str()
                    .ok()
                    .and_then(|name| name.parse::<i32>().ok()),
            );
        }
        Ok(numbers)
    }

    /// How this descriptor leads out of the view, if it does.
    fn leak_of(&self, number: i32) -> Option<Leak> {
        self.examine(number).unwrap_or(Some(Leak::Unknown))
    }

    fn kind(&self, number: i32) -> Result<FileType, Errno> {
        let stat = rustix::fs::statat(&self.0, format!("fd/{number}"), AtFlags::empty())?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    fn examine(&self, number: i32) -> Result<Option<Leak>, Errno> {
        let path = format!("fd/{number}");
        let (kind, flags) = (self.kind(number)?, self.flags(number)?);
        // A descriptor of this program.
        if flags & O_CLOEXEC != 0 {
            return Ok(None);
        }
        match kind {
            FileType::Directory => return Ok(Some(Leak::Directory)),
            FileType::Socket => return Ok(Some(Leak::Socket)),
            _ => {}
        }
        if flags & O_PATH != 0 {
            return Ok(Some(Leak::PathOnly));
        }
        if !matches!(kind, FileType::RegularFile | FileType::Unknown) {
            return Ok(None);
        }
        let system = rustix::fs::statfs(format!("{PROC}/{path}"))?.f_type;
        Ok(match u64::try_from(system).unwrap_or(0) {
            NSFS_MAGIC | PIDFS_MAGIC => Some(Leak::Object),
            ANON_INODE_MAGIC => {
                let target = rustix::fs::readlinkat(&self.0, &path, Vec::new())?;
                (!HARMLESS.contains(&target.as_bytes())).then_some(Leak::Object)
            }
            _ => None,
        })
    }

    fn flags(&self, number: i32) -> Result<u32, Errno> {
        let info = std::fs::read_to_string(format!("{PROC}/fdinfo/{number}"));
        let info = info.map_err(|_| Errno::BADF)?;
        let mut lines = info.lines().filter_map(|line| line.strip_prefix("flags:"));
        let flags = lines.next().ok_or(Errno::INVAL)?.trim();
        u32::from_str_radix(flags, 8).map_err(|_| Errno::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::{AsFd, AsRawFd as _};
    use rustix::process::PidfdFlags;
    use std::os::unix::net::UnixStream;

    #[test]
    fn leaking_descriptors_are_distinguished_from_files() {
        let open = OpenFds::read().unwrap();
        let what = |fd: &dyn AsFd| {
            let own = open.leak_of(fd.as_fd().as_raw_fd());
            assert_eq!(own, None, "does not go through an exec");
            // A copy survives it.
            let copy = rustix::io::dup(fd.as_fd()).unwrap();
            open.leak_of(copy.as_raw_fd())
        };
        let file = |path: &str, flags| {
            rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap()
        };
        assert_eq!(what(&file("/dev/null", OFlags::RDWR)), None);
        assert_eq!(what(&file("/proc/version", OFlags::RDONLY)), None);
        assert_eq!(what(&std::io::pipe().unwrap().0), None);
        assert_eq!(what(&file("/", OFlags::RDONLY)), Some(Leak::Directory));
        assert_eq!(what(&file("/", OFlags::PATH)), Some(Leak::Directory));
        assert_eq!(
            what(&file("/proc/version", OFlags::PATH)),
            Some(Leak::PathOnly)
        );
        assert_eq!(what(&UnixStream::pair().unwrap().0), Some(Leak::Socket));
        let namespace = file("/proc/self/ns/mnt", OFlags::RDONLY);
        assert_eq!(what(&namespace), Some(Leak::Object));
        let process = rustix::process::getpid();
        let process = rustix::process::pidfd_open(process, PidfdFlags::empty());
        assert_eq!(what(&process.unwrap()), Some(Leak::Object));
        // A descriptor that is not open.
        assert_eq!(open.leak_of(1 << 20), Some(Leak::Unknown));
        let numbers = open.numbers().unwrap();
        assert!(numbers.contains(&namespace.as_raw_fd()));
    }
}
