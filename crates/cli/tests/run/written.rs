// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that data written in a view arrives complete, with `--write-back` and without it, and that
//! the close or the summary reports lost data.

use crate::place::{Place, err, out};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

/// Changes a file in the ways in which pages can be ahead of the server: mapped, appended,
/// truncated, before and after its copy-up, without close(2) or fsync(2).
const LATE: &str = r#"
import mmap, os
def page(c): return bytes([ord(c)]) * 4096
mapped = os.open("mapped", os.O_RDWR)
view = mmap.mmap(mapped, 0)
os.close(mapped)
view[4096:8192] = page("m")
view[0:1] = b"!"
appended = os.open("appended", os.O_WRONLY | os.O_APPEND)
for n in range(1000): os.write(appended, b"%07d\n" % n)
cut = os.open("cut", os.O_RDWR)
os.pwrite(cut, page("c"), 8192)
os.ftruncate(cut, 10000)
os.pwrite(cut, b"end", 20000)
assert os.fstat(cut).st_size == 20003
other = os.open("cut", os.O_RDONLY)
assert os.pread(other, 4, 19999) == b"\0end", os.pread(other, 4, 19999)
os.rename("moved", "moved away")
moved = os.open("moved away", os.O_RDWR)
os.unlink("moved away")
os.write(moved, page("x"))
new = os.open("new", os.O_RDWR | os.O_CREAT)
os.ftruncate(new, 1 << 20)
mmap.mmap(new, 0)[1 << 19] = 7
os.kill(os.getpid(), 9)
"#;

/// The names of the two ways, and the options for each.
const WAYS: [(&str, &[&str]); 2] = [("at-once", &[]), ("late", &["--write-back"])];

#[test]
fn late_writes_are_complete_at_the_end() {
    for place in Place::all("late") {
        for name in ["mapped", "cut", "moved"] {
            place.write(name, [b'o'; 12_288]);
        }
        place.write("appended", "begun\n");
        place.write("late.py", LATE);
        let lengths = "cat cut | wc -c; head -c 1 mapped; tr -d m < mapped | wc -c; \
            grep -c 0 appended; tail -n 1 appended; tr -d '\\0' < cut | tr -s oc; \
            tr -d '\\0' < new | wc -c; wc -c < new; ls moved*";
        for (name, way) in WAYS {
            let options = [&["--name", name], way].concat();
            let output = place.run(&options, "exec python3 late.py");
            assert_eq!(output.status.code(), None, "{}", err(&output));
            assert!(
                !err(&output).contains("late writes were lost"),
                "{}",
                err(&output)
            );
            let output = place.run(&options, lengths);
            let expected = "20003\n!8192\n1000\n0000999\nocend1\n1048576\n";
            assert_eq!(out(&output), expected, "{}", err(&output));
            assert_eq!(place.read("appended"), "begun\n");
        }
    }
}

#[test]
fn full_view_is_reported_at_close_and_in_the_summary() {
    for place in Place::all("late-full") {
        // A shell ignores the result of close(2), so the summary reports the loss.
        let line = "head -c 3000000 /dev/zero > big; echo status $?; echo x > small";
        let options = ["--upper", "memory:1M", "--write-back"];
        let output = place.run(&options, line);
        assert_eq!(out(&output), "status 1\n", "{}", err(&output));
        let said = err(&output);
        assert!(said.contains("No space left"), "{said}");
        assert!(said.contains("late writes were lost"), "{said}");
        let line = "head -c 3000000 /dev/zero > big; echo status $?; echo x > small; cat small";
        let output = place.run(&["--upper", "memory:1M"], line);
        assert_eq!(out(&output), "status 1\n", "{}", err(&output));
        assert!(
            !err(&output).contains("late writes were lost"),
            "{}",
            err(&output)
        );
    }
}

#[test]
fn followed_log_grows() {
    for place in Place::all("follow") {
        for (_, way) in WAYS {
            followed(&place, way);
        }
    }
}

fn followed(place: &Place, way: &[&str]) {
    place.write("log", "first\n");
    let tail = ["--", "tail", "-f", "-s", "0.02", "log"];
    let mut command = place.openpath([&["run", "-q"], way, &tail].concat());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "first");
    let mut log = File::options();
    let mut log = log.append(true).open(place.dir.join("log")).unwrap();
    for n in 0..20 {
        let line = format!("{n}").repeat(500);
        writeln!(log, "{line}").unwrap();
        assert_eq!(said.next().unwrap().unwrap(), line);
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
}
