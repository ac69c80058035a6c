// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the protocol between the kernel and a FUSE server: parses the bytes of requests, and
//! builds the bytes of replies.
//!
//! # Kernel analogue
//! The protocol of `/dev/fuse` (`linux/fuse.h`), 7.31 to 7.45. Numbers and layouts are those of
//! that header; integers are in the byte order of the machine.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `numbers` | opcodes, flags and sizes |
//! | `fields` | reading fields in turn, within the bytes of a request |
//! | `header`, `request` | a request's header and arguments |
//! | `reply`, `attributes` | a reply, and the parts that replies share |
//! | `entries` | the directory entries of a listing, as a reply has them |
//! | `init` | the negotiation when a mount begins |
//! | `notify` | notifications to the kernel |
//! | `device` | `/dev/fuse`, from which requests are read and to which replies are written |
//! | `entry` | a request and its reply in one entry of an `io_uring` ring |
//!
//! # Rules
//! R1. Nothing in a message is trusted: no length leads beyond its bytes, and a malformed message
//!     is answered and logged.
//! R2. A request is read into a buffer that is reused, and its names and data are used in place. A
//!     reply is built in another buffer and sent by one write. With `io_uring`, both are in an
//!     entry of a ring instead.

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

/// The most bytes that one request reads or writes.
pub(crate) const ONCE_MAX: usize = 1 << 20;
