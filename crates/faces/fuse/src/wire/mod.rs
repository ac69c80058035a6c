// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel and a server of FUSE say to each other: bytes to requests, answers to bytes.
//!
//! # Kernel analogue
//! The protocol of `/dev/fuse` (`linux/fuse.h`), 7.31 to 7.45. Numbers and layouts are those of
//! that header; words are as wide and as ordered as the machine has them.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `numbers` | opcodes, flags and sizes |
//! | `fields` | reading fields one after the other, within the bytes that came |
//! | `header`, `request` | what a request is, and what it asks |
//! | `reply`, `attributes`, `entries` | an answer, and what answers have in common |
//! | `init` | what is agreed on when a mount begins |
//! | `notify` | what the kernel is told without asking |
//! | `device` | where all that goes in and out |
//! | `entry` | the same of what comes by a ring |
//!
//! # Rules
//! R1. Nothing that came is believed: no length leads beyond the bytes there are, and what does not
//!     add up is answered, and said in the log.
//! R2. A request is read into a buffer that stays, and its names and data are used there. An answer
//!     is put together in another, and goes out by one write; or both are in an entry of a ring.

pub(crate) mod attributes;
pub(crate) mod device;
pub(crate) mod entries;
pub(crate) mod entry;
pub(crate) mod fields;
pub(crate) mod header;
pub(crate) mod init;
pub(crate) mod notify;
pub(crate) mod numbers;
pub(crate) mod reply;
pub(crate) mod request;

pub(crate) use device::Device;
pub(crate) use header::Header;
pub(crate) use notify::Notifier;
pub(crate) use reply::{Reply, ReplyBuffer, ReplyBuilder};
pub(crate) use request::Request;

/// Most that one request reads or writes.
pub(crate) const ONCE_MAX: usize = 1 << 20;
