// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the calls that an [`crate::AsyncTask`] sent to workers, each with its waker, until the
//! result is collected or the future is dropped.

use crate::job::SharedWaker;
use crate::op::Outcome;
use std::task::Waker;

enum CallState {
    /// The slot is free.
    Free,
    Running,
    Completed(Box<Outcome>),
    /// Its future was dropped.
    Abandoned,
}

/// Calls by their numbers. Slots are made when they are first needed: there are very many tasks,
/// and most are idle, or make only cached calls.
pub(super) struct InFlight {
    slots: Vec<(CallState, SharedWaker)>,
    free: Vec<u32>,
    max: usize,
}

impl InFlight {
    pub(super) fn new(max: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            max: max as usize,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A slot for another call, and the waker that its worker uses.
    pub(super) fn reserve(&mut self) -> Option<(u32, SharedWaker)> {
        let ticket = match self.free.pop() {
            Some(ticket) => ticket,
            None => self.grow()?,
        };
        let slot = &mut self.slots[ticket as usize];
        slot.0 = CallState::Running;
        Some((ticket, slot.1.clone()))
    }

    /// Another slot, if there may be one.
    fn grow(&mut self) -> Option<u32> {
        let at = self.slots.len();
        if at >= self.max {
            return None;
        }
        self.slots.push((CallState::Free, SharedWaker::default()));
        u32::try_from(at).ok()
    }

    /// Stores a result; returns it if its future was dropped.
    pub(super) fn complete(&mut self, ticket: u32, outcome: Outcome) -> Option<Outcome> {
        let state = &mut self.slots[ticket as usize].0;
        if matches!(state, CallState::Abandoned) {
            self.free(ticket);
            return Some(outcome);
        }
        *state = CallState::Completed(Box::new(outcome));
        None
    }

    /// The result, or sets the waker.
    pub(super) fn collect(&mut self, ticket: u32, waker: &Waker) -> Option<Outcome> {
        let (state, shared) = &mut self.slots[ticket as usize];
        match std::mem::replace(state, CallState::Free) {
            CallState::Completed(outcome) => {
                self.free(ticket);
                Some(*outcome)
            }
            other => {
                *state = other;
                shared.set(waker);
                None
            }
        }
    }

    /// The future is dropped: returns a result that is there already, and frees the slot.
    pub(super) fn abandon(&mut self, ticket: u32) -> Option<Outcome> {
        let (state, shared) = &mut self.slots[ticket as usize];
        match std::mem::replace(state, CallState::Abandoned) {
            CallState::Completed(outcome) => {
                self.free(ticket);
                Some(*outcome)
            }
            _ => {
                shared.abandon();
                None
            }
        }
    }

    pub(super) fn free(&mut self, ticket: u32) {
        let slot = &mut self.slots[ticket as usize];
        slot.0 = CallState::Free;
        // A reused slot must not wake the previous future.
        slot.1.clear();
        self.free.push(ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_made_as_needed_and_reused() {
        let mut calls = InFlight::new(2);
        assert_eq!((calls.len(), calls.slots.capacity()), (0, 0));
        let tickets = [(); 3].map(|()| calls.reserve().map(|(ticket, _)| ticket));
        assert_eq!(tickets, [Some(0), Some(1), None]);
        calls.free(0);
        assert_eq!(calls.len(), 1);
        assert_eq!(calls.reserve().map(|(ticket, _)| ticket), Some(0));
        assert!(calls.reserve().is_none());
    }
}
