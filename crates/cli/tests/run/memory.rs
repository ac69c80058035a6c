// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `--upper memory:SIZE` limits the size of all that the command makes, and so the
//! memory of the server, and that removed files give their space back.

use crate::place::{Place, Who, err, out};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

/// Makes objects of the kind `sys.argv[1]` until one is refused; prints how many, why, and what
/// statfs(2) shows then. Ends with its standard input.
const FLOOD: &str = r#"
import errno, os, sys
os.mkdir("flood")
os.chdir("flood")
open("0", "w").close()

def one_byte(name):
    with open(name, "w") as file:
        file.write("x")

def attribute(name):
    if not os.path.exists("%d" % (int(name) // 7)):
        open("%d" % (int(name) // 7), "w").close()
    os.setxattr("%d" % (int(name) // 7), "user." + name, b"x" * 8192)

make = {
    "files": lambda name: open(name, "w").close(),
    "directories": os.mkdir,
    "long": lambda name: os.mkdir(name + "x" * 240),
    "links": lambda name: os.link("0", name),
    "symlinks": lambda name: os.symlink("x" * 120, name),
    "bytes": one_byte,
    "attributes": attribute,
}[sys.argv[1]]
why = "none"
for made in range(1, 20000):
    try:
        make("%d" % made)
    except OSError as error:
        why = errno.errorcode[error.errno]
        break
left = os.statvfs(".")
print(made, why, left.f_blocks, left.f_bfree, left.f_ffree, flush=True)
sys.stdin.read()
"#;

/// The resident kilobytes of the processes of this program below `pid`.
fn resident(pid: u32) -> u64 {
    let mut most = 0;
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    for task in tasks.flatten() {
        let children = task.path().join("children");
        let children = std::fs::read_to_string(children).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|c| c.parse().ok()) {
            most = most.max(resident(child));
        }
    }
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    if !program.ends_with("openpath") {
        return most;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    most.max(size.unwrap_or(0))
}

#[test]
#[ignore = "slow: 5 s"]
fn everything_the_command_makes_counts_against_the_size() {
    const MEGABYTE: u64 = 1024;
    // Sizes are those of a tmpfs.
    for place in Place::all("flood").map(Place::needs_fuse) {
        place.write("flood.py", FLOOD);
        for kind in [
            "files",
            "directories",
            "long",
            "links",
            "symlinks",
            "bytes",
            "attributes",
        ] {
            let args = ["run", "--upper", "memory:1M", "--", "python3", "flood.py"];
            let mut run = place.openpath(args.iter().chain(&[kind]));
            run.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut run = run.stderr(Stdio::null()).spawn().unwrap();
            let mut line = String::new();
            let mut output = BufReader::new(run.stdout.take().unwrap());
            output.read_line(&mut line).unwrap();
            let server = resident(run.id());
            drop(run.stdin.take());
            run.wait().unwrap();
            let said: Vec<&str> = line.split_whitespace().collect();
            let [made, why, blocks, free, inodes] = said[..] else {
                panic!("{kind}: {line}");
            };
            assert_eq!((why, blocks), ("ENOSPC", "256"), "{kind}");
            let number = |word: &str| word.parse::<u64>().unwrap();
            assert!(number(made) < 1000, "{kind}: {line}");
            assert!(number(free) <= 2 && number(inodes) <= 2, "{kind}: {line}");
            assert!((1..40 * MEGABYTE).contains(&server), "{kind}: {server} kB");
        }
    }
}

#[test]
fn removed_files_give_their_space_back() {
    // Sizes are those of a tmpfs.
    for place in Place::all("removed-space").map(Place::needs_fuse) {
        let line = "free() { stat -fc '%f %d' .; }; free; mkdir d; free; for i in $(seq 30); do \
            echo x > d/$i; ln d/$i d/l$i; done; free; rm -r d; free";
        let output = place.run(&["--upper", "memory:1M"], line);
        let said = out(&output);
        let lines: Vec<&str> = said.lines().collect();
        let [before, one, full, after] = lines[..] else {
            panic!("{said} {}", err(&output));
        };
        assert!(before != one && one != full, "{said}");
        // The parent directories were copied up, and stay.
        let blocks = |line: &str| line.split(' ').next().unwrap().parse::<u64>().unwrap();
        assert!(blocks(full) < blocks(one) - 30, "{said}");
        assert!(blocks(after) >= blocks(one), "{said}");
    }
}

#[test]
fn size_zero_allows_no_change() {
    let Some(place) = Place::new("nothing", Who::Caller) else {
        return;
    };
    place.write("kept", "kept");
    let line = "cat kept; for change in 'echo x > new' 'echo x > kept' 'mkdir d' 'rm kept'; do \
        sh -c \"$change\" 2>&1 | grep -o 'No space left on device'; done; cat kept";
    let output = place.run(&["--upper", "memory:0"], line);
    let full = "No space left on device\n".repeat(4);
    assert_eq!(out(&output), format!("kept{full}kept"), "{}", err(&output));
    assert!(err(&output).contains("nothing changed"), "{}", err(&output));
}

/// Makes and removes files, and waits for a line after each cycle.
const CHURN: &str = r#"
import os, sys
for cycle in range(100):
    os.mkdir("churn")
    for made in range(300):
        with open("churn/%d" % made, "w") as file:
            file.write("x")
    for made in range(300):
        os.unlink("churn/%d" % made)
    os.rmdir("churn")
    print(cycle, flush=True)
    sys.stdin.readline()
"#;

#[test]
#[ignore = "slow: 15 s"]
fn memory_of_the_server_does_not_grow_with_removed_files() {
    for place in Place::all("churn") {
        place.write("churn.py", CHURN);
        let mut run = place.openpath(["run", "-q", "--", "python3", "churn.py"]);
        run.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = run.spawn().unwrap();
        let mut go_on = run.stdin.take().unwrap();
        let mut said = BufReader::new(run.stdout.take().unwrap()).lines();
        let mut sizes = Vec::new();
        for _ in 0..100 {
            said.next().unwrap().unwrap();
            sizes.push(resident(run.id()));
            writeln!(go_on).unwrap();
        }
        drop(go_on);
        assert!(run.wait().unwrap().success());
        // Memory that is kept for good is allocated in the first cycles. 120 bytes for each
        // file would be 2.8 MB here.
        let (first, last) = (sizes[20], sizes[99]);
        assert!(last < first + 1024, "{first} kB, then {last} kB: {sizes:?}");
    }
}
