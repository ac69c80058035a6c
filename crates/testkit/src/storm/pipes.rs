// SPDX-License-Identifier: MIT OR Apache-2.0
//! Has a writer and a reader meet at a FIFO while its dentries are evicted and their waits are
//! interrupted. Each message must arrive whole.

use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY, O_WRONLY};
use openpath_abi::{Errno, OFlags, mode};
use openpath_vfs::{Cred, Task};

use super::Place;
use super::world::Held;

/// The FIFO, outside all jails.
const FIFO: &[u8] = b"/out/fifo";
/// Length of one message; all of its bytes are the same.
const MESSAGE: usize = 512;

/// Makes the FIFO.
///
/// # Errors
/// That of mknod(2).
pub(super) fn set_up(task: &Task) -> Result<(), Errno> {
    task.mknodat(AT_FDCWD, FIFO, mode::S_IFIFO | 0o666, 0)
}

/// Opens to write, and writes a few messages.
pub(super) fn write(p: &mut Place<'_>) -> Result<(), Errno> {
    let task = p.shared.vfs.task(Cred::root())?;
    p.can_be_interrupted(&task);
    while !p.shared.over() {
        p.step(0);
        let Some(end) = open(p, &task, O_WRONLY.bits())? else {
            continue;
        };
        for _ in 0..p.rng.below(20) {
            p.step(1);
            let byte = p.rng.below(256) as u8;
            match task.write(end.1, &[byte; MESSAGE]) {
                Ok(MESSAGE) | Err(Errno::EPIPE | Errno::EINTR) => {}
                other => p.shared.wrong(format!("write to a FIFO: {other:?}")),
            }
        }
    }
    Ok(())
}

/// The calls of `write` in each kind of step.
pub(super) fn write_calls(doing: u64) -> &'static str {
    if doing == 0 {
        "open of a FIFO to write"
    } else {
        "write to a FIFO"
    }
}

/// Opens to read, and reads until no writer is left.
pub(super) fn read(p: &mut Place<'_>) -> Result<(), Errno> {
    let task = p.shared.vfs.task(Cred::root())?;
    p.can_be_interrupted(&task);
    let mut body = [0; MESSAGE];
    while !p.shared.over() {
        p.step(0);
        let Some(end) = open(p, &task, O_RDONLY.bits())? else {
            continue;
        };
        loop {
            p.step(1);
            match task.read(end.1, &mut body) {
                Ok(0) | Err(Errno::EINTR) => break,
                // A write of at most the pipe's atomic size is written whole, or not at all.
                Ok(MESSAGE) if body.iter().all(|byte| *byte == body[0]) => {}
                other => p
                    .shared
                    .wrong(format!("read from a FIFO: {other:?}, {body:?}")),
            }
            if p.shared.over() {
                break;
            }
        }
    }
    Ok(())
}

/// The calls of `read` in each kind of step.
pub(super) fn read_calls(doing: u64) -> &'static str {
    if doing == 0 {
        "open of a FIFO to read"
    } else {
        "read from a FIFO"
    }
}

fn open<'t>(p: &Place<'_>, task: &'t Task, how: u32) -> Result<Option<Held<'t>>, Errno> {
    match task.open(FIFO, OFlags::from_bits_retain(how), 0) {
        Ok(fd) => Ok(Some(Held(task, fd))),
        Err(Errno::EINTR) => Ok(None),
        Err(e) => {
            p.shared.wrong(format!("open of a FIFO: {e}"));
            Err(e)
        }
    }
}
