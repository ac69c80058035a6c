// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that most benchmarks use: the two sides and their paths, the harness, and the rows.

pub(crate) use crate::calls::{Calls, Kernel, wrong_of};
pub(crate) use crate::cmd::{Ask, at_least_one, tell};
pub(crate) use crate::error::{Context, Error, all_right};
pub(crate) use crate::harness::{Heat, Id, Plan};
pub(crate) use crate::host::{Host, Root};
pub(crate) use crate::ops::Op;
pub(crate) use crate::paths::{Chain, Ring, Rng, chains, rotation};
pub(crate) use crate::row::Row;
pub(crate) use crate::scene::{
    Pair, Place, Scene, Tables, Tree, compare, enter_alone, measure, nothing_shared, threads_max,
};
pub(crate) use crate::threads::{Make, counts, ready};
pub(crate) use crate::{DEPTHS, PATHS, SEED, gate, ours, sys};
