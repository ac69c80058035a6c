// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts `openpath-bench`, with the allocator that counts.

#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

/// Counts allocations for `counts`.
#[global_allocator]
static ALLOC: openpath_bench::sys::CountingAlloc = openpath_bench::sys::CountingAlloc;

fn main() -> ExitCode {
    openpath_bench::main()
}
