// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the waiters for the locks of one file, and decides which of them a release lets go on.
//!
//! # Kernel analogue
//! `__locks_insert_block`, `__locks_wake_up_blocks`. Linux wakes all waiters of a lock, and they
//! try again in whatever order they run. Here the releasing thread tries for them.
//!
//! # Shape
//! Requests for the same range in the same mode stand in one line, in the order they came. A lock
//! that blocks the first blocks all but its own owner's, so a line is asked twice, however long it
//! is.
//!
//! # Rules
//! R1. A sleeping waiter has the lock when it wakes. A waiter without a thread has a claim, until
//!     it reads the answer.

use super::graph::{Blockers, Graph, LineId};
use super::ranges::{LockRequest, Ranges};
use super::tree::{Tree, TreeSpan};
use super::wait::{WaiterAnswer, Wakes};
use crate::lock_call::{LockKind, LockOwner, Range};
use openpath_abi::Errno;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A waiter.
pub(super) struct QueuedLock {
    pub(super) ask: LockRequest,
    pub(super) answer: Arc<WaiterAnswer>,
}

/// The waiters for one range in one mode.
struct Line {
    range: Range,
    kind: LockKind,
    waiters: BTreeMap<u64, QueuedLock>,
}

/// The place of a waiter in its line.
#[derive(Clone)]
pub(crate) struct QueuePosition {
    line: LineId,
    pub(crate) seq: u64,
    pub(crate) owner: LockOwner,
    pub(crate) answer: Arc<WaiterAnswer>,
}

/// The waiters for the locks of one file. See the module head.
#[derive(Default)]
pub(super) struct Queue {
    lines: BTreeMap<LineId, Line>,
    by_want: HashMap<(Range, LockKind), LineId>,
    tree: Tree,
}

impl Queue {
    /// Enters a request that a lock blocks. `new_line` numbers a line. The blockers of its line may
    /// change: refuses the waiters in it that wait for themselves then, and adds them to `wakes`.
    ///
    /// # Errors
    /// `EDEADLK`: it would wait for itself.
    pub(super) fn enter(
        &mut self,
        ask: LockRequest,
        ranges: &Ranges,
        graph: &mut Graph,
        hops: u32,
        new_line: impl FnOnce() -> LineId,
        wakes: &mut Wakes,
    ) -> Result<QueuePosition, Errno> {
        let (range, kind, owner) = (ask.range, ask.kind, ask.owner);
        let by = blockers(ranges, range, kind).ok_or(Errno::EAGAIN)?;
        if let Some(blocker) = by.of(owner)
            && graph.closes(owner, blocker, hops)
        {
            return Err(Errno::EDEADLK);
        }
        let known = self.by_want.get(&(range, kind)).copied();
        let line = known.unwrap_or_else(|| {
            let line = new_line();
            self.open_line(line, range, kind);
            line
        });
        let seq = graph.enter(owner, line);
        let answer = Arc::<WaiterAnswer>::default();
        if let Some(open) = self.lines.get_mut(&line) {
            let waiter = QueuedLock {
                ask,
                answer: Arc::clone(&answer),
            };
            open.waiters.insert(seq, waiter);
        }
        self.stay(line, by, graph, hops, wakes);
        Ok(QueuePosition {
            line,
            seq,
            owner,
            answer,
        })
    }

    /// Takes a waiter out of its line; whether it was in.
    pub(super) fn leave(&mut self, place: &QueuePosition, graph: &mut Graph) -> bool {
        self.take(place.line, place.seq, graph).is_some()
    }

    /// The requests that wait, in the order they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &LockRequest> {
        let all = self.lines.values().flat_map(|line| &line.waiters);
        let by_age: BTreeMap<_, _> = all.map(|(seq, waiter)| (*seq, &waiter.ask)).collect();
        by_age.into_values()
    }

    /// Grants requests for some of `freed` that nothing blocks any more, and adds their waiters to
    /// `wakes`. Refuses waiters that have come to wait for themselves. What a grant lowers is freed
    /// too.
    pub(super) fn settle(
        &mut self,
        freed: Range,
        ranges: &mut Ranges,
        graph: &mut Graph,
        hops: u32,
        wakes: &mut Wakes,
    ) {
        let mut work = BTreeMap::new();
        self.ask(freed, &mut work);
        while let Some((_, line)) = work.pop_first() {
            let Some(open) = self.lines.get(&line) else {
                continue;
            };
            let by = blockers(ranges, open.range, open.kind);
            let next = match by {
                None => self.head(line),
                // Its own lock blocks only the others.
                Some(by) if by.second.is_none() => graph.waits_in(by.first, line),
                Some(_) => None,
            };
            match (next, by) {
                (Some(seq), _) => {
                    if let Some(waiter) = self.take(line, seq, graph) {
                        if waiter.ask.charge.is_paid() {
                            waiter.answer.give(Ok(()), wakes);
                            ranges.claim(seq, waiter);
                        } else {
                            let range = waiter.ask.range;
                            let set = ranges.set(waiter.ask);
                            waiter.answer.give(set.map(|_| ()), wakes);
                            if set == Ok(true) {
                                self.ask(range, &mut work);
                            }
                        }
                    }
                    if let Some(seq) = self.head(line) {
                        work.insert(seq, line);
                    }
                }
                (None, Some(by)) => self.stay(line, by, graph, hops, wakes),
                (None, None) => {}
            }
        }
    }

    /// Puts the lines that want some of `freed` where they are asked, by the age of their heads.
    fn ask(&self, freed: Range, work: &mut BTreeMap<u64, LineId>) {
        self.tree.each(freed.start, freed.end, &mut |piece| {
            if let Some(seq) = self.head(piece.rank) {
                work.insert(seq, piece.rank);
            }
        });
    }

    /// A line goes on waiting, maybe for others than before.
    fn stay(
        &mut self,
        line: LineId,
        by: Blockers,
        graph: &mut Graph,
        hops: u32,
        wakes: &mut Wakes,
    ) {
        if graph.blockers(line) == Some(by) {
            return;
        }
        graph.block(line, by);
        let own = by
            .second
            .filter(|second| graph.closes(by.first, *second, hops));
        let mut stuck: Vec<LockOwner> = own.map(|_| by.first).into_iter().collect();
        stuck.extend(graph.chain(by.first, hops).filter(|o| *o != by.first));
        for owner in stuck {
            // A waiter refused before may have been part of its circle.
            while by
                .of(owner)
                .is_some_and(|blocker| graph.closes(owner, blocker, hops))
                && let Some(seq) = graph.waits_in(owner, line)
                && let Some(waiter) = self.take(line, seq, graph)
            {
                waiter.answer.give(Err(Errno::EDEADLK), wakes);
            }
        }
    }

    fn open_line(&mut self, line: LineId, range: Range, kind: LockKind) {
        self.by_want.insert((range, kind), line);
        self.tree.insert(TreeSpan {
            start: range.start,
            end: range.end,
            rank: line,
            write: kind == LockKind::Write,
        });
        let waiters = BTreeMap::new();
        self.lines.insert(
            line,
            Line {
                range,
                kind,
                waiters,
            },
        );
    }

    /// The longest wait in a line.
    fn head(&self, line: LineId) -> Option<u64> {
        let open = self.lines.get(&line)?;
        open.waiters.first_key_value().map(|(seq, _)| *seq)
    }

    /// Takes a waiter out of its line, which ends with the last.
    fn take(&mut self, line: LineId, seq: u64, graph: &mut Graph) -> Option<QueuedLock> {
        let open = self.lines.get_mut(&line)?;
        let waiter = open.waiters.remove(&seq)?;
        graph.leave(waiter.ask.owner, line, seq);
        if open.waiters.is_empty()
            && let Some(open) = self.lines.remove(&line)
        {
            self.by_want.remove(&(open.range, open.kind));
            self.tree.remove(open.range.start, line);
            if self.lines.is_empty() {
                // What many lines took goes with the last.
                self.by_want = HashMap::default();
            }
            graph.end_line(line);
        }
        Some(waiter)
    }

    /// Whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The owners whose locks block a request, if any.
fn blockers(ranges: &Ranges, range: Range, kind: LockKind) -> Option<Blockers> {
    let first = ranges.conflict(None, range, kind)?.owner;
    let second = ranges.conflict(Some(first), range, kind);
    Some(Blockers {
        first,
        second: second.map(|held| held.owner),
    })
}
