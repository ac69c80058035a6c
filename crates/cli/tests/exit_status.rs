// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command's exit status says, and that a planted fault turns each check red.

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
    assert!(help.status.success() && text.contains("bench") && !text.contains("bench-one"));
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
fn what_cannot_be_run_is_said_and_is_2() {
    assert_eq!(status(&["walk"]), 2);
    assert_eq!(status(&["bench", "walk", "--rounds", "0"]), 2);
    for what in ["failed-open", "same-file", "shapes", "fd", "many"] {
        assert_eq!(status(&["bench", what, "--rounds", "0"]), 2);
    }
    assert_eq!(status(&["bench-one", "no-such-operation d1"]), 2);
    let out = openpath(&["bench", "counts", "--filter", "no such row"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("no such row"));
}

#[test]
fn wrong_arguments_of_run_and_exec_are_125_and_of_others_2() {
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
fn failures_are_one_sentence_whether_or_not_it_can_be_written() {
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

#[test]
fn stats_say_who_flooded_and_who_was_left_alone() {
    let args = [
        "bench",
        "tenants",
        "--files",
        "50",
        "--names",
        "2000",
        "--negative-max",
        "256",
    ];
    let text = openpath(&args);
    assert!(text.status.success());
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let line = |name: &str| -> Vec<u64> {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        let words = line[name.len()..].split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    };
    assert_eq!(line("positive entries")[1], 50);
    assert_eq!(line("misses")[1..], [50, 2000]);
    assert_eq!(line("hits")[1], 15 * 50);
    let (cached, evicted) = (line("negative entries"), line("negative evicted"));
    assert!(cached[2] <= 256 && cached[2] + evicted[2] == 2000 && evicted[1] == 0);
    let json = openpath(&[&args[..], &["--json"]].concat());
    let json = String::from_utf8_lossy(&json.stdout).into_owned();
    assert_eq!(json.lines().count(), 3);
    assert!(
        json.contains("{\"tenant\": \"flood\", \"tasks\": 1,"),
        "{json}"
    );
}

#[test]
fn a_planted_allocation_turns_the_check_red() {
    let args = [
        "bench",
        "counts",
        "--filter",
        "allocations stat d1",
        "--check",
        "--json",
    ];
    assert_eq!(status(&args), 0);
    assert_eq!(status(&[&args[..], &["--plant", "allocation"]].concat()), 1);
}

#[test]
fn a_slow_large_table_turns_the_check_red() {
    let args = ["bench", "fd", "--filter", "fd-churn", "--rounds", "5"];
    assert_eq!(status(&args), 0);
    assert_eq!(
        status(&[&args[..], &["--check", "--plant", "slow"]].concat()),
        1
    );
}

#[test]
fn a_planted_store_turns_the_check_red() {
    let args = [
        "bench",
        "counts",
        "--filter",
        "shared-stores stat d1",
        "--check",
        "--json",
    ];
    assert_eq!(status(&args), 0);
    assert_eq!(
        status(&[&args[..], &["--plant", "shared-counter"]].concat()),
        1
    );
}

#[test]
fn a_planted_slowness_turns_the_check_red() {
    let args = [
        "bench",
        "walk",
        "--filter",
        "creat-existing d1",
        "--rounds=7",
        "--plant=slow",
    ];
    let out = openpath(&[&args[..], &["--check"]].concat());
    let refused = String::from_utf8_lossy(&out.stderr).contains("not permitted");
    assert_eq!(out.status.code(), Some(if refused { 2 } else { 1 }));
}

#[test]
fn a_recorded_compilation_is_replayed() {
    let args = [
        "bench",
        "failed-open",
        "--kept",
        "--filter",
        "header-search",
    ];
    let out = openpath(&[&args[..], &["--rounds=5", "--json"]].concat());
    let refused = String::from_utf8_lossy(&out.stderr).contains("not permitted");
    assert_eq!(out.status.code(), Some(if refused { 2 } else { 0 }));
    let rows = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(refused || rows.contains("header-search failed"));
}

/// The verbs that the help lists.
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
fn each_verb_has_a_page() {
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
    assert!(
        !said.contains("run-serve") && !said.contains("bench-one"),
        "{said}"
    );
    assert_eq!(status(&["completions", "no-shell"]), 2);
}
