// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a process becomes the command: what the caller left open of directories is closed before.
//!
//! # Kernel analogue
//! None: a descriptor goes through exec(2) unless it was opened with `O_CLOEXEC`.
//!
//! # Rules
//! R1. By a descriptor of a directory, or one that stands for a place (`O_PATH`), the whole real
//!     tree around it is reached. None goes to the command; one of the first three is refused.
//! R2. Any other is the command's: a file that the caller opened is the real file (L76).

use crate::Refusal;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The descriptors of this process.
const OPEN: &str = "/proc/self/fd";
/// The first that is none of the standard streams.
const FIRST: i32 = 3;
/// `O_PATH`, as the kernel writes it for a descriptor.
const O_PATH: u32 = 0o10_000_000;

/// Becomes the command, to which nothing that leads into the real tree is left open.
///
/// # Errors
/// A standard stream is such; what is open cannot be read; the command cannot be executed.
pub(crate) fn execute(command: &[OsString]) -> Result<Infallible, Refusal> {
    let (name, args) = command
        .split_first()
        .ok_or_else(|| Refusal::new("no command"))?;
    close_ways_out()?;
    let why = Command::new(name).args(args).exec();
    Err(Refusal::exec(name, &why))
}

/// Closes what leads into the real tree. Only for the moment before an exec: nobody in this process
/// owns any of it then.
fn close_ways_out() -> Result<(), Refusal> {
    let ways = ways_out().map_err(|why| Refusal::step("open descriptors", why))?;
    for number in ways {
        if number < FIRST {
            let text =
                format!("descriptor {number} is a directory, by which all files are reached");
            return Err(Refusal::new(text));
        }
        // One that was closed meanwhile is the reader's own.
        nix::unistd::close(number).ok();
    }
    Ok(())
}

fn ways_out() -> io::Result<Vec<i32>> {
    let mut ways = Vec::new();
    for entry in fs::read_dir(OPEN)? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // What cannot be looked at is not open any more.
        let is_dir = fs::metadata(format!("{OPEN}/{number}")).is_ok_and(|meta| meta.is_dir());
        if is_dir || is_place(number) {
            ways.push(number);
        }
    }
    Ok(ways)
}

/// Whether it stands for a place, and not for an open file.
fn is_place(number: i32) -> bool {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let mut lines = info.lines().filter_map(|line| line.strip_prefix("flags:"));
    let flags = lines.next().map(str::trim);
    flags.is_some_and(|flags| u32::from_str_radix(flags, 8).is_ok_and(|flags| flags & O_PATH != 0))
}
