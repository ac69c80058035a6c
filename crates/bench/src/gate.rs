// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the operations for the gates of `cargo xtask gates`: nothing here measures time.
//!
//! * [`case`]: an operation, the objects on its path, and its task;
//! * [`sys`]: an arena with memory that can be made read-only, and marks for a tracer;
//! * [`loaded`]: the code and the variables of this process;
//! * [`plant`]: the faults that each gate must find;
//! * [`pair`]: pairs of operations that two tasks can do without disturbing each other;
//! * [`turns`]: two threads that do such a pair in turns, between marks.

pub(crate) mod case;
mod loaded;
pub(crate) mod pair;
pub(crate) mod plant;
pub(crate) mod sys;
pub(crate) mod turns;

pub(crate) use plant::Plant;

use std::sync::mpsc::channel;
use std::thread;

use crate::common::*;

/// The memory of `vfs` that a cached call must not write.
pub(crate) fn spans(vfs: &Vfs) -> Vec<sys::Span> {
    let spans = vfs.shared_spans().into_iter();
    let span = |(name, (start, bytes))| sys::Span { name, start, bytes };
    spans.map(span).collect()
}

/// Runs `build` on another thread in an arena, which may then be watched as shared memory. Our
/// thread would reuse memory that another task or thread released, and such memory is no longer
/// shared. So the builder lives on, with all that is its own, until `watch` is done.
pub(crate) fn apart<B: Send, T>(
    build: impl FnOnce() -> Result<B, Error> + Send,
    watch: impl FnOnce(B) -> Result<T, Error>,
) -> Result<T, Error> {
    let (give, built) = channel();
    let (end, ended) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = give.send(sys::in_arena(build));
            let _ = ended.recv();
        });
        let _end = end;
        let lost = |_| Error::Setup("the builder ended".to_owned());
        watch(built.recv().map_err(lost)?.host("map an arena")??)
    })
}
