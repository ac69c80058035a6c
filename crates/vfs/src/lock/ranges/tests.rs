// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that random locks of several owners on byte ranges are those of a model with a word for
//! each byte. A tenant's limit holds, and one of many ranges is found in few steps.

use super::*;
use crate::instance::Vfs;
use crate::lock_call::LockKind::{Read, Write};
use crate::mount::rootfs;
use crate::tenant::{Tenant, TenantLimits};
use openpath_abi::Timespec;
use std::sync::Arc;

/// Bytes of the model; the last one stands for all that follow.
const BYTES: usize = 24;

/// What each owner has of each byte, in the order the owners came.
#[derive(Default)]
struct Model(Vec<(LockOwner, [Option<LockKind>; BYTES])>);

type Shown = (LockOwner, i64, i64, LockKind);

fn end_of(byte: usize) -> i64 {
    if byte == BYTES - 1 {
        i64::MAX
    } else {
        byte as i64
    }
}

fn range(first: usize, last: usize) -> Range {
    Range {
        start: first as i64,
        end: end_of(last),
    }
}

impl Model {
    fn set(&mut self, owner: LockOwner, first: usize, last: usize, kind: Option<LockKind>) {
        if kind.is_some() && !self.0.iter().any(|(other, _)| *other == owner) {
            self.0.push((owner, [None; BYTES]));
        }
        for (_, bytes) in self.0.iter_mut().filter(|(other, _)| *other == owner) {
            bytes[first..=last].fill(kind);
        }
        self.0
            .retain(|(_, bytes)| bytes.iter().any(Option::is_some));
    }

    /// What an owner has of each byte.
    fn of(&self, owner: LockOwner) -> [Option<LockKind>; BYTES] {
        let own = self.0.iter().find(|(other, _)| *other == owner);
        own.map_or([None; BYTES], |(_, bytes)| *bytes)
    }

    /// The first lock that an owner has of some bytes.
    fn own(&self, owner: LockOwner, what: Range) -> Option<Shown> {
        let own = self.all().into_iter().filter(|(other, ..)| *other == owner);
        let mut own = own.filter(|(_, start, end, _)| *start <= what.end && *end >= what.start);
        own.next()
    }

    fn all(&self) -> Vec<Shown> {
        let mut all = Vec::new();
        for (owner, bytes) in &self.0 {
            let mut at = 0;
            for run in bytes.chunk_by(|a, b| a == b) {
                if let Some(kind) = run[0] {
                    all.push((*owner, at as i64, end_of(at + run.len() - 1), kind));
                }
                at += run.len();
            }
        }
        all
    }

    fn conflict(&self, me: Option<LockOwner>, range: Range, kind: LockKind) -> Option<Shown> {
        let all = self.all();
        all.into_iter().find(|(owner, start, end, held)| {
            let overlap = *start <= range.end && *end >= range.start;
            Some(*owner) != me && overlap && (kind == Write || *held == Write)
        })
    }
}

fn shown(held: HeldLock) -> Shown {
    (held.owner, held.range.start, held.range.end, held.kind)
}

fn tenant(locks_max: u64) -> Arc<Tenant> {
    let limits = TenantLimits {
        locks_max,
        ..TenantLimits::default()
    };
    let root = rootfs(Timespec::new(0, 0));
    Vfs::builder().build(root).expect("a Vfs").tenant(limits)
}

/// A number that follows from the last one.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 33) as usize
}

fn ask(owner: LockOwner, range: Range, kind: LockKind, tenant: &Arc<Tenant>) -> LockRequest {
    LockRequest {
        owner,
        range,
        kind,
        pid: 0,
        tenant: TenantRef::new(tenant),
        charge: WaiterCharge::default(),
    }
}

/// Whether others may have something afterwards that they could not before.
fn gives_up(before: [Option<LockKind>; BYTES], after: [Option<LockKind>; BYTES]) -> bool {
    let strength = |kind: Option<LockKind>| match kind {
        None => 0,
        Some(Read) => 1,
        Some(Write) => 2,
    };
    let mut bytes = before.into_iter().zip(after);
    bytes.any(|(before, after)| strength(after) < strength(before))
}

#[test]
fn random_locks_are_those_of_a_model_with_a_word_for_each_byte() {
    let tenant = tenant(u64::MAX);
    for round in 0..300_u64 {
        let mut seed = round * 7919 + 1;
        let (mut ranges, mut model) = (Ranges::default(), Model::default());
        for _ in 0..120 {
            let owner = LockOwner::Table(next(&mut seed) as u64 % 4);
            let (a, b) = (next(&mut seed) % BYTES, next(&mut seed) % BYTES);
            let (first, last) = (a.min(b), a.max(b));
            let what = range(first, last);
            let kind = [Some(Read), Some(Read), Some(Write), None][next(&mut seed) % 4];
            let own = ranges.own(owner, what).map(shown);
            assert_eq!(own, model.own(owner, what), "round {round}");
            for kind in [Read, Write] {
                for me in [Some(owner), None] {
                    let found = ranges.conflict(me, what, kind).map(shown);
                    assert_eq!(found, model.conflict(me, what, kind), "round {round}");
                }
            }
            match kind {
                Some(kind) if ranges.conflict(Some(owner), what, kind).is_none() => {
                    let before = model.of(owner);
                    let lowers = ranges.set(ask(owner, what, kind, &tenant));
                    model.set(owner, first, last, Some(kind));
                    assert_eq!(lowers, Ok(gives_up(before, model.of(owner))));
                }
                Some(_) => {}
                None if next(&mut seed).is_multiple_of(16) => {
                    let had = model.of(owner).iter().any(Option::is_some);
                    assert_eq!(ranges.free_all(owner).is_some(), had);
                    model.set(owner, 0, BYTES - 1, None);
                }
                None => {
                    let before = model.of(owner);
                    let frees = ranges.free(owner, what);
                    model.set(owner, first, last, None);
                    assert_eq!(frees, Ok(gives_up(before, model.of(owner))));
                }
            }
            let all: Vec<Shown> = ranges.iter().map(shown).collect();
            assert_eq!(all, model.all(), "round {round}");
            assert_eq!(tenant.stats().locks, all.len() as u64, "R3");
        }
    }
    assert_eq!(tenant.stats().locks, 0, "what goes is given back");
}

#[test]
fn a_tenant_has_as_many_locks_as_it_may_and_a_split_needs_one_more() {
    let tenant = tenant(2);
    let mut ranges = Ranges::default();
    let (me, other) = (LockOwner::Table(1), LockOwner::File(2));
    let set = |ranges: &mut Ranges, owner, first, last, kind| {
        ranges.set(ask(owner, range(first, last), kind, &tenant))
    };
    assert_eq!(set(&mut ranges, me, 0, 9, Write), Ok(false));
    assert_eq!(
        set(&mut ranges, me, 3, 4, Read),
        Err(Errno::ENOLCK),
        "3 of 1"
    );
    assert_eq!(ranges.free(me, range(3, 4)), Ok(true), "2 of 1");
    assert_eq!(ranges.free(me, range(7, 7)), Err(Errno::ENOLCK));
    assert_eq!(set(&mut ranges, other, 20, 20, Read), Err(Errno::ENOLCK));
    assert_eq!(set(&mut ranges, me, 0, 9, Write), Ok(false), "1 of 2");
    assert_eq!(set(&mut ranges, other, 20, 20, Read), Ok(false));
    assert_eq!(ranges.iter().count(), 2);
    assert_eq!(tenant.stats().locks, 2);
    drop(ranges);
    assert_eq!(tenant.stats().locks, 0);
}

#[test]
fn a_hundred_thousand_ranges_of_two_owners_are_found_in_few_steps() {
    let tenant = tenant(u64::MAX);
    let mut ranges = Ranges::default();
    let owners = [LockOwner::Table(1), LockOwner::Table(2)];
    let one = |at: i64| Range { start: at, end: at };
    for at in 0..100_000 {
        let owner = owners[at as usize % 2];
        ranges
            .set(ask(owner, one(2 * at), Write, &tenant))
            .expect("room");
    }
    for at in 0..100_000 {
        let (mine, theirs) = (owners[at as usize % 2], owners[1 - at as usize % 2]);
        let found = ranges.conflict(Some(theirs), one(2 * at), Read);
        assert_eq!(found.map(|held| held.owner), Some(mine));
        assert_eq!(ranges.conflict(Some(mine), one(2 * at), Write), None);
        let first = ranges.conflict(Some(owners[0]), Range::ALL, Write);
        assert_eq!(first.map(|held| held.range), Some(one(2)));
    }
    assert_eq!(ranges.free_all(owners[0]).map(|r| r.start), Some(0));
    assert_eq!(ranges.iter().count(), 50_000);
}
