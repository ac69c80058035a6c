// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a process becomes the command: which of the caller's descriptors go with it.
//!
//! # Kernel analogue
//! None: a descriptor goes through exec(2) unless it was opened with `O_CLOEXEC`.
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
//! R0. What the caller names (`--keep-fd`) is kept, whatever it is.
//! R1. By a directory or an `O_PATH` descriptor all of the real tree around it is reached. A socket
//!     can hold such descriptors in its queue, and so can an io_uring; a namespace or a pidfd leads
//!     to processes outside. None of these goes to the command.
//! R2. A file that the caller opened is the real file (L76).
//! R3. What cannot be examined is not kept. `/proc` must be the kernel's: the view's own tree could
//!     show any descriptors.

use crate::plan::Go;
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
/// The first that is none of the standard streams.
const FIRST: i32 = 3;
/// `O_PATH` and `O_CLOEXEC`, as the kernel writes them for a descriptor.
const O_PATH: u32 = 0o10_000_000;
const O_CLOEXEC: u32 = 0o2_000_000;
/// File systems of kernel objects: namespaces, pidfds, and those without a type.
const NSFS_MAGIC: u64 = 0x6e73_6673;
const PIDFS_MAGIC: u64 = 0x5049_4446;
const ANON_INODE_MAGIC: u64 = 0x0904_1934;
/// Kernel objects that lead nowhere.
const HARMLESS: [&[u8]; 2] = [b"anon_inode:[eventfd]", b"anon_inode:[timerfd]"];

/// Becomes the command, to which nothing that leads out of the view is left open.
///
/// # Errors
/// A standard stream leads out of it; what is open cannot be read; the process cannot be confined;
/// the command cannot be executed.
pub(crate) fn execute(command: &[OsString], go: &Go) -> Result<Infallible, Refusal> {
    let (name, args) = command
        .split_first()
        .ok_or_else(|| Refusal::new("no command"))?;
    close_ways_out(&go.keep_fds)?;
    crate::confine::apply(go)?;
    let why = Command::new(name).args(args).exec();
    Err(Refusal::exec(name, &why))
}

/// Closes what leads out of the view. Nothing in this process owns any of it: what this program
/// opens does not go through an exec. No other thread opens more.
fn close_ways_out(kept: &[i32]) -> Result<(), Refusal> {
    let failed = |why| Refusal::step("cannot read the open descriptors from /proc", why);
    let open = Open::read().map_err(failed)?;
    for number in open.numbers().map_err(failed)? {
        // R0
        if kept.contains(&number) {
            continue;
        }
        let Some(what) = open.way_out(number) else {
            continue;
        };
        if number < FIRST && what != What::Socket {
            return Err(Refusal::new(format!(
                "descriptor {number} is {}: redirect it, as by `{number}</dev/null`, or say \
                 `--keep-fd {number}`",
                what.words()
            )));
        }
        if number >= FIRST {
            // One that was closed meanwhile is the reader's own.
            nix::unistd::close(number).ok();
        }
    }
    Ok(())
}

/// Checks that descriptors which are to be kept were left open by the caller.
///
/// # Errors
/// One is not open, or is one of this program's; what is open cannot be read.
pub(crate) fn check_kept(kept: &[i32]) -> Result<(), Refusal> {
    if kept.is_empty() {
        return Ok(());
    }
    let open = Open::read()
        .map_err(|why| Refusal::step("cannot read the open descriptors from /proc", why))?;
    let is_left = |number| open.flags(number).is_ok_and(|flags| flags & O_CLOEXEC == 0);
    match kept.iter().find(|number| !is_left(**number)) {
        None => Ok(()),
        Some(number) => Err(Refusal::new(format!(
            "--keep-fd {number}: there is no open descriptor {number}: open it before, as by \
             `{number}<FILE`"
        ))),
    }
}

/// Closes all that the caller left open but the standard streams, as [`close_ways_out`] does.
///
/// # Errors
/// What is open cannot be read.
pub(crate) fn close_others() -> Result<(), Refusal> {
    let failed = |why| Refusal::step("cannot read the open descriptors from /proc", why);
    let open = Open::read().map_err(failed)?;
    for number in open.numbers().map_err(failed)? {
        // What cannot be examined is closed as well: nothing of this program's is without the flag.
        let inherited = !matches!(open.flags(number), Ok(flags) if flags & O_CLOEXEC != 0);
        if number >= FIRST && inherited {
            nix::unistd::close(number).ok();
        }
    }
    Ok(())
}

/// What leads out of the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Directory,
    Place,
    Socket,
    Object,
    Unknown,
}

impl What {
    fn words(self) -> &'static str {
        match self {
            Self::Directory => "a directory, by which all files are reached",
            Self::Place => "a place in the real tree (O_PATH), by which all files are reached",
            Self::Socket => "a socket, which can carry descriptors of directories",
            Self::Object => "a kernel object that leads out of the view",
            Self::Unknown => "nothing that can be examined",
        }
    }
}

/// The open descriptors of this process, as `/proc/self` shows them.
struct Open(OwnedFd);

impl Open {
    fn read() -> Result<Open, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = rustix::fs::open(PROC, flags, Mode::empty())?;
        // R3
        if rustix::fs::fstatfs(&proc)?.f_type != PROC_SUPER_MAGIC {
            return Err(Errno::NODEV);
        }
        Ok(Open(proc))
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

    /// What it is, if it leads out of the view.
    fn way_out(&self, number: i32) -> Option<What> {
        self.examine(number).unwrap_or(Some(What::Unknown))
    }

    fn kind(&self, number: i32) -> Result<FileType, Errno> {
        let stat = rustix::fs::statat(&self.0, format!("fd/{number}"), AtFlags::empty())?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    fn examine(&self, number: i32) -> Result<Option<What>, Errno> {
        let path = format!("fd/{number}");
        let (kind, flags) = (self.kind(number)?, self.flags(number)?);
        // One of this program's.
        if flags & O_CLOEXEC != 0 {
            return Ok(None);
        }
        match kind {
            FileType::Directory => return Ok(Some(What::Directory)),
            FileType::Socket => return Ok(Some(What::Socket)),
            _ => {}
        }
        if flags & O_PATH != 0 {
            return Ok(Some(What::Place));
        }
        if !matches!(kind, FileType::RegularFile | FileType::Unknown) {
            return Ok(None);
        }
        let system = rustix::fs::statfs(format!("{PROC}/{path}"))?.f_type;
        Ok(match u64::try_from(system).unwrap_or(0) {
            NSFS_MAGIC | PIDFS_MAGIC => Some(What::Object),
            ANON_INODE_MAGIC => {
                let target = rustix::fs::readlinkat(&self.0, &path, Vec::new())?;
                (!HARMLESS.contains(&target.as_bytes())).then_some(What::Object)
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
    fn descriptors_that_lead_out_are_told_from_files() {
        let open = Open::read().unwrap();
        let what = |fd: &dyn AsFd| {
            let own = open.way_out(fd.as_fd().as_raw_fd());
            assert_eq!(own, None, "does not go through an exec");
            // A copy does.
            let copy = rustix::io::dup(fd.as_fd()).unwrap();
            open.way_out(copy.as_raw_fd())
        };
        let file = |path: &str, flags| {
            rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap()
        };
        assert_eq!(what(&file("/dev/null", OFlags::RDWR)), None);
        assert_eq!(what(&file("/proc/version", OFlags::RDONLY)), None);
        assert_eq!(what(&std::io::pipe().unwrap().0), None);
        assert_eq!(what(&file("/", OFlags::RDONLY)), Some(What::Directory));
        assert_eq!(what(&file("/", OFlags::PATH)), Some(What::Directory));
        assert_eq!(
            what(&file("/proc/version", OFlags::PATH)),
            Some(What::Place)
        );
        assert_eq!(what(&UnixStream::pair().unwrap().0), Some(What::Socket));
        let namespace = file("/proc/self/ns/mnt", OFlags::RDONLY);
        assert_eq!(what(&namespace), Some(What::Object));
        let process = rustix::process::getpid();
        let process = rustix::process::pidfd_open(process, PidfdFlags::empty());
        assert_eq!(what(&process.unwrap()), Some(What::Object));
        // One that is not open.
        assert_eq!(open.way_out(1 << 20), Some(What::Unknown));
        let numbers = open.numbers().unwrap();
        assert!(numbers.contains(&namespace.as_raw_fd()));
    }
}
