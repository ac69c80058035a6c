// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the recorded inotify cases of `conformance/notify/*.case`, makes their calls on a tree
//! like that of the recorded answers, and gives the events as text.

use crate::tasks::{self, Short};
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_FDCWD, O_APPEND, O_CREAT, O_DIRECT, O_DIRECTORY, O_EXCL, O_NOFOLLOW,
    O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
};
use openpath_abi::mode::{S_IFIFO, S_IFREG};
use openpath_abi::rename::{RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};
use openpath_abi::{
    AtFlags, Errno, OFlags, RenameFlags, TimeSet, Timespec, UmountFlags, XattrFlags, inotify,
};
use openpath_vfs::{Cred, Fd, MountFlags, Task};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Names of mask bits, in the order in which an answer lists them.
const BITS: &[(&str, u32)] = &[
    ("ACCESS", inotify::IN_ACCESS),
    ("MODIFY", inotify::IN_MODIFY),
    ("ATTRIB", inotify::IN_ATTRIB),
    ("CLOSE_WRITE", inotify::IN_CLOSE_WRITE),
    ("CLOSE_NOWRITE", inotify::IN_CLOSE_NOWRITE),
    ("OPEN", inotify::IN_OPEN),
    ("MOVED_FROM", inotify::IN_MOVED_FROM),
    ("MOVED_TO", inotify::IN_MOVED_TO),
    ("CREATE", inotify::IN_CREATE),
    ("DELETE", inotify::IN_DELETE),
    ("DELETE_SELF", inotify::IN_DELETE_SELF),
    ("MOVE_SELF", inotify::IN_MOVE_SELF),
    ("UNMOUNT", inotify::IN_UNMOUNT),
    ("Q_OVERFLOW", inotify::IN_Q_OVERFLOW),
    ("IGNORED", inotify::IN_IGNORED),
    ("ONLYDIR", inotify::IN_ONLYDIR),
    ("DONT_FOLLOW", inotify::IN_DONT_FOLLOW),
    ("EXCL_UNLINK", inotify::IN_EXCL_UNLINK),
    ("MASK_CREATE", inotify::IN_MASK_CREATE),
    ("MASK_ADD", inotify::IN_MASK_ADD),
    ("ISDIR", inotify::IN_ISDIR),
    ("ONESHOT", inotify::IN_ONESHOT),
];

fn number(text: &str) -> i64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("a number: {text}"))
}

/// A number in the range of its type.
fn small<T: TryFrom<i64>>(text: &str) -> T {
    T::try_from(number(text)).unwrap_or_else(|_| panic!("out of range: {text}"))
}

fn id(text: &str) -> u32 {
    if text == "-1" { u32::MAX } else { small(text) }
}

fn octal(text: &str) -> u32 {
    u32::from_str_radix(text, 8).expect("a mode")
}

fn mask_of(text: &str) -> u32 {
    let word = |word: &str| match BITS.iter().find(|(name, _)| *name == word) {
        Some((_, bit)) => *bit,
        None if word == "all" => inotify::IN_ALL_EVENTS,
        None => small(word),
    };
    text.split('|').map(word).sum()
}

fn mask_text(mask: u32) -> String {
    let names = BITS.iter().filter(|(_, bit)| mask & bit != 0);
    names.map(|(name, _)| *name).collect::<Vec<_>>().join("|")
}

fn open_flags(text: &str) -> OFlags {
    let flag = |word| match word {
        "r" => O_RDONLY,
        "w" => O_WRONLY,
        "rw" => O_RDWR,
        "creat" => O_CREAT,
        "excl" => O_EXCL,
        "trunc" => O_TRUNC,
        "append" => O_APPEND,
        "direct" => O_DIRECT,
        "dir" => O_DIRECTORY,
        "path" => O_PATH,
        "tmp" => O_TMPFILE,
        "nofollow" => O_NOFOLLOW,
        "nonblock" => O_NONBLOCK,
        _ => panic!("an open flag: {word}"),
    };
    text.split(',')
        .map(flag)
        .fold(O_RDONLY, |all, one| all | one)
}

fn time_of(text: &str) -> TimeSet {
    match text {
        "omit" => TimeSet::Omit,
        "now" => TimeSet::Now,
        sec => TimeSet::At(Timespec::new(number(sec), 0)),
    }
}

fn rename_flags(how: &str) -> u32 {
    match how {
        "noreplace" => RENAME_NOREPLACE.bits(),
        "exchange" => RENAME_EXCHANGE.bits(),
        "whiteout" => RENAME_WHITEOUT.bits(),
        _ => panic!("a way to rename: {how}"),
    }
}

fn allocation(mode: &str) -> u32 {
    match mode {
        "grow" => 0,
        "keep" => 1,
        "punch" => 3,
        "zero" => 16,
        _ => panic!("a way to allocate: {mode}"),
    }
}

/// A task in a new tree, its open files and its inotify instances.
pub(crate) struct Case {
    task: Task,
    files: HashMap<String, Fd>,
    /// Instances by name, in the order of their creation.
    groups: Vec<(String, Fd)>,
    current: String,
    cookies: Vec<u32>,
    batch: bool,
    shown: Vec<String>,
}

impl Case {
    pub(crate) fn new() -> Self {
        let task = tasks::root(&tasks::vfs());
        for name in ["d", "d/k", "e"] {
            task.dir(name);
        }
        task.put("d/f", b"hello");
        task.put("d/g", b"world");
        task.symlink(b"f", b"d/s").expect("a link");
        let mut case = Self {
            task,
            files: HashMap::new(),
            groups: Vec::new(),
            current: String::new(),
            cookies: Vec::new(),
            batch: false,
            shown: Vec::new(),
        };
        case.group("a").expect("an instance");
        case
    }

    /// Makes a call; returns its answer in the form of the case's lines.
    pub(crate) fn run(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["batch" | "end"] = words[..] {
            self.batch = line == "batch";
            let mut lines = vec![line.to_owned()];
            if !self.batch {
                self.drain(&mut lines);
            }
            return lines;
        }
        self.shown.clear();
        let answer = match self.call(&words) {
            Ok(value) => value.to_string(),
            Err(errno) => errno.name().to_owned(),
        };
        let mut lines = vec![format!("{line} = {answer}")];
        lines.extend(self.shown.iter().map(|event| format!("    {event}")));
        if !self.batch {
            self.drain(&mut lines);
        }
        lines
    }

    fn group(&mut self, name: &str) -> Result<i64, Errno> {
        let fd = self.task.inotify_init1(inotify::IN_NONBLOCK)?;
        self.groups.push((name.to_owned(), fd));
        name.clone_into(&mut self.current);
        Ok(0)
    }

    fn fd(&self) -> Fd {
        let found = self.groups.iter().find(|(name, _)| *name == self.current);
        found.expect("an instance").1
    }

    fn file(&self, slot: &str) -> Fd {
        *self.files.get(slot).unwrap_or(&999)
    }

    fn call(&mut self, words: &[&str]) -> Result<i64, Errno> {
        match *words {
            ["user", uid] => {
                let uid: u32 = small(uid);
                self.task.set_cred(match uid {
                    0 => Cred::root(),
                    _ => Cred::user(uid, uid, &[]),
                });
                Ok(0)
            }
            ["open", slot, path, flags] => {
                let fd = self.task.open(
                    path.as_bytes(),
                    OFlags::from_bits_retain(open_flags(flags).bits()),
                    0o644,
                )?;
                self.files.insert(slot.to_owned(), fd);
                Ok(0)
            }
            ["dup", slot, other] => {
                let fd = self.task.dup(self.file(slot))?;
                self.files.insert(other.to_owned(), fd);
                Ok(0)
            }
            ["close", slot] => {
                let fd = self.files.remove(slot).unwrap_or(999);
                self.task.close(fd).map(|()| 0)
            }
            ["badwatch", slot, path, mask] => self.watch(self.file(slot), path, mask),
            [name, slot, ref rest @ ..] if self.files.contains_key(slot) => {
                self.on_file(name, self.file(slot), rest)
            }
            _ => self.on_instance(words),
        }
    }

    fn on_instance(&mut self, words: &[&str]) -> Result<i64, Errno> {
        match *words {
            ["group", name] => self.group(name),
            ["select", name] => {
                name.clone_into(&mut self.current);
                Ok(0)
            }
            ["leave", name] => {
                let at = self.groups.iter().position(|(n, _)| n == name);
                let (_, fd) = self.groups.remove(at.expect("an instance"));
                self.task.close(fd).map(|()| 0)
            }
            ["init", flags] => {
                let fd = self.task.inotify_init1(small(flags))?;
                self.task.close(fd).map(|()| 0)
            }
            ["watch", path, mask] => self.watch(self.fd(), path, mask),
            ["unwatch", wd] => {
                let done = self.task.inotify_rm_watch(self.fd(), small(wd));
                done.map(|()| 0)
            }
            ["take", size] => {
                let mut buf = vec![0; small(size)];
                self.task.read(self.fd(), &mut buf).map(|done| done as i64)
            }
            ["unread"] => {
                let mut arg = [0; 4];
                self.task.ioctl(self.fd(), 0x541b, &mut arg)?;
                Ok(i64::from(i32::from_ne_bytes(arg)))
            }
            ["tail", count] => {
                let events = self.events(self.fd());
                let shown = events.len().saturating_sub(small(count));
                self.shown = events[shown..].to_vec();
                Ok(events.len() as i64)
            }
            ["flood", count] => {
                for i in 0..small::<u32>(count) {
                    let path: &[u8] = if i % 2 == 1 { b"d/f" } else { b"d/g" };
                    self.task.chmod(path, 0o644)?;
                }
                Ok(0)
            }
            [name, path, ref rest @ ..] => self.on_path(name, path, rest).map(|()| 0),
            _ => panic!("a call: {words:?}"),
        }
    }

    fn watch(&self, fd: Fd, path: &str, mask: &str) -> Result<i64, Errno> {
        let wd = self
            .task
            .inotify_add_watch(fd, path.as_bytes(), mask_of(mask));
        wd.map(i64::from)
    }

    fn on_path(&self, name: &str, path: &str, rest: &[&str]) -> Result<(), Errno> {
        let (task, at) = (&self.task, path.as_bytes());
        match (name, rest) {
            ("mkdir", []) => task.mkdir(at, 0o777),
            ("mknod", []) => task.mknod(at, S_IFREG | 0o644, 0),
            ("fifo", []) => task.mknod(at, S_IFIFO | 0o644, 0),
            ("rmdir", []) => task.rmdir(at),
            ("unlink", []) => task.unlink(at),
            ("symlink", [new]) => task.symlink(at, new.as_bytes()),
            ("link", [new]) => task.link(at, new.as_bytes()),
            ("rename", [new]) => task.rename(at, new.as_bytes()),
            ("rename", [new, how]) => {
                let (new, flags) = (new.as_bytes(), rename_flags(how));
                task.renameat2(
                    AT_FDCWD,
                    at,
                    AT_FDCWD,
                    new,
                    RenameFlags::from_bits_retain(flags),
                )
            }
            ("chmod", [mode]) => task.chmod(at, octal(mode)),
            ("chown", [uid, gid]) => task.chown(at, id(uid), id(gid)),
            ("utimes", [atime, mtime]) => {
                let times = [time_of(atime), time_of(mtime)];
                task.utimensat(AT_FDCWD, Some(at), times, AtFlags::empty())
            }
            ("truncate", [size]) => task.truncate(at, number(size)),
            ("setxattr", [key, value]) => {
                task.setxattr(at, key.as_bytes(), value.as_bytes(), XattrFlags::empty())
            }
            ("removexattr", [key]) => task.removexattr(at, key.as_bytes()),
            ("getxattr", [key]) => task.getxattr(at, key.as_bytes()).map(drop),
            ("stat", []) => task.stat(at).map(drop),
            ("access", []) => task.access(at, 4),
            ("readlink", []) => task.readlink(at).map(drop),
            ("chdir", []) => task.chdir(at),
            ("mount", []) => task.mount(tasks::tree(), at, MountFlags::default()),
            ("bind", [target]) => task.bind(at, target.as_bytes()),
            ("umount", []) => task.umount(at, UmountFlags::empty()),
            ("umount", ["detach"]) => task.umount(at, UmountFlags::from_bits_retain(2)),
            _ => panic!("a call on a path: {name} {rest:?}"),
        }
    }

    fn on_file(&self, name: &str, fd: Fd, rest: &[&str]) -> Result<i64, Errno> {
        let task = &self.task;
        let moved = |done: Result<usize, Errno>| done.map(|done| done as i64);
        let body = |count: &str| vec![b'x'; small(count)];
        let done = match (name, rest) {
            ("read", [count]) => return moved(task.read(fd, &mut body(count))),
            ("pread", [count, at]) => {
                return moved(task.pread(fd, &mut body(count), number(at)));
            }
            ("write", [count]) => return moved(task.write(fd, &body(count))),
            ("pwrite", [count, at]) => return moved(task.pwrite(fd, &body(count), number(at))),
            ("seek", [to]) => return task.lseek(fd, number(to), 0),
            ("copy", [to, count]) => {
                let to = self.file(to);
                return moved(task.copy_file_range(fd, None, to, None, small(count), 0));
            }
            ("sendfile", [from, count]) => {
                return moved(task.sendfile(fd, self.file(from), None, small(count)));
            }
            ("list", [room]) => task.getdents64(fd, small(room)).map(drop),
            ("ftruncate", [size]) => task.ftruncate(fd, number(size)),
            ("fallocate", [mode, at, len]) => {
                task.fallocate(fd, allocation(mode), number(at), number(len))
            }
            ("fsync", []) => task.fsync(fd),
            ("fchmod", [mode]) => task.fchmod(fd, octal(mode)),
            ("fchown", [uid, gid]) => task.fchown(fd, id(uid), id(gid)),
            ("fsetxattr", [key, value]) => {
                task.fsetxattr(fd, key.as_bytes(), value.as_bytes(), XattrFlags::empty())
            }
            ("futimes", []) => task.futimens(fd, [TimeSet::Now; 2]),
            ("linkfd", [path]) => task.linkat(fd, b"", AT_FDCWD, path.as_bytes(), AT_EMPTY_PATH),
            _ => panic!("a call on a file: {name} {rest:?}"),
        };
        done.map(|()| 0)
    }

    /// All events of an instance, as text.
    fn events(&mut self, fd: Fd) -> Vec<String> {
        let mut found = Vec::new();
        let mut buf = vec![0; 65536];
        while let Ok(done) = self.task.read(fd, &mut buf) {
            let mut rest = &buf[..done];
            while !rest.is_empty() {
                let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().expect("4"));
                let end = 16 + word(12) as usize;
                let name: Vec<u8> = rest[16..end].iter().copied().filter(|&b| b != 0).collect();
                let name = String::from_utf8(name).expect("a name of text");
                found.push(self.text(word(0).cast_signed(), word(4), word(8), &name));
                rest = &rest[end..];
            }
        }
        found
    }

    fn text(&mut self, wd: i32, mask: u32, cookie: u32, name: &str) -> String {
        let digits = name.strip_prefix('#').unwrap_or_default();
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let name = match name {
            "" => "-",
            _ if is_number => "#ino",
            name => name,
        };
        let mut text = format!("{wd} {} {name}", mask_text(mask));
        if cookie != 0 {
            let known = self.cookies.iter().position(|&c| c == cookie);
            let at = known.unwrap_or_else(|| {
                self.cookies.push(cookie);
                self.cookies.len() - 1
            });
            write!(text, " c{}", at + 1).expect("writing to a string");
        }
        text
    }

    fn drain(&mut self, lines: &mut Vec<String>) {
        for (name, fd) in self.groups.clone() {
            let prefix = if name == "a" {
                String::new()
            } else {
                format!("{name}: ")
            };
            let events = self.events(fd);
            lines.extend(events.iter().map(|event| format!("    {prefix}{event}")));
        }
    }
}
