// SPDX-License-Identifier: MIT OR Apache-2.0
//! Negotiates the version, the flags and the limits of the protocol with the kernel when a mount
//! begins (`FUSE_INIT`).

use super::device::Received;
use super::fields::{Fields, Malformed};
use super::numbers::{MAJOR, MINOR, MINOR_LEAST, can, op};
use super::{Device, Header, ONCE_MAX, ReplyBuffer, ReplyBuilder, device};
use openpath_abi::Errno;
use std::io;

/// Limits of background requests: how many there may be, and from how many on callers are
/// throttled.
const BACKGROUND: [u16; 2] = [64, 48];
/// Pages in one request.
pub(crate) const PAGES: u16 = (ONCE_MAX / 4096) as u16;
/// Flags that are wanted always, if the kernel has them.
const ALWAYS: u64 = can::ASYNC_READ
    | can::BIG_WRITES
    | can::DONT_MASK
    | can::DO_READDIRPLUS
    | can::READDIRPLUS_AUTO
    | can::ASYNC_DIO
    | can::NO_OPEN_SUPPORT
    | can::PARALLEL_DIROPS
    | can::MAX_PAGES
    | can::CACHE_SYMLINKS
    | can::NO_OPENDIR_SUPPORT
    | can::HANDLE_KILLPRIV_V2
    | can::SETXATTR_EXT
    | can::INIT_EXT;

/// Flags that are wanted for the writeback cache.
pub(crate) const WRITEBACK: u64 = can::WRITEBACK_CACHE;
/// Flags that are wanted for access control lists, which the kernel then checks.
pub(crate) const ACLS: u64 = can::POSIX_ACL;
/// Flags that are wanted if the server keeps locks.
pub(crate) const LOCKS: u64 = can::POSIX_LOCKS | can::FLOCK_LOCKS;
/// Flags that are wanted for requests by rings.
pub(crate) const RINGS: u64 = can::OVER_IO_URING;

/// What the kernel offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offer {
    major: u32,
    minor: u32,
    readahead: u32,
    flags: u64,
}

impl Offer {
    fn of(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let (major, minor) = (fields.u32()?, fields.u32()?);
        if (major, minor) < (MAJOR, 6) {
            // So old that it offers nothing else.
            return Ok(Self {
                major,
                minor,
                readahead: 0,
                flags: 0,
            });
        }
        let readahead = fields.u32()?;
        let mut flags = u64::from(fields.u32()?);
        if flags & can::INIT_EXT != 0 {
            flags |= u64::from(fields.u32()?) << 32;
        }
        Ok(Self {
            major,
            minor,
            readahead,
            flags,
        })
    }
}

/// What was negotiated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Negotiated {
    flags: u64,
}

impl Negotiated {
    /// Whether the kernel says when a change of data strips set-id bits.
    pub(crate) fn has_kill_flags(self) -> bool {
        self.flags & can::HANDLE_KILLPRIV_V2 != 0
    }

    /// Whether `SETXATTR` has its longer form.
    pub(crate) fn has_setxattr_ext(self) -> bool {
        self.flags & can::SETXATTR_EXT != 0
    }
}

/// Negotiates with the kernel for a new mount. `wanted` gets the kernel's flags, and returns flags
/// beside those that are wanted always.
///
/// # Errors
/// `ENOTCONN`: it is mounted no more. `Unsupported`: the kernel is too old, and is told so.
/// `InvalidData`: the first message is not `FUSE_INIT`.
pub(crate) fn negotiate(
    device: &Device,
    mut wanted: impl FnMut(u64) -> u64,
) -> io::Result<Negotiated> {
    let mut room = vec![0; device::REQUEST_MAX];
    let mut buffer = ReplyBuffer::new();
    loop {
        let len = match device.read(&mut room)? {
            Received::Request(len) => len,
            Received::Empty => {
                device.wait(None)?;
                continue;
            }
            Received::Unmounted => return Err(rustix::io::Errno::NOTCONN.into()),
        };
        let (header, body) = Header::of(&room[..len]).map_err(protocol_error)?;
        let offer = Offer::of(body.map_err(protocol_error)?).map_err(protocol_error)?;
        if header.opcode != op::INIT {
            return Err(protocol_error("a request before the beginning"));
        }
        let mut reply = ReplyBuilder::new(buffer.body(), header.unique);
        let terms = answer_init(&mut reply, offer, &mut wanted);
        let done = reply.done();
        device.send(buffer.message(&done))?;
        if let Some(terms) = terms? {
            return Ok(terms);
        }
    }
}

fn protocol_error(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/dev/fuse: {what}"))
}

/// Answers an offer; returns what was negotiated, or nothing if the kernel is to offer an older
/// version.
fn answer_init(
    reply: &mut ReplyBuilder<'_>,
    offer: Offer,
    wanted: &mut dyn FnMut(u64) -> u64,
) -> io::Result<Option<Negotiated>> {
    if offer.major > MAJOR {
        // The kernel offers this version next.
        reply.u32(MAJOR);
        reply.zeros(60);
        return Ok(None);
    }
    if (offer.major, offer.minor) < (MAJOR, MINOR_LEAST) {
        reply.fail(Errno::EPROTO);
        let (has, minor) = (offer.major, offer.minor);
        let why = format!(
            "this kernel speaks FUSE {has}.{minor}, and {MAJOR}.{MINOR_LEAST} is the oldest that \
             works (Linux 5.4)"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let flags = (ALWAYS | wanted(offer.flags)) & offer.flags;
    reply.u32(MAJOR);
    reply.u32(offer.minor.min(MINOR));
    reply.u32(offer.readahead.min(ONCE_MAX as u32));
    reply.u32(flags as u32);
    reply.u16(BACKGROUND[0]);
    reply.u16(BACKGROUND[1]);
    reply.u32(ONCE_MAX as u32);
    // The granularity of times is a nanosecond.
    reply.u32(1);
    reply.u16(PAGES);
    reply.u16(0);
    reply.u32((flags >> 32) as u32);
    reply.zeros(28);
    Ok(Some(Negotiated { flags }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(major: u32, minor: u32) -> Offer {
        Offer {
            major,
            minor,
            readahead: 131_072,
            flags: u64::MAX,
        }
    }

    fn init_reply(offer: Offer, wanted: u64) -> (io::Result<Option<Negotiated>>, Vec<u8>) {
        let mut buffer = ReplyBuffer::new();
        let mut reply = ReplyBuilder::new(buffer.body(), 2);
        let terms = answer_init(&mut reply, offer, &mut |_| wanted);
        let done = reply.done();
        (terms, buffer.message(&done).to_vec())
    }

    #[test]
    fn flags_are_negotiated_to_those_of_both_sides() {
        let (terms, message) = init_reply(offer(7, 60), 0);
        let terms = terms.expect("agreed").expect("at once");
        assert!(terms.has_kill_flags());
        assert_eq!(terms.flags & (WRITEBACK | LOCKS), 0);
        let locks = init_reply(offer(7, 60), LOCKS).0.expect("agreed");
        assert_eq!(locks.expect("at once").flags, terms.flags | LOCKS);
        assert_eq!(message.len(), 16 + 64);
        assert_eq!(message[20..24], MINOR.to_ne_bytes());
        let bare = Offer {
            flags: 0,
            ..offer(7, 31)
        };
        let (terms, message) = init_reply(bare, can::WRITEBACK_CACHE);
        assert_eq!(terms.expect("agreed"), Some(Negotiated { flags: 0 }));
        assert_eq!(message[20..24], 31u32.to_ne_bytes());
    }

    #[test]
    fn an_older_protocol_is_refused_with_both_versions() {
        let (terms, message) = init_reply(offer(7, 30), 0);
        let why = terms.expect_err("too old").to_string();
        assert!(why.contains("7.30") && why.contains("7.31"), "{why}");
        assert_eq!(message[4..8], (-Errno::EPROTO.raw()).to_ne_bytes());
    }

    #[test]
    fn a_newer_protocol_is_asked_for_an_older_version() {
        let (terms, message) = init_reply(offer(8, 0), 0);
        assert_eq!(terms.expect("no refusal"), None);
        assert_eq!(message[16..20], MAJOR.to_ne_bytes());
    }

    #[test]
    fn the_second_word_of_flags_is_read_if_present() {
        let mut body = Vec::new();
        for n in [7u32, 45, 9, can::INIT_EXT as u32, 3] {
            body.extend(n.to_ne_bytes());
        }
        let offer = Offer::of(&body).expect("an offer");
        assert_eq!(offer.flags, can::INIT_EXT | 3 << 32);
        assert!(Offer::of(&body[..18]).is_err());
        assert!(Offer::of(&body[..6]).is_err());
    }
}
