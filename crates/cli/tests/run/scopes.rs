// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the Landlock domain around a command lets it mount, trace and signal its own
//! processes, and separates it from commands of `openpath exec`. A run in the kernel's last domain
//! is refused with a remedy.

use crate::live::Running;
use crate::place::{OPENPATH, Place, err, out};
use std::process::Stdio;
use std::sync::OnceLock;

/// Whether the kernel has Landlock scopes, as `openpath doctor` says.
pub(crate) fn are_there() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let mut doctor = std::process::Command::new(OPENPATH);
        out(&doctor.arg("doctor").output().unwrap()).contains("(Landlock)")
    })
}

/// Whether the kernel has Landlock scopes; prints a line if not.
fn have() -> bool {
    if !are_there() {
        eprintln!("skipped: the kernel has no Landlock scopes");
    }
    are_there()
}

#[test]
fn mounting_tracing_and_job_signals_work_in_a_domain() {
    for place in Place::all("domain") {
        let line = "sleep 9 & kill -TERM $!; wait $!; echo $?
            setsid -w sh -c 'sleep 9 & trap : TERM; kill 0; wait $!; echo $?'";
        let output = place.run(&["-q"], line);
        assert_eq!(out(&output), "143\n143\n", "{}", err(&output));
        let line = "unshare --user --map-root-user --mount sh -c \
            'mount -t tmpfs none /mnt && echo x > /mnt/f && cat /mnt/f'";
        let (inside, plain) = (place.run(&["-q"], line), place.plain(line));
        assert_eq!(out(&inside), out(&plain), "{}", err(&inside));
        // python3 is its own tracer, so that strace and gdb need not be installed.
        let trace = "python3 -c 'import ctypes, os, signal
child = os.fork()
if child == 0: signal.pause()
libc = ctypes.CDLL(None)
print(libc.ptrace(0x4206, child, None, None), os.readlink(\"/proc/%d/exe\" % child) != \"\")
os.kill(child, 9)'";
        let output = place.run(&["-q"], trace);
        assert_eq!(out(&output), "0 True\n", "{}", err(&output));
    }
}

#[test]
fn run_in_the_sixteenth_domain_is_refused_with_the_remedy() {
    if !have() {
        return;
    }
    for place in Place::all("deep") {
        place.write(
            "deep.py",
            "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
scope = (ctypes.c_uint64 * 3)(0, 0, 1)
for _ in range(int(sys.argv[1])):
    made = libc.syscall(444, ctypes.byref(scope), 24, 0)
    assert libc.syscall(446, made, 0) == 0
    os.close(made)
os.execvp(sys.argv[2], sys.argv[2:])
",
        );
        let run = |count, options| {
            place.plain(&format!(
                "python3 deep.py {count} '{OPENPATH}' run -q {options} -- echo inside"
            ))
        };
        assert_eq!(out(&run(15, "")), "inside\n");
        let refused = run(16, "");
        assert_eq!(refused.status.code(), Some(125));
        let said = err(&refused);
        assert!(said.contains("16 Landlock domains"), "{said}");
        assert!(said.contains("--share pid,abstract"), "{said}");
        let shared = run(16, "--share pid,abstract");
        assert_eq!(out(&shared), "inside\n", "{}", err(&shared));
    }
}

/// Waits in the run for the process ID of a process of `openpath exec`, signals it, and gets a
/// signal back. Each of the two connects to an abstract socket of the other.
const MEET: &str = r#"
import os, signal, socket, sys, time
role = sys.argv[1]
mine, other = (role, {'run': 'exec', 'exec': 'run'}[role])

def say(path, text):
    with open(path + '.new', 'w') as file: file.write(str(text))
    os.rename(path + '.new', path)

def hear(path):
    while not os.path.exists(path): time.sleep(0.01)
    return open(path).read()

def whether(what):
    try: what()
    except OSError as why: return type(why).__name__
    return 'reached'

listener = socket.socket(socket.AF_UNIX)
name = '\0meet-%s-' % os.path.basename(os.getcwd())
listener.bind(name + mine)
listener.listen()
say('pid-' + mine, os.getpid())
pid = int(hear('pid-' + other))
said = 'signal %s, connect %s, root %s' % (
    whether(lambda: os.kill(pid, 0)),
    whether(lambda: socket.socket(socket.AF_UNIX).connect(name + other)),
    whether(lambda: os.stat('/proc/%d/root/' % pid)))
say('said-' + mine, said)
hear('said-' + other)
if role == 'exec': print(hear('said-run'), said, sep='\n')
"#;

/// The output of the two: first that of the command of the run.
fn meet(place: &Place, options: &[&str]) -> String {
    place.write("meet.py", MEET);
    let running = Running::start(place, options, "python3 meet.py run & true");
    let mut exec = place.openpath(["exec", &running.pid(), "--", "python3", "meet.py", "exec"]);
    let output = exec.stdin(Stdio::null()).output().unwrap();
    running.end();
    format!("{}{}", out(&output), err(&output))
}

#[test]
fn commands_of_exec_have_their_own_domain() {
    if !have() {
        return;
    }
    for place in Place::all("apart") {
        let refused = "connect PermissionError, root PermissionError";
        let want = format!("signal PermissionError, {refused}\nsignal reached, {refused}\n");
        assert_eq!(meet(&place, &[]), want);
    }
    for place in Place::all("together") {
        let reached = "signal reached, connect reached, root reached\n";
        let said = meet(&place, &["--share", "pid,abstract"]);
        assert_eq!(said, reached.repeat(2));
    }
}

#[test]
fn process_group_is_reached_from_exec_and_not_from_a_run() {
    if !have() {
        return;
    }
    for place in Place::all("group") {
        let running = Running::start(&place, &[], "true");
        let signal = "-- sh -c 'trap : USR1; kill -USR1 0'";
        let hits = |verb: &str| {
            let line = format!("trap 'echo hit' USR1; '{OPENPATH}' {verb} {signal}; echo end");
            place.write("group.sh", line);
            let output = place.plain("setsid -w sh group.sh");
            (out(&output), err(&output))
        };
        let reached = hits(&format!("exec {}", running.pid()));
        assert_eq!(reached, ("hit\nend\n".into(), String::new()));
        let contained = hits("run -q");
        assert_eq!(contained, ("end\n".into(), String::new()));
        let shared = hits("run -q --share pid");
        assert_eq!(shared, ("hit\nend\n".into(), String::new()));
        running.end();
    }
}
