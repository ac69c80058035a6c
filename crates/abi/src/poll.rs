// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines event bits of poll(2).

/// Data to read.
pub const POLLIN: u32 = 0x001;
/// Something exceptional.
pub const POLLPRI: u32 = 0x002;
/// Room to write.
pub const POLLOUT: u32 = 0x004;
/// An error; always reported.
pub const POLLERR: u32 = 0x008;
/// The other end is gone; always reported.
pub const POLLHUP: u32 = 0x010;
/// Not an open descriptor; always reported.
pub const POLLNVAL: u32 = 0x020;
/// Normal data to read.
pub const POLLRDNORM: u32 = 0x040;
/// Priority data to read.
pub const POLLRDBAND: u32 = 0x080;
/// Room for normal data.
pub const POLLWRNORM: u32 = 0x100;
/// Room for priority data.
pub const POLLWRBAND: u32 = 0x200;
/// The other end will write no more.
pub const POLLRDHUP: u32 = 0x2000;
