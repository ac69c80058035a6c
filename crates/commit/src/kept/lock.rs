// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks the directory of a view for one process, once its owner and permissions are checked, and
//! names the process that has the lock if it is taken.
//!
//! # Rules
//! R1. The directory belongs to the user of this process, root included: what another user keeps
//!     in it would be acted upon with the rights of this one.
//! R2. It is closed to others before anything in it is used. One that others could write to is
//!     refused, and so is one that is open to them and holds other files, which need not be meant
//!     to be private.
//! R3. The lock counts if the locked file still has the name `lock` in the directory.
//! R4. It is refused while an overlay of the kernel still uses the upper tree (`kernel_work`). What
//!     one has left of an ordinary user's is converted first (`part`).
//! R5. A conversion needs room, and a full file system must not keep a view from being discarded.

use super::{LOCK, SERVE, kernel_work, own_names, part};
use crate::attributes::owner::is_own;
use crate::host::process::parent_of;
use crate::host::view_dir::ViewDir;
use crate::report::printable::printable;
use crate::report::refusal::{Refusal, RefusalKind};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Stat};
use rustix::io::Errno;
use rustix::process::Pid;
use std::io;
use std::time::Duration;

/// How often a lock file that goes away is made again.
const TRIES: u32 = 16;
/// Between two of them, where another process holds the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// The lock of a view's directory, until it is dropped.
///
/// It is unlocked explicitly: a child of this process that has not yet executed its program has the
/// descriptor too, and closing ours alone would leave the lock with it.
#[derive(Debug)]
pub struct ViewLock {
    file: OwnedFd,
    dir: ViewDir,
}

impl Drop for ViewLock {
    fn drop(&mut self) {
        // What cannot be unlocked is unlocked by the last close.
        let _closed_instead = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl ViewLock {
    /// The directory that is locked.
    #[must_use]
    pub fn dir(&self) -> &ViewDir {
        &self.dir
    }

    /// A descriptor of the directory.
    ///
    /// # Errors
    /// Those of dup(2).
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.dir.descriptor()
    }

    #[cfg(test)]
    pub(super) fn inherited(&self) -> OwnedFd {
        self.file.try_clone().unwrap()
    }
}

/// Checks the directory (R1, R2) and locks it.
///
/// # Errors
/// R1, R2; another process has the lock; R4; what the file system says.
pub(super) fn lock(dir: &ViewDir) -> Result<ViewLock, Refusal> {
    let held = lock_as_it_is(dir)?;
    // R4
    let is_idle = match rustix::process::geteuid().is_root() {
        true => kernel_work::remove_idle_kernel_work(dir).map(|used| used.is_empty()),
        false => part::take_part_back(dir, None, Duration::ZERO),
    };
    match is_idle {
        Ok(true) => Ok(held),
        Ok(false) => Err(outlived(dir)),
        Err(why) => Err(part_stays(dir, why)),
    }
}

/// The same for a discard: what an overlay of the kernel has left stays as it is (R5).
///
/// # Errors
/// As [`lock`].
pub(super) fn lock_to_discard(dir: &ViewDir) -> Result<ViewLock, Refusal> {
    if rustix::process::geteuid().is_root() {
        return lock(dir);
    }
    let held = lock_as_it_is(dir)?;
    match part::is_idle(dir) {
        Ok(true) => Ok(held),
        Ok(false) => Err(outlived(dir)),
        Err(why) => Err(part_stays(dir, why)),
    }
}

fn lock_as_it_is(dir: &ViewDir) -> Result<ViewLock, Refusal> {
    owned(dir)?;
    private(dir)?;
    // Another process that lists views, or makes one, holds the lock for a moment.
    let mut file = locked(dir).map_err(|why| dir.failed(why))?;
    for _ in 0..TRIES {
        if file.is_some() {
            break;
        }
        std::thread::sleep(PAUSE);
        file = locked(dir).map_err(|why| dir.failed(why))?;
    }
    Ok(ViewLock {
        file: file.ok_or_else(|| in_use(dir))?,
        dir: dir.clone(),
    })
}

/// The sentence for what an overlay of the kernel has left.
fn part_stays(dir: &ViewDir, why: io::Error) -> Refusal {
    if why.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) {
        let text = format!(
            "{}: no space left to take up what a run with --engine kernel has left: make room, or \
             discard the view",
            dir.path().display()
        );
        return Refusal::new(RefusalKind::NoSpace, text);
    }
    if why.raw_os_error() == Some(Errno::BUSY.raw_os_error()) {
        let text = format!(
            "a process that a run left behind still works on the view in {}: end it, as found by \
             `pgrep -f kernel-work`, or wait until it ends",
            dir.path().display()
        );
        return Refusal::new(RefusalKind::Busy, text);
    }
    dir.failed(why)
}

/// Whether another process has the lock; nothing is made for this.
pub(super) fn is_locked(dir: &ViewDir) -> bool {
    let Ok(Some(file)) = dir.open_file(LOCK) else {
        return false;
    };
    is_file_locked(&file)
}

/// Whether another process has this lock file locked. Two such tests do not see each other, and the
/// lock is given up explicitly, as that of a [`ViewLock`].
pub(super) fn is_file_locked(file: impl AsFd) -> bool {
    let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
    if lock.is_ok() {
        // What cannot be unlocked is unlocked by the last close.
        let _closed_instead = rustix::fs::flock(&file, FlockOperation::Unlock);
    }
    lock == Err(Errno::WOULDBLOCK)
}

/// R1
pub(super) fn owned(dir: &ViewDir) -> Result<(), Refusal> {
    let stat = dir.stat().map_err(|why| dir.failed(why))?;
    if is_own(stat.st_uid) {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalKind::Untrusted,
        format!(
            "the view in {} belongs to user {}: run as that user",
            dir.path().display(),
            stat.st_uid
        ),
    ))
}

/// R2
fn private(dir: &ViewDir) -> Result<(), Refusal> {
    let failed = |why: io::Error| dir.failed(why);
    let mode = dir.stat().map_err(failed)?.st_mode;
    if mode & 0o077 == 0 {
        return dir.close_to_others().map_err(failed);
    }
    let names = dir.names().map_err(failed)?;
    let shown = dir.path().display();
    if mode & 0o022 != 0 && !names.is_empty() {
        return Err(Refusal::new(
            RefusalKind::Untrusted,
            format!(
                "others can write to {shown}, so what is in it cannot be trusted: name a new \
                 directory"
            ),
        ));
    }
    if let Some(other) = names.iter().find(|name| !is_ours(name)) {
        let other = printable(other);
        return Err(Refusal::new(
            RefusalKind::Untrusted,
            format!(
                "{shown} holds {other} and is open to other users: name a new directory, or \
             `chmod 700` this one"
            ),
        ));
    }
    dir.close_to_others().map_err(failed)
}

fn is_ours(name: &[u8]) -> bool {
    let name = name.strip_suffix(b".new").unwrap_or(name);
    own_names().any(|ours| ours.as_bytes() == name)
}

/// Whether this file still has the name of the lock. Its links do not tell: it may have others.
pub(super) fn has_name(dir: &ViewDir, file: impl AsFd) -> io::Result<bool> {
    let mine = rustix::fs::fstat(file)?;
    match rustix::fs::statat(dir, LOCK, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(false),
        named => {
            let named = named?;
            Ok((named.st_dev, named.st_ino) == (mine.st_dev, mine.st_ino))
        }
    }
}

/// The sentence for a directory that another process has locked.
fn in_use(dir: &ViewDir) -> Refusal {
    let shown = dir.path().display();
    let holder = dir.open_file(LOCK).ok().flatten();
    let holder = holder.and_then(|file| holder_of(&rustix::fs::fstat(&file).ok()?));
    Refusal::new(
        RefusalKind::Busy,
        match holder {
            None => format!("the view in {shown} is in use by another process: wait until it ends"),
            Some(pid) => match front_of(pid) {
                Some(front) => format!(
                    "the view in {shown} is in use by process {front}: wait until it ends, or \
                     enter it by `openpath exec {front} -- COMMAND`"
                ),
                None => {
                    format!("the view in {shown} is in use by process {pid}: wait until it ends")
                }
            },
        },
    )
}

/// The sentence for a directory that an overlay of the kernel uses.
fn outlived(dir: &ViewDir) -> Refusal {
    let text = format!(
        "a process that outlived a run still has files of the view in {} open: end it, as found by \
         `ls -l /proc/*/cwd /proc/*/fd`",
        dir.path().display()
    );
    Refusal::new(RefusalKind::Busy, text)
}

/// The process that has a file locked, as far as `/proc/locks` says.
fn holder_of(file: &Stat) -> Option<i32> {
    let (major, minor) = (
        rustix::fs::major(file.st_dev),
        rustix::fs::minor(file.st_dev),
    );
    let wanted = format!("{major:02x}:{minor:02x}:{}", file.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`; one that waits has `->` after its number.
    let mut held = locks.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, pid, file, ..] = &words[..] else {
            return None;
        };
        let pid: i32 = pid.parse().ok()?;
        (file == wanted && pid > 0).then_some(pid)
    });
    held.next()
}

/// The process that was started as `openpath run`, if this is its server.
fn front_of(server: i32) -> Option<i32> {
    let line = std::fs::read(format!("/proc/{server}/cmdline")).ok()?;
    let is_server = line.split(|byte| *byte == 0).nth(1) == Some(SERVE.as_bytes());
    let front = parent_of(Pid::from_raw(server)?)?;
    is_server.then_some(front.as_raw_nonzero().get())
}

/// The lock file, locked; `None` if another process has it.
fn locked(dir: &ViewDir) -> io::Result<Option<OwnedFd>> {
    for _ in 0..TRIES {
        let file = match dir.open_file(LOCK)? {
            Some(file) => file,
            None => match dir.create_new(LOCK) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            },
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            done => done?,
        }
        // R3
        if has_name(dir, &file)? {
            return Ok(Some(file.into()));
        }
    }
    Err(Errno::AGAIN.into())
}
