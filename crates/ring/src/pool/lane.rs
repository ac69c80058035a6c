// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the queues of a worker pool: one for each ring (a lane), served in turn.

use crate::job::Job;
use openpath_sync::Message;
use std::collections::VecDeque;

/// The number of a ring's lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaneId(usize);

#[derive(Default)]
struct Lane {
    queue: VecDeque<Message<Job>>,
    /// Workers that run its jobs.
    running: usize,
    share: usize,
    /// Whether it is in the queue of ready lanes.
    is_ready: bool,
    /// Its ring is gone; the number is free once nothing runs any more.
    ended: bool,
}

/// The lanes of a pool.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    free: Vec<usize>,
    ready: VecDeque<usize>,
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

    /// R1, R2: queues a lane as ready if a job of it may run.
    fn make_ready(&mut self, id: usize) {
        let lane = &mut self.lanes[id];
        if !lane.is_ready && !lane.queue.is_empty() && lane.running < lane.share {
            lane.is_ready = true;
            self.ready.push_back(id);
        }
    }

    pub(super) fn put(&mut self, LaneId(id): LaneId, job: Message<Job>) {
        self.lanes[id].queue.push_back(job);
        self.make_ready(id);
    }

    /// Whether there is a job that may be run.
    pub(super) fn has_next(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next job, of the first ready lane.
    pub(super) fn next(&mut self) -> Option<(LaneId, Message<Job>)> {
        while let Some(id) = self.ready.pop_front() {
            let lane = &mut self.lanes[id];
            lane.is_ready = false;
            if let Some(job) = lane.queue.pop_front() {
                lane.running += 1;
                self.make_ready(id);
                return Some((LaneId(id), job));
            }
        }
        None
    }

    /// A worker has ended a job of this lane.
    pub(super) fn done(&mut self, LaneId(id): LaneId) {
        self.lanes[id].running -= 1;
        self.make_ready(id);
        self.free_if_over(id);
    }

    fn free_if_over(&mut self, id: usize) {
        let lane = &self.lanes[id];
        if lane.ended && lane.running == 0 && !lane.is_ready {
            self.free.push(id);
        }
    }

    pub(super) fn recall(
        &mut self,
        LaneId(id): LaneId,
        matches: impl FnMut(&Message<Job>) -> bool,
    ) -> Option<Message<Job>> {
        let queue = &mut self.lanes[id].queue;
        let at = queue.iter().position(matches)?;
        queue.remove(at)
    }

    pub(super) fn end(&mut self, LaneId(id): LaneId) -> Vec<Message<Job>> {
        self.ready.retain(|&other| other != id);
        let lane = &mut self.lanes[id];
        lane.is_ready = false;
        lane.ended = true;
        let queued = std::mem::take(&mut lane.queue).into();
        self.free_if_over(id);
        queued
    }

    pub(super) fn queued(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue.len()).sum()
    }
}
