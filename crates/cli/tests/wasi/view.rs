// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that WebAssembly guests under `openpath run` see and change the same as a native program
//! in the same view, without a mount, except that file systems of the kernel are out of reach.

use crate::place::{Place, err, out};
use std::path::Path;

/// Makes or empties a file of the working directory and writes its name to it; exits with the
/// errno.
fn make(place: &Place, name: &str) {
    let length = name.len();
    let start = format!(
        "(local $errno i32)
        (local.set $errno
          (call $open (i32.const 4) (i32.const {length}) (i32.const 9) (i64.const 64)))
        (if (local.get $errno) (then (call $exit (local.get $errno))))
        (call $exit (call $write (i32.load (i32.const 16)) (i32.const 256) (i32.const {length})))"
    );
    place.guest("make.wasm", name, &start);
}

/// Prints a file below a directory; exits with the errno of the open.
fn cat(place: &Place, dir: u32, name: &str) {
    let length = name.len();
    let start = format!(
        "(local $errno i32)
        (local.set $errno
          (call $open (i32.const {dir}) (i32.const {length}) (i32.const 0) (i64.const 2)))
        (if (local.get $errno) (then (call $exit (local.get $errno))))
        (drop (call $write (i32.const 1) (i32.const 4096)
          (call $read (i32.load (i32.const 16)))))"
    );
    place.guest("cat.wasm", name, &start);
}

/// Error numbers of WASI.
const ENOENT: i32 = 44;
const EROFS: i32 = 69;
const EPERM: i32 = 63;

#[test]
fn changes_of_a_guest_stay_in_the_view_and_are_listed() {
    for place in Place::all("changes") {
        place.write("file", "as it was");
        for (name, kind) in [("file", "modified"), ("new", "added")] {
            make(&place, name);
            let output = place.run(&["--json", "make.wasm"]);
            assert_eq!(output.status.code(), Some(0), "{}", err(&output));
            assert_eq!(place.told(&output), [(kind.to_owned(), name.to_owned())]);
            let output = place.run(&["make.wasm"]);
            assert!(
                err(&output).contains("openpath: 1 change\n"),
                "{}",
                err(&output)
            );
        }
        assert_eq!(
            (place.read("file").as_str(), place.read("new").as_str()),
            ("as it was", "")
        );
        let report = place.path("report");
        place.run(&["--json", "--report", &report, "make.wasm"]);
        assert!(place.read("report").contains("\"added\""));
    }
}

#[test]
fn options_mean_the_same_for_guests() {
    for place in Place::all("options") {
        place.make_dir("d");
        place.make_dir("real");
        let status = |options: &[&str]| {
            let output = place.run(&[options, &["-q", "make.wasm"]].concat());
            output
                .status
                .code()
                .unwrap_or_else(|| panic!("{}", err(&output)))
        };
        make(&place, "d/f");
        assert_eq!(status(&["--ro", "d"]), EROFS);
        assert_eq!(status(&["--hide", "d"]), ENOENT);
        assert_eq!(status(&["--absent", "f"]), EPERM);
        assert_eq!(status(&["--mount", "d=mem,size=1M"]), 0);
        assert_eq!(status(&["--mount", "d=mem,ro"]), EROFS);
        assert_eq!(status(&["--mount", "d=host:real,ro"]), EROFS);
        assert_eq!(status(&["--upper", "memory:1M"]), 0);
        assert_eq!(
            (place.read("d/f"), place.read("real/f")),
            (String::new(), String::new())
        );
        assert_eq!(status(&["--mount", "d=host:real"]), 0);
        assert_eq!(place.read("real/f"), "d/f");
        assert_eq!(status(&["--rw", "d"]), 0);
        assert_eq!(place.read("d/f"), "d/f");
        place.write("plan.toml", "ro = [\"d\"]\n");
        assert_eq!(status(&["--config", "plan.toml"]), EROFS);
    }
}

#[test]
fn named_view_is_shared_by_guests_and_programs() {
    for place in Place::all("named") {
        make(&place, "kept");
        let output = place.run(&["--name", "v", "make.wasm"]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert_eq!(place.read("kept"), "");
        cat(&place, 4, "kept");
        assert_eq!(out(&place.run(&["--name", "v", "cat.wasm"])), "kept");
        assert_eq!(place.run(&["cat.wasm"]).status.code(), Some(ENOENT));
        // A module that exists only in the view is found too.
        let wasm = std::fs::read(place.dir.join("cat.wasm")).unwrap();
        let upper = format!("state/openpath/views/v/upper{}", place.path("in-view.wasm"));
        std::fs::write(place.dir.join(upper), wasm).unwrap();
        assert_eq!(out(&place.run(&["--name", "v", "./in-view.wasm"])), "kept");
    }
}

#[test]
fn absolute_paths_start_at_the_root_of_the_view() {
    for place in Place::all("absolute") {
        place.write("file", "found");
        let path = place.path("file");
        cat(&place, 3, path.trim_start_matches('/'));
        assert_eq!(out(&place.run(&["cat.wasm"])), "found");
        // The guest does not reach a directory that it is not given.
        place.make_dir("only");
        cat(&place, 3, "../file");
        let output = place.run(&["--dir", "only", "cat.wasm"]);
        assert_eq!(output.status.code(), Some(EPERM), "{}", err(&output));
        cat(&place, 4, "file");
        let output = place.run(&["--dir", "only", "cat.wasm"]);
        assert_eq!(
            (out(&output).as_str(), output.status.success()),
            ("", false)
        );
        cat(&place, 3, "file");
        assert_eq!(out(&place.run(&["--dir", "x=.", "cat.wasm"])), "found");
    }
}

#[test]
fn kernel_file_systems_are_out_of_reach() {
    for place in Place::all("made-up") {
        for path in [
            "proc/self/environ",
            "proc/self/mem",
            "sys/kernel/uevent_seqnum",
        ] {
            cat(&place, 3, path);
            assert_eq!(
                place.run(&["cat.wasm"]).status.code(),
                Some(EPERM),
                "{path}"
            );
        }
        cat(&place, 3, "dev/null");
        assert_eq!(place.run(&["cat.wasm"]).status.code(), Some(0));
        for path in ["/proc", "/sys", "/dev"] {
            let output = place.run(&["--pass", path, "cat.wasm"]);
            let said = err(&output);
            assert_eq!(output.status.code(), Some(125), "{path}: {said}");
            assert!(said.contains("does not pass to guests"), "{said}");
        }
        let output = place.run(&["--dry-run", "--fuel", "1", "cat.wasm"]);
        assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    }
}

#[test]
fn view_impossible_for_guests_is_allowed_for_programs() {
    let place = Place::new("native", false);
    place.make_dir("m");
    // A path that may differ in the view is looked up in the view.
    let mounted = place.path("m=mem");
    let options = ["--mount", &mounted, "--pass", "/dev", "./m/none"];
    let output = place.run(&options);
    assert_eq!(output.status.code(), Some(127), "{}", err(&output));
}

#[test]
fn view_decides_what_a_command_is() {
    let place = Place::new("decides", false);
    cat(&place, 4, "file");
    place.write("file", "found");
    place.make_dir("real");
    place.make_dir("d");
    let wasm = std::fs::read(place.dir.join("cat.wasm")).unwrap();
    place.write("real/tool", &wasm);
    place.write("d/tool", "#!/bin/false\n");
    assert_eq!(place.run(&["./d/tool"]).status.code(), Some(126));
    let output = place.run(&["--mount", "d=host:real", "./d/tool"]);
    assert_eq!(out(&output), "found", "{}", err(&output));
    // The changes that another run kept count too.
    place.run(&["--name", "v", "true"]);
    let upper = place.dir.join("state/openpath/views/v/upper");
    let tool = format!("{}{}", upper.display(), place.path("d/tool"));
    std::fs::create_dir_all(Path::new(&tool).parent().unwrap()).unwrap();
    std::fs::write(tool, wasm).unwrap();
    let output = place.run(&["--name", "v", "./d/tool"]);
    assert_eq!(out(&output), "found", "{}", err(&output));
}

#[test]
fn guest_consumes_no_more_input_than_it_reads() {
    let place = Place::new("shared", false);
    let start = "(drop (call $write (i32.const 1) (i32.const 4096) (call $read (i32.const 0))))";
    place.guest("echo.wasm", "", start);
    place.write("input", format!("{}the rest", "x".repeat(4096)));
    let input = std::fs::File::open(place.path("input")).unwrap();
    let mut said = Vec::new();
    for _ in 0..2 {
        let mut command = place.command(&["-q", "echo.wasm"]);
        let output = command.stdin(input.try_clone().unwrap()).output();
        said.push(out(&output.unwrap()));
    }
    assert_eq!(said[0].len(), 4096);
    assert_eq!(said[1], "the rest");
}

#[test]
fn guest_cannot_change_cached_modules() {
    let place = Place::new("guarded", false);
    make(&place, "cache/openpath/modules/x");
    let output = place.run(&["--rw", ".", "make.wasm"]);
    assert_eq!(output.status.code(), Some(ENOENT), "{}", err(&output));
    assert!(!place.dir.join("cache/openpath/modules/x").exists());
}

#[test]
fn streams_environment_and_directory_are_passed_on() {
    let place = Place::new("streams", false);
    place.guest(
        "echo.wasm",
        "",
        "(drop (call $write (i32.const 1) (i32.const 4096) (call $read (i32.const 0))))
        (drop (call $environ_sizes_get (i32.const 24) (i32.const 28)))
        (drop (call $environ_get (i32.const 512) (i32.const 1024)))
        (drop (call $write (i32.const 2) (i32.const 1024) (i32.load (i32.const 28))))",
    );
    place.write("input", "some input");
    let mut command = place.command(&["-q", "--env", "A=b c", "--env", "FROM", "echo.wasm"]);
    command.env("FROM", "here").env("NOT", "given");
    let output = command.stdin(std::fs::File::open(place.path("input")).unwrap());
    let output = output.output().unwrap();
    assert_eq!(out(&output), "some input");
    let want = format!("PWD={}\0A=b c\0FROM=here\0", place.dir.display());
    assert_eq!(err(&output), want);
}
