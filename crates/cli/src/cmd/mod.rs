// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verbs.

pub(crate) mod bench;
pub(crate) mod bench_one;
pub(crate) mod bench_run;
pub(crate) mod bench_seeds;
pub(crate) mod bench_tenants;
pub(crate) mod bench_two;
#[cfg(feature = "wasi")]
pub(crate) mod bench_wasi;
pub(crate) mod commit;
pub(crate) mod completions;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod locks;
pub(crate) mod man;
pub(crate) mod mount;
pub(crate) mod ring;
pub(crate) mod run;
pub(crate) mod stats;
pub(crate) mod version;
pub(crate) mod views;
