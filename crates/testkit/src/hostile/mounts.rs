// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks with mounts that double by binds of a tree into itself, and with copies of mount
//! namespaces. The limits hold, a refused call leaves no mount, and afterwards none remains.

use std::time::Instant;

use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::{Errno, UmountFlags, mount as m};
use openpath_vfs::{Limits, Sysctl, TenantLimits};

use super::context::{Context, Host, mib, resident};

/// Makes a host with this limit of mounts per namespace, and three times that in all.
fn host(mount_max: u32) -> Result<Host, Errno> {
    let limits = Limits::default()
        .mounts_max(mount_max * 3)
        .namespaces_max(1000);
    let sysctl = Sysctl::default().mount_max(mount_max);
    let host = Host::with(limits, sysctl, TenantLimits::default())?;
    for dir in [&b"/m"[..], b"/other"] {
        host.task.mkdirat(AT_FDCWD, dir, 0o755)?;
    }
    host.settle();
    Ok(host)
}

/// Binds the whole tree into itself, which doubles it each time until the limit; the failed bind
/// leaves nothing. Once private, once with propagation of each mount to all peers.
pub(super) fn bombs(f: &mut Context) -> Result<(), Errno> {
    let mount_max = u32::try_from(f.size(100_000)).unwrap_or(u32::MAX);
    for propagation in [m::MS_PRIVATE, m::MS_SHARED] {
        let host = host(mount_max)?;
        host.guest.unshare_mounts()?;
        host.guest.set_propagation(b"/", propagation)?;
        let start = host.vfs.usage();
        double(f, &host, mount_max)?;
        let full = host.vfs.usage().mounts - start.mounts + 1;
        f.must(full <= mount_max, || {
            format!("{full} mounts of {mount_max}")
        });
        // The host's own namespace has all of its room.
        host.task.bind(b"/", b"/other")?;
        host.task.umount(b"/other", UmountFlags::empty())?;
        while host.guest.umount(b"/m", m::MNT_DETACH).is_ok() {}
        host.settle();
        let end = host.vfs.usage();
        f.must(end.mounts == start.mounts && end.pins == start.pins, || {
            format!("{start:?} before, {end:?} after")
        });
    }
    Ok(())
}

fn double(f: &mut Context, host: &Host, mount_max: u32) -> Result<(), Errno> {
    let (begun, before) = (Instant::now(), resident());
    let mut doublings = 0;
    let refused = loop {
        let usage = host.vfs.usage();
        match host.guest.bind_tree(b"/", b"/m") {
            Ok(()) => doublings += 1,
            Err(e) => {
                let left = host.vfs.usage().mounts - usage.mounts;
                f.must(left == 0, || {
                    format!("a bind that failed left {left} mounts")
                });
                break e;
            }
        }
        if doublings > 64 {
            f.wrong("binds double without end".to_owned());
            break Errno::ENOSPC;
        }
    };
    f.say(&format!(
        "{doublings} doublings to {} mounts of {mount_max} in {:?}: {} MiB; then {refused}",
        host.vfs.usage().mounts,
        begun.elapsed(),
        mib(resident().saturating_sub(before))
    ));
    f.refused("a bind beyond", Err::<(), _>(refused), Errno::ENOSPC);
    Ok(())
}

/// Makes namespaces up to the limit, each with a copy of many mounts.
pub(super) fn namespaces(f: &mut Context) -> Result<(), Errno> {
    let mount_max = u32::try_from(f.size(30_000)).unwrap_or(u32::MAX);
    for binds in [0, 64] {
        let host = host(mount_max)?;
        host.guest.unshare_mounts()?;
        for _ in 0..binds {
            host.guest.bind(b"/", b"/m")?;
        }
        let start = host.vfs.usage();
        let mut guests = Vec::new();
        let refused = loop {
            let usage = host.vfs.usage();
            let guest = host.guest.fork()?;
            match guest.unshare_mounts() {
                Ok(()) => guests.push(guest),
                Err(e) => {
                    drop(guest);
                    let left = host.vfs.usage().mounts - usage.mounts;
                    f.must(left == 0, || {
                        format!("a copy that failed left {left} mounts")
                    });
                    break e;
                }
            }
        };
        f.say(&format!(
            "{} copies of a namespace with {binds} binds, {} mounts in all; then {refused}",
            guests.len(),
            host.vfs.usage().mounts
        ));
        f.refused("one more", Err::<(), _>(refused), Errno::ENOSPC);
        drop(guests);
        host.settle();
        let end = host.vfs.usage();
        f.must(end.mounts == start.mounts && end.pins == start.pins, || {
            format!("{start:?} before, {end:?} after")
        });
        host.guest.unshare_mounts()?;
    }
    Ok(())
}
