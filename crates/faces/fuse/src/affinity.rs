// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where there are exactly two CPUs, pins a thread that reads `/dev/fuse` to the CPU of its caller,
//! while that caller alone sends many requests.
//!
//! A sleeping thread is woken where it ran last. If that is not the caller's CPU, each request
//! wakes two CPUs in turn, which takes longer than the rest of it; on one CPU the two only take
//! turns.
//!
//! # States
//! Free -> pinned to the caller's CPU, after [`REQUESTS_MIN`] requests of that caller in a row,
//! each soon after the one before -> free, when another caller sends a request, or none did for a
//! while. Every [`RECHECK`] requests a pinned thread follows its caller to the present CPU.
//!
//! # Rules
//! R1. The [`KeepAwake`] thread, which keeps the idle CPU busy, is restricted to the other CPU:
//!     else a caller that gets its reply moves to the idle CPU. So there must be exactly two CPUs.
//! R2. Requests of the kernel itself, such as writeback, say nothing about the caller.

use crate::keep_awake::{CPUS, KeepAwake, SOON};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::time::Instant;

/// After so many requests in a row the thread is pinned.
const REQUESTS_MIN: u32 = 32;
/// After so many more it checks where the caller runs.
const RECHECK: u32 = 64;
/// The field of the CPU in the stat(5) of a thread, after its name.
const CPU_FIELD: usize = 36;

/// Where a thread is pinned.
pub(crate) struct CpuAffinity {
    /// The CPU that it is pinned to, and the CPUs that it could use before.
    pinned: Option<(usize, CpuSet)>,
    /// The last caller, how many requests it sent in a row, and when the last one came, in
    /// nanoseconds since `begun`.
    caller: u32,
    row: u32,
    last: u64,
    begun: Instant,
}

impl Default for CpuAffinity {
    fn default() -> Self {
        Self {
            pinned: None,
            caller: 0,
            row: 0,
            last: 0,
            begun: Instant::now(),
        }
    }
}

impl CpuAffinity {
    /// A request of `caller` came; 0 is the kernel itself, or a caller that cannot be seen.
    pub(crate) fn request(&mut self, caller: u32, keep_awake: &KeepAwake) {
        let now = self.begun.elapsed().as_nanos() as u64;
        let soon = now.saturating_sub(self.last) <= SOON;
        if caller == 0 && soon {
            // R2
            return;
        }
        if caller != self.caller || !soon {
            self.unpin(keep_awake);
            (self.caller, self.row) = (caller, 0);
        } else {
            self.row = self.row.wrapping_add(1);
        }
        self.last = now;
        if self.row % RECHECK == REQUESTS_MIN {
            match cpu_of(caller) {
                Some(cpu) => self.pin(cpu, keep_awake),
                None => self.unpin(keep_awake),
            }
        }
    }

    /// Pins the calling thread to this CPU, if there is one other (R1).
    fn pin(&mut self, cpu: usize, keep_awake: &KeepAwake) {
        let all = match self.pinned {
            Some((at, _)) if at == cpu => return,
            Some((_, all)) => Some(all),
            None => sched_getaffinity(None).ok(),
        };
        let Some(all) = all.filter(|set| set.count() == CPUS && set.is_set(cpu)) else {
            return self.unpin(keep_awake);
        };
        let (mut only, mut others) = (CpuSet::new(), all);
        only.set(cpu);
        others.unset(cpu);
        if keep_awake.set_cpus(&others) && sched_setaffinity(None, &only).is_ok() {
            self.pinned = Some((cpu, all));
        }
    }

    /// Frees the thread, unless its CPUs were set from outside meanwhile.
    fn unpin(&mut self, keep_awake: &KeepAwake) {
        let Some((cpu, all)) = self.pinned.take() else {
            return;
        };
        if sched_getaffinity(None).is_ok_and(|now| now.count() == 1 && now.is_set(cpu)) {
            let _free = sched_setaffinity(None, &all);
        }
        let _free = keep_awake.set_cpus(&all);
    }
}

/// The CPU that this thread ran on last.
fn cpu_of(thread: u32) -> Option<usize> {
    let text = fs::read(format!("/proc/{thread}/stat")).ok()?;
    let named = text.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&text[named + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let cpu = fields.nth(CPU_FIELD)?.parse().ok()?;
    (cpu < CpuSet::MAX_CPU).then_some(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;
    use std::time::Duration;

    fn my_cpus() -> CpuSet {
        sched_getaffinity(None).expect("my CPUs")
    }

    fn my_id() -> u32 {
        gettid().as_raw_nonzero().get().cast_unsigned()
    }

    /// Retries until it is so: others may want the CPUs.
    fn eventually(mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60), "never");
        }
    }

    /// A thread that keeps a CPU awake; `None` where there are not two CPUs, so that no thread is
    /// pinned beside it.
    fn keep_awake() -> Option<KeepAwake> {
        let two = my_cpus().count() == CPUS;
        let keep_awake = two.then(|| KeepAwake::start().expect("a thread"))?;
        eventually(|| keep_awake.set_cpus(&my_cpus()));
        Some(keep_awake)
    }

    #[test]
    fn one_caller_pins_the_thread_and_another_one_frees_it() {
        let Some(keep_awake) = keep_awake() else {
            return;
        };
        let it = &keep_awake;
        let free = my_cpus();
        let mut affinity = CpuAffinity::default();
        for other in 1..3 {
            eventually(|| {
                affinity.request(my_id(), it);
                affinity.row == REQUESTS_MIN - 1
            });
            assert_eq!(my_cpus().count(), CPUS, "not so many yet");
            eventually(|| {
                affinity.request(my_id(), it);
                affinity.pinned.is_some()
            });
            let (cpu, _) = affinity.pinned.expect("a CPU");
            assert_eq!((my_cpus().count(), my_cpus().is_set(cpu)), (1, true));
            let others = keep_awake.cpus();
            assert_eq!((others.count(), others.is_set(cpu)), (1, false));
            affinity.request(my_id() + other, it);
            assert_eq!((my_cpus(), keep_awake.cpus()), (free, free));
        }
    }

    #[test]
    fn a_pause_frees_the_thread_also_if_the_kernel_sends_the_next_request() {
        let Some(keep_awake) = keep_awake() else {
            return;
        };
        let it = &keep_awake;
        for caller in [my_id(), 0] {
            let mut affinity = CpuAffinity::default();
            eventually(|| {
                affinity.request(my_id(), it);
                affinity.pinned.is_some()
            });
            std::thread::sleep(Duration::from_millis(1));
            affinity.request(caller, it);
            assert_eq!(my_cpus().count(), CPUS);
        }
    }

    #[test]
    fn cpus_that_were_set_from_outside_stay() {
        let Some(keep_awake) = keep_awake() else {
            return;
        };
        let it = &keep_awake;
        let mut affinity = CpuAffinity::default();
        eventually(|| {
            affinity.request(my_id(), it);
            affinity.pinned.is_some()
        });
        let other = keep_awake.cpus();
        sched_setaffinity(None, &other).expect("moved");
        affinity.request(my_id() + 1, it);
        assert_eq!(my_cpus(), other);
    }

    #[test]
    fn a_caller_that_cannot_be_seen_pins_nothing() {
        let Some(keep_awake) = keep_awake() else {
            return;
        };
        let mut affinity = CpuAffinity::default();
        affinity.pin(CpuSet::MAX_CPU - 1, &keep_awake);
        assert!(affinity.pinned.is_none(), "no such CPU");
        eventually(|| {
            affinity.request(u32::MAX, &keep_awake);
            affinity.row > REQUESTS_MIN
        });
        assert!(affinity.pinned.is_none());
        assert_eq!(cpu_of(u32::MAX), None);
    }
}
