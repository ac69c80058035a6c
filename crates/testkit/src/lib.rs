// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests openpath by four means: comparison with the host kernel (the oracle), hostile guests,
//! killed processes, and load (storm, soak and stress).

mod accesses;
pub mod case;
pub mod exhaustive;
pub mod golden;
pub mod host;
pub mod hostile;
pub mod kernel_view;
pub mod kills;
pub mod locks;
pub mod mounts;
pub mod op;
pub mod ours;
pub mod outcome;
pub mod plain;
pub mod random;
pub mod rng;
pub mod scan;
pub mod scratch;
mod served;
pub mod shrink;
pub mod side;
pub mod sides;
pub mod skips;
pub mod snapshot;
pub mod soak;
pub mod stack;
mod stacked;
pub mod storm;
pub mod stress;
pub mod supervisor;
pub mod sys;
pub mod tree;
pub mod uring;
pub mod work;
