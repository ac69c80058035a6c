#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Asks the host kernel for the answers in the .case files here, and writes them there.

Usage, as root on Linux: ./record.py FILE.case...   (--check: compare, write nothing)

Each case runs in a fresh tmpfs in a mount namespace of its own:
  d/  d/f ("hello")  d/g ("world")  d/s -> f  d/k/  e/
A line is a call; ` = RESULT` after it and the indented lines below it are the answer. The events
of all instances are read after each call, except between `batch` and `end`.
"""
import ctypes
import errno
import fcntl
import os
import re
import struct
import sys
import termios

LIBC = ctypes.CDLL(None, use_errno=True)
BITS = {
    "ACCESS": 0x1, "MODIFY": 0x2, "ATTRIB": 0x4, "CLOSE_WRITE": 0x8, "CLOSE_NOWRITE": 0x10,
    "OPEN": 0x20, "MOVED_FROM": 0x40, "MOVED_TO": 0x80, "CREATE": 0x100, "DELETE": 0x200,
    "DELETE_SELF": 0x400, "MOVE_SELF": 0x800, "UNMOUNT": 0x2000, "Q_OVERFLOW": 0x4000,
    "IGNORED": 0x8000, "ONLYDIR": 0x01000000, "DONT_FOLLOW": 0x02000000,
    "EXCL_UNLINK": 0x04000000, "MASK_CREATE": 0x10000000, "MASK_ADD": 0x20000000,
    "ISDIR": 0x40000000, "ONESHOT": 0x80000000,
}
WORDS = BITS | {"all": 0xFFF}
OPEN = {
    "r": 0, "w": 1, "rw": 2, "creat": os.O_CREAT, "excl": os.O_EXCL, "trunc": os.O_TRUNC,
    "append": os.O_APPEND, "direct": os.O_DIRECT, "dir": os.O_DIRECTORY, "path": os.O_PATH,
    "tmp": os.O_TMPFILE, "nofollow": os.O_NOFOLLOW, "nonblock": os.O_NONBLOCK,
}
RENAME = {"plain": 0, "noreplace": 1, "exchange": 2, "whiteout": 4}
FALLOC = {"grow": 0, "keep": 1, "punch": 3, "zero": 16}


def check(result):
    """The result of a C call, or its error as an exception."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def mask_of(text):
    return sum(int(t, 0) if t[0].isdigit() else WORDS[t] for t in text.split("|"))


def mask_text(mask):
    names = [name for name, bit in BITS.items() if mask & bit]
    return "|".join(names) or "0"


class Case:
    def __init__(self):
        self.files = {}
        self.groups = {}
        self.cookies = {}
        self.batch = False
        self.group("a")

    def group(self, name):
        self.groups[name] = check(LIBC.inotify_init1(os.O_NONBLOCK))
        self.current = name
        return 0

    def select(self, name):
        self.current = name
        return 0

    def fd(self):
        return self.groups[self.current]

    def watch(self, path, mask):
        return check(LIBC.inotify_add_watch(self.fd(), path.encode(), ctypes.c_uint(mask_of(mask))))

    def badwatch(self, slot, path, mask):
        fd = self.files.get(slot, 999)
        return check(LIBC.inotify_add_watch(fd, path.encode(), ctypes.c_uint(mask_of(mask))))

    def unwatch(self, wd):
        return check(LIBC.inotify_rm_watch(self.fd(), int(wd)))

    def init(self, flags):
        os.close(check(LIBC.inotify_init1(int(flags, 0))))
        return 0

    def leave(self, name):
        os.close(self.groups.pop(name))
        return 0

    # Calls on paths.
    def open(self, slot, path, flags, mode="644"):
        bits = 0
        for flag in flags.split(","):
            bits |= OPEN[flag]
        self.files[slot] = os.open(path, bits, int(mode, 8))
        return 0

    def mkdir(self, path):
        os.mkdir(path)

    def mknod(self, path):
        os.mknod(path, 0o644)

    def fifo(self, path):
        os.mkfifo(path)

    def rmdir(self, path):
        os.rmdir(path)

    def unlink(self, path):
        os.unlink(path)

    def symlink(self, target, path):
        os.symlink(target, path)

    def link(self, old, new):
        os.link(old, new, follow_symlinks=False)

    def rename(self, old, new, how="plain"):
        check(LIBC.syscall(316, -100, old.encode(), -100, new.encode(), RENAME[how]))

    def chmod(self, path, mode):
        os.chmod(path, int(mode, 8))

    def chown(self, path, uid, gid):
        os.chown(path, int(uid), int(gid))

    def utimes(self, path, atime, mtime):
        def spec(text):
            nsec = {"omit": 0x3FFFFFFE, "now": 0x3FFFFFFF}.get(text)
            return (0, nsec) if nsec else (int(text), 0)
        times = struct.pack("qqqq", *spec(atime), *spec(mtime))
        check(LIBC.utimensat(-100, path.encode(), times, 0))

    def truncate(self, path, size):
        os.truncate(path, int(size))

    def setxattr(self, path, name, value):
        os.setxattr(path, name, value.encode())

    def removexattr(self, path, name):
        os.removexattr(path, name)

    def getxattr(self, path, name):
        os.getxattr(path, name)

    def stat(self, path):
        os.stat(path)

    def access(self, path):
        check(LIBC.access(path.encode(), 4))

    def readlink(self, path):
        os.readlink(path)

    def chdir(self, path):
        os.chdir(path)

    def mount(self, path):
        check(LIBC.mount(b"tmpfs", path.encode(), b"tmpfs", 0, None))

    def bind(self, source, path):
        check(LIBC.mount(source.encode(), path.encode(), None, 4096, None))

    def umount(self, path, how="plain"):
        check(LIBC.umount2(path.encode(), {"plain": 0, "detach": 2}[how]))

    def user(self, uid):
        os.seteuid(0)
        os.setgroups([])
        os.setegid(int(uid))
        os.seteuid(int(uid))

    # Calls on open files.
    def close(self, slot):
        os.close(self.files.pop(slot))

    def dup(self, slot, other):
        self.files[other] = os.dup(self.files[slot])

    def read(self, slot, count):
        return len(os.read(self.files[slot], int(count)))

    def pread(self, slot, count, offset):
        return len(os.pread(self.files[slot], int(count), int(offset)))

    def write(self, slot, count):
        return os.write(self.files[slot], b"x" * int(count))

    def pwrite(self, slot, count, offset):
        return os.pwrite(self.files[slot], b"x" * int(count), int(offset))

    def list(self, slot, room):
        buffer = ctypes.create_string_buffer(int(room))
        check(LIBC.syscall(217, self.files[slot], buffer, int(room)))
        return 0

    def seek(self, slot, offset):
        return os.lseek(self.files[slot], int(offset), 0)

    def ftruncate(self, slot, size):
        os.ftruncate(self.files[slot], int(size))

    def fallocate(self, slot, mode, offset, count):
        args = [ctypes.c_long(int(x)) for x in (offset, count)]
        check(LIBC.syscall(285, self.files[slot], FALLOC[mode], *args))

    def copy(self, source, target, count):
        return os.copy_file_range(self.files[source], self.files[target], int(count))

    def sendfile(self, target, source, count):
        return os.sendfile(self.files[target], self.files[source], None, int(count))

    def fsync(self, slot):
        os.fsync(self.files[slot])

    def fchmod(self, slot, mode):
        os.fchmod(self.files[slot], int(mode, 8))

    def fchown(self, slot, uid, gid):
        os.fchown(self.files[slot], int(uid), int(gid))

    def fsetxattr(self, slot, name, value):
        os.setxattr(self.files[slot], name, value.encode())

    def futimes(self, slot):
        os.utime(self.files[slot])

    def linkfd(self, slot, path):
        check(LIBC.linkat(self.files[slot], b"", -100, path.encode(), 0x1000))

    # The queue itself.
    def take(self, size):
        return len(os.read(self.fd(), int(size)))

    def unread(self):
        buffer = bytearray(4)
        fcntl.ioctl(self.fd(), termios.FIONREAD, buffer)
        return struct.unpack("i", buffer)[0]

    def flood(self, count):
        """That many events of which no two neighbours are the same."""
        for i in range(int(count)):
            os.chmod("d/f" if i % 2 else "d/g", 0o644)

    def tail(self, count):
        """How many events there are; the last `count` follow."""
        events = self.events(self.fd())
        self.shown = events[-int(count):]
        return len(events)

    def events(self, fd):
        found = []
        while True:
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                wd, mask, cookie, size = struct.unpack_from("iIII", data, at)
                name = data[at + 16:at + 16 + size].rstrip(b"\0").decode()
                at += 16 + size
                if re.fullmatch(r"#\d+", name):
                    name = "#ino"
                text = f"{wd} {mask_text(mask)} {name or '-'}"
                if cookie:
                    number = self.cookies.setdefault(cookie, len(self.cookies) + 1)
                    text += f" c{number}"
                found.append(text)

    def drain(self):
        lines = []
        for name, fd in self.groups.items():
            prefix = "" if name == "a" else f"{name}: "
            lines += [f"    {prefix}{event}" for event in self.events(fd)]
        return lines

    def run(self, line):
        """A call, and its answer as lines."""
        name, *args = line.split()
        if name in ("batch", "end"):
            self.batch = name == "batch"
            return [line] + ([] if self.batch else self.drain())
        self.shown = []
        try:
            result = getattr(self, name)(*args)
        except OSError as error:
            result = errno.errorcode[error.errno].replace("ENOTSUP", "EOPNOTSUPP")
        lines = [f"{line} = {0 if result is None else result}"]
        lines += [f"    {event}" for event in self.shown]
        return lines if self.batch else lines + self.drain()


def tree(base):
    os.chdir(base)
    os.umask(0o022)
    for name in ("d", "d/k", "e"):
        os.mkdir(name)
    for name, body in (("d/f", b"hello"), ("d/g", b"world")):
        with open(name, "wb") as file:
            file.write(body)
    os.symlink("f", "d/s")


def run_case(calls):
    """The answers of one case, from a child with mounts of its own."""
    base = "/tmp/notify-record"
    os.makedirs(base, exist_ok=True)
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        check(LIBC.unshare(0x20000))
        check(LIBC.mount(b"none", b"/", None, 0x4000 | 0x40000, None))
        check(LIBC.mount(b"tmpfs", base.encode(), b"tmpfs", 0, b"mode=755"))
        tree(base)
        case = Case()
        lines = []
        for call in calls:
            lines += case.run(call)
        os.seteuid(0)
        with os.fdopen(theirs, "w") as pipe:
            pipe.write("\n".join(lines))
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1]:
        sys.exit(f"a case failed to run: {calls}")
    return text.splitlines()


def record(path):
    """The file as the host would have it."""
    out, calls = [], []

    def flush():
        if calls:
            out.extend(run_case(calls))
            calls.clear()

    with open(path, encoding="ascii") as file:
        for line in file.read().splitlines():
            if line.startswith("    "):
                continue
            if not line or line[0] == "#" or line.startswith("case "):
                flush()
                out.append(line)
            else:
                calls.append(re.sub(r" = \S+$", "", line))
    flush()
    return "\n".join(out) + "\n"


def main():
    paths = [a for a in sys.argv[1:] if a != "--check"]
    failed = False
    for path in map(os.path.abspath, paths):
        text = record(path)
        with open(path, encoding="ascii") as file:
            same = file.read() == text
        if "--check" not in sys.argv[1:]:
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        elif not same:
            failed = True
            print(f"{path}: the host answers otherwise")
    sys.exit(failed)


main()
