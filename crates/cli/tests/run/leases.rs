// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests opens in a view of a file on which a process outside holds a lease (fcntl(2),
//! `F_SETLEASE`): each waits for the holder, ends with its caller, and holds up no other call.

use crate::place::{Place, err, out};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Holds a write lease on a file. Asked to give it up, it ignores that or complies.
struct Holder(Child);

impl Holder {
    fn new(place: &Place, file: &str, asked: &str) -> Holder {
        let code = format!(
            "import fcntl, os, signal, time\n\
             fd = os.open('{file}', os.O_RDWR)\n\
             def ignore(*_): pass\n\
             def comply(*_): fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)\n\
             signal.signal(signal.SIGIO, {asked})\n\
             fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
             print('held', flush=True)\n\
             while True: time.sleep(1)\n"
        );
        let mut python = Command::new("python3");
        python.args(["-I", "-c", &code]).current_dir(&place.dir);
        let mut child = python.stdout(Stdio::piped()).spawn().expect("python3");
        let mut line = String::new();
        let answer = child.stdout.take().expect("a pipe");
        BufReader::new(answer).read_line(&mut line).expect("a line");
        assert_eq!(line, "held\n");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn open_that_waits_for_a_lease_ends_with_its_caller() {
    let granted = std::fs::read_to_string("/proc/sys/fs/lease-break-time").expect("a limit");
    let granted = Duration::from_secs(granted.trim().parse().expect("seconds"));
    for place in Place::all("lease-ignored") {
        place.write("leased", "data\n");
        let _holder = Holder::new(&place, "leased", "ignore");
        let line = "timeout -s KILL 0.5 cat leased; echo $?; echo x > new";
        let start = Instant::now();
        let output = place.openpath(["run", "--", "sh", "-c", line]).output();
        let output = output.expect("openpath");
        assert_eq!(out(&output), "137\n", "{}", err(&output));
        assert!(err(&output).contains("new"), "{}", err(&output));
        // The kernel takes the lease away then: a shorter wait shows that nothing waited for that.
        let waited = start.elapsed();
        assert!(waited < granted / 2, "{waited:?} of {granted:?}");
    }
}

#[test]
fn open_goes_on_once_the_lease_is_given_up() {
    for place in Place::all("lease-given-up") {
        place.write("leased", "data\n");
        let _holder = Holder::new(&place, "leased", "comply");
        let output = place
            .openpath(["run", "-q", "--", "cat", "leased"])
            .output();
        let output = output.expect("openpath");
        assert_eq!(out(&output), "data\n", "{}", err(&output));
    }
}

#[test]
#[ignore = "slow: 8 s"]
fn view_goes_on_while_many_opens_wait_for_leases() {
    /// More than the server has threads.
    const MANY: usize = 17;
    for place in Place::all("leases-many").map(Place::needs_fuse) {
        place.write("free", "data\n");
        let names: Vec<_> = (0..MANY).map(|number| format!("leased{number}")).collect();
        let _holders: Vec<_> = names
            .iter()
            .map(|name| {
                place.write(name, "data\n");
                Holder::new(&place, name, "ignore")
            })
            .collect();
        // One of them, the shell, and what was not opened before.
        let line = "for f in leased*; do timeout -s KILL 3 cat $f 2>>err & done; sleep 0.5; \
                    timeout -s KILL 2 cat free; echo $?; wait; grep -c unavailable err";
        let output = place
            .openpath(["run", "-q", "--", "sh", "-c", line])
            .output();
        let output = output.expect("openpath");
        let text = out(&output);
        let mut lines = text.lines();
        assert_eq!(
            (lines.next(), lines.next()),
            (Some("data"), Some("0")),
            "{}",
            err(&output)
        );
        let refused: usize = lines.next().expect("a count").parse().expect("a number");
        assert!((1..MANY).contains(&refused), "{refused}");
    }
}
