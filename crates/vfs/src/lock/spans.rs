// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the spans that one owner has locked of one file: they do not overlap, and are joined where
//! they can be.
//!
//! # Kernel analogue
//! The part of `posix_lock_inode` that splits, joins, raises and lowers an owner's locks.

use crate::lock_call::{LockKind, Range};
use std::collections::BTreeMap;

/// A locked span; where it starts is its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) end: i64,
    pub(super) kind: LockKind,
    /// The process that set it.
    pub(super) pid: i32,
}

/// A change, before it is made.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Edit {
    /// Where spans go.
    pub(super) gone: Vec<i64>,
    /// Spans that come: three at most.
    pub(super) new: Vec<(i64, Span)>,
    /// Whether others may have something after it that this owner kept from them.
    pub(super) frees: bool,
}

impl Edit {
    /// How many spans more there are after it; negative: less.
    pub(super) fn growth(&self) -> i64 {
        self.new.len() as i64 - self.gone.len() as i64
    }
}

/// The spans of an owner.
#[derive(Default)]
pub(super) struct Spans(BTreeMap<i64, Span>);

impl Spans {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All spans, by start.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &Span)> {
        self.0.iter().map(|(&start, span)| (start, span))
    }

    /// The spans that have some of `start..=end`.
    pub(super) fn within(&self, start: i64, end: i64) -> impl Iterator<Item = (i64, &Span)> {
        let before = self.0.range(..start).next_back();
        let before = before.filter(|(_, span)| span.end >= start);
        let rest = self.0.range(start..=end.max(start));
        before.into_iter().chain(rest).map(|(&at, span)| (at, span))
    }

    /// What makes `range` of this kind, or free: whatever else the owner has there goes, and what
    /// it has of the same kind on either side becomes one with it.
    pub(super) fn plan(&self, range: Range, kind: Option<LockKind>, pid: i32) -> Edit {
        let Range { mut start, mut end } = range;
        let mut edit = Edit::default();
        let (mut left, mut right, mut setter) = (None, None, None);
        for (at, span) in self.within(start.saturating_sub(1).max(0), end.saturating_add(1)) {
            if Some(span.kind) == kind {
                // The older span keeps its process.
                setter.get_or_insert(span.pid);
                edit.gone.push(at);
                (start, end) = (start.min(at), end.max(span.end));
                continue;
            }
            if span.end < range.start || at > range.end {
                continue;
            }
            // It was of another kind: if this is to be read, it excluded.
            edit.frees |= kind != Some(LockKind::Write);
            edit.gone.push(at);
            if at < range.start {
                let end = range.start - 1;
                left = Some((at, Span { end, ..*span }));
            }
            if span.end > range.end {
                right = Some((range.end + 1, *span));
            }
            if at >= range.start && span.end <= range.end {
                setter.get_or_insert(pid);
            }
        }
        let set = kind.map(|kind| {
            let pid = setter.unwrap_or(pid);
            (start, Span { end, kind, pid })
        });
        edit.new.extend([left, set, right].into_iter().flatten());
        edit
    }

    /// Makes a planned change.
    pub(super) fn apply(&mut self, edit: &Edit) {
        for start in &edit.gone {
            self.0.remove(start);
        }
        self.0.extend(edit.new.iter().copied());
    }
}
