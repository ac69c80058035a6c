# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs processes that lock and lease files on the running kernel by commands, for tests.

A line `begin DIRECTORY abc` on standard input starts the processes `a`, `b` and `c`. The line `end`
ends them, and is answered by `- end`. A line between both is a command to a thread of a process:
`a1 setlk x w 0 0 10`. Its answer is a line on standard output: `a1 0`. Process numbers are shown as
`<123>`. Each process says its number when it begins: `a hello <123>`, and each thread before its
first answer: `a1 thread 124`. An interrupt is confirmed when the signal is sent: `a1 signalled`.
"""
import ctypes
import errno
import fcntl
import io
import os
import queue
import signal
import socket
import struct
import threading

NAMES = "abcdefgh"
LIBC = ctypes.CDLL(None, use_errno=True)
CALLS = {"fcntl": 72, "flock": 73}
COMMANDS = {"getlk": 5, "setlk": 6, "setlkw": 7, "ofd_getlk": 36, "ofd_setlk": 37, "ofd_setlkw": 38}
KINDS = {"r": 0, "w": 1, "u": 2}
MODES = {
    "r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR, "3": 3, "path": 0o10000000,
    "nb": os.O_NONBLOCK, "trunc": os.O_TRUNC, "creat": os.O_CREAT, "excl": os.O_EXCL,
    "dir": os.O_DIRECTORY,
}
SETLEASE, GETLEASE, SETSIG, GETSIG = 1024, 1025, 10, 11
SUBREAPER = 36
INPUT = io.FileIO(0)
BREAKS = {signal.SIGIO: "IO", 40: "40"}
LAYOUT = "hhxxxxqqixxxx"
PAIRS = {}


def call(number, *args):
    done = LIBC.syscall(ctypes.c_long(CALLS[number]), *args)
    if done >= 0:
        return "0"
    name = errno.errorcode[ctypes.get_errno()]
    return {"EDEADLOCK": "EDEADLK"}.get(name, name)


def opened(path, flags):
    """Opens a file; os.open would try again after a signal."""
    fd = LIBC.open(path.encode(), flags, 0o666)
    if fd < 0:
        raise OSError(ctypes.get_errno(), path)
    return fd


def lock(fd, command, kind, whence=0, start=0, length=0, pid=0):
    asked = struct.pack(LAYOUT, kind, whence, start, length, pid)
    passed = ctypes.create_string_buffer(asked, 32)
    done = call("fcntl", ctypes.c_int(fd), COMMANDS[command], passed)
    if done != "0" or not command.endswith("getlk"):
        return done
    kind, whence, start, length, pid = struct.unpack(LAYOUT, passed.raw)
    kind = {0: "r", 1: "w", 2: "u"}[kind]
    return f"{kind} {whence} {start} {length} " + (f"<{pid}>" if pid > 0 else str(pid))


def view(fd, command, size):
    """The conflicts with a lock of each byte, and of the rest."""
    seen = []
    for kind in (0, 1):
        ranges = [(at, 1) for at in range(size)] + [(size, 0), (0, 0)]
        for start, length in ranges:
            one = lock(fd, command, kind, 0, start, length)
            one = "-" if one.startswith("u") else one
            if not seen or seen[-1] != one:
                seen.append(one)
    return ", ".join(seen)


def locks():
    """The lines of /proc/locks about the files here."""
    files = {str(os.stat(name).st_ino): name for name in os.listdir(".")}
    seen = []
    for line in open("/proc/locks"):
        words = line.split()[1:]
        waits = words[0] == "->"
        kind, state, way, pid, place, start, end = words[1:] if waits else words
        # A process that waits for a lease has no file in its line.
        name = files.get(place.split(":")[-1]) if place.count(":") == 2 else None
        if name:
            kind += f" {state}" if kind in ("LEASE", "DELEG") else ""
            pid = f"<{pid}>" if int(pid) > 0 else pid
            seen.append(("-> " if waits else "") + f"{kind} {way} {pid} {name} {start} {end}")
    return seen


def numbers(words):
    return [(-1) ** word.startswith("-") * int(word.lstrip("-")) for word in words]


class Agent:
    def __init__(self, name):
        self.fds = {}
        self.begin(name)

    def begin(self, name):
        self.name, self.workers = name, {}
        self.say(name, f"hello <{os.getpid()}>")

    def say(self, who, what):
        os.write(1, f"{who} {what}\n".encode())

    def run(self):
        while True:
            told = PAIRS[self.name][1].recv(1 << 16).decode()
            if not told:
                os._exit(0)
            thread, command = told.split(" ", 1)
            words = command.split()
            if words[0] == "fork":
                self.fork(thread, words[1])
            elif words[0] == "exit":
                self.say(self.name + thread, "0")
                os._exit(0)
            elif words[0] == "interrupt":
                signal.pthread_kill(self.workers[thread][0].ident, signal.SIGUSR1)
                self.say(self.name + thread, "signalled")
            elif words[0] == "setlease":
                # A later thread gets the signal, but F_GETOWN does not return it.
                self.say(self.name + thread, self.do(*words))
            else:
                self.worker(thread).put(words)

    def fork(self, thread, name):
        if os.fork() == 0:
            self.begin(name)
        else:
            self.say(self.name + thread, "0")

    def worker(self, thread):
        if thread not in self.workers:
            todo = queue.Queue()

            def work():
                self.say(self.name + thread, f"thread {threading.get_native_id()}")
                while True:
                    self.say(self.name + thread, self.do(*todo.get()))

            worker = threading.Thread(target=work, daemon=True)
            worker.start()
            self.workers[thread] = (worker, todo)
        return self.workers[thread][1]

    def do(self, what, *words):
        try:
            return self.do_it(what, words)
        except OSError as error:
            return errno.errorcode[error.errno]

    def do_it(self, what, words):
        if what == "locks":
            return "; ".join(sorted(locks()))
        fd = self.fds.get(words[0], 9999) if words else None
        if what in ("open", "openw"):
            flags = sum(MODES[word] for word in words[2].split("-"))
            self.fds[words[0]] = opened(words[1], flags)
        elif what == "reopen":
            if words[1] not in self.fds:
                return "EBADF"
            flags = sum(MODES[word] for word in words[2].split("-"))
            self.fds[words[0]] = opened(f"/proc/self/fd/{self.fds[words[1]]}", flags)
        elif what == "setlease":
            return call("fcntl", ctypes.c_int(fd), SETLEASE, KINDS.get(words[1], 7))
        elif what == "getlease":
            return "rwu"[fcntl.fcntl(fd, GETLEASE)]
        elif what == "getown":
            owner = fcntl.fcntl(fd, fcntl.F_GETOWN)
            return f"<{owner}>" if owner > 0 else str(owner)
        elif what == "setown":
            fcntl.fcntl(fd, fcntl.F_SETOWN, int(words[1]))
        elif what == "getsig":
            return str(fcntl.fcntl(fd, GETSIG))
        elif what == "setsig":
            fcntl.fcntl(fd, SETSIG, int(words[1]))
        elif what in ("truncate", "truncatew"):
            os.truncate(words[0], int(words[1]))
        elif what == "ftruncate":
            os.ftruncate(fd, int(words[1]))
        elif what in ("unlink", "rename", "link"):
            getattr(os, what)(*words)
        elif what == "chmod":
            os.chmod(words[0], int(words[1], 8))
        elif what == "become":
            os.setresuid(int(words[0]), int(words[0]), int(words[0]))
        elif what == "signals":
            seen = []
            while told := signal.sigtimedwait(BREAKS, 0):
                seen.append(BREAKS[told.si_signo])
            return " ".join(seen) or "none"
        elif what == "close":
            os.close(self.fds.pop(words[0], 9999))
        elif what == "dup":
            self.fds[words[1]] = os.dup(fd)
        elif what == "dup2":
            os.dup2(fd, self.fds[words[1]])
        elif what == "seek":
            os.lseek(fd, int(words[1]), os.SEEK_SET)
        elif what == "flock":
            return call("flock", ctypes.c_int(fd), int(words[1]))
        elif what == "view":
            return view(fd, words[1], int(words[2]))
        else:
            return lock(fd, what, KINDS.get(words[1], 7), *numbers(words[2:]))
        return "0"


def commands():
    """The lines of standard input until `end`; no other process misses what follows."""
    while line := INPUT.readline().decode():
        if line == "end\n":
            return
        yield line.rstrip("\n")


def serve(folder, names):
    """Starts processes, sends them their commands, and ends them."""
    os.setpgrp()
    LIBC.prctl(SUBREAPER, 1)
    os.chdir(folder)
    for name in NAMES:
        PAIRS[name] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.siginterrupt(signal.SIGUSR1, True)
    signal.pthread_sigmask(signal.SIG_BLOCK, BREAKS)
    for name in names:
        if os.fork() == 0:
            Agent(name).run()
    for line in commands():
        who, command = line.split(" ", 1)
        PAIRS[who[0]][0].send(f"{who[1:]} {command}".encode())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        os._exit(0)


for line in commands():
    if (child := os.fork()) == 0:
        serve(*line.split(" ")[1:])
    os.waitpid(child, 0)
    os.write(1, b"- end\n")
