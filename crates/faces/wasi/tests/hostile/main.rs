// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile guests: what they try, and what must hold.
//!
//! A guest is a module that calls what it is told to (`puppet`), so that the attacks are written
//! here and yet go through the guest's own memory and imports. Each attack has a control: the same
//! done without what confines a guest, which must succeed; else the attack proves nothing.
//!
//! # What is checked
//! * Nobody gets out: no call reaches, shows or changes what lies beside the guest's directory.
//! * A limit is a limit: what goes beyond is an errno of WASI or a trap, never a panic.
//! * Nobody else pays: another guest's files stay in the cache, and memory stays as it was.
//! * Nothing is left: when a guest is gone, so is what it held.
//!
//! # Rules
//! R1. Resident memory is of the whole process: one attack runs at a time.
//! R2. The tests take counts, not time. `for_long` takes time: `cargo xtask hostile-wasi`.

mod acts;
mod bounds;
mod escape;
mod field;
mod floods;
mod garbage;
mod puppet;
mod race;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use field::{Failed, Field, Plan, resident};

type Attack = (&'static str, fn(&mut Field) -> Result<(), Failed>);

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
/// Growth of resident memory after the first turn that counts as left behind: what an allocator
/// cannot give back.
const LEFT_MAX: u64 = 32 << 20;

/// What did not hold in one attack.
fn attack((name, run): Attack, plan: Plan) -> Vec<String> {
    let mut field = Field::new(plan, name);
    match catch_unwind(AssertUnwindSafe(|| run(&mut field))) {
        Ok(Ok(())) => {}
        Ok(Err(why)) => field.wrong(format!("stopped: {why}")),
        Err(_) => field.wrong("panicked".to_owned()),
    }
    field.found
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
fn nobody_gets_out_of_a_tree_in_memory() {
    once("escape-memory");
}

#[test]
fn nobody_gets_out_of_a_directory_of_the_host() {
    once("escape-host");
}

#[test]
fn nobody_gets_out_by_dotdot_while_directories_move() {
    once("race-dotdot");
}

#[test]
fn nobody_gets_out_by_a_link_that_comes_and_goes() {
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
fn names_that_are_not_there_have_a_limit() {
    once("names");
}

#[test]
fn vectors_beyond_memory_are_refused() {
    once("vectors");
}

#[test]
fn pointers_that_point_nowhere_are_refused() {
    once("pointers");
}

#[test]
fn calls_at_random_do_no_harm() {
    once("chaos");
}

/// All of it again and again, for `OPENPATH_HOSTILE_SECONDS`; in full if `OPENPATH_HOSTILE_FULL` is
/// set.
#[test]
#[ignore = "takes as long as it is told to"]
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
        // The first turn fills what stays.
        if turn == 0 {
            settled = now;
        }
        assert!(now <= settled + LEFT_MAX, "{settled} bytes, then {now}");
        turn += 1;
    }
}
