// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the operations of a case, and their text form.
//!
//! # Rules
//! * An operation is one line: its name, then its arguments, one word each, in the order of the
//!   fields. Writing and parsing give the same operation.
//! * A descriptor is its number. Every case begins with an empty table, so the first one is 0; an
//!   operation that makes one reports its number.
//! * Contents are made from a seed, so that a line determines all of them.

pub mod args;
pub mod data;
pub mod fds;
pub mod flags;
pub mod text;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use args::{Arg, Mode, Path, Time};
pub use data::{OWN, content, how, pieces, raw_how, size, space};
pub(crate) use data::{id, low};
pub use fds::{CWD, Dir, Fd, Keep, Lens, NEVER, Obj, Off};
pub use flags::{
    Access, AtFlags, AttrFlags, Bits, Cmd, FaMode, InFlags, MoveFlags, MsFlags, OFlags, PollFlags,
    RFlags, RangeFlags, Request, Resolve, RwFlags, TreeFlags, UFlags, XFlags,
};

/// Defines the enum, its text form, and its simplifications.
macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident = $word:literal { $($field:ident : $ty:ty),* })*) => {
        /// One operation.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the fields are the arguments of the call named")]
        pub enum Op {
            $($(#[$doc])* $op { $($field: $ty),* },)*
        }

        impl Op {
            /// The first word of each operation.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// The first word of its line.
            #[must_use]
            pub fn word(&self) -> &'static str {
                match self { $(Op::$op { .. } => $word,)* }
            }

            /// The same operation with one argument made simpler, in each possible way.
            #[must_use]
            pub fn simpler(&self) -> Vec<Op> {
                let mut all = Vec::new();
                match self {
                    $(Op::$op { $($field),* } => {
                        ops!(@simpler all $op [$($field)*] $($field)*);
                    })*
                }
                all
            }

            /// The same operation with every descriptor number above `n` lowered by one.
            #[must_use]
            pub fn lowered(&self, above: i32) -> Op {
                match self {
                    $(Op::$op { $($field),* } => {
                        Op::$op { $($field: $field.lowered(above)),* }
                    })*
                }
            }
        }

        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut line = String::from(self.word());
                match self {
                    $(Op::$op { $($field),* } => {
                        $(line.push(' '); $field.put(&mut line);)*
                    })*
                }
                f.write_str(&line)
            }
        }

        impl FromStr for Op {
            type Err = String;

            fn from_str(line: &str) -> Result<Op, String> {
                let mut words = line.split_whitespace();
                let word = words.next().ok_or("an empty line")?;
                let op = match word {
                    $($word => Op::$op {
                        $($field: Arg::get(words.next().ok_or(concat!(
                            $word, ": no ", stringify!($field)
                        ))?)?,)*
                    },)*
                    _ => return Err(format!("no such operation: {word}")),
                };
                match words.next() {
                    Some(extra) => Err(format!("{word}: too much: {extra}")),
                    None => Ok(op),
                }
            }
        }
    };
    (@simpler $all:ident $op:ident [$($every:ident)*]) => {};
    (@simpler $all:ident $op:ident [$($every:ident)*] $one:ident $($rest:ident)*) => {
        ops!(@one $all $op $one [$($every)*]);
        ops!(@simpler $all $op [$($every)*] $($rest)*);
    };
    (@one $all:ident $op:ident $one:ident [$($every:ident)*]) => {
        for simple in $one.simpler() {
            let mut copy = Op::$op { $($every: $every.clone()),* };
            if let Op::$op { $one: place, .. } = &mut copy {
                *place = simple;
            }
            $all.push(copy);
        }
    };
}

ops! {
    /// Become uid 0, 1000 or 1001, with that gid; 1000 is in group 2000 as well.
    Cred = "cred" { uid: i64 }
    /// umask(2).
    Umask = "umask" { mask: Mode }
    /// openat(2).
    Open = "open" { keep: Keep, at: Dir, path: Path, flags: OFlags, mode: Mode }
    /// openat2(2) with a plain `open_how`.
    Openat2 = "openat2" {
        keep: Keep, at: Dir, path: Path, flags: OFlags, mode: Mode, resolve: Resolve }
    /// openat2(2) with a size, and a byte set in the tail if `tail` is not negative.
    Openat2Raw = "openat2raw" {
        at: Dir, path: Path, flags: OFlags, mode: Mode, resolve: Resolve, size: i64, tail: i64 }
    /// close(2).
    Close = "close" { fd: Fd }
    /// close_range(2).
    CloseRange = "closerange" { first: i64, last: i64, flags: RangeFlags }
    /// dup(2).
    Dup = "dup" { fd: Fd }
    /// dup2(2).
    Dup2 = "dup2" { fd: Fd, new: Fd }
    /// dup3(2).
    Dup3 = "dup3" { fd: Fd, new: Fd, flags: OFlags }
    /// fcntl(2), except the commands below.
    Fcntl = "fcntl" { fd: Fd, cmd: Cmd, arg: i64 }
    /// fcntl(2) `F_DUPFD_QUERY`.
    Same = "same" { fd: Fd, other: Fd }
    /// fcntl(2) `F_GETFL`.
    GetFl = "getfl" { fd: Fd }
    /// fcntl(2) `F_SETFL`.
    SetFl = "setfl" { fd: Fd, flags: OFlags }
    /// fcntl(2) `F_GETOWN_EX`.
    GetOwnEx = "getownex" { fd: Fd }
    /// fcntl(2) `F_SETOWN_EX`.
    SetOwnEx = "setownex" { fd: Fd, kind: i64, id: i64 }
    /// setrlimit(2) of the soft limit `RLIMIT_NOFILE`.
    Rlimit = "rlimit" { soft: i64 }
    /// fork(2): a further task with a table of its own; the outcome is its number.
    Fork = "fork" {}
    /// clone(2) with `CLONE_FILES`: a further task with the same table.
    Clone = "clone" {}
    /// unshare(2) with `CLONE_FILES`.
    Unshare = "unshare" {}
    /// Does to the table what execve(2) does.
    Exec = "exec" {}
    /// _exit(2) of a task other than the first, which acts from then on.
    Exit = "exit" {}
    /// Selects the task that acts from here on.
    Task = "task" { task: i64 }
    /// pidfd_getfd(2) of a descriptor of that task.
    Pass = "pass" { task: i64, fd: Fd }
    /// stat(2).
    Stat = "stat" { path: Path }
    /// lstat(2).
    Lstat = "lstat" { path: Path }
    /// fstat(2).
    Fstat = "fstat" { fd: Fd }
    /// newfstatat(2).
    Fstatat = "fstatat" { at: Dir, path: Path, flags: AtFlags }
    /// statx(2).
    Statx = "statx" { at: Dir, path: Path, flags: AtFlags, mask: Bits }
    /// access(2).
    Access = "access" { path: Path, mode: Access }
    /// faccessat2(2).
    Faccessat2 = "faccessat2" { at: Dir, path: Path, mode: Access, flags: AtFlags }
    /// mkdirat(2).
    Mkdir = "mkdir" { at: Dir, path: Path, mode: Mode }
    /// mknodat(2); the type is in the mode.
    Mknod = "mknod" { at: Dir, path: Path, mode: Mode, dev: Bits }
    /// unlinkat(2).
    Unlink = "unlink" { at: Dir, path: Path, flags: AtFlags }
    /// renameat2(2).
    Rename = "rename" { at: Dir, old: Path, at2: Dir, new: Path, flags: RFlags }
    /// linkat(2).
    Link = "link" { at: Dir, old: Path, at2: Dir, new: Path, flags: AtFlags }
    /// open(2) with `O_TMPFILE`, then linkat(2) with `AT_EMPTY_PATH` by the same credentials.
    Tmplink = "tmplink" { at: Dir, dir: Path, flags: OFlags, mode: Mode, new: Path }
    /// symlinkat(2).
    Symlink = "symlink" { target: Path, at: Dir, path: Path }
    /// readlinkat(2).
    Readlink = "readlink" { at: Dir, path: Path }
    /// fchmodat2(2).
    Chmod = "chmod" { at: Dir, path: Path, mode: Mode, flags: AtFlags }
    /// fchmod(2).
    Fchmod = "fchmod" { fd: Fd, mode: Mode }
    /// fchownat(2); -1 leaves an id as it is.
    Chown = "chown" { at: Dir, path: Path, uid: i64, gid: i64, flags: AtFlags }
    /// fchown(2).
    Fchown = "fchown" { fd: Fd, uid: i64, gid: i64 }
    /// utimensat(2).
    Utimens = "utimens" { at: Dir, path: Path, atime: Time, mtime: Time, flags: AtFlags }
    /// utimensat(2) without a path.
    Futimens = "futimens" { fd: Fd, atime: Time, mtime: Time }
    /// truncate(2).
    Truncate = "truncate" { path: Path, len: i64 }
    /// ftruncate(2).
    Ftruncate = "ftruncate" { fd: Fd, len: i64 }
    /// statfs(2), reduced to the fields that are the same everywhere.
    Statfs = "statfs" { path: Path }
    /// Opens a directory and reads all of it with getdents64(2).
    Ls = "ls" { at: Dir, path: Path }
    /// getdents64(2) once; checks over the whole scan that no entry is lost or doubled.
    DirRead = "dirread" { fd: Fd, bytes: i64 }
    /// lseek(2) to the start of a directory.
    Rewind = "rewind" { fd: Fd }
    /// Reads a directory, then again from each cookie: the rest must be the same.
    Cookies = "cookies" { fd: Fd }
    /// getcwd(2).
    Getcwd = "getcwd" {}
    /// chdir(2).
    Chdir = "chdir" { path: Path }
    /// fchdir(2).
    Fchdir = "fchdir" { fd: Fd }
    /// chroot(2).
    Chroot = "chroot" { path: Path }
    /// setxattr(2) and its relatives.
    SetXattr = "setxattr" { obj: Obj, name: Path, value: Path, flags: XFlags }
    /// getxattr(2) and its relatives.
    GetXattr = "getxattr" { obj: Obj, name: Path }
    /// listxattr(2) and its relatives; the outcome is sorted.
    ListXattr = "listxattr" { obj: Obj }
    /// removexattr(2) and its relatives.
    RemoveXattr = "removexattr" { obj: Obj, name: Path }
    /// pread64(2).
    Pread = "pread" { fd: Fd, len: i64, off: i64 }
    /// pwrite64(2).
    Pwrite = "pwrite" { fd: Fd, len: i64, off: i64, seed: i64 }
    /// read(2).
    Read = "read" { fd: Fd, len: i64 }
    /// write(2).
    Write = "write" { fd: Fd, len: i64, seed: i64 }
    /// readv(2).
    Readv = "readv" { fd: Fd, lens: Lens }
    /// writev(2).
    Writev = "writev" { fd: Fd, lens: Lens, seed: i64 }
    /// preadv2(2).
    Preadv2 = "preadv2" { fd: Fd, lens: Lens, off: i64, flags: RwFlags }
    /// pwritev2(2).
    Pwritev2 = "pwritev2" { fd: Fd, lens: Lens, off: i64, flags: RwFlags, seed: i64 }
    /// lseek(2) of anything but a directory; whence as its number.
    Lseek = "lseek" { fd: Fd, off: i64, whence: i64 }
    /// fallocate(2).
    Fallocate = "fallocate" { fd: Fd, mode: FaMode, off: i64, len: i64 }
    /// copy_file_range(2); the outcome contains the offsets afterwards.
    CopyRange = "copyrange" { fd: Fd, off: Off, to: Fd, at: Off, len: i64, flags: Bits }
    /// sendfile(2).
    Sendfile = "sendfile" { to: Fd, fd: Fd, off: Off, len: i64 }
    /// fsync(2).
    Fsync = "fsync" { fd: Fd }
    /// fdatasync(2).
    Fdatasync = "fdatasync" { fd: Fd }
    /// syncfs(2).
    Syncfs = "syncfs" { fd: Fd }
    /// posix_fadvise(2).
    Fadvise = "fadvise" { fd: Fd, off: i64, len: i64, advice: i64 }
    /// ioctl(2) with a number to read and write.
    Ioctl = "ioctl" { fd: Fd, request: Request, arg: i64 }
    /// poll(2) of one descriptor, without waiting.
    Poll = "poll" { fd: Fd, events: PollFlags }
    /// fstatfs(2), reduced to the fields that are the same everywhere.
    Fstatfs = "fstatfs" { fd: Fd }
    /// Makes a program that waits: open(2), write(2), close(2).
    Program = "program" { path: Path }
    /// execve(2) of an open file, by a child.
    Run = "run" { fd: Fd }
    /// Ends all children.
    Halt = "halt" {}
    /// pipe2(2); the outcome is both numbers.
    Pipe2 = "pipe2" { flags: OFlags }
    /// inotify_init1(2).
    InotifyInit = "inotify" { flags: OFlags }
    /// inotify_add_watch(2).
    Watch = "watch" { fd: Fd, path: Path, mask: InFlags }
    /// inotify_rm_watch(2).
    Unwatch = "unwatch" { fd: Fd, wd: i64 }
    /// read(2) of all waiting events.
    Events = "events" { fd: Fd }
    /// mount(2) of a new tmpfs.
    Mount = "mount" { path: Path, flags: MsFlags }
    /// mount(2) with `MS_BIND`.
    Bind = "bind" { source: Path, target: Path, flags: MsFlags }
    /// mount(2) with `MS_REMOUNT | MS_BIND`: the flags of one mount.
    RemountBind = "remount_bind" { path: Path, flags: MsFlags }
    /// mount(2) with `MS_REMOUNT`: the flags of the file system.
    RemountSb = "remount_sb" { path: Path, flags: MsFlags }
    /// umount2(2).
    Umount = "umount" { path: Path, flags: UFlags }
    /// mount(2) with `MS_MOVE`.
    Move = "move" { source: Path, target: Path }
    /// mount(2) with `MS_SHARED` and the like: the propagation type.
    Spread = "spread" { path: Path, flags: MsFlags }
    /// pivot_root(2).
    Pivot = "pivot" { new: Path, old: Path }
    /// unshare(2) with `CLONE_NEWNS`.
    UnshareMounts = "unsharemounts" {}
    /// Makes the present tree the lower layer of an overlay, which is the root from then on. Only
    /// with one task, at the root of the case, as root, with nothing open.
    Stack = "stack" {}
    /// Keeps the mount namespace under a number, and drops the one kept there.
    SaveNs = "savens" { slot: i64 }
    /// setns(2) into a kept namespace.
    SetNs = "setns" { slot: i64 }
    /// open_tree(2).
    OpenTree = "opentree" { keep: Keep, at: Dir, path: Path, flags: TreeFlags }
    /// fsopen(2), fsconfig(2) and fsmount(2): a new tmpfs, mounted nowhere.
    Fsmount = "fsmount" { keep: Keep, flags: Bits, attr: AttrFlags }
    /// move_mount(2).
    MoveMount = "movemount" { at: Dir, path: Path, at2: Dir, path2: Path, flags: MoveFlags }
    /// mount_setattr(2): flags to set and to clear, and the propagation type.
    MountSetattr = "mountsetattr" {
        at: Dir, path: Path, flags: TreeFlags, set: AttrFlags, clear: AttrFlags, spread: MsFlags }
    /// statmount(2) of the mount at a path, reduced to the fields that are the same everywhere.
    Statmount = "statmount" { path: Path, mask: Bits }
    /// listmount(2) of the mount at a path, at most `max` after the first `skip`.
    Listmount = "listmount" { path: Path, skip: i64, max: i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip() {
        for line in [
            "cred 1000",
            "open + cwd a/b/ RDWR|CREAT|EXCL 0644",
            "open - 9999 \"\" RDONLY 0",
            "openat2 =3 0 /x ACC3|0x10000000000 010644 BENEATH|0x40",
            "rename cwd a 5 b NOREPLACE|0x8",
            "utimens cwd f now 1.999999999 NOFOLLOW|EMPTY",
            "setxattr l:a user.k \\xff CREATE",
            "getcwd",
            "lseek 1 -5 2",
            "fcntl -1 DUPFD_CLOEXEC 12",
            "writev 3 1,0,5 7",
            "preadv2 3 . -1 NOWAIT|0x100",
            "copyrange 0 - 1 5 100 0",
            "watch 2 d CREATE|ONLYDIR",
            "spread a/b SHARED|REC",
            "opentree + cwd a CLONE|RECURSIVE",
            "movemount 3 \"\" cwd b F_EMPTY",
            "mountsetattr cwd a RECURSIVE RDONLY|NOATIME 0x70 SLAVE",
            "fork",
        ] {
            let op: Op = line.parse().expect(line);
            assert_eq!(op.to_string().parse(), Ok(op), "{line}");
        }
        for bad in [
            "",
            "nosuch",
            "cred",
            "cred x",
            "close s9",
            "fcntl 0 SETLK 0",
            "getcwd x",
            "open - cwd a FOO 0",
        ] {
            assert!(bad.parse::<Op>().is_err(), "{bad}");
        }
    }

    #[test]
    fn simpler_changes_one_argument() {
        let op: Op = "open + 2 a/b RDWR|CREAT 0640".parse().expect("a line");
        let simpler: Vec<String> = op.simpler().iter().map(Op::to_string).collect();
        assert!(simpler.contains(&"open - 2 a/b RDWR|CREAT 0640".to_owned()));
        assert!(simpler.contains(&"open + cwd a/b RDWR|CREAT 0640".to_owned()));
        assert!(simpler.contains(&"open + 2 b RDWR|CREAT 0640".to_owned()));
        assert!(simpler.contains(&"open + 2 a/b RDWR 0640".to_owned()));
    }

    #[test]
    fn numbers_move_down_together() {
        for (line, lowered) in [
            ("dup2 3 1", "dup2 2 1"),
            ("open =2 4 f RDWR 0", "open =1 3 f RDWR 0"),
            ("close 9999", "close 9999"),
            ("setxattr 5 user.k v 0", "setxattr 4 user.k v 0"),
            ("read 1 100", "read 1 100"),
        ] {
            let op: Op = line.parse().expect(line);
            assert_eq!(op.lowered(1).to_string(), lowered);
        }
    }
}
