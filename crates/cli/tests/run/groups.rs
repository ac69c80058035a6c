// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `--limit memory` and `--limit cpu` are enforced by control groups where `openpath
//! doctor` says that this is possible, and are refused elsewhere; as root and as an ordinary user.

use crate::place::{Place, err, out};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

/// Uses memory of 256 MiB.
const EAT: &str = "import mmap\n\
    m = mmap.mmap(-1, 256 << 20)\n\
    for at in range(0, 256 << 20, 4096): m[at] = 1\n\
    print('ate')\n";

/// Prints how much of a core it got in a second.
const BURN: &str = "import time\n\
    begun, used = time.monotonic(), time.process_time()\n\
    while time.monotonic() < begun + 1: pass\n\
    print(time.process_time() - used)\n";

/// The command's own control group.
const GROUP: &str = "grep ^0:: /proc/self/cgroup";

/// Why this limit cannot hold here, as `doctor` says.
fn refusal(place: &Place, resource: &str) -> Option<String> {
    let doctor = out(&place.openpath(["doctor", "--json"]).output().unwrap());
    let checks: serde_json::Value = serde_json::from_str(&doctor).unwrap();
    let mut checks = checks.as_array().unwrap().iter();
    let limits = checks.find(|check| check["name"] == "limits").unwrap();
    let text = limits["text"].as_str().unwrap();
    let no = format!("not --limit {resource}: ");
    let yes = format!("--limit {resource} by a control group");
    let mut parts = text.split("; ");
    let why = parts.find_map(|part| part.strip_prefix(&no));
    assert!(why.is_some() || text.contains(&yes), "{text}");
    // `doctor` reports a fault if a limit cannot hold.
    let want = match text.contains("not --limit") {
        true => "partly",
        false => "good",
    };
    assert_eq!(limits["verdict"], want);
    why.map(str::to_owned)
}

/// Whether this limit can hold here; prints a line if not.
fn can(place: &Place, resource: &str) -> bool {
    let why = refusal(place, resource);
    if let Some(why) = &why {
        eprintln!("skipped: no --limit {resource} ({why})");
    }
    why.is_none()
}

#[test]
fn limit_without_a_control_group_is_refused_as_doctor_says() {
    for place in Place::all("group-refused") {
        for (resource, limit) in [("memory", "memory=1G"), ("cpu", "cpu=0.5")] {
            let Some(why) = refusal(&place, resource) else {
                continue;
            };
            let refused = place.run(&["--limit", limit], "echo ran");
            assert_eq!(refused.status.code(), Some(125), "{}", err(&refused));
            let said = format!("openpath: --limit {limit} cannot hold: {why}\n");
            assert_eq!((err(&refused), out(&refused)), (said, String::new()));
        }
    }
}

#[test]
fn command_beyond_its_limit_on_memory_is_killed_and_the_run_says_so() {
    for place in Place::all("group-memory") {
        if !can(&place, "memory") {
            continue;
        }
        place.write("eat.py", EAT);
        let line = "python3 eat.py; echo on";
        let free = place.run(&["-q", "--limit", "memory=1G"], line);
        assert_eq!(out(&free), "ate\non\n", "{}", err(&free));
        let ended = place.run(&["--limit", "memory=64M"], line);
        let signal = ended.status.signal().or(ended.status.code());
        assert!([Some(9), Some(137)].contains(&signal), "{:?}", ended.status);
        assert_eq!(out(&ended), "");
        let said = "the command was killed: it used more than memory=64M";
        assert!(err(&ended).contains(said), "{}", err(&ended));
    }
}

#[test]
fn command_gets_its_share_of_a_core_and_no_more() {
    for place in Place::all("group-cpu") {
        if !can(&place, "cpu") {
            continue;
        }
        place.write("burn.py", BURN);
        // A detached process is in the group too.
        let line = "setsid python3 burn.py & setsid python3 burn.py; wait";
        let ended = place.run(&["-q", "--limit", "cpu=0.2"], line);
        let used = out(&ended);
        let used: f64 = used.lines().map(|line| line.parse::<f64>().unwrap()).sum();
        assert!(used < 0.5, "{used}");
    }
}

#[test]
fn limit_of_a_view_holds_in_its_next_run_and_for_exec() {
    for place in Place::all("group-kept") {
        let possible = ["memory=512M", "cpu=0.5"];
        let limit = possible.iter().find(|limit| {
            let (resource, _) = limit.split_once('=').unwrap();
            can(&place, resource)
        });
        let Some(limit) = limit else {
            continue;
        };
        let view = place.path("view");
        let line = "grep ^0:: /proc/self/cgroup; read _";
        let args = [
            "run", "-q", "--name", &view, "--limit", limit, "--", "sh", "-c", line,
        ];
        let mut first = place.openpath(args);
        let first = first.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut first = first.spawn().unwrap();
        let mut group = String::new();
        let mut lines = std::io::BufReader::new(first.stdout.as_mut().unwrap());
        std::io::BufRead::read_line(&mut lines, &mut group).unwrap();
        assert!(group.ends_with("-view/command\n"), "{group}");
        let entered = place.openpath(["exec", &view, "--", "sh", "-c", GROUP]);
        let entered = { entered }.output().unwrap();
        assert_eq!(out(&entered), group, "{}", err(&entered));
        drop(first.stdin.take());
        first.wait().unwrap();
        let next = place.run(&["-q", "--name", &view], GROUP);
        assert!(out(&next).ends_with("-view/command\n"), "{}", err(&next));
        let openpath = crate::place::OPENPATH;
        let inner = format!("{openpath} run -q --limit {limit} -- echo ran");
        let nested = place.run(&["-q"], &inner);
        assert_eq!(nested.status.code(), Some(125), "{}", out(&nested));
        let said = "control groups are read only here";
        assert!(err(&nested).contains(said), "{}", err(&nested));
    }
}
