// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps a thread that reads the device on the processor of who asks, while one alone asks much.
//!
//! A thread that waits is woken where it was last. If that is not where the asker is, each request
//! wakes two processors in turn, which takes longer than all else of it; on one processor the two
//! only take turns.
//!
//! # States
//! Anywhere -> where he is, when so many requests in a row were his, each soon after the one before
//! -> where he is by now, each time so many more were -> anywhere, when another one asks, or nobody
//! did for a while.
//!
//! # Rules
//! R1. Only beside a [`Vigil`], which is told to be elsewhere: else who was answered goes to the
//!     processor that is idle.
//! R2. What the kernel asks on its own, as it does to write back, says nothing of who asks.

use crate::vigil::{PROCESSORS, SOON, Vigil};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;

/// So many in a row are a reason to go where he is.
const MANY: u32 = 32;
/// After so many more it looks whether he is still there.
const AGAIN: u32 = 64;
/// Where the processor stands in the stat(5) of a thread, after its name.
const FIELD: usize = 36;

/// Where a thread is kept. The default is anywhere.
#[derive(Default)]
pub(crate) struct Beside {
    /// The processor it is kept on, and where it might be before.
    kept: Option<(usize, CpuSet)>,
    /// Who asked last, how often in a row, and when, in nanoseconds of the vigil.
    who: u32,
    row: u32,
    last: u64,
}

impl Beside {
    /// A request of `who` came; 0 is the kernel itself, or somebody who cannot be seen.
    pub(crate) fn request(&mut self, who: u32, vigil: &Vigil) {
        let now = vigil.request();
        let soon = now.saturating_sub(self.last) <= SOON;
        if who == 0 && soon {
            // R2
            return;
        }
        if who != self.who || !soon {
            self.leave(vigil);
            (self.who, self.row) = (who, 0);
        } else {
            self.row = self.row.wrapping_add(1);
        }
        self.last = now;
        if self.row % AGAIN == MANY {
            match processor(who) {
                Some(one) => self.follow(one, vigil),
                None => self.leave(vigil),
            }
        }
    }

    /// From now on it is kept on this processor, if that is one of two.
    fn follow(&mut self, one: usize, vigil: &Vigil) {
        let anywhere = match self.kept {
            Some((at, _)) if at == one => return,
            Some((_, anywhere)) => Some(anywhere),
            None => sched_getaffinity(None).ok(),
        };
        let fit = |set: &CpuSet| set.count() == PROCESSORS && set.is_set(one);
        let Some(anywhere) = anywhere.filter(fit) else {
            return self.leave(vigil);
        };
        let (mut there, mut elsewhere) = (CpuSet::new(), anywhere);
        there.set(one);
        elsewhere.unset(one);
        if vigil.be_on(&elsewhere) && sched_setaffinity(None, &there).is_ok() {
            self.kept = Some((one, anywhere));
        }
    }

    /// It may be anywhere again, unless somebody else has said meanwhile where.
    fn leave(&mut self, vigil: &Vigil) {
        let Some((one, anywhere)) = self.kept.take() else {
            return;
        };
        if sched_getaffinity(None).is_ok_and(|now| now.count() == 1 && now.is_set(one)) {
            let _free = sched_setaffinity(None, &anywhere);
        }
        let _free = vigil.be_on(&anywhere);
    }
}

/// The processor that this thread was on last.
fn processor(who: u32) -> Option<usize> {
    let text = fs::read(format!("/proc/{who}/stat")).ok()?;
    let named = text.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&text[named + 1..]).ok()?;
    let at = rest.split_ascii_whitespace().nth(FIELD)?.parse().ok()?;
    (at < CpuSet::MAX_CPU).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;
    use std::time::{Duration, Instant};

    fn mine() -> CpuSet {
        sched_getaffinity(None).expect("where it may be")
    }

    fn me() -> u32 {
        gettid().as_raw_nonzero().get().cast_unsigned()
    }

    /// Tries until it is so: others may want the processors.
    fn comes(mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it never comes");
        }
    }

    /// A vigil that is there; nothing where there are not two processors, and nobody is kept.
    fn vigil() -> Option<Vigil> {
        let two = mine().count() == PROCESSORS;
        let vigil = two.then(|| Vigil::make().expect("a thread"))?;
        comes(|| vigil.be_on(&mine()));
        Some(vigil)
    }

    #[test]
    fn it_goes_where_one_alone_asks_and_is_free_when_another_one_does() {
        let Some(vigil) = vigil() else { return };
        let free = mine();
        let mut beside = Beside::default();
        for other in 1..3 {
            comes(|| {
                beside.request(me(), &vigil);
                beside.row == MANY - 1
            });
            assert_eq!(mine().count(), PROCESSORS, "not so many yet");
            comes(|| {
                beside.request(me(), &vigil);
                beside.kept.is_some()
            });
            let (one, _) = beside.kept.expect("a processor");
            assert_eq!((mine().count(), mine().is_set(one)), (1, true));
            let away = vigil.may_be_on();
            assert_eq!((away.count(), away.is_set(one)), (1, false));
            beside.request(me() + other, &vigil);
            assert_eq!((mine(), vigil.may_be_on()), (free, free));
        }
    }

    #[test]
    fn a_pause_frees_it_also_if_the_kernel_asks_then() {
        let Some(vigil) = vigil() else { return };
        for who in [me(), 0] {
            let mut beside = Beside::default();
            comes(|| {
                beside.request(me(), &vigil);
                beside.kept.is_some()
            });
            std::thread::sleep(Duration::from_millis(1));
            beside.request(who, &vigil);
            assert_eq!(mine().count(), PROCESSORS);
        }
    }

    #[test]
    fn where_others_have_sent_it_it_stays() {
        let Some(vigil) = vigil() else { return };
        let mut beside = Beside::default();
        comes(|| {
            beside.request(me(), &vigil);
            beside.kept.is_some()
        });
        let other = vigil.may_be_on();
        sched_setaffinity(None, &other).expect("moved");
        beside.request(me() + 1, &vigil);
        assert_eq!(mine(), other);
    }

    #[test]
    fn who_cannot_be_seen_is_not_followed() {
        let Some(vigil) = vigil() else { return };
        let mut beside = Beside::default();
        comes(|| {
            beside.request(u32::MAX, &vigil);
            beside.row > MANY
        });
        assert!(beside.kept.is_none());
        assert_eq!(processor(u32::MAX), None);
    }
}
