// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs threads that change one tree against threads that walk it, and checks that no thread sees a
//! wrong file.
//!
//! Some rename, remove, create, mount, change modes, live in namespaces of their own, meet at FIFOs
//! and put pressure on memory; others walk, open and inspect.
//!
//! # What is checked
//! * No escape: a file that a scoped open or a chrooted task opens carries the mark of its jail.
//! * No wrong file: a file's content names its family and its inode; a name has its family.
//! * No unexpected error: each kind of call has its list.
//! * No stall: a thread without progress is named. [`openpath_vfs::Vfs::stalled_walks`] names a
//!   walk that is stalled on purpose, and it blocks neither the other threads nor memory.
//! * No leak: afterwards everything is removed, and usage and charges are those from before.
//!
//! # Rules
//! * Only empty directories leave their jail: any file found outside is an escape.
//! * All random choices come from the seed; the interleaving does not.

mod act;
mod pipes;
mod spaces;
mod walk;
mod world;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openpath_sync::Word;
use openpath_vfs::{Interrupter, Task, Tenant, Usage, Vfs};

use crate::hostile::resident;
use crate::rng::Rng;
use crate::sys;

pub use world::JAILS;

/// The parameters of a storm.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many seconds it lasts.
    pub seconds: u64,
    /// One walker is stalled once for this many seconds; 0 for not at all.
    pub stall_seconds: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Threads that walk.
    pub walkers: usize,
    /// The switches of the `Vfs`: a storm with one flipped shows the part that a failure is in.
    pub tuning: openpath_vfs::Tuning,
    /// Receives the report before the process ends because a thread hangs.
    pub last_words: fn(&str),
}

/// The results of a storm.
#[derive(Debug)]
pub struct Outcome {
    /// Steps of each thread.
    pub steps: Vec<(String, u64)>,
    /// Faults.
    pub wrong: Vec<String>,
    /// Observations for the report.
    pub notes: Vec<String>,
}

/// The progress of one thread.
#[derive(Debug)]
pub(crate) struct Progress {
    name: String,
    calls: Calls,
    steps: Word,
    /// Number of its operation, to report where it is stuck.
    doing: Word,
    /// Its kernel thread id.
    tid: Word,
    /// Interrupts its waits.
    waits: std::sync::Mutex<Option<Interrupter>>,
}

/// The state that all threads share.
pub(crate) struct Shared {
    pub(crate) vfs: Vfs,
    tenants: [Arc<Tenant>; 2],
    over: Word,
    wrong: std::sync::Mutex<Vec<String>>,
}

impl Shared {
    pub(crate) fn over(&self) -> bool {
        self.over.get() != 0
    }

    /// Records a fault, and ends the storm.
    pub(crate) fn wrong(&self, text: String) {
        if let Ok(mut all) = self.wrong.lock() {
            all.push(text);
        }
        self.over.set(1);
    }
}

/// The context of one thread.
pub(crate) struct Place<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) progress: &'a Progress,
    pub(crate) rng: Rng,
}

impl Place<'_> {
    /// Assigns a task to one of the tenants.
    pub(crate) fn join(&mut self, task: &Task) {
        let tenant = self.rng.below(self.shared.tenants.len());
        task.set_tenant(&self.shared.tenants[tenant])
            .expect("a tenant of this Vfs");
    }

    /// Has calls of this task interrupted, now and then and at the end.
    pub(crate) fn can_be_interrupted(&self, task: &Task) {
        if let Ok(mut waits) = self.progress.waits.lock() {
            *waits = Some(task.interrupter());
        }
    }

    /// Begins a step with an operation of this number.
    pub(crate) fn step(&self, doing: u64) {
        self.progress.doing.set(doing);
        self.progress.steps.add(1);
    }
}

type Body = fn(&mut Place<'_>) -> Result<(), openpath_abi::Errno>;
/// Names the calls of a thread in a step of this number.
type Calls = fn(u64) -> &'static str;

/// Time between two checks of the threads.
const LOOK: Duration = Duration::from_millis(250);
/// Time without a step after which a thread counts as stuck.
const STUCK: Duration = Duration::from_secs(20);
/// Growth of resident memory after the first quarter that counts as a leak.
const GROWTH_MAX_KIB: u64 = 192 << 10;
/// How many lines list the names that are left after a leak.
const INVENTORY_MAX: usize = 100;
/// The most unlinked entries that may wait for reclaim.
const BURIED_MAX: usize = 200_000;

/// Runs a storm.
///
/// # Errors
/// Those of building the world.
pub fn run(plan: Plan) -> Result<Outcome, openpath_abi::Errno> {
    let world = world::World::build(plan.tuning)?;
    let before = world.rest();
    let shared = Arc::new(Shared {
        vfs: world.vfs.clone(),
        tenants: world.tenants.clone(),
        over: Word::new(0),
        wrong: std::sync::Mutex::default(),
    });
    world.set_up()?;
    let mut threads = Threads::start(&shared, plan);
    threads.watch(plan);
    let steps = threads.join();
    let mut outcome = Outcome {
        steps,
        wrong: Vec::new(),
        notes: threads.notes,
    };
    if let Ok(mut wrong) = shared.wrong.lock() {
        outcome.wrong.append(&mut wrong);
    }
    drop(shared);
    world.clear()?;
    let after = world.rest();
    outcome
        .notes
        .push(format!("before {before:?}, after {after:?}"));
    let leaks = leaks(before, after);
    if !leaks.is_empty() {
        let names = world.vfs.inventory().into_iter().take(INVENTORY_MAX);
        outcome.notes.extend(names);
    }
    outcome.wrong.extend(leaks);
    Ok(outcome)
}

/// Usage at rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    usage: Usage,
    blocks: u64,
    inodes: u64,
    /// Bytes and inodes charged to each tenant.
    charged: [u64; 2],
}

/// What is used now and was not before.
fn leaks(before: Rest, after: Rest) -> Vec<String> {
    let mut found = Vec::new();
    let mut more = |what: &str, b: u64, a: u64| {
        if a > b {
            found.push(format!("leak: {what}: {b} before, {a} after"));
        }
    };
    more(
        "mounts",
        before.usage.mounts.into(),
        after.usage.mounts.into(),
    );
    more("pins", before.usage.pins as u64, after.usage.pins as u64);
    more(
        "unlinked entries",
        before.usage.pending_free as u64,
        after.usage.pending_free as u64,
    );
    more(
        "cached names",
        before.usage.dentries.into(),
        after.usage.dentries.into(),
    );
    more("blocks", before.blocks, after.blocks);
    more("inodes", before.inodes, after.inodes);
    let charged = |rest: &Rest| rest.charged.iter().sum();
    more("charges", charged(&before), charged(&after));
    found
}

/// All threads.
struct Threads {
    shared: Arc<Shared>,
    pulses: Vec<Arc<Progress>>,
    threads: Vec<JoinHandle<()>>,
    notes: Vec<String>,
}

/// Reports a thread without progress and ends the process, because the thread cannot be joined.
fn stuck(progress: &Progress, last_words: fn(&str)) -> ! {
    let (name, steps, doing) = (&progress.name, progress.steps.get(), progress.doing.get());
    let call = (progress.calls)(doing);
    last_words(&format!(
        "STUCK: {name} in {call} (operation {doing}) after {steps} steps"
    ));
    for walk in Vfs::stalled_walks(Duration::from_secs(1)) {
        last_words(&format!("  in a lock-free section: {}", walk.name));
    }
    std::process::exit(1);
}

impl Threads {
    fn start(shared: &Arc<Shared>, plan: Plan) -> Threads {
        let mut threads = Threads {
            shared: Arc::clone(shared),
            pulses: Vec::new(),
            threads: Vec::new(),
            notes: Vec::new(),
        };
        let actors: [(&str, Body, Calls); 9] = [
            ("writer 1", act::write, act::write_calls),
            ("writer 2", act::write, act::write_calls),
            ("mounter", act::mount, act::mount_calls),
            ("moder", act::mode, |_| "fchmodat2"),
            ("namespace 1", spaces::apart, spaces::apart_calls),
            ("namespace 2", spaces::apart, spaces::apart_calls),
            ("FIFO writer", pipes::write, pipes::write_calls),
            ("FIFO reader", pipes::read, pipes::read_calls),
            ("press", spaces::press, spaces::press_calls),
        ];
        for (i, (name, body, calls)) in actors.into_iter().enumerate() {
            let seed = plan.seed.wrapping_add(i as u64);
            threads.thread(name.to_owned(), seed, body, calls);
        }
        for i in 0..plan.walkers {
            let (body, calls): (Body, Calls) = if i % 4 == 3 {
                (walk::chrooted, walk::chrooted_calls)
            } else {
                (walk::scoped, walk::scoped_calls)
            };
            let seed = plan.seed.wrapping_add(100 + i as u64);
            threads.thread(format!("walker {i}"), seed, body, calls);
        }
        threads
    }

    fn thread(&mut self, name: String, seed: u64, body: Body, calls: Calls) {
        let progress = Arc::new(Progress {
            name: name.clone(),
            calls,
            steps: Word::new(0),
            doing: Word::new(0),
            tid: Word::new(0),
            waits: std::sync::Mutex::default(),
        });
        let (shared, own) = (Arc::clone(&self.shared), Arc::clone(&progress));
        let work = move || {
            own.tid.set(sys::gettid().unwrap_or(0).cast_unsigned());
            let mut place = Place {
                shared: &shared,
                progress: &own,
                rng: Rng::new(seed),
            };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&mut place)));
            match done {
                Ok(Ok(())) => {}
                Ok(Err(e)) => shared.wrong(format!("{}: {e}", own.name)),
                Err(_) => shared.wrong(format!("{}: panicked", own.name)),
            }
        };
        match std::thread::Builder::new().name(name).spawn(work) {
            Ok(thread) => {
                self.threads.push(thread);
                self.pulses.push(progress);
            }
            Err(e) => self.shared.wrong(format!("no thread: {e}")),
        }
    }

    /// Waits for the end, checks threads and memory, and stalls a walker meanwhile.
    fn watch(&mut self, plan: Plan) {
        let begun = Instant::now();
        let whole = Duration::from_secs(plan.seconds);
        let mut seen: Vec<(u64, Instant)> = vec![(0, begun); self.pulses.len()];
        let mut base = None;
        let mut held = plan.stall_seconds == 0;
        while begun.elapsed() < whole && !self.shared.over() {
            std::thread::sleep(LOOK);
            self.interrupt();
            if !held && begun.elapsed() > whole / 3 {
                held = true;
                self.hold(Duration::from_secs(plan.stall_seconds));
                seen.iter_mut().for_each(|s| s.1 = Instant::now());
            }
            for (progress, seen) in self.pulses.iter().zip(&mut seen) {
                let steps = progress.steps.get();
                if steps != seen.0 {
                    *seen = (steps, Instant::now());
                } else if seen.1.elapsed() > STUCK {
                    stuck(progress, plan.last_words);
                }
            }
            let now = resident() >> 10;
            if begun.elapsed() > whole / 4 {
                let base = *base.get_or_insert(now);
                self.bounded(base, now);
            }
        }
        self.notes.push(format!(
            "resident: {:?} KiB, then {} KiB",
            base,
            (resident() >> 10)
        ));
        self.shared.over.set(1);
    }

    fn bounded(&self, base: u64, now: u64) {
        if now > base + GROWTH_MAX_KIB {
            self.shared
                .wrong(format!("memory grows: {base} KiB, then {now} KiB"));
        }
        let usage = self.shared.vfs.usage();
        if usage.pending_free > BURIED_MAX {
            self.shared
                .wrong(format!("unlinked entries pile up: {usage:?}"));
        }
    }

    /// Stops walkers wherever they are, until one is in a lock-free section.
    ///
    /// Then it must be named, the others must continue, and the entries that wait for reclaim must
    /// stay bounded.
    fn hold(&mut self, how_long: Duration) {
        let walkers = self.pulses.iter().filter(|p| p.name.starts_with("walker"));
        for progress in walkers.cycle().take(60) {
            let short = Duration::from_millis(200);
            if sys::hold_thread(progress.tid.get().cast_signed(), short).is_err() {
                break;
            }
            let looked = [Duration::from_millis(20), Duration::from_millis(120)];
            let named = looked.into_iter().any(|wait| {
                std::thread::sleep(wait);
                names(Duration::from_millis(50), &progress.name)
            });
            if !named {
                continue;
            }
            // A section was hit: now for long, with luck at the same place.
            if self.hold_long(progress, how_long) {
                self.notes
                    .push(format!("{} was stalled and named", progress.name));
                return;
            }
        }
        self.shared
            .wrong("no walk could be stalled in a lock-free section".to_owned());
    }

    fn hold_long(&self, progress: &Progress, how_long: Duration) -> bool {
        if sys::hold_thread(progress.tid.get().cast_signed(), how_long).is_err() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(250));
        let _ = names(Duration::ZERO, &progress.name);
        let others = || -> Vec<u64> { self.pulses.iter().map(|p| p.steps.get()).collect() };
        let (before, memory) = (others(), resident() >> 10);
        std::thread::sleep(
            how_long
                .mul_f32(0.8)
                .saturating_sub(Duration::from_millis(250)),
        );
        let named = names(how_long / 2, &progress.name);
        if named {
            for ((p, b), a) in self.pulses.iter().zip(before).zip(others()) {
                if a == b && p.name != progress.name {
                    self.shared
                        .wrong(format!("{} waited for {}", p.name, progress.name));
                }
            }
            self.bounded(memory, resident() >> 10);
        }
        std::thread::sleep(how_long.mul_f32(0.2));
        named
    }

    /// Interrupts all waits.
    fn interrupt(&self) {
        for progress in &self.pulses {
            if let Ok(waits) = progress.waits.lock()
                && let Some(waits) = &*waits
            {
                waits.interrupt();
            }
        }
    }

    fn join(&mut self) -> Vec<(String, u64)> {
        // A thread that waits for one that has ended would wait for ever.
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            self.interrupt();
            std::thread::sleep(Duration::from_millis(1));
        }
        for thread in self.threads.drain(..) {
            // The thread itself has recorded a panic.
            let _ = thread.join();
        }
        self.pulses
            .iter()
            .map(|p| (p.name.clone(), p.steps.get()))
            .collect()
    }
}

/// Whether this thread's walk is among those that have been in one section for this long.
fn names(older_than: Duration, thread: &str) -> bool {
    let wanted = format!("task {thread}");
    Vfs::stalled_walks(older_than)
        .iter()
        .any(|s| s.name == wanted)
}
