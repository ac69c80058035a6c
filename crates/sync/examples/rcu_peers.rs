// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures read sections, retired objects and the effect of a stalled reader in
//! [`openpath_sync::rcu`], `crossbeam-epoch` and `seize`, for ADR 29.
//!
//! `cargo run --release -p openpath-sync --example rcu_peers`
//!
//! # How it measures
//! All domains live in one process, and short windows of each alternate. Printed is the median of
//! the windows. A section enters, loads a pointer, reads through it and leaves. A retired object
//! has 64 bytes and goes in batches of 64; its allocation and its drop are part of the figure. The
//! stalled reader stays in one section while another thread retires as fast as it can.

use crossbeam_epoch as epoch;
use openpath_sync::rcu::{self, Pressure, RcuCell, Reader};
use seize::Guard as _;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const WINDOWS: usize = 301;
const SECTIONS: u32 = 50_000;
const OBJECTS: u32 = 64 * 32;
const STALL: Duration = Duration::from_millis(300);

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// A retired object.
struct Object([u64; 8]);

impl Drop for Object {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0[0], Relaxed);
    }
}

fn object() -> Box<Object> {
    Box::new(Object([1; 8]))
}

/// What is compared. Each call is one read section, or one retired object.
trait Domain: Sync {
    /// One thread's part of a domain.
    type Local;
    const NAME: &'static str;
    fn register(&self) -> Self::Local;
    fn read(&self, local: &Self::Local) -> u64;
    /// Calls `during` in a read section.
    fn hold(&self, local: &Self::Local, during: impl FnOnce());
    /// Whether the caller may go on retiring.
    fn retire(&self, local: &Self::Local) -> bool;
    fn collect(&self, local: &Self::Local);
}

/// Ours; `obeys`: the caller stops retiring while the domain asks for that.
struct Ours {
    cell: RcuCell<Object>,
    obeys: bool,
}

impl Domain for Ours {
    type Local = Reader;
    const NAME: &'static str = "openpath-sync";
    fn register(&self) -> Reader {
        Reader::new("bench")
    }
    #[inline(always)]
    fn read(&self, reader: &Reader) -> u64 {
        let section = reader.enter();
        self.cell.read(&section).map_or(0, |object| object.0[1])
    }
    fn hold(&self, reader: &Reader, during: impl FnOnce()) {
        let _section = reader.enter();
        during();
    }
    fn retire(&self, _: &Reader) -> bool {
        rcu::retire(object()) == Pressure::Normal || !self.obeys
    }
    fn collect(&self, _: &Reader) {
        assert!(rcu::drain(Duration::from_secs(20)));
    }
}

/// A collector of its own, entered through a handle of the thread: no thread-local is looked up.
struct Crossbeam {
    collector: epoch::Collector,
    value: epoch::Atomic<Object>,
}

impl Domain for Crossbeam {
    type Local = epoch::LocalHandle;
    const NAME: &'static str = "crossbeam-epoch";
    fn register(&self) -> epoch::LocalHandle {
        self.collector.register()
    }
    #[inline(always)]
    fn read(&self, handle: &epoch::LocalHandle) -> u64 {
        let guard = handle.pin();
        let value = self
            .value
            .load(std::sync::atomic::Ordering::Acquire, &guard);
        // SAFETY: the value stays until the process ends.
        unsafe { value.deref() }.0[1]
    }
    fn hold(&self, handle: &epoch::LocalHandle, during: impl FnOnce()) {
        let _guard = handle.pin();
        during();
    }
    fn retire(&self, handle: &epoch::LocalHandle) -> bool {
        let object = object();
        // SAFETY: nothing else refers to the object, and it borrows nothing.
        unsafe { handle.pin().defer_unchecked(move || drop(object)) };
        true
    }
    fn collect(&self, handle: &epoch::LocalHandle) {
        handle.pin().flush();
    }
}

struct Seize {
    collector: seize::Collector,
    value: AtomicPtr<Object>,
}

impl Domain for Seize {
    type Local = ();
    const NAME: &'static str = "seize";
    fn register(&self) {}
    #[inline(always)]
    fn read(&self, (): &()) -> u64 {
        let guard = self.collector.enter();
        let value = guard.protect(&self.value, std::sync::atomic::Ordering::Acquire);
        // SAFETY: the value stays until the process ends.
        unsafe { &*value }.0[1]
    }
    fn hold(&self, (): &(), during: impl FnOnce()) {
        let _guard = self.collector.enter();
        during();
    }
    fn retire(&self, (): &()) -> bool {
        let object = Box::into_raw(object());
        // SAFETY: the object is this one's, comes from a box, and is retired once.
        unsafe { self.collector.retire(object, seize::reclaim::boxed) };
        true
    }
    fn collect(&self, (): &()) {
        self.collector.enter().flush();
    }
}

/// What one window does.
#[derive(Clone, Copy)]
enum Work {
    Read,
    Retire,
}

/// Nanoseconds of one section, or of one retired object.
fn window<D: Domain>(domain: &D, work: Work) -> f64 {
    let local = domain.register();
    let calls = match work {
        Work::Read => SECTIONS,
        Work::Retire => OBJECTS,
    };
    let (start, mut sum) = (Instant::now(), 0);
    for _ in 0..calls {
        match work {
            Work::Read => sum += black_box(domain.read(&local)),
            Work::Retire => sum += u64::from(domain.retire(&local)),
        }
    }
    black_box(sum);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

/// The same while another thread reads.
fn window_beside<D: Domain>(domain: &D, work: Work) -> f64 {
    let (started, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let local = domain.register();
            while !stop.load(Relaxed) {
                let sum: u64 = (0..64).map(|_| black_box(domain.read(&local))).sum();
                black_box(sum);
                started.store(true, Relaxed);
            }
        });
        while !started.load(Relaxed) {
            std::hint::spin_loop();
        }
        let time = window(domain, work);
        stop.store(true, Relaxed);
        time
    })
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * 4096
}

/// One reader stays in a section while another thread retires.
fn stall<D: Domain>(domain: &D, name: &str) {
    let (dropped, memory) = (DROPPED.load(Relaxed), resident());
    let (entered, leave) = (Barrier::new(2), Barrier::new(2));
    let reader = || {
        let local = domain.register();
        let mut left = Instant::now();
        domain.hold(&local, || {
            entered.wait();
            leave.wait();
            left = Instant::now();
        });
        left.elapsed()
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(reader);
        let local = domain.register();
        entered.wait();
        let (start, mut retired) = (Instant::now(), 0);
        while start.elapsed() < STALL && domain.retire(&local) {
            retired += 1;
        }
        let time = start.elapsed().as_millis();
        let held = retired - (DROPPED.load(Relaxed) - dropped);
        let memory = resident().saturating_sub(memory) >> 20;
        leave.wait();
        let leaving = reader.join().map_or(0.0, |time| time.as_secs_f64() * 1e3);
        println!(
            "{name:32} {retired:9} retired in {time:4} ms, {held:9} held, {memory:5} MiB, \
             leaving takes {leaving:.3} ms"
        );
        while DROPPED.load(Relaxed) - dropped < retired {
            // Windows of before have left something in their bags.
            domain.collect(&local);
        }
    });
    openpath_sync::trim_heap();
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

type Window<'a> = (String, Box<dyn Fn() -> f64 + 'a>, Vec<f64>);

fn windows<D: Domain>(domain: &D) -> [Window<'_>; 4] {
    [
        ("section", Work::Read, false),
        ("section, two threads", Work::Read, true),
        ("retire", Work::Retire, false),
        ("retire beside a reader", Work::Retire, true),
    ]
    .map(|(what, work, beside)| {
        let run = move || match beside {
            false => window(domain, work),
            true => window_beside(domain, work),
        };
        let name = format!("{:16} {what}", D::NAME);
        let window: Window<'_> = (name, Box::new(run), Vec::with_capacity(WINDOWS));
        window
    })
}

fn main() {
    let ours = |obeys| Ours {
        cell: RcuCell::new(object()),
        obeys,
    };
    let (plain, obeys) = (ours(false), ours(true));
    let crossbeam = Crossbeam {
        collector: epoch::Collector::new(),
        value: epoch::Atomic::new(Object([1; 8])),
    };
    let seize = Seize {
        collector: seize::Collector::new().batch_size(64),
        value: AtomicPtr::new(Box::into_raw(object())),
    };
    let mut all: Vec<Window<'_>> = windows(&plain)
        .into_iter()
        .chain(windows(&crossbeam))
        .chain(windows(&seize))
        .collect();
    for _ in 0..WINDOWS {
        for (_, run, times) in &mut all {
            times.push(run());
        }
    }
    for (name, _, times) in all {
        println!("{name:42} {:8.2} ns", median(times));
    }
    assert!(rcu::drain(Duration::from_secs(20)));
    stall(&plain, "openpath-sync, limits ignored");
    stall(&obeys, "openpath-sync, limits obeyed");
    stall(&crossbeam, "crossbeam-epoch");
    stall(&seize, "seize");
}
