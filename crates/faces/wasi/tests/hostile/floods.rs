// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a guest that floods the cache with names that do not exist stays within its budget of
//! negative entries, while another guest keeps its own entries.

use std::time::{Duration, Instant};

use openpath_sync::Word;
use openpath_vfs::{Limits, Reason, TenantLimits, Tuning, Vfs};

use super::scripted_guest::{READ, ScriptedGuest, errno};
use super::setting::{Failed, Jail, Report, fill, median, resident, settle};

/// The budget of negative entries.
const NEGATIVE_MAX: u32 = 1 << 12;
/// Files of the other guest.
const OTHERS: u64 = 64;

/// The other guest opens its files until it is stopped; returns the opens, the misses and the
/// times.
fn quiet(guest: &mut ScriptedGuest, over: &Word) -> (u64, u64, Vec<Duration>) {
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
fn beside<T>(
    other: &mut ScriptedGuest,
    work: impl FnOnce() -> T,
) -> (T, (u64, u64, Vec<Duration>)) {
    let over = Word::new(0);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| quiet(other, &over));
        let done = work();
        over.set(1);
        (done, thread.join().unwrap_or_default())
    })
}

/// Looks up this many names; returns whether every answer was right.
fn flood(guest: &mut ScriptedGuest, names: u64) -> bool {
    (0..names).all(|n| guest.open(format!("no{n:x}").as_bytes(), 0, READ) == Err(errno::NOENT))
}

fn dentries(vfs: &Vfs) -> u32 {
    vfs.usage().dentries
}

/// The flood, beside a guest that opens its files.
pub(super) fn names(f: &mut Report) -> Result<(), Failed> {
    // A complete directory would cache no absent names.
    let mut tuning = Tuning::default();
    tuning.complete_directories = false;
    let jail = Jail::tuned(Limits::default(), tuning)?;
    for n in 0..OTHERS {
        fill(&jail.host, format!("/jail/in/{n}").as_bytes(), b"x")?;
    }
    let limits = TenantLimits::default().negative_max(NEGATIVE_MAX);
    let tenants = [jail.tenant(limits), jail.tenant(TenantLimits::default())];
    let mut other = jail.guest(Some(&tenants[1]))?;
    let names = f.size(4_000_000);
    let pause = Duration::from_millis(if f.plan.full { 2000 } else { 100 });
    beside(&mut other, || std::thread::sleep(pause));
    let ((), (_, _, mut before)) = beside(&mut other, || std::thread::sleep(pause));
    let start = dentries(&jail.vfs);
    let mut guest = jail.guest(Some(&tenants[0]))?;
    flood(&mut guest, 2 * u64::from(NEGATIVE_MAX));
    let early = resident();
    let (right, (opens, missed, mut during)) = beside(&mut other, || flood(&mut guest, names));
    let (late, entries) = (resident(), dentries(&jail.vfs) - start);
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
    // The control: without a budget, all of them are cached.
    drop(guest);
    settle(&jail.vfs);
    let start = dentries(&jail.vfs);
    let mut guest = jail.guest(Some(&tenants[1]))?;
    flood(&mut guest, 2 * u64::from(NEGATIVE_MAX));
    let entries = dentries(&jail.vfs).saturating_sub(start);
    f.must(entries > most, || {
        format!("the control: only {entries} entries")
    });
    Ok(())
}
