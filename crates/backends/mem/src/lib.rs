// SPDX-License-Identifier: MIT OR Apache-2.0
//! An in-memory file system for openpath, with the semantics of tmpfs.

#![forbid(unsafe_code)]
