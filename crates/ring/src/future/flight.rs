// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of an [`crate::AsyncTask`] that workers have.

use crate::desk::Signal;
use crate::op::Outcome;
use std::task::Waker;

enum Flight {
    /// Its place is free.
    None,
    Away,
    Landed(Box<Outcome>),
    /// Nobody asks for it any more.
    Abandoned,
}

/// Calls by their tickets.
pub(super) struct Flights {
    places: Vec<(Flight, Signal)>,
    free: Vec<u32>,
}

impl Flights {
    pub(super) fn new(max: u32) -> Self {
        Self {
            places: (0..max)
                .map(|_| (Flight::None, Signal::default()))
                .collect(),
            free: (0..max).rev().collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// A place for one more, and what wakes who waits for it.
    pub(super) fn take_off(&mut self) -> Option<(u32, Signal)> {
        let ticket = self.free.pop()?;
        let place = &mut self.places[ticket as usize];
        place.0 = Flight::Away;
        Some((ticket, place.1.clone()))
    }

    /// Keeps what came back; it comes out again if nobody asks for it.
    pub(super) fn land(&mut self, ticket: u32, outcome: Outcome) -> Option<Outcome> {
        let flight = &mut self.places[ticket as usize].0;
        if matches!(flight, Flight::Abandoned) {
            self.free(ticket);
            return Some(outcome);
        }
        *flight = Flight::Landed(Box::new(outcome));
        None
    }

    /// What came back, or has `waker` told when it does.
    pub(super) fn collect(&mut self, ticket: u32, waker: &Waker) -> Option<Outcome> {
        let (flight, signal) = &mut self.places[ticket as usize];
        match std::mem::replace(flight, Flight::None) {
            Flight::Landed(outcome) => {
                self.free(ticket);
                Some(*outcome)
            }
            other => {
                *flight = other;
                signal.set(waker);
                None
            }
        }
    }

    /// Nobody asks for it any more: what came back already, and its place is free.
    pub(super) fn abandon(&mut self, ticket: u32) -> Option<Outcome> {
        let flight = &mut self.places[ticket as usize].0;
        match std::mem::replace(flight, Flight::Abandoned) {
            Flight::Landed(outcome) => {
                self.free(ticket);
                Some(*outcome)
            }
            _ => None,
        }
    }

    pub(super) fn free(&mut self, ticket: u32) {
        let place = &mut self.places[ticket as usize];
        place.0 = Flight::None;
        // One that is used again wakes nobody of before.
        place.1.clear();
        self.free.push(ticket);
    }
}
