// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath run` refuses rules and options that would not do what the user intends, in
//! one sentence that names the option and the remedy.

use crate::live::Running;
use crate::place::{Place, err, out};
use std::fs::File;

/// Checks that the command does not start, and that one sentence has all of `why`.
fn refused(place: &Place, options: &[&str], why: &[&str]) {
    let output = place.run(options, "echo ran");
    let said = err(&output);
    assert_eq!(out(&output), "", "{options:?}");
    assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
    for why in why {
        assert!(said.contains(why), "{options:?}: no `{why}`: {said}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn unexpanded_home_directory_is_refused_in_every_rule() {
    for place in Place::all("home") {
        std::fs::create_dir(place.dir.join("m")).unwrap();
        place.own("m");
        for path in ["~/.ssh", "~", "~root/x", "$HOME/.ssh", "${HOME}"] {
            for option in ["hide", "hide-try", "ro", "ro-try", "rw", "pass"] {
                let dashed = format!("--{option}");
                refused(&place, &[&dashed, path], &[&dashed, path, "in full"]);
                place.write("run.toml", format!("{option} = ['{path}']\n"));
                refused(&place, &["--config", "run.toml"], &[path, "in full"]);
            }
            for mount in [
                format!("{path}=mem"),
                format!("m=host:{path}"),
                format!("m=overlay,lower={path},upper=memory"),
                format!("m=overlay,lower=m,upper={path}"),
            ] {
                refused(&place, &["--mount", &mount], &["--mount", path, "in full"]);
            }
            refused(&place, &["--upper", path], &["--upper", "in full"]);
        }
        for pattern in ["$HOME/*.pem", "~/x", "~root/x", "./~root/x"] {
            refused(&place, &["--absent", pattern], &["in full"]);
        }
        let escaped = place.run(&["-q", "--absent", r"\~root/x"], "echo ran");
        assert_eq!(out(&escaped), "ran\n", "{}", err(&escaped));
        // A name that the user chose.
        for path in ["./~/x", "./$x"] {
            let line = format!("mkdir -p '{path}' || echo held");
            let output = place.run(&["--hide-try", path], &line);
            assert_eq!(out(&output), "held\n", "{}", err(&output));
        }
    }
}

#[test]
fn pattern_in_a_path_rule_is_refused_unless_a_file_has_that_name() {
    for place in Place::all("glob") {
        for path in ["id_*", "none/id_?", "id_[ab]"] {
            for option in ["--hide", "--hide-try", "--ro", "--ro-try", "--rw", "--pass"] {
                refused(&place, &[option, path], &[option, "no pattern", "--absent"]);
            }
        }
        place.write("id_*", "TREASURE\n");
        let output = place.run(&["--hide-try", "id_*"], "cat 'id_*' || echo held");
        assert_eq!(out(&output), "held\n", "{}", err(&output));
    }
}

#[test]
fn comma_in_a_pattern_is_refused_unless_it_is_escaped_or_in_braces() {
    for place in Place::all("comma") {
        for name in ["a.pem", "b.key", "c,d"] {
            place.write(name, "TREASURE\n");
        }
        let why = ["`*.pem,*.key`", "repeat the option", "`\\,`"];
        refused(&place, &["--absent", "*.pem,*.key"], &why);
        place.write("run.toml", "absent = ['*.pem,*.key']\n");
        refused(&place, &["--config", "run.toml"], &why);
        let line = "cat a.pem b.key c,d 2> /dev/null; echo judged";
        for patterns in [
            &["--absent", "*.{pem,key}", "--absent", r"c\,d"][..],
            &[
                "--absent", "*.pem", "--absent", "*.key", "--absent", "?[,]?",
            ],
        ] {
            let output = place.run(patterns, line);
            assert_eq!(out(&output), "judged\n", "{}", err(&output));
        }
        // A comma in the name of the working directory does not count either.
        std::fs::create_dir(place.dir.join("x,y")).unwrap();
        place.own("x,y");
        place.write("x,y/k.pem", "TREASURE\n");
        place.write("x,y/run.toml", "absent = ['./*.pem']\n");
        let options = ["--config", "x,y/run.toml", "--name", "v"];
        for options in [&options[..], &options[2..]] {
            let output = place.run(options, "cat x,y/k.pem; echo judged");
            assert_eq!(out(&output), "judged\n", "{}", err(&output));
        }
    }
}

#[test]
fn write_back_is_refused_where_others_write_too() {
    for place in Place::all("late-rw") {
        std::fs::create_dir(place.dir.join("w")).unwrap();
        place.own("w");
        refused(
            &place,
            &["--write-back", "--rw", "w"],
            &["--write-back", "--rw", "leave one out"],
        );
        let mount = ["--write-back", "--mount", "w=host:w"];
        refused(
            &place,
            &mount,
            &["--write-back", "--mount", "leave one out"],
        );
        let output = place.run(&["--write-back", "--mount", "w=host:w,ro"], "echo ran");
        assert_eq!(out(&output), "ran\n", "{}", err(&output));
    }
}

#[test]
fn rule_that_hides_the_working_directory_is_refused_by_name() {
    for place in Place::all("hide-cwd") {
        let why = ["hides the working directory"];
        refused(&place, &["--hide", "."], &why);
        refused(&place, &["--hide", ".."], &why);
        let own = place.dir.file_name().unwrap().to_str().unwrap();
        refused(&place, &["--absent", own], &[why[0], "--absent"]);
        refused(&place, &["--absent", "*"], &["--absent *", "/proc"]);
        let said = err(&place.run(&["--absent", "*"], "true"));
        assert!(!said.contains("--pass"), "{said}");
    }
}

#[test]
fn report_to_dash_is_refused() {
    for place in Place::all("dash") {
        refused(&place, &["--report", "-"], &["--report -", "./-"]);
        assert!(!place.dir.join("-").exists());
    }
}

#[test]
fn refusal_of_a_view_in_use_names_its_process_and_the_remedy() {
    for place in Place::all("in-use") {
        let running = Running::start(&place, &["--name", "v"], "true");
        let pid = running.pid();
        let why = [
            &format!("in use by process {pid}")[..],
            &format!("`openpath exec {pid}"),
            "wait",
        ];
        refused(&place, &["--name", "v"], &why);
        running.end();
        let lock = File::open(place.dir.join("state/openpath/views/v/lock")).unwrap();
        lock.lock().unwrap();
        let own = format!("in use by process {}: wait", std::process::id());
        refused(&place, &["--name", "v"], &[&own]);
    }
}

#[test]
fn path_with_two_dots_is_resolved() {
    for place in Place::all("dots") {
        for dir in ["a", "b"] {
            std::fs::create_dir(place.dir.join(dir)).unwrap();
            place.own(dir);
        }
        let line = "mkdir b/none || echo held";
        let output = place.run(&["--hide-try", "a/../b/none"], line);
        assert_eq!(out(&output), "held\n", "{}", err(&output));
    }
}

#[test]
fn missing_file_is_refused_with_its_option_and_what_to_do() {
    for place in Place::all("missing") {
        std::fs::create_dir(place.dir.join("d")).unwrap();
        place.own("d");
        place.write("file", "");
        let (no_dir, make) = ("there is no directory nodir", "make it first");
        for (option, value, why) in [
            ("--config", "no.toml", ["no.toml", "there is no such file"]),
            ("--config", ".", [".", "it is a directory"]),
            ("--upper", "file", ["file", "it is not a directory"]),
            ("--name", "./file", ["./file", "it is not a directory"]),
            ("--log", "nodir/x", [no_dir, make]),
            ("--report", "nodir/x", [no_dir, make]),
            ("--rw", "nodir", ["nodir", make]),
            ("--pass", "nodir", ["nodir", make]),
            ("--mount", "nodir=mem", ["nodir", make]),
            ("--mount", "d=host:nodir", ["d=host:", make]),
            ("--mount", "d=overlay,lower=nodir", ["overlay,lower=", make]),
            ("--mount", "d=foo", ["`d=foo`", "write DIR=mem"]),
        ] {
            refused(&place, &[option, value], &why);
            if !value.starts_with("d=foo") {
                refused(&place, &[option, value], &[option]);
            }
        }
    }
}
