// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that hostile guests of preview1 neither get out of their directory, nor exceed their
//! limits, nor harm other guests, nor leave anything behind.
//!
//! A guest is a module that makes the calls it is told to (`scripted_guest`), so that attacks are
//! written here and still go through a guest's memory and imports. Each attack has a control: the
//! same without the confinement or limit, which must succeed, or the attack proves nothing.
//!
//! # What is checked
//! * Confinement: no call reaches, reveals or changes anything outside the guest's directory.
//! * Limits: a call beyond a limit gets an error code or a trap, and nothing panics.
//! * Isolation: another guest's files stay in the cache, and memory does not grow.
//! * Clean-up: when a guest is gone, so is everything that it held.
//!
//! # Rules
//! R1. Resident memory belongs to the whole process, so one attack runs at a time.
//! R2. The tests take counts, not time. `for_long` takes time: `cargo xtask hostile-wasi`.

mod bounds;
mod escape;
mod floods;
mod garbage;
mod path_calls;
mod race;
mod scripted_guest;
mod setting;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use setting::{Failed, Plan, Report, resident};

type Attack = (&'static str, fn(&mut Report) -> Result<(), Failed>);

const ATTACKS: [Attack; 10] = [
    ("escape-memory", escape::from_memory),
    ("escape-host", escape::from_host),
    ("race-dotdot", race::dotdot),
    ("race-link", race::link),
    ("descriptors", bounds::descriptors),
    ("quota", bounds::quota),
    ("names", floods::names),
    ("vectors", garbage::vectors),
    ("pointers", garbage::pointers),
    ("chaos", garbage::chaos),
];

/// R1.
static ONE: Mutex<()> = Mutex::new(());
/// The most that resident memory may grow after the first turn, since an allocator does not return
/// everything.
const LEFT_MAX: u64 = 32 << 20;

/// The failures of one attack.
fn attack((name, run): Attack, plan: Plan) -> Vec<String> {
    let mut setting = Report::new(plan, name);
    match catch_unwind(AssertUnwindSafe(|| run(&mut setting))) {
        Ok(Ok(())) => {}
        Ok(Err(why)) => setting.wrong(format!("stopped: {why}")),
        Err(_) => setting.wrong("panicked".to_owned()),
    }
    setting.found
}

fn once(name: &str) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let plan = Plan {
        walks: 20_000,
        full: false,
        seed: 1,
    };
    for wanted in ATTACKS.into_iter().filter(|(n, _)| *n == name) {
        assert_eq!(attack(wanted, plan), [""; 0]);
    }
}

#[test]
fn no_guest_leaves_its_directory_in_memory() {
    once("escape-memory");
}

#[test]
fn no_guest_leaves_its_directory_on_the_host() {
    once("escape-host");
}

#[test]
fn no_guest_leaves_by_dotdot_while_directories_move() {
    once("race-dotdot");
}

#[test]
fn no_guest_leaves_by_a_link_that_comes_and_goes() {
    once("race-link");
}

#[test]
fn descriptors_have_a_limit() {
    once("descriptors");
}

#[test]
fn bytes_and_files_have_a_limit() {
    once("quota");
}

#[test]
fn absent_names_have_a_limit() {
    once("names");
}

#[test]
fn vectors_longer_than_memory_are_refused() {
    once("vectors");
}

#[test]
fn pointers_outside_memory_are_refused() {
    once("pointers");
}

#[test]
fn random_calls_do_no_harm() {
    once("chaos");
}

/// Runs all attacks again and again for `OPENPATH_HOSTILE_SECONDS`, in full size if
/// `OPENPATH_HOSTILE_FULL` is set.
#[test]
#[ignore = "takes as long as OPENPATH_HOSTILE_SECONDS says"]
fn for_long() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seconds = std::env::var("OPENPATH_HOSTILE_SECONDS").ok();
    let time = Duration::from_secs(seconds.and_then(|s| s.parse().ok()).unwrap_or(60));
    let full = std::env::var_os("OPENPATH_HOSTILE_FULL").is_some();
    let (begun, mut turn, mut settled) = (Instant::now(), 0, 0);
    while begun.elapsed() < time || turn == 0 {
        let plan = Plan {
            walks: 1 << 20,
            full,
            seed: turn + 1,
        };
        for wanted in ATTACKS {
            assert_eq!(attack(wanted, plan), [""; 0]);
        }
        let now = resident();
        println!("turn {turn}: {} MiB resident", now >> 20);
        // The first turn fills caches and allocators.
        if turn == 0 {
            settled = now;
        }
        assert!(now <= settled + LEFT_MAX, "{settled} bytes, then {now}");
        turn += 1;
    }
}
