// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a guest cannot get more descriptors, files or bytes than its limits allow, and that
//! other guests keep theirs.

use openpath_vfs::{Cred, Limits, TenantLimits};

use super::scripted_guest::{DIR, Got, PATH, PATH2, READ, ScriptedGuest, WRITE, errno, oflags};
use super::setting::{Failed, Jail, Report, settle};

/// Opens files until the first error; returns how many are open, and the error.
fn open_all(guest: &mut ScriptedGuest) -> (u64, Got) {
    let mut opened = 0;
    loop {
        match guest.open(b"mine", 0, READ) {
            Ok(_) => opened += 1,
            Err(why) => return (opened, why),
        }
    }
}

/// Opens as many descriptors as a guest may have; another guest still opens its files.
pub(super) fn descriptors(f: &mut Report) -> Result<(), Failed> {
    let most = f.size(100_000);
    let limits = Limits::default().nr_open(2 * most as u32);
    let jail = Jail::in_memory(limits)?;
    let mut other = jail.guest(None)?;
    let before = jail.vfs.usage().pins;
    for factor in [1, 2] {
        let task = jail.vfs.task(Cred::root())?;
        task.set_rlimit_nofile(factor * most);
        let mut guest = jail.guest_of(task)?;
        let (opened, why) = open_all(&mut guest);
        f.must(why == errno::MFILE, || {
            format!("an open beyond the limit answers {why:?}")
        });
        // The preopened directory takes one. The second turn is the control: twice the limit, twice
        // the files.
        f.must(opened == factor * most - 1, || {
            format!("{opened} descriptors of {}", factor * most)
        });
        f.must(
            other
                .open(b"mine", 0, READ)
                .is_ok_and(|fd| other.close(fd).is_ok()),
            || "another guest cannot open its files".to_owned(),
        );
        f.must(guest.close(3 + most as u32 / 2).is_ok(), || {
            "close fails".to_owned()
        });
        f.must(guest.open(b"mine", 0, READ).is_ok(), || {
            "a closed descriptor is not reusable".to_owned()
        });
        f.must(guest.close(1 << 30) == errno::BADF, || {
            "an unknown descriptor is not EBADF".to_owned()
        });
        drop(guest);
        settle(&jail.vfs);
        let after = jail.vfs.usage().pins;
        f.must(after == before, || {
            format!("{before} pins before, {after} after")
        });
    }
    f.say(&format!("{most} descriptors, then {}", 2 * most));
    Ok(())
}

/// Bytes that the tenant may have.
const BYTES: u64 = 1 << 20;
/// Files that the tenant may have.
const INODES: u64 = 64;

/// Creates files until the first error; returns how many there are.
fn make_all(guest: &mut ScriptedGuest, most: u64) -> (u64, Got) {
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

/// Writes to a file until the first error; returns how many bytes.
fn write_all(guest: &mut ScriptedGuest, fd: u32, most: u64) -> (u64, Got) {
    let mut written = 0;
    while written < most {
        match guest.transfer("fd_write", fd, 1 << 16) {
            Ok(n) => written += u64::from(n),
            Err(why) => return (written, why),
        }
    }
    (written, Got::Errno(0))
}

/// Creates as many files and bytes as a tenant may have, by each call that can.
pub(super) fn quota(f: &mut Report) -> Result<(), Failed> {
    let jail = Jail::in_memory(Limits::default())?;
    let limited = jail.tenant(TenantLimits::default().bytes_max(BYTES).inodes_max(INODES));
    let free = jail.tenant(TenantLimits::default());
    for (tenant, control) in [(&limited, false), (&free, true)] {
        let mut guest = jail.guest(Some(tenant))?;
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
        let read = read.is_ok() && guest.transfer("fd_read", first, 1 << 16) == Ok(1 << 16);
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
        settle(&jail.vfs);
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
