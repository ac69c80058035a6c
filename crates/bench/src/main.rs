// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `openpath-bench` program.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

/// Allocations are counted, so that `counts` can tell what an operation takes.
#[global_allocator]
static ALLOC: openpath_bench::sys::CountingAlloc = openpath_bench::sys::CountingAlloc;

fn main() -> ExitCode {
    openpath_bench::main()
}
