// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a later change in a view never has an earlier time, whether the server, the kernel
//! that keeps writes back, or another file system sets it. Only where the kernel sets no time of
//! the view's files, a file outside the view may seem older within a tick.

use crate::place::{Place, err, out};

/// Makes two changes 70 times; prints for each pair how often the second has the earlier time,
/// which must not happen. With an argument the kernel's floor of fine stamps is raised in between.
const PAIRS: &str = r#"
import os, sys
other = os.memfd_create("other")

def raise_floor():
    if len(sys.argv) > 1:
        os.utime(other)
        os.fstat(other)

def write(path):
    with open(path, "w") as file:
        file.write("x")

def mtime(path):
    return os.stat(path).st_mtime_ns

older = [0] * 5
for i in range(70):
    made, data, then = (name + "%d-%d" % (len(sys.argv), i) for name in "abd")
    open(made, "w").close()
    write(data)
    older[0] += mtime(data) < mtime(made)
    raise_floor()
    write(data)
    os.mkdir(then)
    older[1] += mtime(then) < mtime(data)
    os.chmod(made, 0o600)
    os.utime(other)
    older[2] += os.fstat(other).st_mtime_ns < os.stat(made).st_ctime_ns
    raise_floor()
    open(made, "w").close()
    older[3] += mtime(made) < os.fstat(other).st_mtime_ns
    file = os.open(data, os.O_WRONLY)
    os.write(file, b"y")
    older[4] += os.fstat(file).st_mtime_ns < mtime(made)
    os.close(file)
print(older)
"#;

#[test]
#[ignore = "slow: 6 s"]
fn later_change_never_has_an_earlier_time() {
    for place in Place::all("order") {
        place.write("pairs.py", PAIRS);
        place.plain("mkdir w");
        for options in [&["--rw", "w"][..], &["--write-back"], &["--name", "v"], &[]] {
            for line in ["python3 pairs.py", "python3 pairs.py raise"] {
                let output = place.run(options, line);
                let said = out(&output);
                let mut older = said.trim_matches(['[', ']', '\n']).split(", ").enumerate();
                let elsewhere = 2;
                let is_right = |(pair, times): (usize, &str)| {
                    times == "0" || (pair == elsewhere && options.is_empty())
                };
                assert_eq!(older.clone().count(), 5, "{options:?} {}", err(&output));
                assert!(older.all(is_right), "{options:?} {said} {}", err(&output));
            }
        }
    }
}
