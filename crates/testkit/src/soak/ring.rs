// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one ring of the soak (very many operations on rings and futures), from set-up to end. No
//! operation may be lost or complete twice, and a dropped ring leaves no descriptor open.

use super::Report;
use super::world::World;
use crate::rng::Rng;
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC};
use openpath_abi::statx::STATX_BASIC_STATS;
use openpath_abi::{AtFlags, Errno, RenameFlags};
use openpath_ring::{Cancel, Cqe, Destination, File, Pool, Ring, RingOptions, Sqe};
use std::collections::HashMap;
use std::time::Duration;

/// The expected completion of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// A completion.
    One,
    /// Perhaps none.
    Perhaps,
}

/// A ring in use.
struct Use<'a> {
    ring: Ring,
    rng: &'a mut Rng,
    report: &'a mut Report,
    marks: HashMap<u64, (Expect, bool)>,
    next: u64,
    fds: Vec<i32>,
    fifo: i32,
}

/// Runs some hundred operations on a ring; ends it in order, or drops it with operations in flight.
pub(super) fn round(
    world: &World,
    pool: &Pool,
    rng: &mut Rng,
    report: &mut Report,
) -> Result<(), Errno> {
    let mut options = RingOptions::default();
    options.entries = 1 << rng.below(6);
    options.inline = !rng.one_in(4);
    options.slots = [0, 4][rng.below(2)];
    let task = world.task()?;
    let fifo = task.open(b"/fifo", O_RDWR, 0)?;
    let mut used = Use {
        ring: Ring::new(task, pool, options)?,
        rng,
        report,
        marks: HashMap::new(),
        next: 1,
        fds: Vec::new(),
        fifo,
    };
    for _ in 0..used.rng.below(60) {
        used.batch();
    }
    if used.rng.one_in(3) {
        used.drop_it();
    } else {
        used.end();
    }
    Ok(())
}

impl Use<'_> {
    /// A random operation.
    fn sqe(&mut self) -> Sqe {
        let rng = &mut *self.rng;
        let n = rng.below(8);
        let time = Duration::from_micros(rng.below(2000) as u64);
        let fd = match self.fds.len() {
            0 => 99,
            len => self.fds[rng.below(len)],
        };
        let file = if rng.one_in(8) {
            File::Slot(rng.below(5) as u32)
        } else {
            File::Fd(fd)
        };
        let new = format!("/new/{n}");
        let mark = 1 + rng.below(self.next as usize) as u64;
        let into = [
            Destination::Fd,
            Destination::AnySlot,
            Destination::Slot(rng.below(5) as u32),
        ][rng.below(3)];
        match rng.below(28) {
            0..6 => Sqe::openat(AT_FDCWD, format!("/d/f{n}"), O_RDWR, 0),
            6 => Sqe::openat(AT_FDCWD, format!("/d/f{n}"), O_RDONLY, 0).into_slot(into),
            7..9 => Sqe::openat(AT_FDCWD, format!("/bad/x{n}"), O_RDONLY, 0),
            9 => Sqe::openat(AT_FDCWD, format!("/bad/x{n}"), O_RDONLY, 0).into_slot(into),
            10 => Sqe::openat(AT_FDCWD, new, O_CREAT | O_TRUNC | O_RDWR, 0o644),
            11 => Sqe::stat(AT_FDCWD, format!("/bad/a{n}"), AtFlags::empty()),
            12 => Sqe::statx(
                AT_FDCWD,
                format!("/d/f{n}"),
                AtFlags::empty(),
                STATX_BASIC_STATS,
            ),
            13..15 => Sqe::read(file, vec![0; 50 * (n + 1)], 0),
            15 => Sqe::write(file, b"yyy", 5),
            16 => Sqe::fsync(file),
            17 => Sqe::unlinkat(AT_FDCWD, new, AtFlags::empty()),
            18 => Sqe::renameat2(AT_FDCWD, new, AT_FDCWD, "/new/other", RenameFlags::empty()),
            19 => Sqe::mkdirat(AT_FDCWD, format!("/new/d{n}"), 0o755),
            20 => Sqe::read(self.fifo, vec![0; 10], -1),
            21 => Sqe::read_multishot(self.fifo, 3),
            22 => Sqe::write(self.fifo, b"abcdef", -1),
            23 => Sqe::timeout(time),
            24 => Sqe::timeout_or(time, 3),
            25 => Sqe::cancel(Cancel::UserData(mark)),
            26 if n == 0 => Sqe::cancel_all(Cancel::Any),
            26 => Sqe::timeout_remove(mark),
            _ => Sqe::nop(),
        }
    }

    /// Prepares some operations, submits them, and takes the available completions.
    fn batch(&mut self) {
        for _ in 0..=self.rng.below(12) {
            if !self.prepare() {
                break;
            }
        }
        match self.ring.submit() {
            Ok(_) | Err(Errno::EBUSY) => {}
            Err(errno) => self.report.note(format!("submit: {errno}")),
        }
        if self.rng.one_in(3) {
            let _late = self.ring.wait(1, Some(Duration::from_micros(200)));
        }
        if !self.rng.one_in(3) {
            self.take();
        }
    }

    fn prepare(&mut self) -> bool {
        let mut sqe = self.sqe().user_data(self.next);
        let mut expect = Expect::One;
        match self.rng.below(16) {
            0 | 1 => sqe = sqe.link(),
            2 => sqe = sqe.hardlink(),
            3 => sqe = sqe.offload(),
            4 => sqe = sqe.drain(),
            5 => {
                // Nobody learns the descriptor of a silent open.
                sqe = Sqe::nop().user_data(self.next).skip_success();
                expect = Expect::Perhaps;
            }
            6 => {
                sqe = sqe.link();
                let guard = Sqe::link_timeout(Duration::from_micros(500));
                if self.ring.prepare(sqe).is_err() {
                    return false;
                }
                self.mark(Expect::One);
                sqe = guard.user_data(self.next);
            }
            _ => {}
        }
        if self.ring.prepare(sqe).is_err() {
            return false;
        }
        self.mark(expect);
        true
    }

    fn mark(&mut self, expect: Expect) {
        self.marks.insert(self.next, (expect, false));
        self.next += 1;
        self.report.submitted += 1;
    }

    /// Takes completions, and closes surplus descriptors by call.
    fn take(&mut self) {
        while let Some(cqe) = self.ring.next_completion() {
            self.completed(&cqe);
        }
        while self.fds.len() > 40 {
            let at = self.rng.below(self.fds.len());
            let fd = self.fds.swap_remove(at);
            if self.ring.task().close(fd).is_err() {
                self.report.note(format!("descriptor {fd} was not open"));
            }
        }
    }

    fn completed(&mut self, cqe: &Cqe) {
        self.report.completed += 1;
        match cqe.result {
            Err(Errno::ECANCELED) => self.report.failed[0] += 1,
            Err(_) => self.report.failed[1] += 1,
            Ok(_) => {}
        }
        if cqe.more {
            return;
        }
        match self.marks.get_mut(&cqe.user_data) {
            Some((_, done)) if !*done => *done = true,
            _ => self
                .report
                .note(format!("{} completed twice", cqe.user_data)),
        }
        // A new descriptor must be one that was not known.
        let known = |fd: &i32| *fd != self.fifo && !self.fds.contains(fd);
        let open = self.ring.task().descriptors();
        self.fds
            .extend(open.into_iter().filter(known).collect::<Vec<_>>());
    }

    /// Ends everything, and checks that all operations completed.
    fn end(mut self) {
        let mut patience = 2000;
        // Entries that did not fit are still prepared, and are submitted when there is room.
        while self.ring.submit() != Ok(0) || self.ring.in_flight() > 0 {
            self.ring.cancel_now(Cancel::Any);
            let _late = self.ring.wait(1, Some(Duration::from_millis(1)));
            while let Some(cqe) = self.ring.next_completion() {
                self.completed(&cqe);
            }
            patience -= 1;
            if patience == 0 {
                return self.report.note(format!("no end: {:?}", self.ring));
            }
        }
        while let Some(cqe) = self.ring.next_completion() {
            self.completed(&cqe);
        }
        let left = self.marks.iter();
        let left = left.filter(|(_, (expect, done))| *expect == Expect::One && !done);
        let left = left.count();
        if left > 0 {
            let ring = &self.ring;
            self.report
                .note(format!("{left} did not complete: {ring:?}"));
        }
    }

    /// Drops the ring with operations in flight: descriptors that it had not reported are closed.
    fn drop_it(mut self) {
        self.take();
        self.batch_without_taking();
        self.report.dropped += 1;
        let task = self.ring.into_task();
        for fd in self.fds.into_iter().chain([self.fifo]) {
            // A descriptor that the ring closed is known as closed.
            let _closed = task.close(fd);
        }
        let left = task.descriptors();
        if !left.is_empty() {
            self.report.note(format!("{left:?} were left open"));
        }
    }

    fn batch_without_taking(&mut self) {
        while self.prepare() {}
        let _full = self.ring.submit();
    }
}
