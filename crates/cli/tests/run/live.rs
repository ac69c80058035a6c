// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath list`, `stats`, `locks` and `exec` work on a running view for its user and
//! for root and for nobody else, and that every process in a view ends with its first command.

use crate::place::{OPENPATH, PATIENCE, Place, Who, err, out, until};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A run with a command that waits for a line, or for the end of its input.
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the run; returns when `line` is done.
    pub(crate) fn start(place: &Place, options: &[&str], line: &str) -> Running {
        let line = format!("{line}; echo ready; read word; exit 3");
        let rest = ["--", "sh", "-c", &line];
        let mut command = place.openpath(["run"].iter().chain(options).chain(&rest));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        Running {
            input: child.stdin.take(),
            child,
            output,
        }
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Lets the command end; returns its status and its standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let mut said = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

/// A name that no other test has.
fn name(place: &Place, word: &str) -> String {
    let dir = place.dir.file_name().unwrap().to_str().unwrap();
    format!("{word}-{dir}")
}

fn call(place: &Place, args: &[&str]) -> Output {
    place.openpath(args).stdin(Stdio::null()).output().unwrap()
}

/// The figures of a view.
fn figures(place: &Place, which: &str) -> Value {
    let output = call(place, &["stats", which, "--json"]);
    assert!(output.status.success(), "{}", err(&output));
    serde_json::from_str(&out(&output)).unwrap()
}

#[test]
fn exec_sees_the_changes_of_the_first_command() {
    for place in Place::all("enter") {
        place.write("file", "before");
        let view = name(&place, "enter");
        let line = "echo after > file; echo new > made";
        let run = Running::start(&place, &["--name", &view], line);
        for which in [&view, &run.pid()] {
            let seen = call(&place, &["exec", which, "--", "cat", "file", "made"]);
            assert_eq!(out(&seen), "after\nnew\n", "{}", err(&seen));
        }
        let line = "echo here > other; pwd; id -u; umask; exit 7";
        let other = call(&place, &["exec", &view, "--", "sh", "-c", line]);
        assert_eq!(other.status.code(), Some(7));
        let plain = place.plain("pwd; id -u; umask");
        assert_eq!(out(&other), out(&plain));
        let back = call(&place, &["exec", &view, "--", "cat", "other"]);
        assert_eq!(
            (out(&back), place.read("other")),
            ("here\n".into(), String::new())
        );
        // A directory of `PATH` that cannot be searched would give EACCES.
        let mut missing = place.openpath(["exec", &view, "--", "no-such-command-here"]);
        let missing = missing.env("PATH", "/usr/bin:/bin").output().unwrap();
        assert_eq!(missing.status.code(), Some(127));
        let (code, said) = run.end();
        assert_eq!(code, Some(3), "{said}");
        assert!(
            said.contains("other") && !said.contains("were left"),
            "{said}"
        );
        assert_eq!(place.read("file"), "before");
        let gone = call(&place, &["exec", &view, "--", "true"]);
        assert_eq!(gone.status.code(), Some(125));
        let (state, help) = ("does not run", format!("openpath run --name {view} "));
        let said = err(&gone);
        assert!(said.contains(state) && said.contains(&help), "{said}");
        let none = call(&place, &["exec", "no-such-view", "--", "true"]);
        assert!(err(&none).contains("nothing runs"), "{}", err(&none));
    }
}

#[test]
fn entered_command_has_the_capabilities_and_signals_of_the_first() {
    for place in Place::all("alike") {
        let line = "grep -E '^(Cap|SigBlk|SigIgn|NoNewPrivs)' /proc/self/status";
        let run = Running::start(&place, &[], &format!("{line} > first"));
        let entered = call(&place, &["exec", &run.pid(), "--", "sh", "-c", line]);
        let first = call(&place, &["exec", &run.pid(), "--", "cat", "first"]);
        assert!(out(&first).contains("CapAmb"), "{}", err(&first));
        assert_eq!(out(&entered), out(&first));
    }
}

#[test]
fn entered_commands_end_with_the_first_command() {
    for place in Place::all("guests") {
        let run = Running::start(&place, &[], "true");
        let pid = run.pid();
        let enter = |line: &str| {
            let mut command = place.openpath(["exec", &pid, "--", "sh", "-c", line]);
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            let mut child = command.stderr(Stdio::null()).spawn().unwrap();
            let mut said = String::new();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            output.read_line(&mut said).unwrap();
            assert_eq!(said, "in\n");
            (child, output)
        };
        // One ends when asked to, one does not, and one is in its own namespaces.
        let asked = enter("echo in; exec sleep 1000");
        let deaf = enter("trap '' TERM; echo in; exec sleep 1000");
        let apart = enter("exec unshare -Urm sh -c 'echo in; exec sleep 1000'");
        let begun = Instant::now();
        let (code, said) = run.end();
        assert_eq!(code, Some(3));
        assert!(said.contains("3 processes were left"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(30));
        for (mut child, _) in [asked, deaf, apart] {
            assert!(!child.wait().unwrap().success());
        }
    }
}

#[test]
fn running_view_is_listed_with_its_process() {
    for place in Place::all("listed") {
        let view = name(&place, "listed");
        let kept = Running::start(&place, &["--name", &view], "true");
        let other = Running::start(&place, &[], "true");
        let list = call(&place, &["list", "--json"]);
        let list: Value = serde_json::from_str(&out(&list)).unwrap();
        let by = |key: &str, value: Value| {
            let mut rows = list.as_array().unwrap().iter();
            rows.find(|row| row[key] == value).cloned().unwrap()
        };
        let row = by("name", view.as_str().into());
        assert_eq!(
            (&row["pid"], &row["used"]),
            (&kept.child.id().into(), &true.into())
        );
        let row = by("pid", other.child.id().into());
        assert!(row["name"].is_null() && row["command"].as_str().unwrap().contains("read word"));
        let text = out(&call(&place, &["list"]));
        assert!(text.contains(&format!("runs: {}", other.pid())), "{text}");
        // Other tests run at the same time.
        let rows = [kept.pid(), other.pid()].map(|pid| format!("runs: {pid}"));
        kept.end();
        other.end();
        let text = out(&call(&place, &["list"]));
        let still = rows.iter().any(|row| text.contains(row));
        assert!(text.contains(&view) && !still, "{text}");
    }
}

#[test]
fn figures_are_those_of_the_view_and_rise() {
    // The kernel counts nothing.
    for place in Place::all("figures").map(Place::needs_fuse) {
        place.write("file", "x".repeat(5000));
        let view = name(&place, "figures");
        let run = Running::start(&place, &["--name", &view], "cat file > /dev/null");
        let first = figures(&place, &view);
        let said = (&first["version"], &first["kind"], &first["pid"]);
        assert_eq!(said, (&1.into(), &"run".into(), &run.child.id().into()));
        assert_eq!(first["copied_up"]["bytes"], 0);
        assert!(first["requests"]["lookup"].as_u64().unwrap() > 0);
        assert!(first["tenants"][0]["misses"].as_u64().unwrap() > 0);
        let line = "echo y >> file; cat no-such-name 2> /dev/null; true";
        assert!(
            call(&place, &["exec", &view, "--", "sh", "-c", line])
                .status
                .success()
        );
        let then = figures(&place, &view);
        let n = |of: &Value, key: &str| of["requests"][key].as_u64().unwrap();
        assert_eq!(then["copied_up"]["bytes"], 5000);
        assert!(then["copied_up"]["files"].as_u64().unwrap() >= 1);
        let absent = "lookup of absent names";
        assert!(n(&then, absent) > n(&first, absent));
        // `--watch` prints again and again, until the view ends.
        let args = ["stats", &view, "--json", "--watch", "0.01"];
        let mut watch = place.openpath(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        for _ in 0..3 {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!(line["pid"], run.child.id());
        }
        let text = out(&call(&place, &["stats", &run.pid()]));
        assert!(
            text.starts_with(&format!("run {} {view}", run.pid())),
            "{text}"
        );
        let metrics = out(&call(&place, &["stats", &view, "--prometheus"]));
        let labels = format!("{{pid=\"{}\",name=\"{view}\"", run.pid());
        for line in metrics.lines() {
            let about = ["# HELP openpath_", "# TYPE openpath_"];
            let sample = line.starts_with("openpath_")
                && line.contains(&labels)
                && line.rsplit(' ').next().unwrap().parse::<u64>().is_ok();
            assert!(
                sample || about.iter().any(|a| line.starts_with(a)),
                "{line}"
            );
        }
        run.end();
        assert!(lines.all(|line| line.is_ok()) && watch.wait().unwrap().success());
        assert_eq!(call(&place, &["stats", &view]).status.code(), Some(2));
    }
}

#[test]
fn view_is_neither_queried_nor_entered_from_within() {
    for place in Place::all("within") {
        let view = name(&place, "within");
        // The directory of the sockets is passed: the server itself must refuse.
        for pass in [&[][..], &["--pass", "/tmp", "--pass", "/run"]] {
            let options = [&["--name", view.as_str()], pass].concat();
            let run = Running::start(&place, &options, "true");
            let own = env!("CARGO_BIN_EXE_openpath");
            for verb in ["stats", "exec"] {
                let args = ["exec", &view, "--", own, verb, &view, "true"];
                let args = &args[..args.len() - usize::from(verb == "stats")];
                let asked = call(&place, args);
                assert!(!asked.status.success());
                assert!(err(&asked).contains("nothing runs"), "{}", err(&asked));
            }
            run.end();
        }
    }
}

#[test]
fn root_enters_as_the_views_user_and_others_do_not() {
    let (Some(user), Some(root)) = (
        Place::new("theirs", Who::Ordinary),
        Place::new("mine", Who::Caller),
    ) else {
        return;
    };
    let theirs = Running::start(&user, &[], "echo secret > made");
    let mine = Running::start(&root, &[], "true");
    let made = user.path("made");
    let args = ["exec", &theirs.pid(), "--", "sh", "-c"];
    // Root has no ID in that user namespace, and must not have more rights than the user.
    let line = format!("id -u; id -G; cat {made}; echo more >> {made} && cat {made}");
    let seen = call(&root, &[&args[..], &[line.as_str()]].concat());
    assert_eq!(
        out(&seen),
        "1000\n1000\nsecret\nsecret\nmore\n",
        "{}",
        err(&seen)
    );
    assert_eq!(figures(&root, &theirs.pid())["pid"], theirs.child.id());
    let refused = call(&user, &["exec", &mine.pid(), "--", "true"]);
    assert_eq!(refused.status.code(), Some(125));
    assert_eq!(call(&user, &["stats", &mine.pid()]).status.code(), Some(2));
    theirs.end();
    mine.end();
}

/// Two directories of one user with sockets that never answer; at one with a full backlog even
/// connect(2) does not return.
#[test]
#[ignore = "slow: 12 s"]
fn silent_sockets_of_another_user_do_not_delay_root() {
    let Some(place) = Place::new("silent", Who::Caller) else {
        return;
    };
    std::fs::create_dir(place.dir.join("sockets")).unwrap();
    let mut kept = Vec::new();
    for id in 1..20 {
        let path = place.dir.join(format!("sockets/{id}.sock"));
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        kept.push((UnixStream::connect(&path).unwrap(), listener));
    }
    let line = "mount -t tmpfs none /run && for uid in 4242 4243; do \
        mkdir -p /run/user/$uid/openpath && mount --bind sockets /run/user/$uid/openpath; done && \
        chmod 700 sockets && chown -R 4242 sockets && exec timeout 60 \"$0\" list";
    let mut list = Command::new("unshare");
    list.args(["--mount", "sh", "-c", line, OPENPATH]);
    let output = list.current_dir(&place.dir).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
}

/// Sends a request so slowly that each byte arrives in time, but the whole request never does.
const DRIP: &str = r#"
import glob, os, socket, sys, time
paths = glob.glob("/run/**/openpath/%s.sock" % sys.argv[1], recursive=True)
paths += glob.glob("/tmp/openpath-*/%s.sock" % sys.argv[1])
server = socket.socket(socket.AF_UNIX)
server.connect(paths[0])
server.send((10000).to_bytes(4, "little"))
print("begun", flush=True)
try:
    for _ in range(1200):
        server.send(b" ")
        time.sleep(0.1)
except OSError:
    pass
"#;

#[test]
#[ignore = "slow: 5 s"]
fn request_sent_byte_by_byte_does_not_delay_the_end_of_a_view() {
    for place in Place::all("drip") {
        let run = Running::start(&place, &[], "true");
        let mut drip = Command::new("python3");
        drip.args(["-c", DRIP, &run.pid()]).stdout(Stdio::piped());
        let mut drip = drip.spawn().unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(drip.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "begun\n");
        let begun = Instant::now();
        assert_eq!(run.end().0, Some(3));
        assert!(begun.elapsed() < PATIENCE / 2);
        drip.kill().unwrap();
        drip.wait().unwrap();
    }
}

#[test]
fn exec_has_the_streams_of_its_caller() {
    for place in Place::all("input") {
        let run = Running::start(&place, &[], "true");
        let mut command = place.openpath(["exec", &run.pid(), "--", "cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cat = command.spawn().unwrap();
        cat.stdin.take().unwrap().write_all(b"through").unwrap();
        assert_eq!(out(&cat.wait_with_output().unwrap()), "through");
        run.end();
    }
}

#[test]
fn locks_in_a_view_are_listed() {
    // The kernel lists locks itself.
    for place in Place::all("locks").map(Place::needs_fuse) {
        let line = "exec 9> lock; flock 9; flock lock true 9>&- & true";
        let run = Running::start(&place, &["--locks"], line);
        let mut lines = Vec::new();
        until("two locks", || {
            let told = call(&place, &["locks", &run.pid()]);
            assert!(told.status.success(), "{}", err(&told));
            lines = out(&told).lines().map(str::to_owned).collect();
            lines.len() == 2
        });
        assert!(
            lines[0].starts_with("1: FLOCK  ADVISORY  WRITE "),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("1: -> FLOCK  ADVISORY  WRITE "),
            "{lines:?}"
        );
        assert_eq!(run.end().0, Some(3));
        let plain = Running::start(&place, &[], line);
        let told = call(&place, &["locks", &plain.pid()]);
        assert!(out(&told).contains("/proc/locks"), "{}", out(&told));
        assert_eq!(plain.end().0, Some(3));
    }
}

/// Moves a process into its own empty root, from which nothing of the view is visible.
const DETACHES: &str = "
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def must(done):
    if done != 0: raise OSError(ctypes.get_errno(), 'call')
uid = os.getuid()
ready, tell = os.pipe()
if os.fork(): sys.exit(0 if os.read(ready, 1) == b'd' else 1)
os.close(ready)
must(libc.unshare(0x10020000))
open('/proc/self/uid_map', 'w').write('%d %d 1' % (uid, uid))
must(libc.mount(b'none', b'empty', b'tmpfs', 0, None))
os.chdir('empty')
must(libc.syscall(155, b'.', b'.'))
must(libc.umount2(b'.', 2))
os.chdir('/')
for fd in 0, 1, 2: os.close(fd)
os.write(tell, b'd')
while True: time.sleep(1)
";

/// Whether there is a process with this word among its arguments, except zombies.
fn has_process(word: &str) -> bool {
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = names.filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    pids.any(|pid| {
        let line = std::fs::read(pid.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|arg| arg == word.as_bytes())
    })
}

#[test]
fn process_that_detached_the_view_ends_with_it() {
    for place in Place::all("detach") {
        place.write("detach.py", DETACHES);
        std::fs::create_dir(place.dir.join("empty")).unwrap();
        place.own("empty");
        let word = name(&place, "detached");
        let detach = ["python3", "detach.py", &word];
        for (options, is_of_exec) in [
            (&[][..], true),
            (&["--share", "pid"], true),
            (&["--share", "pid"], false),
        ] {
            let line = if is_of_exec {
                "true"
            } else {
                &detach.join(" ")
            };
            let run = Running::start(&place, options, line);
            if is_of_exec {
                let args = ["exec", &run.pid(), "--"];
                let detached = call(&place, &[&args[..], &detach].concat());
                assert!(detached.status.success(), "{}", err(&detached));
            }
            assert!(has_process(&word));
            let (code, said) = run.end();
            assert_eq!(code, Some(3), "{said}");
            let text = format!("{options:?} {is_of_exec}: {said}");
            assert!(!has_process(&word), "{text}");
            assert!(said.contains("1 process was left"), "{text}");
        }
    }
}

/// The directory of the sockets is made with the umask of a caller, and serves later runs too.
#[test]
fn umask_of_one_run_takes_the_socket_of_no_later_run() {
    for place in Place::all("socket-umask") {
        // The last server does not remove it with a file in it.
        place.plain(
            "mkdir -p -m 700 sockets; mkdir sockets/openpath; cd sockets; \
            touch openpath/kept; chmod 000 openpath",
        );
        let mut run = place.openpath(["run", "-q", "--", "true"]);
        let run = run.env("XDG_RUNTIME_DIR", place.path("sockets"));
        let ran = run.output().unwrap();
        assert!(ran.status.success(), "{}", err(&ran));
        let mode = out(&place.plain("stat -c %a sockets/openpath"));
        assert_eq!(mode, "700\n", "{}", err(&ran));
    }
}
