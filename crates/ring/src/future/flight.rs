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

/// Calls by their tickets. Places are made when they are first needed, since most tasks are idle,
/// or cached, and there are very many of them.
pub(super) struct Flights {
    places: Vec<(Flight, Signal)>,
    free: Vec<u32>,
    max: usize,
}

impl Flights {
    pub(super) fn new(max: u32) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            max: max as usize,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// A place for one more, and what wakes who waits for it.
    pub(super) fn take_off(&mut self) -> Option<(u32, Signal)> {
        let ticket = match self.free.pop() {
            Some(ticket) => ticket,
            None => self.grow()?,
        };
        let place = &mut self.places[ticket as usize];
        place.0 = Flight::Away;
        Some((ticket, place.1.clone()))
    }

    /// A place more, if there may be one.
    fn grow(&mut self) -> Option<u32> {
        let at = self.places.len();
        if at >= self.max {
            return None;
        }
        self.places.push((Flight::None, Signal::default()));
        u32::try_from(at).ok()
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
        let (flight, signal) = &mut self.places[ticket as usize];
        match std::mem::replace(flight, Flight::Abandoned) {
            Flight::Landed(outcome) => {
                self.free(ticket);
                Some(*outcome)
            }
            _ => {
                signal.abandon();
                None
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_made_as_they_are_needed_and_used_again() {
        let mut flights = Flights::new(2);
        assert_eq!((flights.len(), flights.places.capacity()), (0, 0));
        let tickets = [(); 3].map(|()| flights.take_off().map(|(ticket, _)| ticket));
        assert_eq!(tickets, [Some(0), Some(1), None]);
        flights.free(0);
        assert_eq!(flights.len(), 1);
        assert_eq!(flights.take_off().map(|(ticket, _)| ticket), Some(0));
        assert!(flights.take_off().is_none());
    }
}
