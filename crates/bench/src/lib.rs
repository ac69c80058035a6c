// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks of openpath against the host kernel.
