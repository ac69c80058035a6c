// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that most benchmarks use: the two sides and their paths, the harness, and the rows.

pub(crate) use std::ffi::{CStr, CString};
pub(crate) use std::slice::from_ref;

pub(crate) use clap::ValueEnum;
pub(crate) use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_WRONLY};
pub(crate) use openpath_abi::{Errno, OFlags};
pub(crate) use openpath_vfs::{Fd, MountFlags, Task, Vfs};

pub(crate) use crate::calls::{Calls, Kernel, wrong_of};
pub(crate) use crate::cmd::{Ask, at_least_one, tell};
pub(crate) use crate::counts::Resident;
pub(crate) use crate::error::{Context, Error, all_right};
pub(crate) use crate::harness::{Heat, Id, Plan};
pub(crate) use crate::host::{Host, Root, Scratch};
pub(crate) use crate::ops::{Op, name_of};
pub(crate) use crate::page::Page;
pub(crate) use crate::paths::{Chain, Ring, Rng, c_string, chains, rotation};
pub(crate) use crate::row::Row;
pub(crate) use crate::scene::{
    Pair, Place, Scene, Tables, Tree, compare, enter_alone, measure, nothing_shared, threads_max,
};
pub(crate) use crate::stats::Samples;
pub(crate) use crate::threads::{Make, counts, ready};
pub(crate) use crate::{DEPTHS, PATHS, SEED, gate, ours, sys};
