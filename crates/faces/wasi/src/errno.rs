// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the error codes of preview1, and converts each errno to its code.
//!
//! # Rules
//! R1. Every errno has a code. An errno that preview1 has no name for becomes [`Code::Io`]: the
//!     guest's C library could not express it either.

use openpath_abi::Errno;

macro_rules! codes {
    ($($name:ident = $raw:literal, $($errno:ident)?, $text:literal;)*) => {
        /// A preview1 error code (`errno`).
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u16)]
        pub enum Code {
            $(#[doc = concat!($text, ".")] $name = $raw,)*
        }

        impl Code {
            /// Every code, in rising order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The meaning in a few words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        impl From<Errno> for Code {
            fn from(errno: Errno) -> Self {
                match errno {
                    $($(Errno::$errno => Self::$name,)?)*
                    _ => Self::Io,
                }
            }
        }
    };
}

codes! {
    Success = 0, , "success";
    TooBig = 1, E2BIG, "the argument list is too long";
    Acces = 2, EACCES, "permission denied";
    AddrInUse = 3, EADDRINUSE, "address in use";
    AddrNotAvail = 4, EADDRNOTAVAIL, "address not available";
    AfNoSupport = 5, EAFNOSUPPORT, "address family not supported";
    Again = 6, EAGAIN, "the call would block; try again";
    Already = 7, EALREADY, "already in progress";
    Badf = 8, EBADF, "the descriptor is not open, or not open for this";
    BadMsg = 9, EBADMSG, "bad message";
    Busy = 10, EBUSY, "in use";
    Canceled = 11, ECANCELED, "cancelled";
    Child = 12, ECHILD, "no child process";
    ConnAborted = 13, ECONNABORTED, "connection aborted";
    ConnRefused = 14, ECONNREFUSED, "connection refused";
    ConnReset = 15, ECONNRESET, "connection reset";
    Deadlk = 16, EDEADLK, "the lock would deadlock";
    DestAddrReq = 17, EDESTADDRREQ, "a destination address is needed";
    Dom = 18, EDOM, "argument outside the domain of the function";
    Dquot = 19, EDQUOT, "a quota is used up";
    Exist = 20, EEXIST, "already exists";
    Fault = 21, EFAULT, "bad address";
    Fbig = 22, EFBIG, "the file would grow too large";
    HostUnreach = 23, EHOSTUNREACH, "the host cannot be reached";
    Idrm = 24, EIDRM, "the identifier was removed";
    Ilseq = 25, EILSEQ, "an invalid byte sequence";
    Inprogress = 26, EINPROGRESS, "in progress";
    Intr = 27, EINTR, "interrupted";
    Inval = 28, EINVAL, "an argument is invalid";
    Io = 29, EIO, "input or output failed";
    IsConn = 30, EISCONN, "the socket is connected";
    Isdir = 31, EISDIR, "is a directory";
    Loop = 32, ELOOP, "too many symbolic links, or one where none may be";
    Mfile = 33, EMFILE, "too many open files in the task";
    Mlink = 34, EMLINK, "too many links";
    MsgSize = 35, EMSGSIZE, "the message is too long";
    Multihop = 36, EMULTIHOP, "a multihop was tried";
    NameTooLong = 37, ENAMETOOLONG, "a name or a path is too long";
    NetDown = 38, ENETDOWN, "the network is down";
    NetReset = 39, ENETRESET, "the network reset the connection";
    NetUnreach = 40, ENETUNREACH, "the network cannot be reached";
    Nfile = 41, ENFILE, "too many open files in the system";
    Nobufs = 42, ENOBUFS, "no buffer space";
    Nodev = 43, ENODEV, "no such device";
    Noent = 44, ENOENT, "no such file or directory";
    Noexec = 45, ENOEXEC, "not an executable format";
    Nolck = 46, ENOLCK, "no lock available";
    Nolink = 47, ENOLINK, "the link was cut";
    Nomem = 48, ENOMEM, "out of memory";
    Nomsg = 49, ENOMSG, "no message of that type";
    NoProtoOpt = 50, ENOPROTOOPT, "the protocol has no such option";
    Nospc = 51, ENOSPC, "no space left";
    Nosys = 52, ENOSYS, "no such function";
    NotConn = 53, ENOTCONN, "the socket is not connected";
    Notdir = 54, ENOTDIR, "not a directory";
    Notempty = 55, ENOTEMPTY, "the directory is not empty";
    NotRecoverable = 56, ENOTRECOVERABLE, "the state cannot be recovered";
    Notsock = 57, ENOTSOCK, "not a socket";
    Notsup = 58, EOPNOTSUPP, "not supported";
    Notty = 59, ENOTTY, "the object has no such control operation";
    Nxio = 60, ENXIO, "no such device or address";
    Overflow = 61, EOVERFLOW, "the value does not fit its type";
    OwnerDead = 62, EOWNERDEAD, "the owner died";
    Perm = 63, EPERM, "not permitted, or the path leads out of its directory";
    Pipe = 64, EPIPE, "nobody reads the other end";
    Proto = 65, EPROTO, "protocol violated";
    ProtoNoSupport = 66, EPROTONOSUPPORT, "the protocol is not supported";
    ProtoType = 67, EPROTOTYPE, "wrong protocol type for the socket";
    Range = 68, ERANGE, "the result does not fit";
    Rofs = 69, EROFS, "the file system or mount is read-only";
    Spipe = 70, ESPIPE, "the object cannot seek";
    Srch = 71, ESRCH, "no such process";
    Stale = 72, ESTALE, "the file handle is out of date";
    TimedOut = 73, ETIMEDOUT, "timed out";
    Txtbsy = 74, ETXTBSY, "the file is being executed";
    Xdev = 75, EXDEV, "the two are in different mounts";
    NotCapable = 76, , "the descriptor lacks the right";
}

impl Code {
    /// The number, as the guest gets it.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errnos without a name in preview1.
    const UNNAMED: &[Errno] = &[
        Errno::ENOTBLK,
        Errno::EUSERS,
        Errno::ESTRPIPE,
        Errno::ERESTART,
        Errno::ENODATA,
    ];

    #[test]
    fn codes_count_from_0_to_76_without_a_gap() {
        assert_eq!(Code::ALL.len(), 77);
        for (n, code) in Code::ALL.iter().enumerate() {
            assert_eq!(usize::from(code.raw()), n);
            assert!(!code.text().is_empty());
        }
    }

    #[test]
    fn every_errno_has_a_code_and_no_two_share_a_name() {
        let mut seen = [None; 77];
        for &errno in Errno::ALL {
            let code = Code::from(errno);
            assert_ne!(code, Code::Success, "{errno:?}");
            assert_ne!(code, Code::NotCapable, "{errno:?}");
            if code == Code::Io {
                continue;
            }
            let before = seen[usize::from(code.raw())].replace(errno);
            assert_eq!(before, None, "{code:?}");
        }
        let unsaid: Vec<_> = (1..76).filter(|&n| seen[n].is_none()).collect();
        assert_eq!(unsaid, [usize::from(Code::Io.raw())]);
        for &errno in UNNAMED {
            assert_eq!(Code::from(errno), Code::Io);
        }
        assert_eq!(Code::from(Errno::from_raw(4000)), Code::Io);
    }
}
