// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `--limit` bounds the time and the number of all processes of a view together, as root
//! and as an ordinary user. A command can neither raise a limit nor change the host's control
//! groups.

use crate::place::{Place, Who, err, out, until};
use std::process::Command;

/// Forks until fork(2) fails; prints how many processes there are with this one.
const FORKS: &str = r#"
import errno, os
count = 1
why = "no error"
# The children end with this process.
lives, mine = os.pipe()
for _ in range(2000):
    try:
        child = os.fork()
    except OSError as error:
        why = errno.errorcode[error.errno]
        break
    if child == 0:
        os.close(mine)
        os.read(lives, 1)
        os._exit(0)
    count += 1
print(count, why)
"#;

/// Does the same with threads.
const THREADS: &str = r#"
import threading, time
count = 1
for _ in range(2000):
    try:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    except RuntimeError:
        break
    count += 1
print(count, flush=True)
import os
os._exit(0)
"#;

/// Whether this machine can hold a limit on processes, as `doctor` says; prints a line if not.
fn can_limit_pids(place: &Place) -> bool {
    let doctor = out(&place.openpath(["doctor"]).output().unwrap());
    let line = doctor.lines().find(|line| line.contains("limits"));
    let holds = line.is_some_and(|line| !line.contains("not --limit pids"));
    if !holds {
        eprintln!("skipped: {}", line.unwrap_or("no line on limits"));
    }
    holds
}

/// Waits until no process has this argument to sleep(1).
fn no_sleeper(argument: &str) {
    until(&format!("the end of sleep {argument}"), || {
        let line = format!("pgrep -f '^sleep {argument}$'");
        let found = Command::new("sh").args(["-c", &line]).output().unwrap();
        found.stdout.is_empty()
    });
}

#[test]
#[ignore = "slow: 5 s"]
fn time_limit_ends_a_command_that_ignores_signals_and_its_detached_processes() {
    for place in Place::all("bound-time") {
        let who = u8::from(place.dir.to_string_lossy().contains("Ordinary"));
        let long = format!("4321.{}{who}", std::process::id());
        let line = format!(
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep {long}; sleep {long}' & \
             while :; do sleep 0.1; done"
        );
        let ended = place.run(&["--limit", "time=0.5s"], &line);
        assert_eq!(ended.status.code(), Some(124), "{}", err(&ended));
        let said = "--limit time=500ms ended the command";
        assert!(err(&ended).contains(said), "{}", err(&ended));
        no_sleeper(&long);
    }
}

#[test]
fn time_limit_holds_for_a_command_that_stops_itself() {
    for place in Place::all("bound-stopped") {
        // On a machine with much to do the command may be late.
        for time in ["time=300ms", "time=3s", "time=30s"] {
            let run = place.openpath(["run", "--json", "--limit", time, "--", "sh", "-c"]);
            // Nothing continues it: it has no terminal.
            let mut alone = Command::new("setsid");
            alone
                .arg("--wait")
                .arg(run.get_program())
                .args(run.get_args());
            alone.arg("echo x > made; kill -STOP $$; echo late > late");
            alone.current_dir(&place.dir);
            let ended = alone.output().unwrap();
            assert_eq!(ended.status.code(), Some(124), "{}", err(&ended));
            let said = err(&ended);
            let reached = format!(r#""limits_reached":["{time}"]"#);
            assert!(said.contains(&reached) && !said.contains("late"), "{said}");
            if said.contains("made") {
                break;
            }
            assert_ne!(time, "time=30s", "{said}");
        }
    }
}

#[test]
fn command_that_ends_in_time_keeps_its_status() {
    for place in Place::all("bound-in-time") {
        let ended = place.run(&["--limit", "time=1h"], "exit 3");
        assert_eq!(ended.status.code(), Some(3), "{}", err(&ended));
    }
}

#[test]
fn processes_and_threads_of_a_view_are_bounded_together() {
    for place in Place::all("bound-pids") {
        if !can_limit_pids(&place) {
            return;
        }
        place.write("forks.py", FORKS);
        place.write("threads.py", THREADS);
        let run = |limit: &str, line: &str| place.run(&["-q", "--limit", limit], line);
        // Freed numbers are used again.
        let line = "python3 threads.py & wait; python3 threads.py; exec python3 forks.py";
        let ended = run("pids=40", line);
        assert_eq!(out(&ended), "39\n39\n40 EAGAIN\n", "{}", err(&ended));
        // A pid namespace made inside has no numbers of its own.
        let line = "unshare --user --map-root-user --pid --fork --mount-proc sh -c \
            'echo 4000000 > /proc/sys/kernel/pid_max; python3 forks.py'";
        let nested = out(&run("pids=40", line));
        let count = nested
            .split(' ')
            .next()
            .and_then(|count| count.parse().ok());
        assert!(count.is_some_and(|count: u32| count < 40), "{nested}");
    }
}

#[test]
fn command_of_an_ordinary_user_cannot_raise_the_limit_on_processes() {
    let Some(place) = Place::new("bound-raise", Who::Ordinary) else {
        return;
    };
    if !can_limit_pids(&place) {
        return;
    }
    place.write("forks.py", FORKS);
    let line = "echo 4000000 > /proc/sys/kernel/pid_max; echo 1 > /proc/sys/kernel/ns_last_pid; \
        for file in $(find /sys/fs/cgroup -name pids.max -writable); do echo max > $file; done; \
        for file in $(find /sys/fs/cgroup -name cgroup.procs -writable); do echo 0 > $file; done; \
        exec python3 forks.py";
    let ended = place.run(&["-q", "--limit", "pids=30"], line);
    assert_eq!(out(&ended), "30 EAGAIN\n", "{}", err(&ended));
}

#[test]
fn command_that_enters_a_view_counts_against_its_limits() {
    for place in Place::all("bound-exec") {
        if !can_limit_pids(&place) {
            return;
        }
        place.write("forks.py", FORKS);
        let view = place.path("view");
        let line = "until [ -e go ]; do sleep 0.1; done";
        let args = [
            "run", "-q", "--name", &view, "--limit", "pids=30", "--", "sh", "-c", line,
        ];
        let mut first = place.openpath(args).spawn().unwrap();
        let enter = |line: &str| {
            let args = ["exec", &view, "--", "sh", "-c", line];
            place.openpath(args).output().unwrap()
        };
        let mut said = String::new();
        until("the view can be entered", || {
            let ended = enter("exec python3 forks.py");
            said = out(&ended);
            ended.status.success()
        });
        // The shell, and its sleep(1) that starts again and again.
        assert!(
            ["28 EAGAIN\n", "29 EAGAIN\n"].contains(&said.as_str()),
            "{said}"
        );
        enter("touch go");
        first.wait().unwrap();
    }
}

#[test]
#[ignore = "slow: 5 s"]
fn limits_are_kept_with_a_view_and_loosened_only_on_request() {
    for place in Place::all("bound-kept") {
        let view = place.path("view");
        let run = |options: &[&str], line: &str| {
            let named = [&["-q", "--name", &view], options].concat();
            place.run(&named, line)
        };
        let first = run(&["--limit", "time=1h,time=30s"], "true");
        assert_eq!(first.status.code(), Some(0), "{}", err(&first));
        let looser = run(&["--limit", "time=31s"], "true");
        assert_eq!(looser.status.code(), Some(125));
        let said = err(&looser);
        assert!(
            said.contains("--limit time=31s loosens `time=30s`, which is kept"),
            "{said}"
        );
        // A smaller limit is kept from then on.
        let tighter = run(&["--limit", "time=0.2s"], "exec sleep 60");
        assert_eq!(tighter.status.code(), Some(124), "{}", err(&tighter));
        assert_eq!(run(&[], "exec sleep 60").status.code(), Some(124));
        let anew = run(&["--replace-rules"], "sleep 0.5");
        assert_eq!(anew.status.code(), Some(0), "{}", err(&anew));
    }
}

#[test]
fn wrong_and_impossible_limits_are_refused() {
    for place in Place::all("bound-refused") {
        place.write("limits.toml", "limit = [\"time=5s\", \"pids=50\"]\n");
        let read = place.run(&["--config", "limits.toml", "--dry-run"], "true");
        let has = out(&read).contains(r#"limit = ["time=5s", "pids=50"]"#);
        assert!(
            has || !can_limit_pids(&place),
            "{}{}",
            out(&read),
            err(&read)
        );
        place.write("wrong.toml", "limit = [\"pids=none\"]\n");
        for (options, said) in [
            (&["--limit", "pids=0"][..], "`0` is no limit on pids: write"),
            (&["--limit", "time=5s,disk=1G"], "`disk` cannot be limited"),
            (&["--limit", "memory=lots"], "`lots` is no limit on memory"),
            (&["--config", "wrong.toml"], "`none` is no limit on pids"),
            (
                &["--limit", "time=5s", "--share", "pid"],
                "leave out --share pid",
            ),
        ] {
            let refused = place.run(options, "echo ran");
            assert_eq!(refused.status.code(), Some(125), "{options:?}");
            assert!(err(&refused).contains(said), "{}", err(&refused));
            assert_eq!(out(&refused), "");
        }
    }
}

/// A control group of the host that belongs to the user of the command, with a process in it.
struct Group {
    mount: String,
    dir: String,
    sleeper: std::process::Child,
}

impl Group {
    /// `None`, with a printed line, if no group can be made.
    fn new(place: &Place) -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let mut mounts = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = mounts.find(|words| words[2] == "cgroup2" && words[1].starts_with("/sys"));
        let mount = mount.map(|words| words[1].to_owned());
        let name = place.dir.file_name().unwrap().to_str().unwrap();
        let dir = mount.as_ref().map(|mount| format!("{mount}/{name}"));
        let made = dir
            .as_ref()
            .is_some_and(|dir| std::fs::create_dir(dir).is_ok());
        let (Some(mount), Some(dir), true) = (mount, dir, made) else {
            eprintln!("skipped: no control group can be made here");
            return None;
        };
        let sleeper = Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(format!("{dir}/cgroup.procs"), sleeper.id().to_string()).unwrap();
        let all = [
            "",
            "/cgroup.procs",
            "/cgroup.kill",
            "/cgroup.freeze",
            "/cgroup.subtree_control",
        ];
        for file in all.map(|file| format!("{dir}{file}")) {
            std::os::unix::fs::chown(file, place.user(), place.user()).unwrap();
        }
        Some(Group {
            mount,
            dir,
            sleeper,
        })
    }

    fn lives(&mut self) -> bool {
        self.sleeper.try_wait().unwrap().is_none()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.sleeper.kill().ok();
        self.sleeper.wait().ok();
        std::fs::remove_dir(&self.dir).ok();
    }
}

#[test]
fn control_groups_of_the_host_are_not_changed_unless_they_are_passed() {
    for place in Place::all("bound-groups") {
        let Some(mut group) = Group::new(&place) else {
            return;
        };
        let dir = group.dir.clone();
        let line = format!(
            "exec 2> /dev/null; grep -c . {dir}/cgroup.procs; \
             (echo 1 > {dir}/cgroup.kill) && echo killed; \
             (echo 1 > {dir}/cgroup.freeze) && echo stopped; \
             (echo 0 > {dir}/cgroup.procs) && echo moved; \
             mkdir {dir}/new && echo made; \
             unshare --user --map-root-user --mount sh -c \
             'mount -o remount,bind,rw {0}; echo 1 > {dir}/cgroup.kill' && echo killed",
            group.mount
        );
        let inside = place.run(&["-q"], &line);
        assert_eq!(out(&inside), "1\n", "{}", err(&inside));
        assert!(group.lives());
        let line = format!("echo 1 > {dir}/cgroup.kill && echo killed");
        let passed = place.run(&["-q", "--pass", &group.mount], &line);
        assert_eq!(out(&passed), "killed\n", "{}", err(&passed));
        assert!(!group.sleeper.wait().unwrap().success());
    }
}

#[test]
fn directory_with_the_groups_of_version_1_is_read_only() {
    if !std::fs::read_to_string("/proc/mounts")
        .unwrap()
        .contains(" /sys/fs/cgroup tmpfs ")
    {
        eprintln!("skipped: no control groups of version 1 are mounted here");
        return;
    }
    for place in Place::all("bound-groups-1") {
        let name = place.dir.file_name().unwrap().to_str().unwrap();
        let made = format!("/sys/fs/cgroup/{name}");
        let inside = place.run(&["-q"], &format!("mkdir {made}"));
        let exists = std::fs::symlink_metadata(&made).is_ok();
        std::fs::remove_dir(&made).ok();
        assert!(!exists && !inside.status.success(), "{}", err(&inside));
    }
}
