// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a WebAssembly guest under `openpath run` ends with its own status, or by a trap, a
//! limit or a signal, with its changes listed, and that a refused guest is told why.

use crate::place::{Place, err, out};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};

/// Runs a guest with this code; returns its exit status and the messages.
fn ended(name: &str, options: &[&str], start: &str) -> (i32, String) {
    let place = Place::new(name, false);
    place.guest("guest.wasm", "", start);
    let output = place.run(&[options, &["guest.wasm"]].concat());
    (output.status.code().unwrap_or(-1), err(&output))
}

#[test]
fn exit_status_is_that_of_the_guest() {
    assert_eq!(ended("returns", &[], "").0, 0);
    for code in [0, 1, 7, 125, 126, 255] {
        let (got, said) = ended(
            "exits",
            &["-q"],
            &format!("(call $exit (i32.const {code}))"),
        );
        assert_eq!((got, said.as_str()), (code, ""));
    }
}

#[test]
fn trap_and_changes_are_both_reported() {
    let (code, said) = ended("traps", &[], "unreachable");
    assert_eq!(code, 134, "{said}");
    assert!(
        said.contains("unreachable") && said.contains("nothing changed"),
        "{said}"
    );
    // Endless recursion exhausts the stack of the guest, and not that of the host.
    let (code, said) = ended(
        "deep",
        &[],
        "(call $deep)) (func $deep (call $deep) (call $deep)",
    );
    assert_eq!(code, 134, "{said}");
    assert!(said.contains("stack exhausted"), "{said}");
}

#[test]
fn fuel_ends_an_endless_guest() {
    let endless = "(loop $again (br $again))";
    let (code, said) = ended("fuel", &["--fuel", "1000000"], endless);
    assert_eq!(code, 134, "{said}");
    assert!(said.contains("fuel"), "{said}");
    assert_eq!(ended("little", &["--fuel", "1000"], "").0, 0);
}

#[test]
fn memory_grows_up_to_its_limit() {
    // 64 pages of 64 KiB are 4 MiB, and the guest has one already.
    let grow = |pages: u32| {
        format!("(call $exit (i32.eq (memory.grow (i32.const {pages})) (i32.const -1)))")
    };
    assert_eq!(ended("grows", &["--memory", "4M"], &grow(63)).0, 0);
    assert_eq!(ended("grows", &["--memory", "4M"], &grow(64)).0, 1);
    assert_eq!(ended("grows", &[], &grow(64)).0, 0);
    let (code, said) = ended("starts", &["--memory", "1K"], "");
    assert_eq!(code, 126, "{said}");
    // All memories and tables count together.
    let more = |what: &str| format!(") {what} (func (export \"more\")");
    for (name, what) in [
        ("two", "(memory 63) (memory 1)".to_owned()),
        ("many", "(memory 4)".repeat(16)),
        ("table", "(table 524288 funcref)".to_owned()),
    ] {
        let (code, said) = ended(name, &["--memory", "4M"], &more(&what));
        assert_eq!(code, 126, "{name}: {said}");
    }
    assert_eq!(
        ended("fits", &["--memory", "4M"], &more("(memory 63)")).0,
        0
    );
    let tables = more(&"(table 1048576 funcref)".repeat(17));
    let (code, said) = ended("tables", &[], &tables);
    assert_eq!(code, 126, "{said}");
}

#[test]
fn refused_guest_says_why() {
    let place = Place::new("refused", false);
    let status = |args: &[&str]| {
        let output = place.run(args);
        (output.status.code().unwrap_or(-1), err(&output))
    };
    place.write("broken.wasm", b"\0asm\x01\0\0\0 and more that is no module");
    place.write("library.wasm", b"\0asm\x01\0\0\0");
    place.write("component.wasm", b"\0asm\x0d\0\x01\0");
    for name in ["broken.wasm", "library.wasm", "component.wasm"] {
        let (code, said) = status(&[name]);
        assert_eq!(code, 126, "{said}");
        assert!(said.contains(name), "{said}");
    }
    let hidden = place.path("library.wasm");
    assert_eq!(status(&["--hide", &hidden, "./library.wasm"]).0, 127);
    place.guest("guest.wasm", "", "");
    assert_eq!(status(&["--log", "-", "guest.wasm"]).0, 125);
    let (code, said) = status(&["--fuel", "1", "true"]);
    assert!(code == 125 && said.contains("--fuel"), "{code} {said}");
    assert_eq!(status(&["--dir", "/nowhere/at/all", "guest.wasm"]).0, 125);
    assert_eq!(status(&["--memory", "much", "guest.wasm"]).0, 125);
}

/// Starts a guest, waits for its first output, and ends it by a signal; returns the result.
fn signalled(place: &Place, signal: Signal, input: Stdio) -> Output {
    let mut command = place.command(&["--json", "guest.wasm"]);
    let mut child = command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 5];
    let stdout = child.stdout.as_mut().unwrap();
    std::io::Read::read_exact(stdout, &mut said).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, signal).unwrap();
    child.wait_with_output().unwrap()
}

/// Makes a file, and prints its name and a newline.
const MADE: &str = "
    (drop (call $open (i32.const 4) (i32.const 4) (i32.const 1) (i64.const 64)))
    (drop (call $write (i32.const 1) (i32.const 256) (i32.const 5)))";

#[test]
fn signal_ends_a_guest_and_its_changes_are_listed() {
    let place = Place::new("signal", false);
    let start = format!("{MADE} (loop $again (br $again))");
    place.guest("guest.wasm", "made\n", &start);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let output = signalled(&place, signal, Stdio::null());
        let died = output.status.signal();
        assert_eq!(died, Some(signal.as_raw()), "{}", err(&output));
        assert_eq!(
            place.told(&output),
            [("added".to_owned(), "made".to_owned())]
        );
    }
}

#[test]
fn signal_ends_a_guest_that_keeps_changing_files() {
    let place = Place::new("changing", false);
    // Consecutive names from `aaaaaaaa` on.
    let start = "(local $at i32)
        (drop (call $write (i32.const 1) (i32.const 256) (i32.const 5)))
        (loop $again
          (drop (call $open (i32.const 4) (i32.const 8) (i32.const 9) (i64.const 64)))
          (drop (call $close (i32.load (i32.const 16))))
          (local.set $at (i32.const 263))
          (loop $carry
            (i32.store8 (local.get $at)
              (i32.add (i32.load8_u (local.get $at)) (i32.const 1)))
            (if (i32.gt_u (i32.load8_u (local.get $at)) (i32.const 122)) (then
              (i32.store8 (local.get $at) (i32.const 97))
              (local.set $at (i32.sub (local.get $at) (i32.const 1)))
              (br $carry))))
          (br $again))";
    place.guest("guest.wasm", "aaaaaaaa", start);
    let output = signalled(&place, Signal::TERM, Stdio::null());
    let said = err(&output);
    let (end, _) = said.split_at(said.len().min(300));
    assert_eq!(output.status.signal(), Some(15), "{end}");
    assert!(end.starts_with("{\"changes\""), "{end}");
}

#[test]
fn signal_ends_a_guest_that_waits_in_a_call() {
    let place = Place::new("waiting", false);
    let start = format!("{MADE} (drop (call $read (i32.const 0)))");
    place.guest("guest.wasm", "made\n", &start);
    let (input, _held) = std::io::pipe().unwrap();
    let output = signalled(&place, Signal::INT, input.into());
    assert_eq!(output.status.signal(), Some(2), "{}", err(&output));
    assert_eq!(place.told(&output).len(), 1);
}

#[test]
fn unread_message_does_not_change_the_status_of_a_guest() {
    let place = Place::new("unread", false);
    place.guest("guest.wasm", "", "unreachable");
    for options in [&["-q"][..], &[]] {
        let (read, written) = std::io::pipe().unwrap();
        drop(read);
        let mut command = place.command(&[options, &["guest.wasm"]].concat());
        let status = command.stderr(written).status().unwrap();
        assert_eq!(status.code(), Some(134), "{options:?}");
    }
}

#[test]
fn start_function_is_a_part_of_the_guest() {
    let started = |name: &str, options: &[&str], does: &str| {
        let start = format!(
            ") (start $s) (func $s (drop (call $open (i32.const 4) (i32.const 4)
            (i32.const 1) (i64.const 64))) {does}"
        );
        let place = Place::new(name, false);
        place.guest("guest.wasm", "made", &start);
        let output = place.run(&[&["--json"], options, &["guest.wasm"]].concat());
        let code = output.status.code().unwrap_or(-1);
        (code, err(&output), place.told(&output).len())
    };
    let (code, said, changes) = started("start-exits", &[], "(call $exit (i32.const 3))");
    assert_eq!((code, changes), (3, 1), "{said}");
    let (code, said, changes) = started("start-traps", &[], "unreachable");
    assert_eq!((code, changes), (134, 1), "{said}");
    let endless = "(loop $again (br $again))";
    let (code, said, changes) = started("start-fuel", &["--fuel", "100000"], endless);
    assert_eq!((code, changes), (134, 1), "{said}");
    let (code, said, changes) = started("start-deep", &[], "(call $s)");
    assert_eq!((code, changes), (134, 1), "{said}");
    assert!(said.contains("stack exhausted"), "{said}");
}

/// The inodes of the cached modules: a module that is written again has another inode.
fn kept(place: &Place) -> Vec<u64> {
    use std::os::unix::fs::DirEntryExt as _;
    let dir = std::fs::read_dir(place.dir.join("cache/openpath/modules")).unwrap();
    let mut all: Vec<_> = dir.map(|entry| entry.unwrap().ino()).collect();
    all.sort_unstable();
    all
}

#[test]
fn compiled_module_is_cached() {
    for place in Place::all("kept") {
        let start = "(drop (call $write (i32.const 1) (i32.const 256) (i32.const 3)))";
        place.guest("guest.wasm", "hi\n", start);
        let mut ran = Vec::new();
        for _ in 0..2 {
            assert_eq!(out(&place.run(&["guest.wasm"])), "hi\n");
            ran.push(kept(&place));
        }
        assert_eq!(ran[0].len(), 1);
        assert_eq!(ran[0], ran[1], "it was compiled again");
        assert_eq!(out(&place.run(&["--fuel", "10000", "guest.wasm"])), "hi\n");
        assert_eq!(kept(&place).len(), 2, "metered code is other code");
    }
}
