// SPDX-License-Identifier: MIT OR Apache-2.0
//! Proof of openpath: the oracle against the host kernel, fixtures, stress.

mod accesses;
pub mod boss;
pub mod case;
pub mod exhaustive;
pub mod eye;
pub mod face;
pub mod golden;
pub mod host;
pub mod hostile;
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
mod served;
pub mod shrink;
pub mod sides;
pub mod skips;
pub mod soak;
pub mod stack;
mod stacked;
pub mod storm;
pub mod stress;
pub mod sys;
pub mod tree;
pub mod uring;
pub mod work;
