// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forks this process, and replaces the command line that others see of it.
//!
//! # Kernel analogue
//! fork(2), and the memory between `arg_start` and `arg_end` of proc(5), which a process may
//! overwrite.
//!
//! # Rules
//! R1. A process with several threads is not forked: its child would have only the calling one, and
//!     every lock that another one held would stay locked.
//! R2. The child ends in [`fork`]: neither a return nor a panic reaches frames of the parent, and
//!     what the parent has not written yet is not written twice.
//! R3. The child has the descriptors that a program executed anew would have. No value of the
//!     parent that owns another one is dropped or used in the child.
//! R4. The child does not need `/proc`, over which its parent may mount something by then.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// The exit status of a child that panicked.
const PANICKED: u8 = 101;
/// The links of `/proc/self/task` for a process with one thread: itself, its parent and the thread.
const ONE_THREAD: u64 = 3;
/// Fields of `/proc/self/stat`, counted from the state: where the arguments begin and end.
const ARGUMENTS: [usize; 2] = [45, 46];

/// Forks this process. In the child `stdin` becomes the standard input, and all other descriptors
/// with `O_CLOEXEC` are closed, which `child` must not use. The child ends with the status that
/// `child` returns, and the parent gets its number. `None`: this process has several threads, or
/// `/proc` does not tell (R1).
///
/// # Errors
/// `EAGAIN`, `ENOMEM`: those of fork(2).
pub fn fork(stdin: &OwnedFd, child: impl FnOnce() -> u8) -> io::Result<Option<i32>> {
    if !fs::metadata("/proc/self/task").is_ok_and(|tasks| tasks.nlink() == ONE_THREAD) {
        return Ok(None);
    }
    // R4
    let numbers = open_descriptors()?;
    // SAFETY: this is the only thread, so the child is a whole copy of this process: no lock is
    // held by a thread that it lacks, and it may do all that this process may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // R2. What `child` borrows is not seen again after a panic.
            let begun = || settle_descriptors(stdin, &numbers).map_or(PANICKED, |()| child());
            let status = catch_unwind(AssertUnwindSafe(begun)).unwrap_or(PANICKED);
            // SAFETY: it only ends this process.
            unsafe { libc::_exit(status.into()) }
        }
        pid => Ok(Some(pid)),
    }
}

/// The numbers of the descriptors of this process, and of one that is closed by then.
fn open_descriptors() -> io::Result<Vec<libc::c_int>> {
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// Gives this process the descriptors of a program executed anew, of these.
fn settle_descriptors(stdin: &OwnedFd, numbers: &[libc::c_int]) -> io::Result<()> {
    // SAFETY: dup2(2) reads no memory, and the standard input is owned by no value.
    if unsafe { libc::dup2(stdin.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    for number in numbers
        .iter()
        .filter(|number| **number > libc::STDERR_FILENO)
    {
        // SAFETY: neither call reads memory. A value that owns this descriptor is the parent's, and
        // is neither used nor dropped in this process (R3).
        unsafe {
            let flags = libc::fcntl(*number, libc::F_GETFD);
            if flags >= 0 && flags & libc::FD_CLOEXEC != 0 {
                libc::close(*number);
            }
        }
    }
    Ok(())
}

/// How many bytes the command line of this process may have; 0 if `/proc` does not tell.
#[must_use]
pub fn command_line_capacity() -> usize {
    arguments().map_or(0, |(_, length)| length)
}

/// Replaces the command line that others see of this process: words, each with a NUL after it.
/// Returns false, and changes nothing, if they do not fit. [`std::env::args`] gives other words
/// from then on.
pub fn set_command_line(line: &[u8]) -> bool {
    let Some((start, length)) = arguments().filter(|(_, length)| line.len() <= *length) else {
        return false;
    };
    let memory = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel has put the arguments there, which are writable memory of this process for
    // as long as it lives. The standard library alone knows pointers to them: it reads strings up
    // to a NUL, and the last byte is one. A caller that reads arguments in another thread at this
    // moment gets mixed words, and stays within them.
    unsafe {
        std::ptr::copy_nonoverlapping(line.as_ptr(), memory, line.len());
        memory.add(line.len()).write_bytes(0, length - line.len());
    }
    true
}

/// The address and the length of the arguments, which never move.
fn arguments() -> Option<(usize, usize)> {
    static KNOWN: OnceLock<Option<(usize, usize)>> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program, in parentheses, may contain blanks.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let [start, end] = ARGUMENTS.map(|at| fields.get(at)?.trim().parse::<usize>().ok());
        let (start, end) = (start?, end?);
        (start != 0 && start < end).then(|| (start, end - start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_with_several_threads_is_not_forked() {
        let (_ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let other = std::thread::spawn(std::thread::park);
        let forked = fork(&theirs.into(), || 0);
        other.thread().unpark();
        other.join().unwrap();
        assert_eq!(forked.unwrap(), None);
    }

    #[test]
    fn arguments_are_those_of_this_process() {
        let line = fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(command_line_capacity(), line.len());
        assert!(!set_command_line(&vec![b'x'; line.len() + 1]));
        assert_eq!(fs::read("/proc/self/cmdline").unwrap(), line);
    }
}
