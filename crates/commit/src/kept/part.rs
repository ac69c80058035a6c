// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lends a part of an ordinary user's upper tree to an overlay of the kernel, and takes it back.
//!
//! An ordinary user can mount only in a user namespace. So this program starts itself once more for
//! each of these steps, as a process ([`work_in_namespace`]) that makes such a namespace with one
//! user and one group, and works on the directory that it is started in.
//!
//! # States
//! The symbolic link with the name of the state is in `kernel-work` ([`KERNEL_WORK`]), and its
//! target is the part's path in the upper tree. Without that directory the whole tree has our
//! format.
//!
//! | state | entries of the part |
//! |---|---|
//! | `preparing` | some have the kernel's format; attributes with our prefix are ours |
//! | `lent` | all have the kernel's format; such attributes are the command's, some set aside |
//! | `stripped` | some have our format; such attributes are ours, the command's are set aside |
//!
//! # Rules
//! R1. `kernel_work` says how a process finds out that no overlay uses the part any more. Before
//!     that nothing in it is touched, whatever the state is.
//! R2. Each lock of a view but that for a discard takes the part back, so no other code meets the
//!     kernel's format, also after kill -9.
//! R3. Such a process can outlive the one that started it, and the view's lock with that. So each
//!     locks `kernel-work` itself, and the next one waits for it.
//! R4. The process answers on its standard output. Anything but one of the expected words is an
//!     error: another program may have been started.

use crate::host::descriptors::{path_by_number, reopen_path};
use crate::kept::copied_places;
use crate::kept::kernel_work::{self, KERNEL_WORK};
use crate::kept::own_format;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The verb of the process in a user namespace; a step and its arguments follow.
pub const WORK_VERB: &str = "kernel-work";
/// This program, even after its file was replaced.
const SELF: &str = "/proc/self/exe";
/// Between two looks at an overlay.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a process waits for one that its starter left behind.
const LEFT: Duration = Duration::from_secs(30);

/// The user namespace of the process: the one at its standard input, or a new one.
const GIVEN: &str = "given";
const OWN_SPACE: &str = "own";

const PREPARING: &str = "preparing";
const LENT: &str = "lent";
const STRIPPED: &str = "stripped";
/// The directory in which files are made that replace others.
const SCRATCH: &str = "scratch";
/// All states.
const STATES: [&str; 3] = [PREPARING, LENT, STRIPPED];
/// What is no work directory of an overlay.
const OTHERS: [&str; 4] = [PREPARING, LENT, STRIPPED, SCRATCH];
/// The work directory of the overlay, in `kernel-work`.
const WORK: &str = "0";

/// Lends the part at this path of the upper tree in `dir` to the kernel, which is to make one
/// overlay with the work directory `kernel-work/0`. After an error the part must be taken back.
/// `space`: the user namespace of the mount with the tree, if it is not this process's.
///
/// # Errors
/// `EOPNOTSUPP`: the part has entries that the kernel cannot show. What unshare(2), the kernel's
/// overlay and the file system say.
pub fn lend_part(dir: impl AsFd, part: &Path, space: Option<&OwnedFd>) -> io::Result<()> {
    match ask(dir.as_fd(), space, &[OsStr::new("lend"), part.as_os_str()])? {
        true => Ok(()),
        false => Err(Errno::BUSY.into()),
    }
}

/// Takes the part back that was lent, as soon as no overlay uses it, and removes the work
/// directories. Returns false if one still does after so long.
///
/// # Errors
/// As [`lend_part`].
pub fn take_part_back(
    dir: impl AsFd,
    space: Option<&OwnedFd>,
    patience: Duration,
) -> io::Result<bool> {
    let dir = dir.as_fd();
    let Some(work) = kernel_work::open(dir, KERNEL_WORK)? else {
        return Ok(true);
    };
    let patience = OsString::from(patience.as_millis().to_string());
    if !ask(dir, space, &[OsStr::new("take"), &patience])? {
        return Ok(false);
    }
    if let Some((STRIPPED, part)) = state(&work)? {
        own_format::keep_acls(open_part(dir, &part)?)?;
    }
    copied_places::remove_unchanged(dir, &work)?;
    kernel_work::remove(dir, &work)?;
    Ok(true)
}

/// Whether an overlay still uses the part that was lent.
pub(super) fn is_idle(dir: impl AsFd) -> io::Result<bool> {
    match kernel_work::open(&dir, KERNEL_WORK)? {
        None => Ok(true),
        Some(_) => ask(dir.as_fd(), None, &[OsStr::new("look")]),
    }
}

/// Starts a process for a step; returns whether it was done, and no overlay was in use.
fn ask(dir: BorrowedFd<'_>, space: Option<&OwnedFd>, words: &[&OsStr]) -> io::Result<bool> {
    let mut command = Command::new(SELF);
    let (which, stdin) = match space {
        Some(space) => (GIVEN, space.try_clone()?.into()),
        None => (OWN_SPACE, Stdio::null()),
    };
    command
        .arg0("openpath")
        .args([WORK_VERB, which])
        .args(words);
    command.current_dir(path_by_number(dir));
    command.stdin(stdin).stderr(Stdio::null());
    let output = command.output()?;
    let answer = output.stdout.strip_suffix(b"\n").unwrap_or(b"");
    let strange = || io::Error::other("the process for a part of the view gave no answer");
    match answer {
        b"done" => Ok(true),
        b"busy" => Ok(false),
        // R4
        answer => {
            let number = answer.strip_prefix(b"error ").ok_or_else(strange)?;
            let number = std::str::from_utf8(number)
                .ok()
                .and_then(|n| n.parse().ok());
            Err(io::Error::from_raw_os_error(number.ok_or_else(strange)?))
        }
    }
}

/// Does a step in a new user namespace, with the directory that it is started in, and says the
/// result on standard output. This process must have one thread.
#[must_use]
pub fn work_in_namespace(words: &[OsString]) -> ExitCode {
    let answer = match step(words) {
        Ok(true) => "done".to_owned(),
        Ok(false) => "busy".to_owned(),
        Err(why) => {
            let number = why.raw_os_error();
            format!("error {}", number.unwrap_or(Errno::IO.raw_os_error()))
        }
    };
    match writeln!(io::stdout(), "{answer}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    }
}

fn step(words: &[OsString]) -> io::Result<bool> {
    let (which, words) = words.split_first().ok_or(Errno::INVAL)?;
    match which.to_str() {
        Some(GIVEN) => enter_given()?,
        Some(OWN_SPACE) => enter_own()?,
        _ => return Err(Errno::INVAL.into()),
    }
    // The working directory, in this mount namespace.
    let dir = reopen_path(CWD)?;
    match words {
        [step, part] if step == "lend" => lend(&dir, Path::new(part)).map(|()| true),
        [step, patience] if step == "take" => {
            let patience = patience.to_str().and_then(|text| text.parse().ok());
            take(&dir, Duration::from_millis(patience.unwrap_or(0)))
        }
        [step] if step == "look" => match kernel_work::open(&dir, KERNEL_WORK)? {
            Some(work) => is_unused(&work),
            None => Ok(true),
        },
        _ => Err(Errno::INVAL.into()),
    }
}

/// Enters the user namespace at standard input, with mounts of its own.
fn enter_given() -> io::Result<()> {
    let kind = Some(LinkNameSpaceType::User);
    rustix::thread::move_into_link_name_space(io::stdin().as_fd(), kind)?;
    Ok(unshare(UnshareFlags::NEWNS)?)
}

#[expect(
    deprecated,
    reason = "deprecated for CLONE_FILES, which is not asked for here; the other form is unsafe"
)]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

fn enter_own() -> io::Result<()> {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // An unprivileged process must give up changing groups before it maps one.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

fn lend(dir: &OwnedFd, part: &Path) -> io::Result<()> {
    let work = kernel_work::make(dir)?;
    lock(&work)?;
    rustix::fs::mkdirat(&work, WORK, Mode::RWXU)?;
    rustix::fs::mkdirat(&work, SCRATCH, Mode::RWXU)?;
    for name in [WORK, SCRATCH] {
        // Files that are made there would get the list.
        let made = kernel_work::open(&work, name)?.ok_or(Errno::NOENT)?;
        let list = "system.posix_acl_default";
        match rustix::fs::removexattr(path_by_number(&made), list) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(why) => return Err(why.into()),
        }
    }
    rustix::fs::symlinkat(part, &work, PREPARING)?;
    let scratch = kernel_work::open(&work, SCRATCH)?.ok_or(Errno::NOENT)?;
    own_format::to_kernel(open_part(dir.as_fd(), part)?, scratch.as_fd())?;
    rustix::fs::renameat(&work, PREPARING, &work, LENT)?;
    Ok(own_format::put_back(open_part(dir.as_fd(), part)?)?)
}

/// Locks the directory with the work directories until this process has ended (R3).
///
/// # Errors
/// `EBUSY`: another such process works for longer than [`LEFT`].
fn lock(work: &OwnedFd) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(work, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LEFT => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(Errno::BUSY.into()),
            done => return Ok(done?),
        }
    }
}

fn take(dir: &OwnedFd, patience: Duration) -> io::Result<bool> {
    let work = kernel_work::open(dir, KERNEL_WORK)?.ok_or(Errno::NOENT)?;
    lock(&work)?;
    let begun = Instant::now();
    while !is_unused(&work)? {
        if begun.elapsed() >= patience {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
    let Some((at, part)) = state(&work)? else {
        return Ok(true);
    };
    if at == LENT {
        own_format::set_aside(open_part(dir.as_fd(), &part)?)?;
        rustix::fs::renameat(&work, LENT, &work, STRIPPED)?;
    }
    own_format::from_kernel(open_part(dir.as_fd(), &part)?)?;
    Ok(true)
}

/// R1
fn is_unused(work: &OwnedFd) -> io::Result<bool> {
    kernel_work::used(work, &OTHERS).map(|used| used.is_empty())
}

/// The state, and the path of the part.
fn state(work: &OwnedFd) -> io::Result<Option<(&'static str, std::path::PathBuf)>> {
    for name in STATES {
        match rustix::fs::readlinkat(work, name, Vec::new()) {
            Ok(part) => {
                let part = OsStr::from_bytes(part.to_bytes());
                return Ok(Some((name, part.into())));
            }
            Err(Errno::NOENT) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(None)
}

/// The top of a part, in the directory that has the upper tree.
fn open_part(dir: BorrowedFd<'_>, part: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let path = Path::new("upper").join(part.strip_prefix("/").unwrap_or(part));
    rustix::fs::openat2(dir, path, flags, Mode::empty(), inside)
}

#[cfg(test)]
mod tests {
    use super::{OFlags, lock};
    use rustix::fs::{FlockOperation, Mode, flock};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn conversion_waits_for_one_that_was_left_behind() {
        let dir = std::env::temp_dir().join(format!("openpath-part-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let open = || rustix::fs::open(&dir, OFlags::DIRECTORY, Mode::empty()).unwrap();
        let (left, next) = (open(), open());
        lock(&left).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(4 * super::PAUSE);
                ended.store(true, Ordering::SeqCst);
                flock(&left, FlockOperation::Unlock).unwrap();
            });
            lock(&next).unwrap();
            assert!(ended.load(Ordering::SeqCst));
        });
        std::fs::remove_dir(&dir).unwrap();
    }
}
