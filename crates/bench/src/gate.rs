// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the gates of `cargo xtask gates` run: nothing here measures time.
//!
//! * [`case`]: an operation, what its path meets, and who does it;
//! * [`sys`]: an arena whose memory can be made read-only, and marks that a tracer sees;
//! * [`plant`]: the faults that each gate has to find;
//! * [`pair`]: pairs of operations that two tasks can do without disturbing each other;
//! * [`duel`]: two threads that do such a pair in turns, between marks.

pub mod case;
pub mod duel;
pub mod pair;
pub mod plant;
pub mod sys;

pub use plant::Plant;

use openpath_vfs::Vfs;

/// The memory of `vfs` that a cached call must not write.
pub fn spans(vfs: &Vfs) -> Vec<sys::Span> {
    let spans = vfs.shared_spans().into_iter();
    spans
        .map(|(name, (start, bytes))| sys::Span::new(name, start, bytes))
        .collect()
}
