// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks the limits of descriptors, open files, pipes, and inotify instances, watches and events.
//! The call beyond a limit fails with Linux's errno, and the memory is released afterwards.

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_NONBLOCK, O_RDONLY, O_RDWR};
use openpath_abi::{AtFlags, Errno};
use openpath_vfs::{Limits, Task, TenantLimits};

use super::context::{Context, Host, mib, resident};

/// Opens files until an open is refused; returns how many.
fn open_all(task: &Task, path: &[u8]) -> (u64, Errno) {
    let mut opened = 0;
    loop {
        match task.open(path, O_RDWR, 0) {
            Ok(_) => opened += 1,
            Err(e) => return (opened, e),
        }
    }
}

/// Opens as many descriptors as a table and the whole instance allow.
pub(super) fn descriptors(f: &mut Context) -> Result<(), Errno> {
    let nr_open = u32::try_from(f.size(1 << 20)).unwrap_or(u32::MAX);
    let files_max = u64::from(nr_open) + u64::from(nr_open) / 2;
    let limits = Limits::default().nr_open(nr_open).files_max(files_max);
    let host = Host::new(limits, TenantLimits::default())?;
    let guest = &host.guest;
    guest.set_rlimit_nofile(u64::MAX);
    guest.close(guest.open(b"/f", O_CREAT | O_RDWR, 0o600)?)?;
    let before = (resident(), host.vfs.usage());
    let (opened, refused) = open_all(guest, b"/f");
    f.refused("one more descriptor", Err::<(), _>(refused), Errno::EMFILE);
    f.must(opened == u64::from(nr_open), || {
        format!("{opened} of {nr_open}")
    });
    let beyond = i32::try_from(nr_open).unwrap_or(i32::MAX);
    f.refused("dup2 beyond", guest.dup2(0, beyond), Errno::EBADF);
    f.refused("dup", guest.dup(0), Errno::EMFILE);
    let second = host.task.fork()?;
    second.set_rlimit_nofile(u64::MAX);
    second.set_cred(openpath_vfs::Cred::user(1000, 1000, &[]));
    host.task
        .fchmodat2(AT_FDCWD, b"/f", 0o666, AtFlags::empty())?;
    let (more, refused) = open_all(&second, b"/f");
    f.refused("one more file", Err::<(), _>(refused), Errno::ENFILE);
    let full = resident().saturating_sub(before.0);
    f.say(&format!(
        "{opened} descriptors in one table and {more} in another of {files_max} files: {} MiB",
        mib(full)
    ));
    f.must(opened + more == files_max, || {
        format!("{} files of {files_max}", opened + more)
    });
    let copy = guest.fork()?;
    drop((copy, second));
    guest.close_range(0, u32::MAX, 0)?;
    f.pins_are(&host, before.1);
    Ok(())
}

/// Memory of a pipe without its pages: an inode, an entry, two files and the page slots. There are
/// no more pipes than pages.
const PIPE_BYTES: u64 = 1 << 10;

/// Makes as many pipes as one user and all users may have, each full.
pub(super) fn pipes(f: &mut Context) -> Result<(), Errno> {
    let pipe_pages_max = f.size(400_000);
    let limits = Limits::default()
        .pipe_pages_max(pipe_pages_max)
        .pipe_user_pages_soft(u32::try_from(pipe_pages_max / 2).unwrap_or(u32::MAX));
    let host = Host::new(limits, TenantLimits::default())?;
    let guest = &host.guest;
    guest.set_rlimit_nofile(u64::MAX);
    guest.set_cred(openpath_vfs::Cred::user(1000, 1000, &[]));
    // The mount of pipes stays.
    guest.pipe2(O_RDONLY)?;
    guest.close_range(0, u32::MAX, 0)?;
    let before = (resident(), host.vfs.usage());
    let (mut made, mut bytes) = (0, 0);
    let refused = loop {
        let end = match guest.pipe2(O_NONBLOCK) {
            Ok((_, end)) => end,
            Err(e) => break e,
        };
        made += 1;
        let full = loop {
            match guest.write(end, &[1; 65536]) {
                Ok(written) => bytes += written as u64,
                Err(e) => break e,
            }
        };
        f.refused("a full pipe", Err::<(), _>(full), Errno::EAGAIN);
        if !f.found.is_empty() {
            return Ok(());
        }
    };
    let full = resident().saturating_sub(before.0);
    f.say(&format!(
        "{made} pipes with {} MiB: {} MiB; then {refused}",
        mib(bytes),
        mib(full)
    ));
    f.refused("one more pipe", Err::<(), _>(refused), Errno::ENFILE);
    let allowed = pipe_pages_max * 4096 + made * PIPE_BYTES;
    f.must(full < allowed + allowed / 20 + (16 << 20), || {
        format!("{} MiB of {} allowed", mib(full), mib(allowed))
    });
    // Other users' pipes work: what is written to one can be read.
    guest.close_range(0, u32::MAX, 0)?;
    host.task.close_range(0, u32::MAX, 0)?;
    let (from, to) = guest.pipe2(O_RDONLY)?;
    let mut byte = [0];
    guest.write(to, b"x")?;
    guest.read(from, &mut byte)?;
    guest.close_range(0, u32::MAX, 0)?;
    f.pins_are(&host, before.1);
    Ok(())
}

/// Makes as many inotify instances, watches and events as one user may have.
pub(super) fn watches(f: &mut Context) -> Result<(), Errno> {
    let limits =
        Limits::default().max_user_watches(u32::try_from(f.size(100_000)).unwrap_or(u32::MAX));
    let host = Host::new(limits, TenantLimits::default())?;
    let guest = &host.guest;
    let mut instances = Vec::new();
    let refused = loop {
        match guest.inotify_init1(0) {
            Ok(fd) => instances.push(fd),
            Err(e) => break e,
        }
    };
    f.refused("one more instance", Err::<(), _>(refused), Errno::EMFILE);
    let expected = limits.max_user_instances as usize;
    f.must(instances.len() == expected, || {
        format!("{} instances of {expected}", instances.len())
    });
    let mut watches = 0_u32;
    let refused = 'all: loop {
        let path = format!("/{watches}");
        guest.close(guest.open(path.as_bytes(), O_CREAT | O_RDWR, 0o600)?)?;
        for fd in &instances {
            match guest.inotify_add_watch(*fd, path.as_bytes(), 0xfff) {
                Ok(_) => watches += 1,
                Err(e) => break 'all e,
            }
        }
    };
    f.refused("one more watch", Err::<(), _>(refused), Errno::ENOSPC);
    f.must(watches == limits.max_user_watches, || {
        format!("{watches} of {}", limits.max_user_watches)
    });
    let before = resident();
    for _ in 0..f.size(1_000_000) {
        guest.close(guest.open(b"/0", O_RDWR, 0)?)?;
    }
    let grown = resident().saturating_sub(before);
    f.say(&format!(
        "{} instances, {watches} watches; {} MiB of events that nobody reads",
        instances.len(),
        mib(grown)
    ));
    let bound = u64::from(limits.max_queued_events) * limits.max_user_instances as u64 * 128;
    f.must(grown < bound + (16 << 20), || {
        format!("{} MiB of events", mib(grown))
    });
    guest.close_range(0, u32::MAX, 0)?;
    Ok(())
}
