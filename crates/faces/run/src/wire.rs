// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends and receives messages between the processes of a view, as frames over a pair of sockets,
//! with descriptors beside them.
//!
//! A frame is its length (4 bytes, little endian) and a message as JSON. Descriptors go with the
//! length. A process gets its end as standard input, the only descriptor that can be taken over by
//! number without `unsafe`; it makes a copy with `O_CLOEXEC`.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// The longest message, in bytes: a faulty peer, or another program, cannot ask for more.
const FRAME_MAX: usize = 16 << 20;

/// One end, and the deadline of its reads.
#[derive(Debug)]
pub(crate) struct Wire(OwnedFd, Option<Instant>);

impl Wire {
    /// Two ends: one to keep, and one to give to a child as its standard input.
    pub(crate) fn pair() -> io::Result<(Wire, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Wire(ours, None), theirs))
    }

    /// The end that this process got as its standard input.
    pub(crate) fn inherited() -> io::Result<Wire> {
        Ok(Wire(io::stdin().as_fd().try_clone_to_owned()?, None))
    }

    /// An end over an existing socket.
    pub(crate) fn from_socket(socket: OwnedFd) -> Wire {
        Wire(socket, None)
    }

    /// The same with a deadline for all its reads, however slowly data comes.
    pub(crate) fn with_deadline(self, longest: Duration) -> Wire {
        Wire(self.0, Some(Instant::now() + longest))
    }

    /// Limits the next read to the time left.
    fn apply_deadline(&self) -> io::Result<()> {
        let Some(end) = self.1 else {
            return Ok(());
        };
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            // Zero would mean no limit.
            left => self.set_read_timeout(left.max(Duration::from_millis(1))),
        }
    }

    /// Another descriptor of the same end.
    pub(crate) fn try_clone(&self) -> io::Result<Wire> {
        Ok(Wire(self.0.try_clone()?, self.1))
    }

    /// Whether the other end is closed and has left nothing to read.
    pub(crate) fn is_closed(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let got = rustix::net::recv(&self.0, &mut byte[..], flags);
        matches!(got, Ok((0, _)))
    }

    /// Whether [`Wire::recv`] has something to read, or the end.
    pub(crate) fn is_readable(&self) -> io::Result<bool> {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.0, &mut byte[..], flags) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }

    /// The longest that [`Wire::recv`] waits.
    pub(crate) fn set_read_timeout(&self, longest: Duration) -> io::Result<()> {
        let which = rustix::net::sockopt::Timeout::Recv;
        Ok(rustix::net::sockopt::set_socket_timeout(
            &self.0,
            which,
            Some(longest),
        )?)
    }

    /// Sends a message, and a descriptor if there is one.
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        fd: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let body = serde_json::to_vec(message)?;
        let length = u32::try_from(body.len()).map_err(|_| ErrorKind::InvalidInput)?;
        if body.len() > FRAME_MAX {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<_> = fd.into_iter().collect();
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let head = length.to_le_bytes();
        // Together, or the other end would wake up for each. The first four bytes are sent as a
        // whole or not at all.
        let sent = rustix::io::retry_on_intr(|| {
            let parts = [IoSlice::new(&head), IoSlice::new(&body)];
            rustix::net::sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL)
        })?;
        let sent = sent.checked_sub(head.len()).ok_or(ErrorKind::WriteZero)?;
        let mut rest = body.get(sent..).unwrap_or_default();
        while !rest.is_empty() {
            let sent = rustix::io::retry_on_intr(|| {
                rustix::net::send(&self.0, rest, SendFlags::NOSIGNAL)
            })?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    /// The next message, and its descriptor; `None` when the other end is closed.
    pub(crate) fn recv<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let mut head = [0; 4];
        let Some(fd) = self.recv_head(&mut head)? else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(head) as usize;
        if length > FRAME_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        self.recv_whole(&mut body)?;
        Ok(Some((serde_json::from_slice(&body)?, fd)))
    }

    /// Reads the length and the descriptor; `None` at the end.
    fn recv_head(&self, head: &mut [u8; 4]) -> io::Result<Option<Option<OwnedFd>>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        self.apply_deadline()?;
        let got = rustix::io::retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut head[..])];
            rustix::net::recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ErrorKind::InvalidData.into());
        }
        if got.bytes == 0 {
            return Ok(None);
        }
        self.recv_whole(&mut head[got.bytes..])?;
        let fd = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        Ok(Some(fd))
    }

    fn recv_whole(&self, buf: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buf.len() {
            self.apply_deadline()?;
            let rest = &mut buf[filled..];
            let (got, _) = rustix::io::retry_on_intr(|| {
                rustix::net::recv(&self.0, &mut *rest, RecvFlags::empty())
            })?;
            if got == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            filled += got;
        }
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::Wire;
    use rustix::fd::AsFd as _;
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};
    use std::time::Duration;

    #[test]
    fn messages_and_descriptors_arrive_in_order() {
        let (ours, theirs) = Wire::pair().unwrap();
        let theirs = Wire::from_socket(theirs);
        let path = std::env::temp_dir().join(format!("openpath-wire-{}", std::process::id()));
        let mut file = File::create_new(&path).unwrap();
        file.write_all(b"through").unwrap();
        ours.send(&"first", None).unwrap();
        let read = File::open(&path).unwrap();
        ours.send(&vec![7_u8; 20_000], Some(read.as_fd())).unwrap();
        drop(ours);
        let (text, fd) = theirs.recv::<String>().unwrap().unwrap();
        assert_eq!((text.as_str(), fd.is_none()), ("first", true));
        let (bytes, fd) = theirs.recv::<Vec<u8>>().unwrap().unwrap();
        assert_eq!(bytes.len(), 20_000);
        let mut file = File::from(fd.unwrap());
        file.rewind().unwrap();
        let mut data = String::new();
        file.read_to_string(&mut data).unwrap();
        assert_eq!(data, "through");
        assert!(theirs.recv::<String>().unwrap().is_none());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn frame_length_above_the_maximum_is_refused() {
        let (ours, theirs) = Wire::pair().unwrap();
        rustix::io::write(&ours.0, &u32::MAX.to_le_bytes()).unwrap();
        assert!(Wire::from_socket(theirs).recv::<String>().is_err());
    }

    #[test]
    fn slow_message_ends_at_the_deadline() {
        let (ours, theirs) = Wire::pair().unwrap();
        let theirs = Wire::from_socket(theirs).with_deadline(Duration::from_millis(50));
        rustix::io::write(&ours.0, &1_000_u32.to_le_bytes()).unwrap();
        let stopped = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Far longer than the deadline, if it is not stopped.
                for _ in 0..990 {
                    if stopped.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    rustix::io::write(&ours.0, b" ").unwrap();
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
            let got = theirs.recv::<String>();
            stopped.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(got.is_err());
        });
    }
}
