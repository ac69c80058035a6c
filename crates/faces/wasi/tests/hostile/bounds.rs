// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors, files and bytes: what a guest may have of them, and that others have theirs.

use openpath_vfs::{Cred, Limits, TenantLimits};

use super::field::{Failed, Field, Prison, settle};
use super::puppet::{DIR, Got, PATH, PATH2, Puppet, READ, WRITE, errno, oflags};

/// Opens until that is refused; how many it has, and why no more.
fn open_all(guest: &mut Puppet) -> (u64, Got) {
    let mut opened = 0;
    loop {
        match guest.open(b"mine", 0, READ) {
            Ok(_) => opened += 1,
            Err(why) => return (opened, why),
        }
    }
}

/// As many descriptors as a guest may have; another one opens its files as before.
pub(super) fn descriptors(f: &mut Field) -> Result<(), Failed> {
    let most = f.size(100_000);
    let limits = Limits {
        nr_open: 2 * most as u32,
        ..Limits::default()
    };
    let prison = Prison::in_memory(limits)?;
    let mut other = prison.guest(None)?;
    let before = prison.vfs.usage().pins;
    for factor in [1, 2] {
        let task = prison.vfs.task(Cred::root())?;
        task.set_rlimit_nofile(factor * most);
        let mut guest = prison.guest_of(task)?;
        let (opened, why) = open_all(&mut guest);
        f.must(why == errno::MFILE, || format!("one more: {why:?}"));
        // One is the directory's. The second turn is the control: it is the limit that refuses.
        f.must(opened == factor * most - 1, || {
            format!("{opened} descriptors of {}", factor * most)
        });
        f.must(
            other
                .open(b"mine", 0, READ)
                .is_ok_and(|fd| other.close(fd).is_ok()),
            || "another guest cannot open any more".to_owned(),
        );
        f.must(guest.close(3 + most as u32 / 2).is_ok(), || {
            "no close".to_owned()
        });
        f.must(guest.open(b"mine", 0, READ).is_ok(), || {
            "a closed descriptor is not free again".to_owned()
        });
        f.must(guest.close(1 << 30) == errno::BADF, || {
            "a wild descriptor".to_owned()
        });
        drop(guest);
        settle(&prison.vfs);
        let after = prison.vfs.usage().pins;
        f.must(after == before, || {
            format!("{before} pins before, {after} after")
        });
    }
    f.say(&format!("{most} descriptors, then {}", 2 * most));
    Ok(())
}

/// Bytes that the guest may have.
const BYTES: u64 = 1 << 20;
/// Files that it may have.
const INODES: u64 = 64;

/// Makes files until that is refused; how many there are.
fn make_all(guest: &mut Puppet, most: u64) -> (u64, Got) {
    for n in 0..most {
        let name = format!("file{n}");
        match guest.open(name.as_bytes(), oflags::CREAT, READ | WRITE) {
            Ok(fd) => {
                guest.close(fd);
            }
            Err(why) => return (n, why),
        }
    }
    (most, Got::Errno(0))
}

/// Writes to a file until that is refused; how many bytes were.
fn write_all(guest: &mut Puppet, fd: u32, most: u64) -> (u64, Got) {
    let mut written = 0;
    while written < most {
        match guest.carry("fd_write", fd, 1 << 16) {
            Ok(n) => written += u64::from(n),
            Err(why) => return (written, why),
        }
    }
    (written, Got::Errno(0))
}

/// As many files and bytes as a tenant may have, by each call that makes some.
pub(super) fn quota(f: &mut Field) -> Result<(), Failed> {
    let prison = Prison::in_memory(Limits::default())?;
    let limited = prison.tenant(TenantLimits {
        bytes_max: BYTES,
        inodes_max: INODES,
        ..TenantLimits::default()
    });
    let free = prison.tenant(TenantLimits::default());
    for (tenant, control) in [(&limited, false), (&free, true)] {
        let mut guest = prison.guest(Some(tenant))?;
        let (made, why) = make_all(&mut guest, 2 * INODES);
        let others = [guest.path("path_create_directory", b"one more"), {
            guest.put(PATH, b"x");
            guest.put(PATH2, b"a link");
            guest.call(
                "path_symlink",
                &[PATH.into(), 1, DIR.into(), PATH2.into(), 6],
            )
        }];
        let first = guest
            .open(b"file0", 0, READ | WRITE)
            .map_err(|e| Failed::new(format!("{e:?}")))?;
        let (written, full) = write_all(&mut guest, first, 2 * BYTES);
        let grow = guest.call("fd_allocate", &[first.into(), 0, 64 * BYTES]);
        let read = guest.call("fd_seek", &[first.into(), 0, 0, 0]);
        let read = read.is_ok() && guest.carry("fd_read", first, 1 << 16) == Ok(1 << 16);
        f.must(read, || "what was written cannot be read".to_owned());
        if control {
            let all = [why, full, grow].into_iter().chain(others).all(Got::is_ok);
            f.must(all, || {
                format!("without limits: {why:?} {others:?} {full:?} {grow:?}")
            });
        } else {
            f.must(made == INODES && why == errno::DQUOT, || {
                format!("{made} files, {why:?}")
            });
            f.must(others == [errno::DQUOT; 2], || {
                format!("others: {others:?}")
            });
            f.must(written == BYTES && full == errno::DQUOT, || {
                format!("{written} bytes, {full:?}")
            });
            f.must(grow == errno::DQUOT, || format!("fd_allocate: {grow:?}"));
        }
        guest.close(first);
        for n in 0..2 * INODES {
            guest.path("path_unlink_file", format!("file{n}").as_bytes());
        }
        guest.path("path_remove_directory", b"one more");
        guest.path("path_unlink_file", b"a link");
        drop(guest);
        settle(&prison.vfs);
        let stats = tenant.stats();
        f.must(stats.bytes == 0 && stats.inodes == 0, || {
            format!("{} bytes and {} files are left", stats.bytes, stats.inodes)
        });
    }
    f.say(&format!(
        "{INODES} files and {BYTES} bytes, and twice that without limits"
    ));
    Ok(())
}
