// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the error numbers of x86-64 Linux (`Errno`), each with its name and a short text.
//!
//! # Rules
//! * `Errno` is two bytes and has a niche, so `Result<(), Errno>` is two bytes as well.
//! * No text and no context travels with an error; a reason belongs to a trace event.

use core::fmt;
use core::num::NonZeroU16;

/// The largest number that a Linux system call may return as an error.
pub const MAX_ERRNO: i32 = 4095;

/// An error number of errno(3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Errno(NonZeroU16);

const _: () = assert!(size_of::<Errno>() == 2);
const _: () = assert!(size_of::<Result<(), Errno>>() == 2);
const _: () = assert!(size_of::<Option<Errno>>() == 2);

impl Errno {
    /// Another name of [`Errno::EAGAIN`].
    pub const EWOULDBLOCK: Errno = Errno::EAGAIN;
    /// Another name of [`Errno::EDEADLK`].
    pub const EDEADLOCK: Errno = Errno::EDEADLK;
    /// Another name of [`Errno::EOPNOTSUPP`].
    pub const ENOTSUP: Errno = Errno::EOPNOTSUPP;

    /// The number, as errno(3) holds it: positive.
    #[inline]
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0.get() as i32
    }

    /// The error of this number, whether it has a name or not.
    ///
    /// # Panics
    /// If `raw` is not in `1..=`[`MAX_ERRNO`]; use [`Errno::checked`] for a number from outside.
    #[inline]
    #[must_use]
    #[track_caller]
    pub const fn from_raw(raw: i32) -> Errno {
        match Errno::checked(raw) {
            Some(errno) => errno,
            None => panic!("not an error number"),
        }
    }

    /// The error of this number, or `None` if `raw` is not in `1..=`[`MAX_ERRNO`].
    #[inline]
    #[must_use]
    pub const fn checked(raw: i32) -> Option<Errno> {
        if raw < 1 || raw > MAX_ERRNO {
            return None;
        }
        match NonZeroU16::new(raw as u16) {
            Some(number) => Some(Errno(number)),
            None => None,
        }
    }
}

/// Makes the constants, the table of all of them, and the texts.
macro_rules! errnos {
    ($($name:ident = $raw:literal, $text:literal;)*) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "`, ", $raw, ": ", $text, ".")]
                pub const $name: Errno = Errno::from_raw($raw);
            )*

            /// Every number that has a name, in rising order.
            pub const ALL: &'static [Errno] = &[$(Errno::$name),*];

            /// The name in capitals; `"E?"` for a number that has none.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.raw() {
                    $($raw => stringify!($name),)*
                    _ => "E?",
                }
            }

            /// What it means, in a few words; `"unnamed error"` for a number that has no name.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self.raw() {
                    $($raw => $text,)*
                    _ => "unnamed error",
                }
            }

            /// The error of this name, without its aliases.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Errno> {
                match name {
                    $(stringify!($name) => Some(Errno::$name),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "the caller lacks the right, whatever the permission bits say";
    ENOENT = 2, "no such file or directory";
    ESRCH = 3, "no such process";
    EINTR = 4, "interrupted before anything was done";
    EIO = 5, "input or output failed";
    ENXIO = 6, "no such device or address";
    E2BIG = 7, "the argument is larger than understood";
    ENOEXEC = 8, "not an executable format";
    EBADF = 9, "the descriptor is not open, or not open for this";
    ECHILD = 10, "no child process";
    EAGAIN = 11, "it would block; try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "the permission bits refuse it";
    EFAULT = 14, "bad address";
    ENOTBLK = 15, "a block device is needed";
    EBUSY = 16, "in use";
    EEXIST = 17, "it exists already";
    EXDEV = 18, "the operation would cross a mount";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "an argument is invalid";
    ENFILE = 23, "too many open files in the system";
    EMFILE = 24, "too many open files in the task";
    ENOTTY = 25, "the object has no such control operation";
    ETXTBSY = 26, "the file is being executed";
    EFBIG = 27, "the file would grow too large";
    ENOSPC = 28, "no space left";
    ESPIPE = 29, "the object cannot seek";
    EROFS = 30, "the file system or mount is read-only";
    EMLINK = 31, "too many links";
    EPIPE = 32, "nobody reads the other end";
    EDOM = 33, "argument outside the domain of the function";
    ERANGE = 34, "the result does not fit";
    EDEADLK = 35, "it would deadlock";
    ENAMETOOLONG = 36, "a name or a path is too long";
    ENOLCK = 37, "no lock can be had";
    ENOSYS = 38, "no such system call";
    ENOTEMPTY = 39, "the directory is not empty";
    ELOOP = 40, "too many symbolic links, or one where none may be";
    ENOMSG = 42, "no message of that type";
    EIDRM = 43, "the identifier was removed";
    ECHRNG = 44, "channel number out of range";
    EL2NSYNC = 45, "level 2 is not synchronised";
    EL3HLT = 46, "level 3 halted";
    EL3RST = 47, "level 3 reset";
    ELNRNG = 48, "link number out of range";
    EUNATCH = 49, "no protocol driver attached";
    ENOCSI = 50, "no CSI structure";
    EL2HLT = 51, "level 2 halted";
    EBADE = 52, "invalid exchange";
    EBADR = 53, "invalid request descriptor";
    EXFULL = 54, "the exchange is full";
    ENOANO = 55, "no anode";
    EBADRQC = 56, "invalid request code";
    EBADSLT = 57, "invalid slot";
    EBFONT = 59, "bad font file format";
    ENOSTR = 60, "not a stream";
    ENODATA = 61, "no such extended attribute, or no data";
    ETIME = 62, "a timer expired";
    ENOSR = 63, "out of stream resources";
    ENONET = 64, "the machine is on no network";
    ENOPKG = 65, "the package is not installed";
    EREMOTE = 66, "the object is remote";
    ENOLINK = 67, "the link was cut";
    EADV = 68, "advertise failed";
    ESRMNT = 69, "srmount failed";
    ECOMM = 70, "sending failed";
    EPROTO = 71, "protocol violated";
    EMULTIHOP = 72, "a multihop was tried";
    EDOTDOT = 73, "RFS specific";
    EBADMSG = 74, "a corrupt message, or failed integrity";
    EOVERFLOW = 75, "the value does not fit its type";
    ENOTUNIQ = 76, "the name is not unique on the network";
    EBADFD = 77, "the descriptor is in a bad state";
    EREMCHG = 78, "the remote address changed";
    ELIBACC = 79, "a shared library cannot be reached";
    ELIBBAD = 80, "a shared library is corrupt";
    ELIBSCN = 81, "the .lib section is corrupt";
    ELIBMAX = 82, "too many shared libraries";
    ELIBEXEC = 83, "a shared library cannot be executed";
    EILSEQ = 84, "an invalid byte sequence";
    ERESTART = 85, "the call should be restarted";
    ESTRPIPE = 86, "a stream pipe failed";
    EUSERS = 87, "too many users";
    ENOTSOCK = 88, "not a socket";
    EDESTADDRREQ = 89, "a destination address is needed";
    EMSGSIZE = 90, "the message is too long";
    EPROTOTYPE = 91, "wrong protocol type for the socket";
    ENOPROTOOPT = 92, "the protocol has no such option";
    EPROTONOSUPPORT = 93, "the protocol is not supported";
    ESOCKTNOSUPPORT = 94, "the socket type is not supported";
    EOPNOTSUPP = 95, "the object does not support the operation";
    EPFNOSUPPORT = 96, "the protocol family is not supported";
    EAFNOSUPPORT = 97, "the address family is not supported";
    EADDRINUSE = 98, "the address is in use";
    EADDRNOTAVAIL = 99, "the address cannot be had";
    ENETDOWN = 100, "the network is down";
    ENETUNREACH = 101, "the network cannot be reached";
    ENETRESET = 102, "the network dropped the connection";
    ECONNABORTED = 103, "the connection was aborted";
    ECONNRESET = 104, "the connection was reset";
    ENOBUFS = 105, "no buffer space left";
    EISCONN = 106, "the socket is connected";
    ENOTCONN = 107, "the socket is not connected";
    ESHUTDOWN = 108, "the socket was shut down";
    ETOOMANYREFS = 109, "too many references";
    ETIMEDOUT = 110, "timed out";
    ECONNREFUSED = 111, "the connection was refused";
    EHOSTDOWN = 112, "the host is down";
    EHOSTUNREACH = 113, "no route to the host";
    EALREADY = 114, "it is under way already";
    EINPROGRESS = 115, "it is now under way";
    ESTALE = 116, "the file handle is stale";
    EUCLEAN = 117, "the structure needs cleaning";
    ENOTNAM = 118, "not a XENIX named type file";
    ENAVAIL = 119, "no XENIX semaphores";
    EISNAM = 120, "is a named type file";
    EREMOTEIO = 121, "remote input or output failed";
    EDQUOT = 122, "the quota is used up";
    ENOMEDIUM = 123, "no medium";
    EMEDIUMTYPE = 124, "wrong medium type";
    ECANCELED = 125, "cancelled";
    ENOKEY = 126, "the key is missing";
    EKEYEXPIRED = 127, "the key has expired";
    EKEYREVOKED = 128, "the key was revoked";
    EKEYREJECTED = 129, "the key was rejected";
    EOWNERDEAD = 130, "the owner died";
    ENOTRECOVERABLE = 131, "the state cannot be recovered";
    ERFKILL = 132, "radio kill switch";
    EHWPOISON = 133, "the memory page has a hardware error";
    EFTYPE = 134, "the wrong type of file (Linux 7.2, `OPENAT2_REGULAR`)";
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "E?" => write!(f, "E{}", self.raw()),
            name => f.write_str(name),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Errno {}
