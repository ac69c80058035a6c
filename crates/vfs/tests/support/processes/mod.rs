// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of locks and leases processes that make calls, openpath's and the running kernel's,
//! with the same commands, and waits until their threads have answered or sleep.
//!
//! A command is `a1 setlk x w 0 0 10`: thread 1 of process `a` makes the call on its descriptor
//! `x`, which `a1 open x f rw` opened. The answer is one word or several; a call that waits answers
//! when it goes on.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod host;
pub(crate) mod ours;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// The files, of a hundred bytes each.
pub(crate) const FILES: [&str; 2] = ["f", "g"];
pub(crate) const DIR: &str = "d";

/// An actor, and its message.
pub(crate) type Said = (String, String);

/// Processes that make calls on command.
pub(crate) trait Agents {
    /// Sends a command to a thread; returns when an interrupt is delivered.
    fn tell(&mut self, who: &str, what: &str);
    /// The answers of all threads.
    fn heard(&self) -> &Receiver<Said>;
    /// Whether each of these threads sleeps in its call or has ended, and every exit is complete.
    fn rest(&self, inside: &BTreeSet<String>) -> bool;
    /// Replaces the numbers of processes by their names.
    fn named(&self, what: String) -> String {
        what
    }
}

/// More time than any call takes that does not wait, on a machine with much else to do.
const SOON: Duration = Duration::from_secs(120);
/// The pause between two looks at threads that work.
const LOOK: Duration = Duration::from_micros(200);

/// Makes a call that cannot wait; returns its answer.
pub(crate) fn ask(agents: &mut dyn Agents, who: &str, what: &str) -> String {
    agents.tell(who, what);
    let heard = agents.heard().recv_timeout(SOON);
    let (other, said) = heard.unwrap_or_else(|_| panic!("{who} does not answer {what}"));
    assert_eq!(other, who, "{what}: {said}");
    agents.named(said)
}

/// Makes a call, and collects answers until all threads without one sleep in their calls. Returns
/// the answer of `who`, or `waits`, and those of others. `waiting` has the threads whose calls
/// wait.
pub(crate) fn settle(
    agents: &mut dyn Agents,
    waiting: &mut BTreeSet<String>,
    who: &str,
    what: &str,
) -> (String, BTreeMap<String, String>) {
    agents.tell(who, what);
    let waits = ["openw ", "truncatew "];
    let may_wait = what == "interrupt"
        || what.contains("lkw ")
        || is_waiting_flock(what)
        || waits.iter().any(|call| what.starts_with(call));
    waiting.insert(who.to_owned());
    let mut all = BTreeMap::new();
    let begun = Instant::now();
    loop {
        let rests = agents.rest(waiting);
        let mut heard = agents.heard().try_recv();
        // A thread that answered may have woken others, so all are looked at again.
        let is_quiet = heard.is_err();
        assert_ne!(heard, Err(TryRecvError::Disconnected), "{who} {what}");
        while let Ok((other, said)) = heard {
            waiting.remove(&other);
            all.insert(other, said);
            heard = agents.heard().try_recv();
        }
        if is_quiet && rests && (may_wait || all.contains_key(who)) {
            break;
        }
        assert!(
            begun.elapsed() < SOON,
            "after {who} {what}, {waiting:?} neither answer nor sleep in a call"
        );
        if is_quiet {
            std::thread::sleep(LOOK);
        }
    }
    if what == "exit" {
        waiting.retain(|other| other[..1] != who[..1]);
    }
    let mut all: BTreeMap<String, String> = all
        .into_iter()
        .map(|(who, said)| (who, agents.named(said)))
        .collect();
    let own = all.remove(who);
    (own.unwrap_or_else(|| "waits".to_owned()), all)
}

/// Whether it is a flock(2) that may wait.
fn is_waiting_flock(what: &str) -> bool {
    let op = what
        .strip_prefix("flock ")
        .and_then(|rest| rest.split(' ').nth(1));
    op.is_some_and(|op| matches!(op, "1" | "2"))
}

/// The next random number.
pub(crate) fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 33) as usize
}

/// A random element.
pub(crate) fn one_of<'a, T>(seed: &mut u64, of: &'a [T]) -> &'a T {
    &of[next(seed) % of.len()]
}
