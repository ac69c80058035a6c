// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a command under `openpath run` behaves as the same process without it (status,
//! signals, streams, working directory), and that no process of a run is left or hangs after its
//! end.

use crate::place::{OPENPATH, Place, Who, err, out, until};
use std::fs::Permissions;
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;
const SIGTERM: i32 = 15;

/// A command that prints its process ID, and handles a signal itself.
const TALKS: &str = "trap 'echo told; exit 5' TERM; echo $$; while :; do sleep 0.05; done";

fn start(place: &Place, line: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    start_with(place, &[], line)
}

fn start_with(
    place: &Place,
    options: &[&str],
    line: &str,
) -> (Child, BufReader<std::process::ChildStdout>) {
    let rest = ["--", "sh", "-c", line];
    let mut command = place.openpath(["run", "-q"].iter().chain(options).chain(&rest));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn line(from: &mut impl std::io::BufRead) -> String {
    let mut text = String::new();
    from.read_line(&mut text).unwrap();
    text.trim_end().to_owned()
}

/// Waits for a sleep(1) with this argument; returns its process ID outside the view.
pub(crate) fn number_of(argument: &str) -> String {
    let has_it = |name: &String| {
        let args = std::fs::read(format!("/proc/{name}/cmdline")).unwrap_or_default();
        let mut args = args.split(|byte| *byte == 0);
        args.next() == Some(b"sleep") && args.any(|word| word == argument.as_bytes())
    };
    let mut found = None;
    until(&format!("a process with {argument}"), || {
        let names = std::fs::read_dir("/proc").unwrap().flatten();
        let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
        found = names.find(has_it);
        found.is_some()
    });
    found.unwrap()
}

/// A time for sleep(1) that no other test uses.
pub(crate) fn long(place: &Place, base: u32) -> String {
    let who = place.dir.to_string_lossy().contains("Ordinary");
    format!("{base}.{}{}", std::process::id(), u8::from(who) + 1)
}

/// Whether there is a process with this argument, except zombies.
fn runs(argument: &str) -> bool {
    let line = format!("pgrep -f '^sleep {argument}$'");
    let found = Command::new("sh").args(["-c", &line]).output().unwrap();
    !found.stdout.is_empty()
}

fn kill(signal: i32, pid: &str) {
    let done = Command::new("kill")
        .arg(format!("-{signal}"))
        .arg(pid)
        .status();
    assert!(done.unwrap().success());
}

/// Waits until there is no such process, except zombies.
fn is_gone(pid: &str) {
    until(&format!("the end of {pid}"), || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
}

/// The child of a process that was called with this verb.
fn child(pid: u32, verb: &str) -> String {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let mut pids = list.split_whitespace().map(str::to_owned);
    let called = |pid: &String| {
        let args = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        args.split(|byte| *byte == 0)
            .any(|word| word == verb.as_bytes())
    };
    pids.find(called).unwrap()
}

#[test]
fn exit_status_is_that_of_the_command() {
    for place in Place::all("status") {
        assert_eq!(place.run(&[], "exit 7").status.code(), Some(7));
        let killed = place.run(&[], "kill -SEGV $$");
        assert_eq!(killed.status.signal(), Some(SIGSEGV));
        assert!(!killed.status.core_dumped());
        let closed = place.dir.join("closed");
        std::fs::create_dir(&closed).unwrap();
        std::fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
        std::fs::create_dir(place.dir.join("found")).unwrap();
        place.write("found/plain", "");
        // For an ordinary user a directory of `PATH` that cannot be searched gives `EACCES`.
        let path = format!("{}:{}:/usr/bin:/bin", closed.display(), place.path("found"));
        let run = |args: &[&str]| place.openpath(args).env("PATH", &path).output().unwrap();
        let missing = run(&["run", "--", "no-such-command"]);
        assert_eq!(missing.status.code(), Some(127), "{}", err(&missing));
        assert!(err(&missing).contains("no-such-command"));
        let found = run(&["run", "--", "plain"]);
        assert_eq!(found.status.code(), Some(126), "{}", err(&found));
        assert!(err(&found).contains("found/plain"));
        assert_eq!(run(&["run", "--", "/etc/passwd"]).status.code(), Some(126));
        let refused = run(&["run", "--pass", "/no/such/place", "--", "true"]);
        assert_eq!(refused.status.code(), Some(125));
        assert!(err(&refused).contains("/no/such/place"));
        std::fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn streams_directory_and_environment_are_passed_to_the_command() {
    for place in Place::all("streams") {
        let mut command = place.openpath(["run", "--", "sh", "-c", "cat; pwd; echo $WORD >&2"]);
        command.env("WORD", "said").stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"through\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(out(&output), format!("through\n{}\n", place.dir.display()));
        assert!(err(&output).starts_with("said\n"));
        let ids = out(&place.run(&[], "id -u; id -g; umask"));
        let want = place.plain("id -u; id -g; umask");
        assert_eq!(ids, out(&want));
    }
}

#[test]
fn signal_to_the_front_reaches_the_command_once() {
    for place in Place::all("passed") {
        let (mut child, mut stdout) = start(&place, TALKS);
        line(&mut stdout);
        kill(SIGTERM, &child.id().to_string());
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "told\n");
        assert_eq!(child.wait().unwrap().code(), Some(5));
    }
}

#[test]
#[ignore = "slow: 5 s"]
fn interrupt_of_the_group_is_handled_by_the_command_from_its_start() {
    for place in Place::all("moment") {
        // Like that of a terminal, it goes to the whole group, the front included.
        let command = "\"trap 'exit 5' INT; kill -INT 0; exit 6\"";
        let line = format!(
            "for n in $(seq 40); do setsid -w env --default-signal {OPENPATH} run -q -- \\
            sh -c {command}; echo $?; done | uniq -c"
        );
        let done = place.plain(&line);
        assert_eq!(out(&done).trim(), "40 5", "{}", err(&done));
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    for place in Place::all("ignored") {
        let line = "grep SigIgn /proc/self/status";
        let mut plain = Command::new("nohup");
        let plain = plain
            .args(["sh", "-c", line])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let mut command = Command::new("nohup");
        let run = place.openpath(["run", "-q", "--", "sh", "-c", line]);
        command
            .arg(run.get_program())
            .args(run.get_args())
            .stdin(Stdio::null());
        let output = command.current_dir(&place.dir).output().unwrap();
        assert_eq!(out(&output), out(&plain));
    }
}

#[test]
fn processes_left_by_the_command_are_ended() {
    for place in Place::all("left") {
        let time = long(&place, 1001);
        let output = place.run(&[], &format!("sleep {time} >&- 2>&- & true"));
        assert!(!runs(&time));
        assert!(
            err(&output).contains("1 process was left"),
            "{}",
            err(&output)
        );
    }
}

#[test]
fn command_ends_with_the_front() {
    for place in Place::all("front") {
        let time = long(&place, 1002);
        let (mut child, _stdout) = start(&place, &format!("exec sleep {time}"));
        let command = number_of(&time);
        let server = self::child(child.id(), "run-serve");
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL));
        is_gone(&command);
        is_gone(&server);
    }
}

#[test]
fn processes_of_the_command_end_with_the_front() {
    for place in Place::all("front-left") {
        let time = long(&place, 1003);
        let line = format!("sleep {time} >&- 2>&- & while :; do sleep 0.05; done");
        let (mut child, _stdout) = start(&place, &line);
        let behind = number_of(&time);
        let server = self::child(child.id(), "run-serve");
        child.kill().unwrap();
        child.wait().unwrap();
        is_gone(&behind);
        is_gone(&server);
    }
}

#[test]
fn processes_of_the_caller_are_left_alone() {
    // An earlier child of the front, and a process that such a child leaves meanwhile.
    let before = "sleep 1000 >&- 2>&- & echo $!
        sh -c 'sleep 1000 >&- 2>&- & echo $! > left; until [ -e go ]; do sleep 0.02; done' &
        exec";
    let command = "until [ -s left ]; do sleep 0.02; done; read left < left; echo $left; touch go; \
        until grep -q \"^PPid:.$PPID$\" /proc/$left/status; do sleep 0.02; done";
    for place in Place::all("callers") {
        let dir = place.path("");
        let run = format!("{OPENPATH} run -q --share pid --rw {dir} -- sh -c '{command}'");
        let output = place.plain(&format!("{before} {run}"));
        assert!(output.status.success(), "{}", err(&output));
        let said = out(&output);
        assert_eq!(said.lines().count(), 2, "{said}");
        for pid in said.lines() {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            assert!(stat.is_ok_and(|stat| !stat.contains(") Z ")), "{pid}");
            kill(SIGKILL, pid);
        }
    }
}

#[test]
#[ignore = "slow: 6 s"]
fn no_process_hangs_when_the_server_dies() {
    for place in Place::all("server") {
        let time = long(&place, 1004);
        let (mut child, _stdout) = start(&place, &format!("exec sleep {time}"));
        let command = number_of(&time);
        kill(SIGKILL, &self::child(child.id(), "run-serve"));
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(125));
        assert!(said.contains("the server of the view is gone"), "{said}");
        is_gone(&command);
    }
}

/// Runs `openpath` where parts of `/proc` are covered, as in containers: the kernel then does not
/// let an ordinary user mount another `/proc`.
fn with_covered_proc(place: &Place, args: &[&str]) -> Output {
    let own = place.openpath(args);
    let mut command = Command::new("unshare");
    let cover = "mount -t tmpfs none /proc/tty && exec \"$@\"";
    command.args(["--mount", "sh", "-c", cover, "sh"]);
    command.arg(own.get_program()).args(own.get_args());
    for (name, value) in own.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.stdin(Stdio::null()).current_dir(&place.dir);
    command.output().unwrap()
}

#[test]
fn run_without_its_own_proc_says_so_and_goes_on() {
    let Some(place) = Place::new("covered", Who::Ordinary) else {
        return;
    };
    let doctor = with_covered_proc(&place, &["doctor"]);
    let said = out(&doctor);
    let want = "partly  processes   a run sees the host's /proc";
    assert!(doctor.status.success() && said.contains(want), "{said}");
    let time = long(&place, 1005);
    let line = format!(
        "echo x > made; sleep {time} >&- 2>&- & test -d /proc/{0} && echo seen; \
         kill -0 {0} 2>&1; exit 7",
        std::process::id()
    );
    let output = with_covered_proc(&place, &["run", "--", "sh", "-c", &line]);
    let said = err(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(said.matches("no /proc of the view's own").count(), 1);
    assert!(said.contains("--share pid"), "{said}");
    assert!(said.contains("1 process was left"), "{said}");
    assert!(!runs(&time));
    let seen = out(&output);
    assert!(seen.starts_with("seen\n"), "{seen}");
    assert!(seen.contains("No such process"), "{seen}");
    // A run that shares the host's processes prints no such message.
    let output = with_covered_proc(&place, &["run", "-q", "--share", "pid", "--", "true"]);
    assert_eq!(err(&output), "");
}

/// A command that ends with 7; the process that it leaves sends a signal to the server when it must
/// end, and prints the server's process ID.
fn leaves(signal: &str) -> String {
    format!(
        "for pid in $(cat /proc/$PPID/task/$PPID/children); do
            grep -q run-[s]erve /proc/$pid/cmdline && server=$pid; done
        (trap \"kill -{signal} $server; echo $server; exit\" TERM
            touch up; while :; do sleep 0.05; done) &
        until [ -e up ]; do sleep 0.02; done; exit 7"
    )
}

#[test]
fn status_is_that_of_the_command_even_if_its_changes_are_unknown() {
    for place in Place::all("untold") {
        let output = place.run(&["--share", "pid"], &leaves("KILL"));
        assert_eq!(output.status.code(), Some(7), "{}", err(&output));
        let said = "what changed is not known: the server of the view is gone";
        assert!(err(&output).contains(said), "{}", err(&output));
    }
}

#[test]
fn second_signal_ends_a_front_that_waits_for_the_changes() {
    for place in Place::all("twice") {
        let (mut child, mut stdout) = start_with(&place, &["--share", "pid"], &leaves("STOP"));
        let server = line(&mut stdout);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            kill(SIGTERM, &child.id().to_string());
            std::thread::sleep(Duration::from_millis(10));
        };
        kill(SIGKILL, &server);
        assert_eq!(status.signal(), Some(SIGTERM));
        is_gone(&server);
    }
}

#[test]
fn status_is_that_of_the_command_even_if_the_summary_cannot_be_written() {
    for place in Place::all("unread") {
        let own = OPENPATH;
        for end in ["2>&-", "2>/dev/full", "2>&- <&- >&-", "--json 2>/dev/full"] {
            let (options, end) = end.split_at(end.find(['2', '<']).unwrap());
            let line = format!("'{own}' run {options} -- sh -c 'echo x > f; exit 3' {end}");
            let output = place.plain(&line);
            assert_eq!(output.status.code(), Some(3), "{line}");
            // No file of this program takes one of the free numbers.
            let line = format!("'{own}' run -q -- sh -c 'readlink /proc/$$/fd/2 >&1' 2>&-");
            assert_eq!(out(&place.plain(&line)), "/dev/null\n");
        }
    }
}

#[test]
fn run_of_a_caller_that_blocks_the_end_of_children_ends() {
    for place in Place::all("child-blocked") {
        let code = "import os, signal, sys\n\
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])\n\
            os.execv(sys.argv[1], sys.argv[1:])";
        place.write("blocked.py", code);
        let line = format!("timeout 60 python3 blocked.py {OPENPATH} run -q -- true");
        let ended = place.plain(&line);
        assert_eq!(ended.status.code(), Some(0), "{}", err(&ended));
    }
}
