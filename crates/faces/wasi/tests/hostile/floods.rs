// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that do not exist, each once: the guest's own budget bounds what is remembered of them,
//! and another guest keeps what it has in the cache.

use std::time::{Duration, Instant};

use openpath_sync::Word;
use openpath_vfs::{Limits, Reason, TenantLimits, Tuning, Vfs};

use super::field::{Failed, Field, Prison, fill, median, resident, settle};
use super::puppet::{Puppet, READ, errno};

/// Names that do not exist which the guest may have in the cache.
const NEGATIVE_MAX: u32 = 1 << 12;
/// Files of the other guest.
const OTHERS: u64 = 64;

/// The other guest: opens its files until told otherwise; how often, what it missed, and times.
fn quiet(guest: &mut Puppet, over: &Word) -> (u64, u64, Vec<Duration>) {
    let misses = guest.guest().task().reasons().of(Reason::Miss);
    let (mut opens, mut times) = (0, Vec::new());
    while over.get() == 0 {
        let begun = Instant::now();
        for n in 0..OTHERS {
            if let Ok(fd) = guest.open(format!("in/{n}").as_bytes(), 0, READ) {
                guest.close(fd);
                opens += 1;
            }
        }
        if times.len() < 1 << 14 {
            times.push(begun.elapsed() / OTHERS as u32);
        }
    }
    let missed = guest.guest().task().reasons().of(Reason::Miss) - misses;
    (opens, missed, times)
}

/// Runs `work` beside the other guest.
fn beside<T>(other: &mut Puppet, work: impl FnOnce() -> T) -> (T, (u64, u64, Vec<Duration>)) {
    let over = Word::new(0);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| quiet(other, &over));
        let done = work();
        over.set(1);
        (done, thread.join().unwrap_or_default())
    })
}

/// Asks for so many names; whether each was answered as it must.
fn flood(guest: &mut Puppet, names: u64) -> bool {
    (0..names).all(|n| guest.open(format!("no{n:x}").as_bytes(), 0, READ) == Err(errno::NOENT))
}

fn dentries(vfs: &Vfs) -> u32 {
    vfs.usage().dentries
}

/// A flood, beside a guest that opens its files.
pub(super) fn names(f: &mut Field) -> Result<(), Failed> {
    // A complete directory would remember nothing.
    let mut tuning = Tuning::default();
    tuning.complete_directories = false;
    let prison = Prison::tuned(Limits::default(), tuning)?;
    for n in 0..OTHERS {
        fill(&prison.host, format!("/jail/in/{n}").as_bytes(), b"x")?;
    }
    let limits = TenantLimits {
        negative_max: NEGATIVE_MAX,
        ..TenantLimits::default()
    };
    let tenants = [
        prison.tenant(limits),
        prison.tenant(TenantLimits::default()),
    ];
    let mut other = prison.guest(Some(&tenants[1]))?;
    let names = f.size(4_000_000);
    let pause = Duration::from_millis(if f.plan.full { 2000 } else { 100 });
    beside(&mut other, || std::thread::sleep(pause));
    let ((), (_, _, mut before)) = beside(&mut other, || std::thread::sleep(pause));
    let start = dentries(&prison.vfs);
    let mut guest = prison.guest(Some(&tenants[0]))?;
    flood(&mut guest, 2 * u64::from(NEGATIVE_MAX));
    let early = resident();
    let (right, (opens, missed, mut during)) = beside(&mut other, || flood(&mut guest, names));
    let (late, entries) = (resident(), dentries(&prison.vfs) - start);
    f.must(right, || "a name that is not there was found".to_owned());
    let most = NEGATIVE_MAX + NEGATIVE_MAX / 10;
    f.must(entries <= most, || {
        format!("{entries} entries of {NEGATIVE_MAX}")
    });
    f.must(late <= early + (8 << 20), || {
        format!("{} MiB, then {}", early >> 20, late >> 20)
    });
    f.must(missed <= opens / 100_000 + 1, || {
        format!("another guest missed {missed} of {opens}")
    });
    let [calm, busy] = [&mut before, &mut during].map(|times| median(times));
    f.must(!f.plan.full || busy < 2 * calm, || {
        format!("another guest's median went from {calm:?} to {busy:?}")
    });
    f.say(&format!(
        "{names} names, {entries} remembered; another guest missed {missed} of {opens}, median \
         {calm:?} before and {busy:?} during"
    ));
    // The control: without a budget they are remembered.
    drop(guest);
    settle(&prison.vfs);
    let start = dentries(&prison.vfs);
    let mut guest = prison.guest(Some(&tenants[1]))?;
    flood(&mut guest, 2 * u64::from(NEGATIVE_MAX));
    let entries = dentries(&prison.vfs).saturating_sub(start);
    f.must(entries > most, || {
        format!("the control: only {entries} entries")
    });
    Ok(())
}
