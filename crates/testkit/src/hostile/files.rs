// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks by a guest that fills its tree with files, data and extended attributes: its tenant's
//! limits must hold, and memory must stay within them.

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDWR};
use openpath_abi::{AtFlags, Errno, XattrFlags};
use openpath_vfs::{Limits, TenantLimits};

use super::context::{Context, Host, mib, resident};

/// The most memory for an inode with a name.
const BYTES_PER_FILE: u64 = 1200;

/// How many files get attributes.
const FILES: u64 = 100;

/// The memory that the tenant's limits allow, plus 5 %, plus the fixed cost of an instance.
fn budget(limits: TenantLimits) -> u64 {
    let bytes = limits.bytes_max + limits.inodes_max * BYTES_PER_FILE;
    bytes + bytes / 20 + (16 << 20)
}

/// Makes small files, sparse files and links until both limits are reached; another tenant
/// continues to work.
pub(super) fn bytes_and_inodes(f: &mut Context) -> Result<(), Errno> {
    let limits = TenantLimits::default()
        .bytes_max(f.size(6400 << 20))
        .inodes_max(f.size(2_000_000));
    let host = Host::new(Limits::default(), limits)?;
    let guest = &host.guest;
    let before = resident();
    let mut bytes = (0_u64, None);
    // One byte in each page, one page in each group of pages.
    let fd = guest.open(b"/sparse", O_CREAT | O_RDWR, 0o600)?;
    while bytes.1.is_none() {
        match guest.pwrite(fd, b"x", (bytes.0 * 65 * 4096).cast_signed()) {
            Ok(_) => bytes.0 += 1,
            Err(e) => bytes.1 = Some(e),
        }
    }
    let sparse = resident().saturating_sub(before);
    f.must(
        bytes == (limits.bytes_max / 4096, Some(Errno::EDQUOT)),
        || format!("pages: {bytes:?} of {}", limits.bytes_max / 4096),
    );
    f.refused(
        "fallocate",
        guest.fallocate(fd, 0, 0, 1 << 40),
        Errno::EDQUOT,
    );
    guest.close(fd)?;
    let mut inodes = (1_u64, None);
    while inodes.1.is_none() {
        let path = format!("/{}", inodes.0);
        let made = match inodes.0 % 3 {
            0 => guest.mknodat(AT_FDCWD, path.as_bytes(), 0o100_600, 0),
            1 => guest.symlinkat(&[b'x'; 127], AT_FDCWD, path.as_bytes()),
            _ => guest.link(b"/sparse", path.as_bytes()),
        };
        match made {
            Ok(()) => inodes.0 += 1,
            Err(e) => inodes.1 = Some(e),
        }
    }
    f.must(inodes == (limits.inodes_max, Some(Errno::EDQUOT)), || {
        format!("inodes: {inodes:?} of {}", limits.inodes_max)
    });
    let full = resident().saturating_sub(before);
    f.say(&format!(
        "{} pages, one in 65: {} MiB; and {} inodes and names: {} MiB, {} allowed",
        bytes.0,
        mib(sparse),
        inodes.0,
        mib(full),
        mib(budget(limits))
    ));
    f.must(full < budget(limits), || {
        format!("{} MiB of {}", mib(full), mib(budget(limits)))
    });
    host.task.mkdirat(AT_FDCWD, b"/other", 0o755)?;
    for i in 1..inodes.0 {
        guest.unlinkat(AT_FDCWD, format!("/{i}").as_bytes(), AtFlags::empty())?;
    }
    guest.unlinkat(AT_FDCWD, b"/sparse", AtFlags::empty())?;
    host.settle();
    let (left, charged) = (resident().saturating_sub(before), host.tenant.stats());
    f.must((charged.bytes, charged.inodes) == (0, 0), || {
        format!("still charged: {charged:?}")
    });
    f.must(left < (16 << 20) + full / 20, || {
        format!("{} MiB of {} are left", mib(left), mib(full))
    });
    Ok(())
}

/// Sets extended attributes, the longest first.
pub(super) fn attributes(f: &mut Context) -> Result<(), Errno> {
    let limits = TenantLimits::default().bytes_max(f.size(3200 << 20));
    let host = Host::new(Limits::default(), limits)?;
    let guest = &host.guest;
    let before = resident();
    for i in 0..FILES {
        guest.mknodat(AT_FDCWD, format!("/{i}").as_bytes(), 0o100_600, 0)?;
    }
    let (mut number, mut len) = (0_u64, 65536);
    while len > 0 {
        let (file, value) = (format!("/{}", number % FILES), vec![1; len]);
        let name = format!("user.{number}");
        match guest.setxattr(
            file.as_bytes(),
            name.as_bytes(),
            &value,
            XattrFlags::empty(),
        ) {
            Ok(()) => number += 1,
            Err(Errno::EDQUOT) => len /= 16,
            Err(e) => return Err(e),
        }
    }
    let (full, charged) = (resident().saturating_sub(before), host.tenant.stats().bytes);
    f.say(&format!(
        "{number} attributes: {charged} bytes charged, {} MiB",
        mib(full)
    ));
    f.must(limits.bytes_max - charged < 64, || {
        format!("{charged} of {}", limits.bytes_max)
    });
    f.must(full < charged + charged / 20 + (16 << 20), || {
        format!("{} MiB for {} charged", mib(full), mib(charged))
    });
    f.refused(
        "a value that is too long",
        guest.setxattr(b"/0", b"user.x", &[0; 65537], XattrFlags::empty()),
        Errno::E2BIG,
    );
    for i in 0..FILES {
        guest.unlinkat(AT_FDCWD, format!("/{i}").as_bytes(), AtFlags::empty())?;
    }
    host.settle();
    let charged = host.tenant.stats();
    f.must((charged.bytes, charged.inodes) == (0, 0), || {
        format!("still charged: {charged:?}")
    });
    Ok(())
}
