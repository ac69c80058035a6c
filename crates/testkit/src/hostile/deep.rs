// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks with directory trees that are deeper than the longest path. A small stack suffices for
//! them, the guest's limit of cached names holds, and another guest's calls hardly wait.

use std::time::{Duration, Instant};

use openpath_abi::fcntl::{AT_FDCWD, AT_REMOVEDIR, O_DIRECTORY, O_PATH};
use openpath_abi::{AtFlags, Errno};
use openpath_sync::Word;
use openpath_vfs::{Limits, Task, TenantLimits};

use super::context::{Context, Host, mib, resident};

/// The stack of the guest's thread, which recursion by level would overflow.
const STACK: usize = 256 << 10;
/// The longest that another guest's rename may wait on a busy machine.
const OTHER_MAX: Duration = Duration::from_secs(5);

fn limits(levels: u64) -> Limits {
    Limits::default().dentries_max(u32::try_from(levels * 2).unwrap_or(u32::MAX).max(1 << 16))
}

/// Makes nested directories and enters each.
fn dig(guest: &Task, levels: u64) -> Result<(), Errno> {
    for _ in 0..levels {
        guest.mkdirat(AT_FDCWD, b"d", 0o755)?;
        guest.chdir(b"d")?;
    }
    Ok(())
}

/// Runs work on a thread with a small stack.
fn with_small_stack(work: impl FnOnce() -> Result<(), Errno> + Send) -> Result<(), Errno> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread
            .spawn_scoped(scope, work)
            .map_err(|_| Errno::EAGAIN)?;
        thread.join().unwrap_or(Err(Errno::EIO))
    })
}

/// Makes and removes a deep tree step by step, and drops one as a whole.
pub(super) fn tree(f: &mut Context) -> Result<(), Errno> {
    let levels = f.size(1_000_000);
    with_small_stack(|| {
        let host = Host::new(limits(levels), TenantLimits::default())?;
        let guest = &host.guest;
        let before = resident();
        let begun = Instant::now();
        dig(guest, levels)?;
        let made = begun.elapsed();
        let full = resident().saturating_sub(before);
        f.say(&format!(
            "{levels} levels made in {made:?}: {} MiB",
            mib(full)
        ));
        f.refused("getcwd", guest.getcwd(), Errno::ENAMETOOLONG);
        let up = "../".repeat(1000);
        guest.fstatat(AT_FDCWD, up.as_bytes(), AtFlags::empty())?;
        f.refused(
            "a path of 4096 bytes",
            guest.stat(&[b'a'; 4096]),
            Errno::ENAMETOOLONG,
        );
        let begun = Instant::now();
        for _ in 0..levels {
            guest.chdir(b"..")?;
            guest.unlinkat(AT_FDCWD, b"d", AT_REMOVEDIR)?;
        }
        let removed = begun.elapsed();
        host.settle();
        let settled = begun.elapsed();
        f.say(&format!(
            "removed in {removed:?}, and gone after {settled:?}"
        ));
        f.must(settled < made * 20 + Duration::from_secs(1), || {
            format!("made in {made:?}, gone after {settled:?}: more than each level by itself")
        });
        let charged = host.tenant.stats();
        f.must(charged.inodes == 0, || format!("charged: {charged:?}"));
        // The rest is dropped with the tree.
        dig(guest, levels)?;
        let tenant = host.tenant.clone();
        drop(host);
        let charged = tenant.stats();
        f.must(charged.inodes == 0, || format!("charged: {charged:?}"));
        Ok(())
    })
}

/// Makes a tree deeper than the guest's cached names allow, where none can be evicted: the guest is
/// refused more. Others find room as fast as before, while the tree is there and after it is gone.
pub(super) fn in_a_budget(f: &mut Context) -> Result<(), Errno> {
    const BUDGET: u32 = 4096;
    let limits = Limits::default().dentries_max(BUDGET * 2);
    let budget = TenantLimits::default()
        .positive_max(BUDGET)
        .negative_max(BUDGET);
    let host = Host::new(limits, budget)?;
    let others = |from: u32| {
        let begun = Instant::now();
        for name in from..from + 2 * BUDGET {
            let path = format!("/{name}");
            host.task.mknodat(AT_FDCWD, path.as_bytes(), 0o100_600, 0)?;
        }
        Ok::<_, Errno>(begun.elapsed())
    };
    let alone = others(0)?;
    host.guest.mkdirat(AT_FDCWD, b"/deep", 0o755)?;
    host.guest.chdir(b"/deep")?;
    let mut levels = 0;
    let refused = loop {
        match dig(&host.guest, 1) {
            Ok(()) => levels += 1,
            Err(e) => break e,
        }
        if levels > 10 * BUDGET {
            break Errno::EINPROGRESS;
        }
    };
    f.refused("a level beyond", Err::<(), _>(refused), Errno::ENOMEM);
    let beside = others(10 * BUDGET)?;
    host.guest.chdir(b"/")?;
    let after = others(20 * BUDGET)?;
    f.say(&format!(
        "{levels} levels of {BUDGET} names, then {refused}; {} names of another take {alone:?} \
         alone, {beside:?} beside it, {after:?} when it has left",
        2 * BUDGET
    ));
    let most = alone * 4 + Duration::from_secs(1);
    f.must(beside < most && after < most, || {
        format!("another guest's names took {beside:?} and {after:?}, alone {alone:?}")
    });
    Ok(())
}

/// Moves a directory with a deep tree in it, and tries to move it into itself, while another guest
/// renames its own files.
pub(super) fn renames(f: &mut Context) -> Result<(), Errno> {
    let levels = f.size(1_000_000);
    let host = Host::new(limits(levels), TenantLimits::default())?;
    let guest = &host.guest;
    for dir in [&b"/guest"[..], b"/guest/top", b"/guest/to", b"/other"] {
        guest.mkdirat(AT_FDCWD, dir, 0o755)?;
    }
    for dir in [&b"/other/a"[..], b"/other/b", b"/other/a/x"] {
        host.task.mkdirat(AT_FDCWD, dir, 0o755)?;
    }
    guest.chdir(b"/guest/top")?;
    dig(guest, levels)?;
    let bottom = guest.open(b".", O_PATH | O_DIRECTORY, 0)?;
    let over = Word::new(0);
    let other = host.task.fork()?;
    let (times, refused, rounds) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let other = other;
            let mut longest = Duration::ZERO;
            let mut rounds = 0_u64;
            while over.get() == 0 || rounds == 0 {
                let begun = Instant::now();
                other.rename(b"/other/a/x", b"/other/b/x")?;
                other.rename(b"/other/b/x", b"/other/a/x")?;
                longest = longest.max(begun.elapsed());
                rounds += 1;
            }
            Ok::<_, Errno>((longest, rounds))
        });
        let mut refused = Vec::new();
        let begun = Instant::now();
        for _ in 0..50 {
            refused.push(guest.renameat(AT_FDCWD, b"/guest/top", bottom, b"into"));
            refused.push(guest.renameat(AT_FDCWD, b"/guest", bottom, b"into"));
        }
        let each = begun.elapsed() / 100;
        for _ in 0..50 {
            for (from, to) in [
                (&b"/guest/top"[..], &b"/guest/to/top"[..]),
                (b"/guest/to/top", b"/guest/top"),
            ] {
                if let Err(e) = guest.rename(from, to) {
                    refused.push(Err(e));
                }
            }
        }
        over.set(1);
        let (longest, rounds) = other.join().unwrap_or(Err(Errno::EIO))?;
        Ok::<_, Errno>(((each, longest), refused, rounds))
    })?;
    let (each, longest) = times;
    f.say(&format!(
        "{levels} levels: a rename into itself is refused in {each:?}; of {rounds} rounds of \
         another's renames the longest took {longest:?}"
    ));
    f.must(refused.len() == 100, || {
        format!(
            "{:?}",
            refused.iter().filter(|r| r.is_err()).collect::<Vec<_>>()
        )
    });
    for done in refused {
        f.refused("a rename into itself", done, Errno::EINVAL);
    }
    f.must(longest < OTHER_MAX, || {
        format!("another guest's rename took {longest:?}")
    });
    Ok(())
}
