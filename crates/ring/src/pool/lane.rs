// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queues of the rings, and whose turn it is.

use super::worker::Job;
use openpath_sync::Parcel;
use std::collections::VecDeque;

/// The number of a ring's lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaneId(usize);

#[derive(Default)]
struct Lane {
    queue: VecDeque<Parcel<Job>>,
    /// Workers that run its jobs.
    running: usize,
    share: usize,
    /// Whether it is in the round.
    in_turn: bool,
    /// Its ring is gone; its number is free when nothing runs any more.
    ended: bool,
}

/// The lanes of a pool.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    free: Vec<usize>,
    round: VecDeque<usize>,
}

impl Lanes {
    pub(super) fn add(&mut self, share: usize) -> LaneId {
        let lane = Lane {
            share,
            ..Lane::default()
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.lanes[id] = lane;
                id
            }
            None => {
                self.lanes.push(lane);
                self.lanes.len() - 1
            }
        };
        LaneId(id)
    }

    /// R1, R2: lets it take turns if there is something for it to do.
    fn line_up(&mut self, id: usize) {
        let lane = &mut self.lanes[id];
        if !lane.in_turn && !lane.queue.is_empty() && lane.running < lane.share {
            lane.in_turn = true;
            self.round.push_back(id);
        }
    }

    pub(super) fn put(&mut self, LaneId(id): LaneId, job: Parcel<Job>) {
        self.lanes[id].queue.push_back(job);
        self.line_up(id);
    }

    /// Whether there is a job that may be run.
    pub(super) fn has_next(&self) -> bool {
        !self.round.is_empty()
    }

    /// The next job, from the lane whose turn it is.
    pub(super) fn next(&mut self) -> Option<(LaneId, Parcel<Job>)> {
        while let Some(id) = self.round.pop_front() {
            let lane = &mut self.lanes[id];
            lane.in_turn = false;
            if let Some(job) = lane.queue.pop_front() {
                lane.running += 1;
                self.line_up(id);
                return Some((LaneId(id), job));
            }
        }
        None
    }

    /// A worker has ended a job of this lane.
    pub(super) fn done(&mut self, LaneId(id): LaneId) {
        self.lanes[id].running -= 1;
        self.line_up(id);
        self.free_if_over(id);
    }

    fn free_if_over(&mut self, id: usize) {
        let lane = &self.lanes[id];
        if lane.ended && lane.running == 0 && !lane.in_turn {
            self.free.push(id);
        }
    }

    pub(super) fn recall(
        &mut self,
        LaneId(id): LaneId,
        is_it: impl FnMut(&Parcel<Job>) -> bool,
    ) -> Option<Parcel<Job>> {
        let queue = &mut self.lanes[id].queue;
        let at = queue.iter().position(is_it)?;
        queue.remove(at)
    }

    pub(super) fn end(&mut self, LaneId(id): LaneId) -> Vec<Parcel<Job>> {
        self.round.retain(|&other| other != id);
        let lane = &mut self.lanes[id];
        lane.in_turn = false;
        lane.ended = true;
        let queued = std::mem::take(&mut lane.queue).into();
        self.free_if_over(id);
        queued
    }

    pub(super) fn queued(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue.len()).sum()
    }
}
