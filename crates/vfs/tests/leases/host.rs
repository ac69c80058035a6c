// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that leases act as in the running kernel, by random scripts of processes that take leases
//! and open files. Each step must agree in its answer, the calls that wait or go on, the signals
//! and the leases that are held.
//!
//! `OPENPATH_LOCKS_SCRIPTS` sets the number of scripts of the slow test, 40 by default.

use crate::processes::{Agents, ask, host, next, one_of, ours, settle};
use openpath_vfs::Tuning;
use std::collections::BTreeSet;
use std::ops::Range;

const PROCESSES: &str = "abc";
/// How often a script that differs is tried: `/proc/locks` is read in pieces while other programs
/// lock files.
const TRIES: u32 = 4;

fn scripts() -> u64 {
    let wanted = std::env::var("OPENPATH_LOCKS_SCRIPTS");
    wanted.map_or(40, |n| n.parse().expect("a number"))
}

/// One random call; `h` is a second name of `f`.
fn step(seed: &mut u64, waits: bool) -> String {
    let name = one_of(seed, &["x", "y"]);
    match next(seed) % 20 {
        0..6 => {
            let kind = one_of(seed, &["r", "r", "r", "w", "w", "u"]);
            format!("setlease {name} {kind}")
        }
        6 => format!("getlease {name}"),
        7..12 => format!("close {name}"),
        12 => match waits {
            true => format!(
                "truncatew {} {}",
                one_of(seed, &["f", "g", "h"]),
                next(seed) % 9
            ),
            false => format!("ftruncate {name} {}", next(seed) % 9),
        },
        13 => format!("getown {name}"),
        14 => format!("reopen {name} x r-nb"),
        _ => {
            let file = one_of(seed, &["f", "f", "g", "h"]);
            let mode = one_of(
                seed,
                &["r", "r", "r", "w", "rw", "r-trunc", "w-creat", "path", "3"],
            );
            match waits {
                true => format!("openw {name} {file} {mode}"),
                false => format!("open {name} {file} {mode}-nb"),
            }
        }
    }
}

/// The calls of a step that make both sides equal: a descriptor is only replaced after a close.
fn prepared(step: &str) -> Vec<String> {
    let words: Vec<&str> = step.split(' ').collect();
    match words[0] {
        "open" | "openw" => vec![format!("close {}", words[1]), step.to_owned()],
        "reopen" => vec!["close y".to_owned(), step.replace("reopen x", "reopen y")],
        _ => vec![step.to_owned()],
    }
}

/// Runs a script; returns the results and the leases after each step.
fn play(agents: &mut dyn Agents, seed: u64) -> Vec<String> {
    assert_eq!(ask(agents, "a1", "link f h"), "0");
    assert_eq!(ask(agents, "a1", "open x f r"), "0");
    let (mut seed, mut waiting, mut told) = (seed, BTreeSet::new(), Vec::new());
    for _ in 0..40 {
        let who = format!("{}1", one_of(&mut seed, &["a", "b", "c"]));
        if next(&mut seed).is_multiple_of(4) && !waiting.contains("a1") {
            // Otherwise, few leases would make calls wait.
            let (said, others) = settle(agents, &mut waiting, "a1", "setlease x w");
            told.push(format!("a1 setlease x w = {said} {others:?}"));
        }
        let (waits, interrupts) = (
            next(&mut seed).is_multiple_of(2),
            next(&mut seed).is_multiple_of(4),
        );
        for step in prepared(&step(&mut seed, waits)) {
            let step = match (waiting.contains(&who), interrupts) {
                (true, true) => "interrupt".to_owned(),
                (true, false) => continue,
                (false, _) => step,
            };
            let (said, others) = settle(agents, &mut waiting, &who, &step);
            let mut line = format!("{who} {step} = {said} {others:?}");
            // One of these is always free to list the leases.
            for looker in ["a1", "b1", "c1"] {
                if !waiting.contains(looker) {
                    for what in ["signals", "locks"] {
                        let (seen, late) = settle(agents, &mut waiting, looker, what);
                        line += &format!("\n    {looker} {what}: {seen} {late:?}");
                    }
                }
            }
            told.push(line);
        }
    }
    told
}

#[test]
fn leases_answer_wait_and_signal_as_in_the_kernel() {
    compare(0..10);
}

#[test]
#[ignore = "slow: 10 s"]
fn leases_of_many_scripts_answer_wait_and_signal_as_in_the_kernel() {
    compare(10..scripts());
}

fn compare(scripts: Range<u64>) {
    let (mut steps, mut waits) = (0, 0);
    for script in scripts {
        let seed = script * 15_485_863 + 1;
        let mut tuning = Tuning::default();
        tuning.lock_context_flag = script % 2 == 0;
        for tried in 1.. {
            let mut kernel = host::Host::new(PROCESSES);
            let theirs = play(&mut kernel, seed);
            drop(kernel);
            let mut agents = ours::Ours::new(PROCESSES, 1, tuning);
            let own = play(&mut agents, seed);
            agents.end();
            if theirs == own {
                steps += own.len();
                waits += own.iter().filter(|told| told.contains("= waits")).count();
                break;
            }
            assert!(
                tried < TRIES,
                "script {script}, the kernel {theirs:#?}\nours {own:#?}"
            );
        }
    }
    assert!(waits * 100 > steps, "{waits} of {steps} steps waited");
}
