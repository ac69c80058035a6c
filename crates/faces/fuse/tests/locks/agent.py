# Opens, locks and closes files of a directory by commands on standard input, one a line, and prints
# the answer to each.
import errno, fcntl, os, signal, struct, sys

TYPES = {"r": fcntl.F_RDLCK, "w": fcntl.F_WRLCK, "u": fcntl.F_UNLCK}
COMMANDS = {
    "getlk": fcntl.F_GETLK,
    "setlk": fcntl.F_SETLK,
    "setlkw": fcntl.F_SETLKW,
    "ofd_getlk": fcntl.F_OFD_GETLK,
    "ofd_setlk": fcntl.F_OFD_SETLK,
    "ofd_setlkw": fcntl.F_OFD_SETLKW,
}
FLOCKS = {"sh": fcntl.LOCK_SH, "ex": fcntl.LOCK_EX, "un": fcntl.LOCK_UN, "nb": fcntl.LOCK_NB}


class Rang(Exception):
    pass


def rang(number, frame):
    raise Rang()


def lock(fd, command, kind, start, length):
    ask = struct.pack("@hhqqi4x", TYPES[kind], 0, int(start), int(length), 0)
    got = fcntl.fcntl(int(fd), COMMANDS[command], ask)
    kind, _, start, length, pid = struct.unpack("@hhqqi4x", got)
    if command.endswith("getlk"):
        if kind == fcntl.F_UNLCK:
            return "free"
        name = {v: k for k, v in TYPES.items()}[kind]
        # A process is said by whether there is one.
        return "%s %d %d %s" % (name, start, length, "pid" if pid > 0 else "nobody")
    return "ok"


def flock(fd, *words):
    op = 0
    for word in words:
        op |= FLOCKS[word]
    fcntl.flock(int(fd), op)
    return "ok"


def forked(*words):
    """What a child says to a command."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, do(list(words)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    return said


def begun(*words):
    """Has a child do a command that may wait, with all that is open here now."""
    global child
    child = os.fork()
    if child == 0:
        os._exit(do(list(words)) != "ok")
    return "ok"


def ended():
    """Whether the child has done it."""
    status = os.waitpid(child, 0)[1]
    return "ok" if status == 0 else "status %d" % status


def do(words):
    name, rest = words[0], words[1:]
    try:
        if name == "open":
            mode = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR | os.O_CREAT}
            return str(os.open(rest[0], mode[rest[1]], 0o666))
        if name == "close":
            os.close(int(rest[0]))
            return "ok"
        if name == "dup":
            return str(os.dup(int(rest[0])))
        if name == "flock":
            return flock(*rest)
        if name == "fork":
            return forked(*rest)
        if name == "begin":
            return begun(*rest)
        if name == "end":
            return ended()
        return lock(rest[0], name, *rest[1:])
    except Rang:
        return "interrupted"
    except OSError as why:
        return errno.errorcode[why.errno].replace("DEADLOCK", "DEADLK")


signal.signal(signal.SIGALRM, rang)
os.chdir(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    print(do(line.split()), flush=True)
