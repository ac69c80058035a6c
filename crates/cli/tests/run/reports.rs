// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath run --report` writes only to the file that it opened before the command,
//! whatever the command puts in its place, and that the summary is complete and names options that
//! change real files.

use crate::live::Running;
use crate::place::{Place, Who, err, out, until};
use std::process::{Command, Stdio};

/// A place with a directory that is written through, and a file outside it.
fn places(name: &str) -> impl Iterator<Item = Place> {
    Place::all(name).inspect(|place| {
        for dir in ["rw", "rw/sub", "safe"] {
            std::fs::create_dir(place.dir.join(dir)).unwrap();
            place.own(dir);
        }
        place.write("safe/file", "before");
    })
}

const OPTIONS: [&str; 4] = ["--rw", "rw", "--report", "rw/sub/c.txt"];

#[test]
fn report_path_replaced_by_a_link_is_not_followed() {
    for place in places("report-link") {
        let script = "rm -f rw/sub/c.txt; ln -s ../../safe/file rw/sub/c.txt; echo x > made";
        let output = place.run(&OPTIONS, script);
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(place.read("safe/file"), "before");
        // A report that cannot be kept there is printed instead.
        let said = err(&output);
        assert!(
            said.contains("was removed") && said.contains("made"),
            "{said}"
        );
        let fresh = place.run(
            &["--rw", "rw", "--report", "rw/new"],
            "ln -s ../safe/new rw/new",
        );
        assert!(err(&fresh).contains("File exists"), "{}", err(&fresh));
        assert!(!place.dir.join("safe/new").exists());
    }
}

#[test]
fn report_below_a_swapped_directory_goes_to_the_old_one() {
    for place in places("report-swap") {
        place.write("safe/c.txt", "before");
        let script = "mv rw/sub rw/old; ln -s ../safe rw/sub; echo x > made";
        let output = place.run(&OPTIONS, script);
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(place.read("safe/c.txt"), "before");
        assert!(place.read("rw/old/c.txt").contains("made"));
    }
}

#[test]
fn report_path_replaced_by_a_fifo_is_not_waited_for() {
    for place in places("report-fifo") {
        let script = "rm -f rw/sub/c.txt; mkfifo rw/sub/c.txt; echo x > made";
        let output = place.run(&OPTIONS, script);
        assert!(output.status.success(), "{}", err(&output));
        assert!(err(&output).contains("made"), "{}", err(&output));
        // A FIFO that exists before the command is refused before it starts.
        let refused = place.run(&OPTIONS, "echo ran");
        assert_eq!(
            (out(&refused), refused.status.code()),
            (String::new(), Some(125))
        );
        assert!(
            err(&refused).contains("nothing reads it"),
            "{}",
            err(&refused)
        );
    }
}

#[test]
fn report_is_opened_before_the_command_and_replaced_after_it() {
    for place in places("report-when") {
        place.write(
            "c.json",
            "a text that is longer than the summary of a run that changed nothing",
        );
        let options = ["--json", "--report", "c.json"];
        let output = place.run(&options, "cat c.json");
        assert!(out(&output).starts_with("a text"), "{}", err(&output));
        let json: serde_json::Value = serde_json::from_str(&place.read("c.json")).unwrap();
        assert_eq!(json["changes"].as_array().unwrap().len(), 0);
        let refused = place.run(&["--report", "missing/c.json"], "echo ran");
        assert_eq!(
            (out(&refused), refused.status.code()),
            (String::new(), Some(125))
        );
        assert!(err(&refused).contains("--report"), "{}", err(&refused));
    }
}

#[test]
fn quiet_run_writes_its_report_and_nothing_to_the_terminal() {
    for place in places("report-quiet") {
        for (options, ending) in [
            (&["-q", "--report", "r"][..], "made\n"),
            (&["-q", "--json", "--report", "r"], "}\n"),
        ] {
            let output = place.run(options, "touch made");
            assert!(output.status.success(), "{}", err(&output));
            assert_eq!(err(&output), "", "{options:?}");
            let report = place.read("r");
            assert!(
                report.contains("made") && report.contains(ending.trim_end()),
                "{report}"
            );
        }
        let refused = place.run(&["-q", "--json"], "echo ran");
        assert_eq!(refused.status.code(), Some(125));
        assert_eq!(out(&refused), "");
        assert!(err(&refused).contains("--report"), "{}", err(&refused));
    }
}

#[test]
fn summary_names_the_options_that_change_real_files() {
    for place in places("report-real") {
        for (options, option) in [
            (&["--rw", "rw"][..], "--rw"),
            (&["--pass", "rw"], "--pass"),
            (&["--mount", "safe=host:rw"], "--mount"),
        ] {
            place.write("rw/p", "");
            let path = if option == "--mount" {
                "safe/p"
            } else {
                "rw/p"
            };
            let output = place.run(options, &format!("rm -r {path}"));
            assert!(!place.dir.join("rw/p").exists(), "{}", err(&output));
            let want = format!(
                "openpath: nothing changed in the view; changes below {option} went to the real \
                 files\n"
            );
            assert_eq!(err(&output), want);
            let output = place.run(options, "touch made");
            assert!(err(&output).starts_with("openpath: 1 change in the view; changes below"));
        }
        let output = place.run(&["--mount", "safe=host:rw,ro"], "true");
        assert_eq!(err(&output), "openpath: nothing changed\n");
    }
}

#[test]
#[ignore = "slow: 10 s"]
fn changes_in_a_deep_tree_are_reported() {
    const DEEP: &str = "import os, sys\n\
        for _ in range(int(sys.argv[1])):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n";
    for place in Place::all("deep") {
        place.write("deep.py", DEEP);
        let told = place.run(&["--json", "--report", "report"], "python3 deep.py 300");
        assert!(told.status.success(), "{}", err(&told));
        let report: serde_json::Value = serde_json::from_str(&place.read("report")).unwrap();
        assert_eq!(report["changes"].as_array().unwrap().len(), 300);
    }
}

#[test]
#[ignore = "slow: 13 s"]
fn changes_are_told_though_a_process_outside_still_uses_the_view() {
    // The view of an ordinary user answers no process outside its user namespace.
    let caller = Place::new("report-used", Who::Caller);
    let Some(place) = caller.filter(|_| rustix::process::geteuid().is_root()) else {
        return;
    };
    let file = place.path("hello");
    let options = ["--engine", "fuse", "--json", "--name", "v"];
    let run = Running::start(&place, &options, "echo hi > hello");
    // A process of the view is one that sees the file.
    let inside = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let mut roots = all.map(|entry| entry.path().join("root"));
        roots.find(|root| root.join(&file[1..]).exists())
    };
    let root = inside().unwrap();
    let mut user = Command::new("sleep");
    let user = user.arg("600").current_dir(root.join("tmp"));
    let mut user = user.stdin(Stdio::null()).spawn().unwrap();
    until("the process is outside with its directory inside", || {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", user.id()));
        name.is_ok_and(|name| name == "sleep\n")
    });
    let (code, said) = run.end();
    let diff = place.openpath(["diff", "v"]).output().unwrap();
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(code, Some(3), "{said}");
    let users = format!("process {} (sleep) still uses the view", user.id());
    let line = said.lines().find(|line| line.starts_with('{')).unwrap();
    let told: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(told["still_used"], users, "{said}");
    assert_eq!(told["changes"][0]["path"], file, "{said}");
    assert!(said.contains("`openpath diff v`"), "{said}");
    assert!(out(&diff).contains("+hi"), "{}", err(&diff));
}
