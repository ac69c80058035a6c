// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `--name` and `--upper` accept a new or empty directory or a view and refuse any other
//! directory untouched, and that `openpath list` shows the running or last command of a view.

use crate::place::{Place, err, out};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn openpath(place: &Place, args: &[&str]) -> std::process::Output {
    place.openpath(args).output().unwrap()
}

/// Makes a private directory with these files in it.
fn own(place: &Place, name: &str, files: &[&str]) -> PathBuf {
    let dir = place.dir.join(name);
    fs::create_dir(&dir).unwrap();
    for file in files {
        let file = format!("{name}/{file}");
        if let Some(parent) = Path::new(&file).parent().and_then(Path::to_str)
            && parent != name
        {
            fs::create_dir_all(place.dir.join(parent)).unwrap();
            place.own(parent);
        }
        place.write(&file, "prec\n");
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    place.own(name);
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> = names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn directory_with_files_that_is_no_view_is_refused_untouched() {
    for place in Place::all("adopt") {
        for (number, file) in [
            "lock",
            "precious",
            "upper/x",
            "work/x",
            "commit/x",
            "known",
            "rules.toml",
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("own{number}");
            let dir = own(&place, &name, &[file]);
            let before = names(&dir);
            let path = format!("./{name}");
            for options in [["--name", &path], ["--upper", &name], ["--upper", &path]] {
                let output = place.run(&options, "touch zz");
                let said = err(&output);
                assert_eq!(
                    output.status.code(),
                    Some(125),
                    "{file} {options:?}: {said}"
                );
                assert!(
                    said.contains("is no view and not empty") && !said.contains("damaged"),
                    "{file} {options:?}: {said}"
                );
                assert_eq!(names(&dir), before, "{file} {options:?}");
            }
            for verb in ["discard", "diff", "commit"] {
                let output = openpath(&place, &[verb, &path]);
                let said = err(&output);
                assert_eq!(output.status.code(), Some(2), "{verb} {file}: {said}");
                assert!(said.contains("no view"), "{verb} {file}: {said}");
                assert_eq!(names(&dir), before, "{verb} {file}");
            }
            assert_eq!(place.read(&format!("{name}/{file}")), "prec\n", "{file}");
        }
    }
}

#[test]
fn empty_or_new_directory_becomes_a_view_that_can_be_reused() {
    for place in Place::all("adopt-empty") {
        own(&place, "empty", &[]);
        for name in ["empty", "new"] {
            let path = format!("./{name}");
            for options in [["--name", &path], ["--upper", name]] {
                let output = place.run(&options, "echo x >> kept; wc -l < kept");
                assert!(output.status.success(), "{}", err(&output));
            }
            let output = place.run(&["--name", &path], "wc -l < kept");
            assert_eq!(out(&output).trim(), "2", "{}", err(&output));
            let gone = openpath(&place, &["discard", &path]);
            assert!(gone.status.success(), "{}", err(&gone));
            assert!(!place.dir.join(name).exists());
        }
        // The creation of this view was interrupted after its lock.
        let dir = own(&place, "begun", &["lock"]);
        place.write("begun/lock", "");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(dir.join("lock"), private).unwrap();
        let output = place.run(&["--name", "./begun"], "true");
        assert!(output.status.success(), "{}", err(&output));
        // A view without its description is damaged.
        place.write("begun/view.toml", "made = [");
        let output = place.run(&["--name", "./begun"], "true");
        assert!(err(&output).contains("is damaged"), "{}", err(&output));
    }
}

#[test]
fn list_shows_the_running_or_last_command() {
    for place in Place::all("list-command") {
        let shown = || {
            let list = openpath(&place, &["list", "--json"]);
            let rows: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
            let row = &rows.as_array().unwrap()[0];
            let made = row["made"].as_u64().unwrap();
            (made, row["command"].as_str().unwrap().to_owned())
        };
        let first = place.run(&["--name", "listed"], "echo first");
        assert!(first.status.success(), "{}", err(&first));
        let (made, command) = shown();
        assert!(command.contains("echo first"), "{command}");
        let line = format!(
            "export XDG_STATE_HOME=$PWD/state; \
            {0} run -q --name listed -- sh -c ': second; until [ -e stop ]; do sleep 0.05; done' & \
            until {0} stats listed > /dev/null 2>&1; do sleep 0.05; done; {0} list; \
            {0} exec listed -- touch stop; wait",
            crate::place::OPENPATH
        );
        let running = place.plain(&line);
        assert!(
            out(&running).contains(": second") && !out(&running).contains("echo first"),
            "{}{}",
            out(&running),
            err(&running)
        );
        let (still, command) = shown();
        assert!(command.contains(": second"), "{command}");
        assert_eq!(still, made);
    }
}

#[test]
fn view_named_without_its_slash_is_refused_with_the_right_spelling() {
    for place in Place::all("slash") {
        let run = place.run(&["--upper", "u1"], "touch x");
        assert!(run.status.success(), "{}", err(&run));
        own(&place, "plain", &["file"]);
        for verb in ["diff", "commit", "discard"] {
            let output = openpath(&place, &[verb, "u1"]);
            let said = err(&output);
            assert_eq!(output.status.code(), Some(2), "{verb}: {said}");
            assert!(said.contains("`./u1`"), "{verb}: {said}");
            let other = err(&openpath(&place, &[verb, "plain"]));
            assert!(!other.contains("./plain"), "{verb}: {other}");
        }
        let output = openpath(&place, &["diff", "./u1"]);
        assert!(out(&output).contains("/x"), "{}", err(&output));
    }
}
