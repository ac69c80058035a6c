// SPDX-License-Identifier: MIT OR Apache-2.0
//! A storm: threads that rename, remove, make, mount, change modes, live in namespaces of their
//! own, meet at FIFOs and press on memory while others walk, open and look, and never may anybody
//! see what is not there.
//!
//! # What is checked
//! * No escape: what a scoped open or a chrooted task opens carries the mark of its jail.
//! * No wrong file: a file's content names its family and its inode; a name has its family.
//! * No strange error: each kind of call has its list.
//! * No stall: a thread that makes no step is named. A walk that is held up on purpose is named by
//!   [`openpath_vfs::Vfs::stalled_walks`], and holds up neither the others nor memory.
//! * No leak: afterwards everything is removed, and what is in use and charged is what was before.
//!
//! # Rules
//! * Only empty directories leave their jail: whatever file is found outside is an escape.
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

use crate::rng::Rng;
use crate::sys;

pub use world::JAILS;

/// What a storm is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long it lasts.
    pub seconds: u64,
    /// A walker is held up for this long, once; 0 for not at all.
    pub stall_seconds: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Threads that walk.
    pub walkers: usize,
    /// The switches of the `Vfs`: a storm with one flipped tells which part a failure is in.
    pub tuning: openpath_vfs::Tuning,
    /// Gets what must be said before the process is ended because a thread hangs.
    pub last_words: fn(&str),
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Steps of each thread.
    pub steps: Vec<(String, u64)>,
    /// What is wrong.
    pub wrong: Vec<String>,
    /// What was seen that is worth a line.
    pub notes: Vec<String>,
}

/// The signs of life of one thread.
#[derive(Debug)]
pub(crate) struct Pulse {
    name: String,
    calls: Calls,
    steps: Word,
    /// Number of its operation, for who asks what it is stuck in.
    doing: Word,
    /// Its thread, as the kernel numbers them.
    tid: Word,
    /// What ends its waits.
    waits: std::sync::Mutex<Option<Interrupter>>,
}

/// What all threads share.
pub(crate) struct Sky {
    pub(crate) vfs: Vfs,
    tenants: [Arc<Tenant>; 2],
    over: Word,
    wrong: std::sync::Mutex<Vec<String>>,
}

impl Sky {
    pub(crate) fn over(&self) -> bool {
        self.over.get() != 0
    }

    /// Notes something wrong, and ends the storm.
    pub(crate) fn wrong(&self, text: String) {
        if let Ok(mut all) = self.wrong.lock() {
            all.push(text);
        }
        self.over.set(1);
    }
}

/// One thread's view of the storm.
pub(crate) struct Place<'a> {
    pub(crate) sky: &'a Sky,
    pub(crate) pulse: &'a Pulse,
    pub(crate) rng: Rng,
}

impl Place<'_> {
    /// Lets a task work for one of the tenants.
    pub(crate) fn join(&mut self, task: &Task) {
        let tenant = self.rng.below(self.sky.tenants.len());
        task.set_tenant(&self.sky.tenants[tenant])
            .expect("a tenant of this Vfs");
    }

    /// Has calls of this task interrupted, now and then and at the end.
    pub(crate) fn can_be_interrupted(&self, task: &Task) {
        if let Ok(mut waits) = self.pulse.waits.lock() {
            *waits = Some(task.interrupter());
        }
    }

    /// A step begins: an operation of this number.
    pub(crate) fn step(&self, doing: u64) {
        self.pulse.doing.set(doing);
        self.pulse.steps.add(1);
    }
}

type Body = fn(&mut Place<'_>) -> Result<(), openpath_abi::Errno>;
/// What a thread does in a step of this number, in the words of the calls.
type Calls = fn(u64) -> &'static str;

/// Milliseconds between two looks at the threads.
const LOOK: Duration = Duration::from_millis(250);
/// Time without a step after which a thread counts as stuck.
const STUCK: Duration = Duration::from_secs(20);
/// Growth of resident memory, past the first quarter, that is too much.
const GROWTH_MAX_KIB: u64 = 192 << 10;
/// Lines about names that are left when something leaked.
const INVENTORY_MAX: usize = 100;
/// Unlinked entries that may wait at any time.
const BURIED_MAX: usize = 200_000;

/// Lets a storm pass.
///
/// # Errors
/// What kept the world from being built.
pub fn run(plan: Plan) -> Result<Outcome, openpath_abi::Errno> {
    let world = world::World::build(plan.tuning)?;
    let before = world.rest();
    let sky = Arc::new(Sky {
        vfs: world.vfs.clone(),
        tenants: world.tenants.clone(),
        over: Word::new(0),
        wrong: std::sync::Mutex::default(),
    });
    world.furnish()?;
    let mut crowd = Crowd::start(&sky, plan);
    crowd.watch(plan);
    let steps = crowd.join();
    let mut outcome = Outcome {
        steps,
        wrong: Vec::new(),
        notes: crowd.notes,
    };
    if let Ok(mut wrong) = sky.wrong.lock() {
        outcome.wrong.append(&mut wrong);
    }
    drop(sky);
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

/// What is in use when nothing happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    usage: Usage,
    blocks: u64,
    inodes: u64,
    /// Bytes and inodes of each tenant.
    charged: [u64; 2],
}

/// What is in use now and was not before.
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
        "buried entries",
        before.usage.buried as u64,
        after.usage.buried as u64,
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
struct Crowd {
    sky: Arc<Sky>,
    pulses: Vec<Arc<Pulse>>,
    threads: Vec<JoinHandle<()>>,
    notes: Vec<String>,
}

/// A thread that does not move: says so and ends the process, as it cannot be joined.
fn stuck(pulse: &Pulse, last_words: fn(&str)) -> ! {
    let (name, steps, doing) = (&pulse.name, pulse.steps.get(), pulse.doing.get());
    let call = (pulse.calls)(doing);
    last_words(&format!(
        "STUCK: {name} in {call} (operation {doing}) after {steps} steps"
    ));
    for walk in Vfs::stalled_walks(Duration::from_secs(1)) {
        last_words(&format!("  in a lock-free section: {}", walk.name));
    }
    std::process::exit(1);
}

impl Crowd {
    fn start(sky: &Arc<Sky>, plan: Plan) -> Crowd {
        let mut crowd = Crowd {
            sky: Arc::clone(sky),
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
            crowd.thread(name.to_owned(), seed, body, calls);
        }
        for i in 0..plan.walkers {
            let (body, calls): (Body, Calls) = if i % 4 == 3 {
                (walk::chrooted, walk::chrooted_calls)
            } else {
                (walk::scoped, walk::scoped_calls)
            };
            let seed = plan.seed.wrapping_add(100 + i as u64);
            crowd.thread(format!("walker {i}"), seed, body, calls);
        }
        crowd
    }

    fn thread(&mut self, name: String, seed: u64, body: Body, calls: Calls) {
        let pulse = Arc::new(Pulse {
            name: name.clone(),
            calls,
            steps: Word::new(0),
            doing: Word::new(0),
            tid: Word::new(0),
            waits: std::sync::Mutex::default(),
        });
        let (sky, own) = (Arc::clone(&self.sky), Arc::clone(&pulse));
        let work = move || {
            own.tid.set(sys::gettid().unwrap_or(0).cast_unsigned());
            let mut place = Place {
                sky: &sky,
                pulse: &own,
                rng: Rng::new(seed),
            };
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&mut place)));
            match done {
                Ok(Ok(())) => {}
                Ok(Err(e)) => sky.wrong(format!("{}: {e}", own.name)),
                Err(_) => sky.wrong(format!("{}: panicked", own.name)),
            }
        };
        match std::thread::Builder::new().name(name).spawn(work) {
            Ok(thread) => {
                self.threads.push(thread);
                self.pulses.push(pulse);
            }
            Err(e) => self.sky.wrong(format!("no thread: {e}")),
        }
    }

    /// Waits for the end, looking at the threads and at memory; holds a walker up on the way.
    fn watch(&mut self, plan: Plan) {
        let begun = Instant::now();
        let whole = Duration::from_secs(plan.seconds);
        let mut seen: Vec<(u64, Instant)> = vec![(0, begun); self.pulses.len()];
        let mut base = None;
        let mut held = plan.stall_seconds == 0;
        while begun.elapsed() < whole && !self.sky.over() {
            std::thread::sleep(LOOK);
            self.interrupt();
            if !held && begun.elapsed() > whole / 3 {
                held = true;
                self.hold(Duration::from_secs(plan.stall_seconds));
                seen.iter_mut().for_each(|s| s.1 = Instant::now());
            }
            for (pulse, seen) in self.pulses.iter().zip(&mut seen) {
                let steps = pulse.steps.get();
                if steps != seen.0 {
                    *seen = (steps, Instant::now());
                } else if seen.1.elapsed() > STUCK {
                    stuck(pulse, plan.last_words);
                }
            }
            let now = resident_kib();
            if begun.elapsed() > whole / 4 {
                let base = *base.get_or_insert(now);
                self.bounded(base, now);
            }
        }
        self.notes.push(format!(
            "resident: {:?} KiB, then {} KiB",
            base,
            resident_kib()
        ));
        self.sky.over.set(1);
    }

    fn bounded(&self, base: u64, now: u64) {
        if now > base + GROWTH_MAX_KIB {
            self.sky
                .wrong(format!("memory grows: {base} KiB, then {now} KiB"));
        }
        let usage = self.sky.vfs.usage();
        if usage.buried > BURIED_MAX {
            self.sky
                .wrong(format!("unlinked entries pile up: {usage:?}"));
        }
    }

    /// Stops walkers in the middle of whatever they do, until one sits in a lock-free section.
    ///
    /// Then it must be named, the others must go on, and what waits must stay bounded.
    fn hold(&mut self, how_long: Duration) {
        let walkers = self.pulses.iter().filter(|p| p.name.starts_with("walker"));
        for pulse in walkers.cycle().take(60) {
            let short = Duration::from_millis(200);
            if sys::hold_thread(pulse.tid.get().cast_signed(), short).is_err() {
                break;
            }
            let looked = [Duration::from_millis(20), Duration::from_millis(120)];
            let named = looked.into_iter().any(|wait| {
                std::thread::sleep(wait);
                names(Duration::from_millis(50), &pulse.name)
            });
            if !named {
                continue;
            }
            // A section was hit: now for long, at the same place with luck.
            if self.hold_long(pulse, how_long) {
                self.notes
                    .push(format!("{} was held up and named", pulse.name));
                return;
            }
        }
        self.sky
            .wrong("no walk could be held up in a lock-free section".to_owned());
    }

    fn hold_long(&self, pulse: &Pulse, how_long: Duration) -> bool {
        if sys::hold_thread(pulse.tid.get().cast_signed(), how_long).is_err() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(250));
        let _ = names(Duration::ZERO, &pulse.name);
        let others = || -> Vec<u64> { self.pulses.iter().map(|p| p.steps.get()).collect() };
        let (before, memory) = (others(), resident_kib());
        std::thread::sleep(
            how_long
                .mul_f32(0.8)
                .saturating_sub(Duration::from_millis(250)),
        );
        let named = names(how_long / 2, &pulse.name);
        if named {
            for ((p, b), a) in self.pulses.iter().zip(before).zip(others()) {
                if a == b && p.name != pulse.name {
                    self.sky
                        .wrong(format!("{} waited for {}", p.name, pulse.name));
                }
            }
            self.bounded(memory, resident_kib());
        }
        std::thread::sleep(how_long.mul_f32(0.2));
        named
    }

    /// Ends all waits.
    fn interrupt(&self) {
        for pulse in &self.pulses {
            if let Ok(waits) = pulse.waits.lock()
                && let Some(waits) = &*waits
            {
                waits.interrupt();
            }
        }
    }

    fn join(&mut self) -> Vec<(String, u64)> {
        // Who waits for somebody who is gone already would do so for ever.
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            self.interrupt();
            std::thread::sleep(Duration::from_millis(1));
        }
        for thread in self.threads.drain(..) {
            // A panic was noted by the thread itself.
            let _ = thread.join();
        }
        self.pulses
            .iter()
            .map(|p| (p.name.clone(), p.steps.get()))
            .collect()
    }
}

/// Is this thread's walk among those that have been in one section for so long?
fn names(older_than: Duration, thread: &str) -> bool {
    let wanted = format!("task {thread}");
    Vfs::stalled_walks(older_than)
        .iter()
        .any(|s| s.name == wanted)
}

/// Resident memory of this process.
fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
