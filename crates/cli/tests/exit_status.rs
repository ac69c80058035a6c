// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath` ends with the documented exit statuses, that its help and its manual pages
//! describe each verb, that bash completes the verbs, and that `openpath bench` runs
//! `openpath-bench`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn openpath(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openpath"));
    command.args(args).output().unwrap()
}

fn status(args: &[&str]) -> i32 {
    openpath(args).status.code().unwrap_or(-1)
}

#[test]
fn help_and_version_are_answered() {
    let version = openpath(&["version"]);
    assert!(version.status.success());
    let want = format!("openpath {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), want);
    let help = openpath(&["--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.status.success() && text.contains("bench") && !text.contains("run-serve"));
}

#[test]
fn output_without_a_reader_changes_no_status_and_is_no_panic() {
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["doctor"],
        &["version"],
        &["completions", "bash"],
        &["run", "--dry-run", "--", "true"],
    ] {
        let read = status(args);
        for closed in ["stdout", "stderr"] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = Command::new(env!("CARGO_BIN_EXE_openpath"));
            command.args(args).stdin(Stdio::null());
            match closed {
                "stdout" => command.stdout(writer).stderr(Stdio::piped()),
                _ => command.stdout(Stdio::null()).stderr(writer),
            };
            let output = command.spawn().unwrap().wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(read), "{args:?} {closed} {said}");
            assert_eq!(said, "", "{args:?}");
        }
    }
}

#[test]
fn unknown_verb_ends_with_2() {
    assert_eq!(status(&["walk"]), 2);
}

/// Runs a line in a directory. A program that this process writes itself could not be started while
/// a child of another thread, which has not run its own program yet, has the file open for writing.
fn shell(dir: &Path, line: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", line, env!("CARGO_BIN_EXE_openpath")]);
    assert!(shell.current_dir(dir).status().unwrap().success());
}

#[test]
fn bench_runs_the_program_beside_this_one_or_says_how_to_run_it() {
    let dir = std::env::temp_dir().join(format!("openpath-beside-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let openpath = dir.join("openpath");
    shell(&dir, "cp \"$0\" openpath");
    let bench = |args: &[&str]| {
        let mut command = Command::new(&openpath);
        command.arg("bench").args(args).output().unwrap()
    };
    let alone = bench(&["walk", "--check"]);
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert_eq!(alone.status.code(), Some(2), "{said}");
    assert!(
        said.lines().count() == 1 && said.contains("-p openpath-bench"),
        "{said}"
    );
    let program = "'#!/bin/sh\necho \"$*\"; exit 7'";
    let line = format!("echo {program} > openpath-bench; chmod 755 openpath-bench");
    shell(&dir, &line);
    for args in [&["--help"][..], &["walk", "--check", "--", "-h"], &[]] {
        let passed = bench(args);
        assert_eq!(passed.status.code(), Some(7), "{args:?}");
        assert_eq!(
            String::from_utf8_lossy(&passed.stdout).trim(),
            args.join(" ")
        );
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn wrong_arguments_end_run_and_exec_with_125_and_others_with_2() {
    for args in [
        &["run"][..],
        &["run", "--no-such", "true"],
        &["exec"],
        &["exec", "view"],
    ] {
        assert_eq!(status(args), 125, "{args:?}");
    }
    for args in [
        &["diff"][..],
        &["list", "--no-such"],
        &["discard"],
        &["commit"],
    ] {
        assert_eq!(status(args), 2, "{args:?}");
    }
    for args in [["run", "--help"], ["exec", "--help"]] {
        assert_eq!(status(&args), 0, "{args:?}");
    }
}

#[test]
fn failure_is_one_sentence_and_ends_with_2_even_if_it_cannot_be_written() {
    let none = "no-such-view-anywhere";
    for args in [
        &["diff", none][..],
        &["commit", none],
        &["discard", none],
        &["umount", "/proc/sys"],
        &["stats", none],
        &["locks", none],
    ] {
        let output = openpath(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(
            said.starts_with("openpath: ") && said.lines().count() == 1,
            "{said}"
        );
        assert!(!said.contains("cannot set up"), "{said}");
        let mut full = Command::new(env!("CARGO_BIN_EXE_openpath"));
        let device = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let status = full.args(args).stderr(device.unwrap()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{args:?}");
    }
}

/// The verbs in the help.
fn verbs() -> Vec<String> {
    let help = String::from_utf8(openpath(&["--help"]).stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap();
    let list = list.split("\n\n").next().unwrap();
    let words = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words.map(str::to_owned).collect()
}

#[test]
fn each_verb_has_a_manual_page() {
    let dir = std::env::temp_dir().join(format!("openpath-man-{}", std::process::id()));
    assert_eq!(status(&["man", dir.to_str().unwrap()]), 0);
    let text = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert!(text("openpath.1").contains("openpath\\-run(1)"));
    let verbs = verbs();
    for verb in verbs.iter().filter(|verb| *verb != "help") {
        assert!(
            text(&format!("openpath-{verb}.1")).contains(".SH SYNOPSIS"),
            "{verb}"
        );
    }
    assert!(text("openpath-run.1").contains("\\-\\-hide"));
    assert!(!dir.join("openpath-run-serve.1").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn help_begins_with_the_main_job_and_its_verbs() {
    let help = openpath(&["help"]).stdout;
    let help = String::from_utf8(help).unwrap();
    assert!(
        help.starts_with("Run a command on a copy-on-write view"),
        "{help}"
    );
    let first = ["run", "exec", "diff", "commit", "discard", "list"];
    assert_eq!(verbs()[..first.len()], first);
}

#[test]
fn synopsis_of_a_page_has_the_arguments() {
    let dir = std::env::temp_dir().join(format!("openpath-usage-{}", std::process::id()));
    assert_eq!(status(&["man", dir.to_str().unwrap()]), 0);
    for (verb, usage) in [
        ("run", "openpath run [OPTIONS] <COMMAND>..."),
        ("commit", "openpath commit [OPTIONS] <VIEW> [PATHS]..."),
    ] {
        let page = std::fs::read_to_string(dir.join(format!("openpath-{verb}.1"))).unwrap();
        assert!(page.contains(&format!(".SH SYNOPSIS\n{usage}\n")), "{page}");
        assert!(page.contains(&format!(".TH openpath-{verb} 1")), "{page}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn bash_completes_each_verb() {
    let script = openpath(&["completions", "bash"]).stdout;
    let script = String::from_utf8(script).unwrap();
    let ask = "COMP_WORDS=(openpath ''); COMP_CWORD=1; _openpath openpath '' openpath; \
               printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    let said = bash
        .arg("-c")
        .arg(format!("{script}\n{ask}"))
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    for verb in verbs() {
        assert!(said.lines().any(|word| word == verb), "{verb} in {said}");
    }
    assert!(!said.contains("run-serve"), "{said}");
    assert_eq!(status(&["completions", "no-shell"]), 2);
}
