// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks with a directory of a million names. Each name costs bounded memory, listing and lookups
//! stay right, and removal releases the memory while the directory stays.

use std::time::Instant;

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY};
use openpath_abi::{AtFlags, Errno};
use openpath_vfs::{Limits, TenantLimits};

use super::context::{Context, Host, mib, resident};

/// The most memory for a file of which only the name is long.
const BYTES_PER_FILE: u64 = 1200;

/// Makes, lists, opens and removes the entries; their memory is released while the directory stays.
pub(super) fn directory(f: &mut Context) -> Result<(), Errno> {
    let entries = f.size(1_000_000);
    let host = Host::new(Limits::default(), TenantLimits::default())?;
    let guest = &host.guest;
    guest.mkdirat(AT_FDCWD, b"/wide", 0o755)?;
    guest.chdir(b"/wide")?;
    host.settle();
    let before = resident();
    let begun = Instant::now();
    for i in 0..entries {
        let name = i.to_string();
        guest.close(guest.open(name.as_bytes(), O_CREAT | O_WRONLY, 0o644)?)?;
    }
    let made = begun.elapsed();
    let full = resident().saturating_sub(before);
    f.say(&format!(
        "{entries} files made in {made:?}: {} MiB, {} bytes each",
        mib(full),
        full / entries
    ));
    f.must(full < entries * BYTES_PER_FILE + (32 << 20), || {
        format!("{} bytes for each name", full / entries)
    });
    let begun = Instant::now();
    let listed = list(&host)?;
    f.must(listed == entries + 2, || format!("{listed} names listed"));
    for _ in 0..1000 {
        let name = f.rng.below(entries as usize).to_string();
        guest.close(guest.open(name.as_bytes(), O_RDONLY, 0)?)?;
        let none = format!("{name}x");
        f.refused(
            "a name that is not there",
            guest.stat(none.as_bytes()),
            Errno::ENOENT,
        );
    }
    f.say(&format!(
        "listed, and 1000 files opened: {:?}",
        begun.elapsed()
    ));
    for i in 0..entries {
        guest.unlinkat(AT_FDCWD, i.to_string().as_bytes(), AtFlags::empty())?;
    }
    host.settle();
    let left = resident().saturating_sub(before);
    f.say(&format!("{} MiB when they are removed", mib(left)));
    f.must(left < (16 << 20) + full / 10, || {
        format!("{} MiB of {} are left", mib(left), mib(full))
    });
    let charged = host.tenant.stats();
    f.must(charged.inodes == 1, || format!("charged: {charged:?}"));
    Ok(())
}

/// How many entries the working directory lists.
fn list(host: &Host) -> Result<u64, Errno> {
    let fd = host.guest.open(b".", O_DIRECTORY | O_RDONLY, 0)?;
    let mut listed = 0;
    loop {
        let entries = host.guest.getdents64(fd, 1 << 16)?;
        if entries.is_empty() {
            break;
        }
        listed += entries.len() as u64;
    }
    host.guest.close(fd)?;
    Ok(listed)
}
