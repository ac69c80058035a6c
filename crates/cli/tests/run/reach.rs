// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a command under `openpath run` reaches outside its view exactly what the table in
//! `docs/guide/agents.md` lists.
//!
//! Each row of [`ROWS`], as of the table in `docs/guide/agents.md`, names a probe, such as to
//! signal a process outside, and an option. The probe runs three times: with default options, with
//! the option of the row, and without a view as a control.
//!
//! # Judgement
//! R1. A probe that does not reach its target without a view proves nothing. If the kernel forbids
//!     it there too (a stricter ptrace_scope), the row is skipped with a printed line. So are rows
//!     that need Landlock scopes, if the kernel has none.
//! R2. The probe runs as an ordinary user: in that user's own run, and in a run by root.

use crate::place::{OPENPATH, Place, err, out};

/// The targets and the probes. `python3 reach.py drive` makes the targets and runs the probes,
/// `python3 reach.py NAME` is one probe.
const SCRIPT: &str = r#"
import ctypes, fcntl, json, os, resource, signal, socket, subprocess, sys, termios, time
libc = ctypes.CDLL(None, use_errno=True)
here = os.path.dirname(os.path.abspath(__file__))
target = json.loads(os.environ.get('TARGET', '{}'))

def call(what):
    try: return what()
    except OSError: return False

def ptrace():
    pid = target['pid']
    if libc.ptrace(0x4206, pid, None, None) != 0: return False
    return True

def processes():
    for name in os.listdir('/proc'):
        if name.isdigit():
            try: yield int(name), open('/proc/%s/cmdline' % name, 'rb').read()
            except OSError: pass

# The server of this run and of no other: its parent is the front that has the marker.
def is_ours(pid):
    try:
        parent = open('/proc/%d/stat' % pid).read().rsplit(')', 1)[1].split()[1]
        return b'/op-ours' in open('/proc/%s/cmdline' % parent, 'rb').read()
    except OSError: return False

def connect(family, address):
    socket.socket(family).connect(address)
    return True

def is_open(path):
    open(path, 'rb').close()
    return True

def done(what, *args):
    what(*args)
    return True

# The driver looks at what came of it.
def group():
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.kill(0, signal.SIGUSR1)
    return False

# add_key(2), and keyctl(2) by operation.
ADD_KEY, KEYCTL = {'x86_64': (248, 250), 'aarch64': (217, 219)}.get(os.uname().machine, (-1, -1))
NUMBER, JOIN, SETPERM, LINK, UNLINK, SEARCH, READ = 0, 1, 5, 8, 9, 10, 11
PROCESS, SESSION, USER = -2, -3, -4

def keys(number, *args):
    longs = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    answer = libc.syscall(number, *longs)
    if answer < 0: raise OSError(ctypes.get_errno(), 'key')
    return answer

def key_name(what): return (target['name'] + '-' + what).encode()

def reads_key(ring, what):
    data = ctypes.create_string_buffer(8)
    key = keys(KEYCTL, SEARCH, ring, b'user', key_name(what), PROCESS)
    return keys(KEYCTL, READ, key, data, 8) == 6 and data.value == b'secret'

# The user's keyring by number, also from another user namespace: its owner links it into his own.
def reads_by_number():
    keys(KEYCTL, LINK, target['ring'], PROCESS)
    return reads_key(PROCESS, 'user')

def is_listed(what): return key_name(what) in open('/proc/keys', 'rb').read()

# A key in a session keyring that children have. It is the possessor's alone.
def join_keyring():
    keys(KEYCTL, JOIN, None)
    keys(KEYCTL, SETPERM, keys(ADD_KEY, b'user', key_name('session'), b'secret', 6, SESSION),
         0x3f000000)

# As the user: a key in the user's keyring, whose number is printed.
def hold_key():
    key = keys(ADD_KEY, b'user', key_name('user'), b'secret', 6, USER)
    print(keys(KEYCTL, NUMBER, USER, 0), flush=True)
    sys.stdin.read()
    keys(KEYCTL, UNLINK, key, USER)

# Descriptors that are left open to the probe.
SOCKET, NAMESPACE, DIRECTORY = 100, 101, 102

def left_open():
    left = {
        SOCKET: socket.socketpair()[0].detach(),
        NAMESPACE: os.open('/proc/self/ns/net', os.O_RDONLY),
        DIRECTORY: os.open(here, os.O_RDONLY),
    }
    for number, fd in left.items(): os.dup2(fd, number)
    return list(left)

# Of the probe's controlling terminal.
def put_into_terminal():
    os.setsid()
    fcntl.ioctl(os.open(target['terminal'], os.O_RDWR), termios.TIOCSTI, b'x')
    return True

probes = {
    'inherited-socket': lambda: done(socket.socket(fileno=SOCKET).getsockname),
    'inherited-namespace': lambda: 'net:' in os.readlink('/proc/self/fd/%d' % NAMESPACE),
    'inherited-directory': lambda: os.open('reach.py', os.O_RDONLY, dir_fd=DIRECTORY) > 0,
    'terminal-input': put_into_terminal,
    'session-key': lambda: reads_key(SESSION, 'session'),
    'user-key': lambda: reads_key(USER, 'user'),
    'key-by-number': reads_by_number,
    'session-key-listed': lambda: is_listed('session'),
    'user-key-listed': lambda: is_listed('user'),
    'signal': lambda: done(os.kill, target['pid'], 0),
    'priority': lambda: done(os.setpriority, os.PRIO_PROCESS, target['pid'], 1),
    'prlimit': lambda: done(resource.prlimit, target['pid'], resource.RLIMIT_CORE, (0, 0)),
    'ptrace': ptrace,
    'proc-root': lambda: is_open('/proc/%d/root%s' % (target['pid'], __file__)),
    'command-line': lambda: any(b'op-marker' in line for _, line in processes()),
    'server': lambda: any(b'run-serve' in line and is_ours(pid)
                          and call(lambda: done(os.kill, pid, 0)) for pid, line in processes()),
    'group': group,
    'dev-shm': lambda: is_open('/dev/shm/' + target['name']),
    'sysv': lambda: libc.shmget(target['key'], 0, 0) >= 0,
    'mqueue': lambda: libc.mq_open(b'/' + target['name'].encode(), os.O_RDONLY) >= 0,
    'tcp': lambda: connect(socket.AF_INET, ('127.0.0.1', target['port'])),
    'abstract': lambda: connect(socket.AF_UNIX, '\0' + target['name']),
    'socket': lambda: connect(socket.AF_UNIX, here + '/socket'),
}

# Until it is the program, which is the user's.
def wait_for_sleep(pid):
    while b'sleep' not in open('/proc/%d/cmdline' % pid, 'rb').read().split(b'\0')[0]:
        time.sleep(0.01)

# A signal that is blocked stays pending, and is seen there.
def block():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

def is_signalled(pid):
    pending = [line for line in open('/proc/%d/status' % pid) if line.startswith('ShdPnd')]
    return int(pending[0].split()[1], 16) >> (signal.SIGUSR1 - 1) & 1 == 1

def drive(openpath, tests):
    root = os.geteuid() == 0
    user = ['setpriv', '--reuid', '1000', '--regid', '1000', '--clear-groups', '--'] if root else []
    os.umask(0)
    name = 'openpath-reach-%d' % os.getpid()
    victim = subprocess.Popen(user + ['sleep', '600'])
    key = 0x6f700000 + os.getpid() % 65536
    segment = libc.shmget(key, 4096, 0o1666)
    queue = libc.mq_open(b'/' + name.encode(), os.O_CREAT | os.O_RDONLY, 0o666, None)
    open('/dev/shm/' + name, 'w').close()
    listeners = []
    for family, address in ((socket.AF_INET, ('127.0.0.1', 0)), (socket.AF_UNIX, '\0' + name),
                            (socket.AF_UNIX, here + '/socket')):
        listener = socket.socket(family)
        listener.bind(address)
        listener.listen(64)
        listeners.append(listener)
    port = listeners[0].getsockname()[1]
    master, terminal = os.openpty()
    os.fchmod(terminal, 0o666)
    left = left_open()
    target['terminal'] = os.ttyname(terminal)
    facts = {'pid': victim.pid, 'name': name, 'key': key, 'port': port}
    target.update(facts)
    os.environ['TARGET'] = json.dumps(target)
    call(join_keyring)
    holder = subprocess.Popen(user + ['python3', __file__, 'hold'], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    target['ring'] = int(holder.stdout.readline() or 0)
    os.environ['TARGET'] = json.dumps(target)
    wait_for_sleep(victim.pid)
    try:
        for name_of, how, options in tests:
            probe = user + ['python3', __file__, name_of]
            if how != 'outside':
                probe = [openpath, 'run', '-q', '--ro-try', '/op-ours', '--absent', 'op-marker'
                         ] + options + ['--'] + probe
            # A process of the user's in the probe's process group, which it leads.
            member = subprocess.Popen(user + ['sleep', '600'], process_group=0, preexec_fn=block)
            wait_for_sleep(member.pid)
            said = subprocess.run(probe, capture_output=True, text=True, process_group=member.pid,
                                  pass_fds=left)
            is_hit = is_signalled(member.pid)
            member.kill()
            said = said.stdout.strip() or said.stderr.strip()
            print(name_of, how, 'reached' if is_hit else said)
    finally:
        victim.kill()
        holder.communicate()
        libc.shmctl(segment, 0, None)
        libc.mq_unlink(b'/' + name.encode())
        os.unlink('/dev/shm/' + name)

if sys.argv[1] == 'drive': drive(sys.argv[2], json.loads(sys.argv[3]))
elif sys.argv[1] == 'hold': call(hold_key)
else: print('reached' if call(probes[sys.argv[1]]) else 'contained')
"#;

/// Whether a probe reaches its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Is {
    Reached,
    Contained,
    /// Contained by the user namespace in the run of an ordinary user; reached in root's run.
    ByUserNamespace,
    /// Reached in the run of an ordinary user; contained in root's, because the target is root's.
    ByUser,
}
use Is::{ByUser, ByUserNamespace, Contained, Reached};

/// A row of the table in `docs/guide/agents.md`.
struct Row {
    probe: &'static str,
    default: Is,
    /// The option that changes the reach, and the reach with it.
    with: (&'static [&'static str], Is),
    /// The target also exists without a view.
    control: bool,
}

const fn row(probe: &'static str, default: Is, with: (&'static [&'static str], Is)) -> Row {
    Row {
        probe,
        default,
        with,
        control: true,
    }
}

/// A row with processes of the run itself among its targets.
const fn of_run(probe: &'static str, default: Is, with: (&'static [&'static str], Is)) -> Row {
    Row {
        control: false,
        ..row(probe, default, with)
    }
}

const SHARE_PID: &[&str] = &["--share", "pid"];
/// Without a Landlock domain, which would forbid tracing any process outside.
const SHARE_ABSTRACT: &[&str] = &["--share", "abstract"];
const SHARE_PID_ABSTRACT: &[&str] = &["--share", "pid,abstract"];
const SHARE_KEYRING: &[&str] = &["--share", "keyring"];
const SHARE_IPC: &[&str] = &["--share", "ipc"];
const NET_NONE: &[&str] = &["--net", "none"];

const ROWS: &[Row] = &[
    row("signal", Contained, (SHARE_PID, Reached)),
    row("priority", Contained, (SHARE_PID, Reached)),
    row("prlimit", Contained, (SHARE_PID, Reached)),
    row("ptrace", Contained, (SHARE_PID_ABSTRACT, ByUserNamespace)),
    row(
        "proc-root",
        Contained,
        (SHARE_PID_ABSTRACT, ByUserNamespace),
    ),
    of_run("command-line", Contained, (SHARE_PID, Contained)),
    of_run("server", Contained, (SHARE_PID, ByUser)),
    row("group", Contained, (SHARE_PID, Reached)),
    row("dev-shm", Contained, (&["--share", "shm"], Reached)),
    row("sysv", Contained, (SHARE_IPC, Reached)),
    row("mqueue", Contained, (SHARE_IPC, Reached)),
    row("tcp", Reached, (NET_NONE, Contained)),
    row("abstract", Contained, (SHARE_ABSTRACT, Reached)),
    row("terminal-input", Contained, (&[], Contained)),
    row(
        "inherited-socket",
        Contained,
        (&["--keep-fd", "100"], Reached),
    ),
    row(
        "inherited-namespace",
        Contained,
        (&["--keep-fd", "101"], Reached),
    ),
    row(
        "inherited-directory",
        Contained,
        (&["--keep-fd", "102"], Reached),
    ),
    row("session-key", Contained, (SHARE_KEYRING, Reached)),
    row("session-key-listed", Contained, (SHARE_KEYRING, Reached)),
    row("user-key", Contained, (SHARE_KEYRING, ByUserNamespace)),
    row("key-by-number", Contained, (SHARE_KEYRING, Reached)),
    row("user-key-listed", Reached, (SHARE_KEYRING, Reached)),
    row("socket", Contained, (&["--pass", "/tmp"], Reached)),
];

#[test]
#[ignore = "slow: 8 s"]
fn reach_outside_the_view_by_default_is_as_the_table_lists() {
    // The ordinary user, if this is root.
    check_reach(Place::all("reach").last(), &["default"]);
}

#[test]
#[ignore = "slow: 12 s"]
fn reach_outside_the_view_is_as_the_table_lists() {
    check_reach(Place::all("reach-all"), &["default", "option"]);
}

fn check_reach(places: impl IntoIterator<Item = Place>, hows: &[&str]) {
    for place in places {
        let is_root = place.plain("id -u").stdout == b"0\n";
        place.write("reach.py", SCRIPT);
        let mut tests = Vec::new();
        for row in ROWS {
            tests.push((row.probe, "outside", &[][..]));
            for how in hows {
                let options = if *how == "option" { row.with.0 } else { &[] };
                tests.push((row.probe, *how, options));
            }
        }
        let list = serde_json::to_string(&tests).unwrap();
        let output = place.plain(&format!("python3 reach.py drive {OPENPATH} '{list}'"));
        let said = out(&output);
        let found = |probe: &str, how: &str| {
            let start = format!("{probe} {how} ");
            let line = said.lines().find_map(|line| line.strip_prefix(&start));
            line.unwrap_or_else(|| panic!("no `{start}` in {said}{}", err(&output)))
        };
        for row in ROWS {
            if row.control && found(row.probe, "outside") == "contained" {
                eprintln!("{}: skipped, it is refused without a view too", row.probe);
                continue;
            }
            if ["abstract", "group"].contains(&row.probe) && !crate::scopes::are_there() {
                eprintln!("{}: skipped, the kernel has no Landlock scopes", row.probe);
                continue;
            }
            for how in hows {
                let is = if *how == "option" {
                    row.with.1
                } else {
                    row.default
                };
                let want = match (is, is_root) {
                    (Reached, _) | (ByUserNamespace, true) | (ByUser, false) => "reached",
                    _ => "contained",
                };
                let options = row.with.0;
                let probe = row.probe;
                assert_eq!(found(probe, how), want, "{probe} {how} {options:?}: {said}");
            }
        }
    }
}
