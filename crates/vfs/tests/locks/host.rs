// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that file locks act as in the running kernel, by random scripts of processes that lock
//! files. Each step must agree in its answer and in the locks that every process sees.
//!
//! `OPENPATH_LOCKS_SCRIPTS` sets the number of scripts of each slow test, 40 by default.

use crate::processes::{Agents, FILES, ask, host, next, one_of, ours, settle};
use openpath_vfs::Tuning;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

const PROCESSES: &str = "abcd";
/// How often a script that differs is tried: `/proc/locks` is read in pieces while other programs
/// lock files.
const TRIES: u32 = 4;
/// The bytes that requests lock, and a few more.
const BYTES: usize = 12;

fn scripts() -> u64 {
    let wanted = std::env::var("OPENPATH_LOCKS_SCRIPTS");
    wanted.map_or(40, |n| n.parse().expect("a number"))
}

/// A request for some range, rarely of an odd kind.
fn request(seed: &mut u64) -> String {
    let kind = one_of(seed, &["r", "r", "w", "w", "u"]);
    let (start, len) = match next(seed) % 8 {
        0 => (next(seed) % BYTES, 0),
        1 => (0, 0),
        _ => (next(seed) % BYTES, 1 + next(seed) % 6),
    };
    match next(seed) % 24 {
        0 => format!("{kind} 0 {} -{}", start + 6, 1 + len),
        1 => format!("{kind} 1 {start} {len}"),
        2 => format!("{kind} 2 -{start} {len}"),
        3 => format!("{kind} 0 9223372036854775{} {len}", 790 + start),
        _ => format!("{kind} 0 {start} {len}"),
    }
}

/// One random call of a process with these descriptors.
fn step(seed: &mut u64, names: &[&str], waits: bool) -> String {
    let name = one_of(seed, names);
    match next(seed) % 20 {
        0 => format!("close {name}"),
        1 => {
            let file = one_of(seed, &FILES);
            let mode = one_of(seed, &["r", "w", "rw", "rw"]);
            format!("open {name} {file} {mode}")
        }
        2 => format!("dup {name} {}", one_of(seed, names)),
        3 => format!("seek {name} {}", next(seed) % BYTES),
        4..7 => {
            let op = one_of(seed, if waits { &[1, 2, 2, 8] } else { &[5, 6, 6, 8] });
            format!("flock {name} {op}")
        }
        7 if !waits => format!("getlk {name} {}", request(seed)),
        8 if !waits => format!("ofd_getlk {name} {}", request(seed)),
        9..14 => {
            let call = if waits { "ofd_setlkw" } else { "ofd_setlk" };
            format!("{call} {name} {}", request(seed))
        }
        _ => {
            let call = if waits { "setlkw" } else { "setlk" };
            format!("{call} {name} {}", request(seed))
        }
    }
}

/// The calls of a step that make both sides equal: a descriptor is only replaced after a close.
fn prepared(step: &str) -> Vec<String> {
    let words: Vec<&str> = step.split(' ').collect();
    match words[0] {
        "open" => vec![format!("close {}", words[1]), step.to_owned()],
        "dup" if words[1] == words[2] => Vec::new(),
        "dup" => vec![format!("close {}", words[2]), step.to_owned()],
        _ => vec![step.to_owned()],
    }
}

/// Opens the initial files of each process.
fn begin(agents: &mut dyn Agents) {
    for process in PROCESSES.chars() {
        let who = format!("{process}1");
        for (name, file) in [("x", "f"), ("y", "f"), ("z", "g")] {
            assert_eq!(ask(agents, &who, &format!("open {name} {file} rw")), "0");
        }
    }
}

#[test]
fn random_requests_leave_the_locks_of_the_kernel() {
    compare_locks(0..5);
}

#[test]
#[ignore = "slow: 15 s"]
fn many_random_requests_leave_the_locks_of_the_kernel() {
    compare_locks(5..scripts());
}

fn compare_locks(scripts: Range<u64>) {
    for script in scripts {
        let mut seed = script * 7919 + 1;
        let mut tuning = Tuning::default();
        tuning.lock_context_flag = script % 2 == 0;
        let mut theirs = host::Host::new(&format!("{PROCESSES}e"));
        let mut own = ours::Ours::new(&format!("{PROCESSES}e"), 1 + script as u32 % 2, tuning);
        let mut told = Vec::new();
        for agents in [&mut theirs as &mut dyn Agents, &mut own] {
            begin(agents);
            // A process that only looks.
            assert_eq!(ask(agents, "e1", "open x f rw"), "0");
            assert_eq!(ask(agents, "e1", "open z g rw"), "0");
        }
        for _ in 0..120 {
            let who = format!("{}1", one_of(&mut seed, &["a", "b", "c", "d"]));
            for step in prepared(&step(&mut seed, &["x", "y", "z", "n"], false)) {
                let mut both = [
                    (who.as_str(), step.clone()),
                    (&who, format!("view x ofd_getlk {BYTES}")),
                    (&who, format!("view z getlk {BYTES}")),
                    ("e1", format!("view x getlk {BYTES}")),
                    ("e1", "locks".to_owned()),
                ]
                .map(|(who, what)| {
                    let ours = ask(&mut own, who, &what);
                    let mut kernel = ask(&mut theirs, who, &what);
                    // /proc/locks lists the whole machine and is read in pieces while others change
                    // it.
                    for _ in 0..5 {
                        if what == "locks" && kernel != ours {
                            kernel = ask(&mut theirs, who, &what);
                        }
                    }
                    (what, kernel, ours)
                });
                told.push(format!("{who} {} = {}", both[0].0, both[0].1));
                for (what, kernel, ours) in &mut both {
                    assert_eq!(
                        kernel,
                        ours,
                        "script {script}, {what} (left: the kernel) after\n{}",
                        told.join("\n")
                    );
                }
            }
        }
        own.end();
    }
}

/// The answers of a step, and the locks and waiters after it.
#[derive(PartialEq)]
struct Told {
    step: String,
    /// The answer of the process that made the call, or `waits`.
    said: String,
    /// The processes that went on, and their answers.
    others: String,
    locks: String,
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (step, said, others, locks) = (&self.step, &self.said, &self.others, &self.locks);
        write!(f, "{step} = {said}; {others}\n    {locks}")
    }
}

/// Plays a script in which processes wait.
fn play(agents: &mut dyn Agents, seed: u64) -> Vec<Told> {
    begin(agents);
    assert_eq!(ask(agents, "e1", "open x f rw"), "0");
    let (mut seed, mut waiting, mut told) = (seed, BTreeSet::new(), Vec::new());
    for _ in 0..25 {
        let who = format!("{}1", one_of(&mut seed, &["a", "b", "c", "d"]));
        let interrupts = next(&mut seed).is_multiple_of(4);
        let waits = !next(&mut seed).is_multiple_of(3);
        for step in prepared(&step(&mut seed, &["x", "y", "z"], waits)) {
            let step = match (waiting.contains(&who), interrupts) {
                (true, true) => "interrupt".to_owned(),
                (true, false) => continue,
                (false, _) => step,
            };
            let (said, others) = settle(agents, &mut waiting, &who, &step);
            let (locks, late) = settle(agents, &mut waiting, "e1", "locks");
            told.push(Told {
                step: format!("{who} {step}"),
                said,
                others: format!("{others:?} {late:?}"),
                locks,
            });
        }
    }
    told
}

/// Whether two scripts differ only in which of several waiters went on (L80).
fn is_a_matter_of_order(theirs: &[Told], own: &[Told]) -> bool {
    let at = theirs.iter().zip(own).take_while(|(a, b)| a == b).count();
    let waited = at
        .checked_sub(1)
        .map_or(0, |at| theirs[at].locks.matches("->").count());
    let (Some(theirs), Some(own)) = (theirs.get(at), own.get(at)) else {
        return false;
    };
    let somebody = [theirs, own].iter().all(|told| told.others != "{} {}");
    waited > 1 && somebody && (&theirs.step, &theirs.said) == (&own.step, &own.said)
}

#[test]
fn the_same_processes_wait_and_go_on_as_in_the_kernel() {
    compare_waits(0..10);
}

#[test]
#[ignore = "slow: 5 s"]
fn in_many_scripts_the_same_processes_wait_and_go_on_as_in_the_kernel() {
    compare_waits(10..scripts());
}

fn compare_waits(scripts: Range<u64>) {
    let (mut steps, mut waits, mut ordered) = (0, 0, 0);
    let count = scripts.end - scripts.start;
    for script in scripts {
        let seed = script * 104_729 + 1;
        for tried in 1.. {
            let mut kernel = host::Host::new(&format!("{PROCESSES}e"));
            let theirs = play(&mut kernel, seed);
            drop(kernel);
            let mut agents = ours::Ours::new(&format!("{PROCESSES}e"), 1, Tuning::default());
            let own = play(&mut agents, seed);
            agents.end();
            if theirs == own {
                steps += own.len();
                waits += own.iter().filter(|told| told.said == "waits").count();
                break;
            }
            if tried > TRIES / 2 && is_a_matter_of_order(&theirs, &own) {
                ordered += 1;
                break;
            }
            assert!(
                tried < TRIES,
                "script {script}, the kernel {theirs:#?}\nours {own:#?}"
            );
        }
    }
    assert!(waits * 10 > steps, "{waits} of {steps} steps waited");
    assert!(
        ordered * 5 <= count,
        "{ordered} of {count} scripts went in another order"
    );
}
