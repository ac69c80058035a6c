// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests every protocol of this crate through all its interleavings.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p openpath-sync --test loom`. At most three forced
//! switches of threads, unless `LOOM_MAX_PREEMPTIONS` says otherwise. A test named `..._is_found`
//! plants a fault and fails if the model misses it.
#![cfg(loom)]

mod biased;
mod bounded_counter;
mod files;
mod freeze;
mod hash;
mod life;
mod message_list;
mod rcu;
mod slots;
mod store;
mod wait;

use loom::cell::UnsafeCell;
use std::sync::Arc;

/// Runs `body` through its interleavings.
fn model(body: impl Fn() + Sync + Send + 'static) {
    model_with(0, body);
}

/// As [`model`], with at least `least` forced switches, whatever `LOOM_MAX_PREEMPTIONS` says.
fn model_with(least: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    let bound = builder.preemption_bound.unwrap_or(3);
    builder.preemption_bound = Some(bound.max(least));
    builder.check(body);
}

/// Runs `body` with every light half of the asymmetric fence left out; the model must report an
/// invalid use of memory.
fn fault_is_found(body: impl Fn() + Sync + Send + 'static) {
    fault_with("Causality violation", body);
}

/// As [`fault_is_found`], with a report that contains `words`.
fn fault_with(words: &str, body: impl Fn() + Sync + Send + 'static) {
    let run = move || {
        openpath_sync::asymmetric_fence::plant_missing_light(true);
        model(body);
    };
    let report = std::thread::spawn(run)
        .join()
        .expect_err("the planted fault was not found");
    let text = report.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(
        text.contains(words),
        "another fault than the planted one: {text}"
    );
}

/// Memory that a protocol protects. Reads must come before the drop; the memory itself stays, so
/// that the model reports a planted fault instead of a crash.
#[derive(Clone)]
struct Canary(Arc<Watched>);

struct Watched(UnsafeCell<u32>);

// SAFETY: the model reports accesses that race, which is the purpose.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

impl Canary {
    fn new() -> Self {
        Self(Arc::new(Watched(UnsafeCell::new(7))))
    }
    /// A shared use that the protocol allows.
    fn read(&self) {
        // SAFETY: the model reports a concurrent write before it matters.
        assert_eq!(self.0.0.with(|v| unsafe { *v }), 7, "read after the drop");
    }
    /// An exclusive use that the protocol allows.
    fn touch(&self) {
        // SAFETY: the model reports any concurrent access before it matters.
        self.0.0.with_mut(|v| unsafe {
            assert_eq!(*v, 7, "written after the drop");
            *v = 7;
        });
    }
    /// Stands for freeing the memory.
    fn free(&self) {
        // SAFETY: as above.
        self.0.0.with_mut(|v| unsafe { *v = 0 });
    }
    fn is_freed(&self) -> bool {
        // SAFETY: asked when all other threads are joined.
        self.0.0.with(|v| unsafe { *v == 0 })
    }
}
