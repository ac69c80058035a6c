// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the exit status of `openpath-bench`, and that a planted fault makes each check fail.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openpath-bench"));
    command.args(args).output().unwrap()
}

fn status(args: &[&str]) -> i32 {
    bench(args).status.code().unwrap_or(-1)
}

#[test]
fn help_hides_internal_commands() {
    let help = bench(&["--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.status.success() && text.contains("walk") && !text.contains("worker"));
}

#[test]
fn failure_to_run_is_reported_with_status_2() {
    for what in ["walk", "failed-open", "same-file", "shapes", "fd", "many"] {
        assert_eq!(status(&[what, "--rounds", "0"]), 2);
    }
    assert_eq!(status(&["one", "no-such-operation d1"]), 2);
    let out = bench(&["counts", "--filter", "no such row"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("no such row"));
    let none = ["run", "--openpath", "/no/such/program", "--rounds", "1"];
    let out = bench(&none);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("--openpath"));
}

#[test]
fn planted_allocation_fails_check() {
    let args = [
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
fn slow_large_table_fails_check() {
    let args = ["fd", "--filter", "fd-churn", "--rounds", "5"];
    assert_eq!(status(&args), 0);
    assert_eq!(
        status(&[&args[..], &["--check", "--plant", "slow"]].concat()),
        1
    );
}

#[test]
fn planted_store_fails_check() {
    let args = [
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
fn planted_slowness_fails_check() {
    let args = [
        "walk",
        "--filter",
        "creat-existing d1",
        "--rounds=7",
        "--plant=slow",
    ];
    let out = bench(&[&args[..], &["--check"]].concat());
    let refused = String::from_utf8_lossy(&out.stderr).contains("not permitted");
    assert_eq!(out.status.code(), Some(if refused { 2 } else { 1 }));
}

#[test]
fn recorded_compilation_is_replayed() {
    let args = ["failed-open", "--kept", "--filter", "header-search"];
    let out = bench(&[&args[..], &["--rounds=5", "--json"]].concat());
    let refused = String::from_utf8_lossy(&out.stderr).contains("not permitted");
    assert_eq!(out.status.code(), Some(if refused { 2 } else { 0 }));
    let rows = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(refused || rows.contains("header-search failed"));
}
