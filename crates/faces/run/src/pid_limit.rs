// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the processes and threads of a pid namespace, by the process numbers that it can give
//! out.
//!
//! # Kernel analogue
//! From Linux 6.14 on `kernel.pid_max` is a setting of each pid namespace, and a process has a
//! number in its own namespace and in all above. So a namespace made inside cannot have more
//! processes.
//!
//! # Rules
//! R1. Before Linux 6.14 the setting applies to the whole machine: nothing is written then.
//! R2. The kernel gives out numbers below 300 only once. `kernel.ns_last_pid` skips them before the
//!     first process is counted, so that the namespace has exactly the numbers of the limit.
//! R3. Raising the setting needs `CAP_SYS_ADMIN` in the namespace, which a command has only in a
//!     run by root.

use crate::plan::Plan;
use crate::share::Share;
use openpath_commit::{Refusal, RefusalKind};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The first number that is given out more than once.
const RESERVED: u32 = 300;

/// Why a limit on the view's own processes cannot hold.
pub(crate) const SHARED: &str = "the view has no processes of its own: leave out --share pid";

/// The setting of a namespace, below `/proc`.
const MAX: &str = "sys/kernel/pid_max";
/// The last number that was given out.
const LAST: &str = "sys/kernel/ns_last_pid";

/// The limit that the view's pid namespace enforces; otherwise a control group does.
pub(crate) fn limit(plan: &Plan) -> Option<u32> {
    plan.limits.pids().filter(|_| check(plan).is_ok())
}

/// Whether the view's pid namespace can enforce a limit.
///
/// # Errors
/// It cannot, for this reason.
pub(crate) fn check(plan: &Plan) -> Result<(), String> {
    if plan.shares(Share::Pid) {
        return Err(SHARED.to_owned());
    }
    supported()
}

/// Whether the kernel can enforce a limit so.
///
/// # Errors
/// It cannot, for this reason.
pub(crate) fn supported() -> Result<(), String> {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    if version(&release) < (6, 14) {
        return Err(format!(
            "Linux {release} has no limit on processes for each pid namespace, as 6.14 has"
        ));
    }
    match rustix::fs::stat("/proc/sys/kernel/ns_last_pid") {
        Ok(_) => Ok(()),
        Err(_) => Err("the kernel has no CONFIG_CHECKPOINT_RESTORE".to_owned()),
    }
}

/// The first two numbers of a release.
pub(crate) fn version(release: &str) -> (u32, u32) {
    let numbers = release.split(['.', '-']);
    let mut numbers = numbers.map_while(|word| word.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Limits this process's pid namespace to `count` processes and threads besides its first process.
/// It contains the first process and the command's. `proc` is a `/proc`.
///
/// # Errors
/// The kernel cannot, or refuses it to this process.
pub(crate) fn hold(proc: BorrowedFd<'_>, count: u32) -> Result<(), Refusal> {
    // R1
    supported().map_err(|why| {
        Refusal::new(
            RefusalKind::Unsupported,
            format!("--limit pids={count}: {why}"),
        )
    })?;
    let failed = |why: Errno| {
        let text = format!("--limit pids={count} cannot be set in the view's pid namespace");
        Refusal::step(&text, why)
    };
    // R2. The command's process has its number already.
    write(proc, LAST, RESERVED).map_err(failed)?;
    write(proc, MAX, RESERVED + count - 1).map_err(failed)
}

fn write(proc: BorrowedFd<'_>, file: &str, value: u32) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::openat(proc, file, flags, Mode::empty())?;
    rustix::io::write(&file, value.to_string().as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn releases_are_compared_by_their_first_two_numbers() {
        assert_eq!(version("6.14.0-rc1"), (6, 14));
        assert_eq!(version("6.9-custom"), (6, 9));
        assert_eq!(version("4.4.0"), (4, 4));
        assert!(version("6.9") < (6, 14) && version("10.0") > (6, 14));
        assert_eq!(version("unknown"), (0, 0));
    }
}
