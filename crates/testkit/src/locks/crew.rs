// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that do the calls of a play in its order, each those that are its own, and hand over by
//! themselves.
//!
//! # States
//! A play is told to those who are in it, and is done when its last call is. A thread that is in it
//! and not on its turn is parked.
//!
//! # Locks
//! The turn of a play, over nothing. Who began the play takes it only when that is over.
//!
//! # Rules
//! R1. Who does calls holds no lock meanwhile: a call may wait.
//! R2. `begun` is set before the first call, `over` after the last one, and nothing between them
//!     sleeps but a call, in a play of one thread.

use super::{Answer, Look, Op, Step, Told};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// What does the calls of one thread.
pub(super) trait Hand {
    /// Does a call that is no look.
    fn call(&self, op: &Op) -> Answer;

    /// Does a call.
    fn act(&self, op: &Op) -> Answer {
        match op {
            Op::Look(look) => Ok(self.look(*look)),
            op => self.call(op),
        }
    }

    /// Looks around.
    fn look(&self, look: Look) -> Told {
        Told::Seen(look.ops().map(|op| self.call(&op)).collect())
    }
}

#[derive(Default)]
struct Turn {
    /// How many calls are done.
    done: usize,
    answers: Vec<Answer>,
}

/// Calls that some do in turn.
pub(super) struct Play {
    steps: Vec<Step>,
    begun: AtomicBool,
    over: AtomicBool,
    turn: Mutex<Turn>,
    crew: Arc<[Thread]>,
    boss: Thread,
}

impl Play {
    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the first call was begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// The answers, if all have been given.
    pub(super) fn answers(&self) -> Option<Vec<Answer>> {
        let is_over = self.over.load(Ordering::Acquire);
        is_over.then(|| core::mem::take(&mut self.turn().answers))
    }

    /// Waits for the answers.
    pub(super) fn wait(&self) -> Vec<Answer> {
        loop {
            if let Some(answers) = self.answers() {
                return answers;
            }
            std::thread::park();
        }
    }

    /// Does what is its own until all is done.
    fn take_part(&self, me: usize, hand: &impl Hand) {
        loop {
            let turn = self.turn();
            let rest = self.steps.get(turn.done..).unwrap_or(&[]);
            if rest.first().is_none_or(|step| step.who != me) {
                let is_over = rest.is_empty();
                drop(turn);
                if is_over {
                    return;
                }
                std::thread::park();
                continue;
            }
            drop(turn);
            self.begun.store(true, Ordering::Release);
            let own = rest.iter().take_while(|step| step.who == me);
            let answers: Vec<Answer> = own.map(|step| hand.act(&step.op)).collect();
            let next = rest.get(answers.len());
            let mut turn = self.turn();
            turn.done += answers.len();
            turn.answers.extend(answers);
            drop(turn);
            if let Some(next) = next {
                self.crew[next.who].unpark();
                continue;
            }
            self.over.store(true, Ordering::Release);
            self.crew.iter().for_each(Thread::unpark);
            self.boss.unpark();
            return;
        }
    }
}

/// Does its part of every play that it is told, until there will be no more.
pub(super) fn serve(me: usize, plays: &Receiver<Arc<Play>>, hand: &impl Hand) {
    for play in plays {
        play.take_part(me, hand);
    }
}

/// The threads.
pub(super) struct Crew {
    plays: Vec<Sender<Arc<Play>>>,
    threads: Arc<[Thread]>,
}

impl Crew {
    /// Of threads that serve, each with where it is told plays.
    pub(super) fn new(members: Vec<(Sender<Arc<Play>>, Thread)>) -> Self {
        let (plays, threads): (_, Vec<_>) = members.into_iter().unzip();
        let threads = threads.into();
        Self { plays, threads }
    }

    /// Tells them that there will be no more plays, so that they end.
    pub(super) fn dismiss(&mut self) {
        self.plays.clear();
    }

    /// Has all that are in it do it.
    pub(super) fn begin(&self, steps: Vec<Step>) -> Arc<Play> {
        let play = Arc::new(Play {
            begun: AtomicBool::new(false),
            over: AtomicBool::new(steps.is_empty()),
            steps,
            turn: Mutex::default(),
            crew: Arc::clone(&self.threads),
            boss: std::thread::current(),
        });
        for (who, plays) in self.plays.iter().enumerate() {
            if play.steps.iter().any(|step| step.who == who) {
                // It serves until it is dismissed.
                let _served = plays.send(Arc::clone(&play));
            }
        }
        play
    }
}
