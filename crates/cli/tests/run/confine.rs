// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a command cannot inject input into the caller's terminal, trace the server processes
//! of its view, or use descriptors that the caller left open, unless an option passes them.

use crate::live::Running;
use crate::place::{OPENPATH, Place, Who, err, out};
use crate::terminal::Shell;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// Injects a line into the input of its terminal in every possible way, and prints each result.
const INJECT: &str = r#"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
# MAP_32BIT: the addresses of a 32-bit call.
low = libc.mmap(None, 4096, 7, 0x62, -1, 0)
letter = low + 2048

def call32(*numbers):
    # push rbx; mov eax, ebx, ecx, edx; int 0x80; pop rbx; ret
    code = b"\x53"
    for move, number in zip((0xB8, 0xBB, 0xB9, 0xBA), numbers):
        code += bytes([move]) + number.to_bytes(4, "little")
    code += b"\xcd\x80\x5b\xc3"
    ctypes.memmove(low, code, len(code))
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(low)()
    ctypes.set_errno(-answer if answer < 0 else 0)
    return answer

def call64(number, request):
    address = ctypes.c_void_p(letter)
    return libc.syscall(ctypes.c_long(number), 0, ctypes.c_ulong(request), address)

ways = {
    "plain": lambda: call64(16, 0x5412),
    "high": lambda: call64(16, 0x100005412),
    "x32": lambda: call64(0x40000000 | 514, 0x5412),
    "i386": lambda: call32(54, 0, 0x5412, letter),
    "console": lambda: call64(16, 0x10000541C),
}
for way, call in ways.items():
    for byte in b"echo pw''ned\n":
        ctypes.memmove(letter, bytes([byte]), 1)
        if call() < 0:
            print(way, errno.errorcode[ctypes.get_errno()])
            break
    else:
        print(way, "done")
# A 32-bit call that is not refused: getpid(2).
print("other", call32(20) > 0)
print("ov" + "er")
"#;

/// Types a line that injects, and checks that the injection had no effect.
fn refuses(shell: &mut Shell, line: &str) {
    shell.send(&format!("{line} python3 inject.py\n"));
    let said = shell.expect("over\r");
    for answer in [
        "plain EIO",
        "high EIO",
        "x32 EIO",
        "i386 EIO",
        "console EPERM",
        "other True",
    ] {
        assert!(said.contains(answer), "no `{answer}`: {said}");
    }
    // A relayed command reads all input until its end.
    shell.expect("READY ");
    shell.send("echo sa''fe\n");
    let said = shell.expect("safe\r");
    assert!(!said.contains("pwned"), "{said}");
}

#[test]
fn terminal_input_injected_from_inside_is_refused() {
    for place in Place::all("inject") {
        place.write("inject.py", INJECT);
        let Some(mut shell) = Shell::start(&place) else {
            return;
        };
        refuses(&mut shell, "run");
        let running = Running::start(&place, &[], "true");
        let pid = running.pid();
        let own = place.openpath(["exec", &pid, "--"]);
        let words = std::iter::once(own.get_program()).chain(own.get_args());
        let own: Vec<_> = words.map(|word| format!("'{}'", word.display())).collect();
        refuses(&mut shell, &own.join(" "));
        // Root, because root may enter any view.
        refuses(&mut shell, &format!("'{OPENPATH}' exec {pid} --"));
        running.end();
        // Outside a view the injection works, if the kernel is configured so.
        shell.send("python3 inject.py\n");
        let said = shell.expect("over\r");
        for way in ["plain", "high", "i386"] {
            if said.contains(&format!("{way} done")) {
                shell.expect("pwned\r");
            } else {
                eprintln!("without a control: {said}");
            }
        }
    }
}

#[test]
fn set_user_id_programs_work_in_roots_view() {
    let Some(place) = Place::new("set-id", Who::Caller) else {
        return;
    };
    let line = "grep -c 'NoNewPrivs:.0' /proc/self/status; grep -c 'Seccomp:.2' /proc/self/status";
    let output = place.run(&[], line);
    assert_eq!(out(&output), "1\n1\n");
}

/// Leaves descriptors open across execve(2).
const LEAVE: &str = r#"
import os, select, socket, sys
ours, theirs = socket.socketpair()
poll = select.epoll()
socket.send_fds(ours, [b"x"], [os.open(".", os.O_RDONLY)])
left = {
    "socket": theirs.fileno(),
    "namespace": os.open("/proc/self/ns/mnt", os.O_RDONLY),
    "process": os.pidfd_open(os.getpid()),
    "poll": os.dup(poll.fileno()),
    "event": os.eventfd(7),
    "file": os.open("plain", os.O_RDONLY),
    "pipe": os.pipe()[0],
}
for number in left.values():
    os.set_inheritable(number, True)
os.environ["LEFT"] = " ".join("%s=%d" % pair for pair in left.items())
os.execvp(sys.argv[1], sys.argv[1:])
"#;

/// Prints which of them are open, and what the socket has.
const LOOK: &str = r#"
import os, socket
for name, number in (word.split("=") for word in os.environ["LEFT"].split()):
    try:
        os.fstat(int(number))
    except OSError:
        print(name, "closed")
        continue
    print(name, "open")
    if name == "socket":
        _, fds, _, _ = socket.recv_fds(socket.socket(fileno=int(number)), 1, 1)
        print(os.read(os.open("secret", os.O_RDONLY, dir_fd=fds[0]), 100))
"#;

#[test]
fn descriptors_leading_out_of_the_view_are_not_inherited() {
    for place in Place::all("left") {
        place.write("leave.py", LEAVE);
        place.write("look.py", LOOK);
        place.write("plain", "plain");
        place.write("secret", "TREASURE");
        let leave = |command: Command| {
            let mut outer = Command::new("python3");
            outer.arg("leave.py").arg(command.get_program());
            outer.args(command.get_args()).current_dir(&place.dir);
            outer.stdin(Stdio::null()).output().unwrap()
        };
        let look = ["python3", "look.py"];
        let inside =
            leave(place.openpath(["run", "-q", "--hide", "secret", "--"].iter().chain(&look)));
        let said = out(&inside);
        for word in ["socket", "namespace", "process", "poll"] {
            assert!(
                said.contains(&format!("{word} closed")),
                "{said}{}",
                err(&inside)
            );
        }
        for word in ["event", "file", "pipe"] {
            assert!(
                said.contains(&format!("{word} open")),
                "{said}{}",
                err(&inside)
            );
        }
        let mut plain = Command::new("python3");
        plain.arg("look.py");
        let said = out(&leave(plain));
        assert!(
            said.contains("TREASURE") && !said.contains("closed"),
            "{said}"
        );
    }
}

#[test]
fn kept_descriptor_must_be_open_and_goes_to_the_command() {
    for place in Place::all("keep") {
        place.write("plain", "plain");
        let run = |options: &str, end: &str| {
            place.plain(&format!(
                "exec 7<. 8</proc/self/ns/net; '{OPENPATH}' run -q {options} -- \
                sh -c 'ls /proc/self/fd; cat /proc/self/fd/7/plain' {end}"
            ))
        };
        let kept = run("--keep-fd 7", "");
        let said = out(&kept);
        assert!(said.ends_with("plain") && said.contains("7\n"), "{said}");
        assert!(!said.contains("8\n"), "{said}");
        assert!(out(&run("--keep-fd 7 --keep-fd 8", "")).contains("8\n"));
        assert!(!out(&run("", "")).contains("plain"));
        // A standard stream that is refused without the option.
        let said = err(&run("", "<."));
        assert!(said.contains("--keep-fd 0"), "{said}");
        assert!(run("--keep-fd 0 --keep-fd 7", "<.").status.success());
        // Numbers that are free here, or that this program uses for its own files.
        for number in [3, 4, 5, 6, 9, 1000] {
            let refused = run(&format!("--keep-fd {number}"), "");
            assert_eq!(refused.status.code(), Some(125), "{number}");
            let said = err(&refused);
            let want = format!("no open descriptor {number}: open it before");
            assert!(said.contains(&want), "{said}");
        }
    }
}

#[test]
fn socket_as_standard_stream_goes_to_the_command() {
    for place in Place::all("stream") {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"heard").unwrap();
        drop(ours);
        let mut run = place.openpath(["run", "-q", "--", "cat"]);
        let output = run
            .stdin(std::os::fd::OwnedFd::from(theirs))
            .output()
            .unwrap();
        assert_eq!(out(&output), "heard", "{}", err(&output));
    }
}

/// The children of a process.
fn children(pid: &str) -> Vec<String> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    list.unwrap()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[test]
fn server_processes_cannot_be_traced_by_their_user() {
    let Some(place) = Place::new("traced", Who::Ordinary) else {
        return;
    };
    let running = Running::start(&place, &[], "true");
    let front = running.pid();
    let serves = |pid: &String| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        words.starts_with(b"openpath\0run-serve")
    };
    let server = children(&front).into_iter().find(serves).unwrap();
    for pid in [front, server] {
        let line = format!("ls /proc/{pid}/fd; cat /proc/{pid}/maps; readlink /proc/{pid}/root");
        let output = place.plain(&line);
        assert_eq!(out(&output), "", "{pid}");
        assert_eq!(
            err(&output).matches("Permission denied").count(),
            2,
            "{}",
            err(&output)
        );
    }
    let control = place.plain("sleep 9 & ls /proc/$!/fd; kill $!");
    assert!(out(&control).contains('0'), "{}", err(&control));
    running.end();
}

/// The child of a front with this verb in its command line.
fn child_with(front: &str, verb: &str) -> String {
    let has_verb = |pid: &String| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        words.starts_with(format!("openpath\0{verb}\0").as_bytes())
    };
    children(front).into_iter().find(has_verb).unwrap()
}

/// Whether a process has this word in memory that it can write.
fn remembers(pid: &str, word: &str) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let holds = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let place = |text| u64::from_str_radix(text, 16).ok();
        let (from, to) = (place(from)?, place(to)?);
        let size = usize::try_from(to - from).ok();
        let mut data = vec![0; size.filter(|_| rest.starts_with("rw"))?];
        memory.read_exact_at(&mut data, from).ok()?;
        let mut words = data.windows(word.len());
        words.any(|found| found == word.as_bytes()).then_some(())
    };
    maps.lines().any(|line| holds(line).is_some())
}

#[test]
fn hidden_name_is_not_in_the_memory_of_the_first_process() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for place in Place::all("remembered") {
        for (option, is_known) in [("--hide-try", false), ("--ro-try", true)] {
            let running = Running::start(&place, &[option, "unheard-of"], "true");
            let init = child_with(&running.pid(), "run-init");
            assert_eq!(remembers(&init, "/unheard-of"), is_known, "{option}");
            running.end();
        }
    }
}

#[test]
fn first_process_has_no_descriptor_of_the_front() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for place in Place::all("first-descriptors") {
        let running = Running::start(&place, &["--report", "report"], "true");
        let init = child_with(&running.pid(), "run-init");
        let all = std::fs::read_dir(format!("/proc/{init}/fd")).unwrap();
        let all = all.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap());
        let mut all: Vec<_> = all.map(|path| path.display().to_string()).collect();
        all.retain(|what| what.starts_with("socket:") || what.ends_with("/report"));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 1, "{all:?}");
        running.end();
    }
}

/// Lowers the limits of the server processes of the same user with the given process IDs.
const LOWER: &str = r#"
import resource, sys
for pid in map(int, sys.argv[1:]):
    for which in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        now = resource.prlimit(pid, which)
        low = 1 if which == resource.RLIMIT_CPU else 0
        resource.prlimit(pid, which, (low, now[1]))
print("lowered")
"#;

#[test]
fn lowered_limits_of_the_server_do_not_lose_the_changes() {
    for place in Place::all("lowered") {
        place.write("lower.py", LOWER);
        let running = Running::start(&place, &[], "echo x > made");
        let front = running.pid();
        let all = [children(&front), vec![front]].concat().join(" ");
        let lowered = place.plain(&format!("python3 lower.py {all}"));
        assert_eq!(out(&lowered), "lowered\n", "{}", err(&lowered));
        let (code, said) = running.end();
        assert_eq!(code, Some(3));
        assert!(said.contains("made"), "{said}");
    }
}

#[test]
fn roots_terminal_stays_outside_another_users_view() {
    let Some(place) = Place::new("relay", Who::Ordinary) else {
        return;
    };
    let Some(mut shell) = Shell::start(&place) else {
        return;
    };
    let running = Running::start(&place, &[], "true");
    let exec = format!("'{OPENPATH}' exec {} --", running.pid());
    shell.send("stty rows 33 cols 77; echo outer=$(tty).\n");
    shell.expect("outer=/");
    let outer = shell.expect(".");
    let outer = format!("/{}", outer.trim_end_matches('.'));
    // Its streams, its controlling terminal and its other descriptors are not the outer ones.
    let line = "echo o''n; tty; tty </dev/tty; ls -l /proc/self/fd; stty size; id -u; echo o''ff";
    shell.send(&format!(
        "{exec} sh -c '{}' 3<>/dev/tty\n",
        line.replace('\'', "")
    ));
    shell.expect("on\r");
    let said = shell.expect("off\r");
    shell.expect("READY ");
    assert!(
        said.contains("/dev/pts/") && !said.contains(&format!("{outer}\r")),
        "{said}"
    );
    assert!(
        said.contains("33 77\r") && said.contains("1000\r"),
        "{said}"
    );
    // Signals of the terminal, the exit status, and the modes of the terminal afterwards.
    let line =
        "trap 'echo inter\"\"rupted; exit 5' INT; echo go\"\"ing; while :; do sleep 0.05; done";
    place.write("trap.sh", line);
    let stty = "stty -a | grep -o '.icanon'";
    shell.send(&format!(
        "sh -c \"{exec} sh trap.sh; echo code=\\$?.; {stty}\"\n"
    ));
    shell.expect("going\r");
    shell.send("\x03");
    shell.expect("interrupted\r");
    shell.expect("code=5.");
    let modes = shell.expect("icanon");
    assert!(!modes.contains("-icanon"), "{modes}");
    shell.send(&format!("{exec} sh -c 'kill -TERM $$'; echo co''de=$?.\n"));
    shell.expect("code=143.");
    // The typed input arrives, with its end.
    shell.send(&format!("{exec} sh -c 'echo o''n; cat'; echo co''de=$?.\n"));
    shell.expect("on\r");
    shell.send("typed\n\x04");
    shell.expect("typed\r");
    shell.expect("typed\r");
    shell.expect("code=0.");
    // A stream that is not a terminal stays as it is.
    shell.send(&format!("echo pi''ped | {exec} cat | tr a-z A-Z\n"));
    shell.expect("PIPED\r");
    running.end();
}
