// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of locks share: processes that lock files, ours and the running kernel's, told in
//! the same words.
//!
//! A call is `a1 setlk x w 0 0 10`: thread 1 of process `a`, by its descriptor `x`, which `a1 open
//! x f rw` has opened. Its answer is a word, or several; who waits says nothing until it goes on.

#![allow(dead_code, reason = "each test takes what it needs")]

pub(crate) mod host;
pub(crate) mod ours;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The files there are, of a hundred bytes; and a directory.
pub(crate) const FILES: [&str; 2] = ["f", "g"];
pub(crate) const DIR: &str = "d";

/// Who says what.
pub(crate) type Said = (String, String);

/// Processes that do as they are told.
pub(crate) trait Agents {
    /// Has a thread do something.
    fn tell(&mut self, who: &str, what: &str);
    /// What they say.
    fn heard(&self) -> &Receiver<Said>;
    /// Takes the names of processes for their numbers.
    fn named(&self, what: String) -> String {
        what
    }
}

/// Long enough for anybody who does not wait.
const SOON: Duration = Duration::from_secs(20);

/// Does what cannot wait; what it said.
pub(crate) fn ask(agents: &mut dyn Agents, who: &str, what: &str) -> String {
    agents.tell(who, what);
    let heard = agents.heard().recv_timeout(SOON);
    let (other, said) = heard.unwrap_or_else(|_| panic!("{who} says nothing: {what}"));
    assert_eq!(other, who, "{what}: {said}");
    agents.named(said)
}

/// Does something, and hears what all say until they have said nothing for a while, if anybody
/// waits: what who was told says, or `waits`, and what others say. `waiting` has those who wait.
pub(crate) fn settle(
    agents: &mut dyn Agents,
    waiting: &mut BTreeSet<String>,
    who: &str,
    what: &str,
    patience: Duration,
) -> (String, BTreeMap<String, String>) {
    agents.tell(who, what);
    let mut all = BTreeMap::new();
    let waits = ["openw ", "truncatew "];
    let may_wait = what.contains("lkw ")
        || is_waiting_flock(what)
        || waits.iter().any(|call| what.starts_with(call));
    if what != "interrupt" && !may_wait {
        let heard = agents.heard().recv_timeout(SOON);
        let (other, said) = heard.unwrap_or_else(|_| panic!("{who} says nothing: {what}"));
        all.insert(other, said);
    }
    let goes_on = may_wait || what == "interrupt" || what == "exit" || !waiting.is_empty();
    while goes_on && let Ok((other, said)) = agents.heard().recv_timeout(patience) {
        all.insert(other, said);
    }
    let mut all: BTreeMap<String, String> = all
        .into_iter()
        .map(|(who, said)| (who, agents.named(said)))
        .collect();
    let own = all.remove(who);
    if own.is_none() {
        waiting.insert(who.to_owned());
    }
    waiting.retain(|other| !all.contains_key(other) && (other != who || own.is_none()));
    (own.unwrap_or_else(|| "waits".to_owned()), all)
}

/// Whether it is a flock(2) that may wait.
fn is_waiting_flock(what: &str) -> bool {
    let op = what
        .strip_prefix("flock ")
        .and_then(|rest| rest.split(' ').nth(1));
    op.is_some_and(|op| matches!(op, "1" | "2"))
}

/// A number that follows from the last one.
pub(crate) fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 33) as usize
}

/// One of these.
pub(crate) fn one_of<'a, T>(seed: &mut u64, of: &'a [T]) -> &'a T {
    &of[next(seed) % of.len()]
}
