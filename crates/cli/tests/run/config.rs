// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that rules of the command line add to those of the configuration file, and that options
//! which exclude each other are refused wherever they stand. Refusals name an unknown kind of
//! `--upper`, a path that is not UTF-8, and a command that is not found.

use crate::place::{Place, Who, err, out};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Checks that the command does not start, and that one sentence says why.
fn refused(place: &Place, options: &[&str], whys: &[&str]) {
    let output = place.run(options, "echo ran");
    let said = err(&output);
    assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
    assert_eq!(out(&output), "", "{options:?}");
    assert_eq!(said.lines().count(), 1, "{options:?}: {said}");
    for why in whys {
        assert!(said.contains(why), "{options:?}: {said}");
    }
}

#[test]
fn upper_and_name_exclude_each_other_in_file_and_options() {
    for place in Place::all("upper-name") {
        place.write("upper.toml", "upper = \"memory:1M\"\n");
        place.write("name.toml", "name = \"zz\"\n");
        place.write("both.toml", "upper = \"memory:1M\"\nname = \"zz\"\n");
        for options in [
            &["--config", "upper.toml", "--name", "cu"][..],
            &["--config", "name.toml", "--upper", "memory:1M"],
            &["--config", "both.toml"],
            &["--config", "both.toml", "--name", "cu"],
            &["--config", "both.toml", "--upper", "memory:2M"],
            &["--upper", "memory:1M", "--name", "cu"],
            &["--upper", "memory:1M", "--name", "cu", "--dry-run"],
        ] {
            refused(&place, options, &["upper", "name", "leave one out"]);
        }
        assert!(!place.dir.join("state").exists());
        // The command line replaces the same option of the file.
        let line = "head -c 5242880 /dev/zero > big || echo bounded";
        let output = place.run(&["--config", "upper.toml"], line);
        assert_eq!(out(&output), "bounded\n", "{}", err(&output));
        let output = place.run(&["--config", "upper.toml", "--upper", "memory:8M"], line);
        assert_eq!(out(&output), "", "{}", err(&output));
        let output = place.run(&["--config", "name.toml", "--name", "other"], "true");
        assert!(output.status.success(), "{}", err(&output));
        let views = place.dir.join("state/openpath/views");
        assert!(views.join("other").exists() && !views.join("zz").exists());
    }
}

#[test]
fn rules_of_the_command_line_add_to_the_file_and_net_replaces_it() {
    for place in Place::all("file-adds") {
        place.write("secret", "");
        let text = "net = \"none\"\nabsent = [\"*.pem\"]\nlimit = [\"time=100ms\"]\n";
        place.write("run.toml", text);
        let options = [
            "--config",
            "run.toml",
            "--net",
            "host",
            "--hide",
            "secret",
            "--dry-run",
        ];
        let output = place.run(&options, "true");
        let config: toml::Table = out(&output).parse().unwrap();
        assert_eq!(config["net"].as_str(), Some("host"));
        assert_eq!(config["absent"][0].as_str(), Some("*.pem"));
        assert!(config["hide"][0].as_str().unwrap().ends_with("/secret"));
        let longer = ["--config", "run.toml", "--limit", "time=1h"];
        let output = place.run(&longer, "sleep 600");
        assert_eq!(output.status.code(), Some(124), "{}", err(&output));
    }
}

#[test]
fn unknown_kind_of_upper_is_refused_and_makes_no_directory() {
    for place in Place::all("kinds") {
        for dir in ["low", "at"] {
            std::fs::create_dir(place.dir.join(dir)).unwrap();
            place.own(dir);
        }
        place.write("run.toml", "upper = \"memroy:1M\"\n");
        let mount = "[[mounts]]\ndestination = \"at\"\ntype = \"overlay\"\n\
            options = [\"lower=low\", \"upper=memroy:1M\"]\n";
        place.write("mount.toml", mount);
        let remedy = ["memory:SIZE", "./memroy:1M"];
        for options in [
            &["--upper", "memroy:1M"][..],
            &["--upper", "memroy:1M", "--dry-run"],
            &["--config", "run.toml"],
            &["--config", "mount.toml"],
            &["--mount", "at=overlay,lower=low,upper=memroy:1M"],
        ] {
            refused(&place, options, &remedy);
            assert!(!place.dir.join("memroy:1M").exists(), "{options:?}");
        }
        refused(&place, &["--upper", "mem:1M"], &["memory:SIZE", "./mem:1M"]);
        refused(&place, &["--mount", "at=memroy:1M"], &["no mount"]);
        let output = place.run(&["--upper", "./memroy:1M"], "echo x > new");
        assert!(output.status.success(), "{}", err(&output));
        assert!(place.dir.join("memroy:1M/view.toml").exists());
    }
}

#[test]
fn config_in_a_parent_directory_is_taken_by_its_real_path() {
    for place in Place::all("parent") {
        for dir in ["x", "sub"] {
            std::fs::create_dir(place.dir.join(dir)).unwrap();
            place.own(dir);
        }
        place.write("x/a.pem", "TREASURE\n");
        place.write("secret", "TREASURE\n");
        let text = "upper = \"up\"\nabsent = [\"x/*.pem\", \"none/*.pem\"]\nhide = [\"secret\"]\n";
        place.write("c.toml", text);
        let mut command = place.openpath(["run", "--config", "../c.toml", "--", "sh", "-c"]);
        command.arg("cat ../x/a.pem ../secret; mkdir ../none; touch ../none/a.pem; echo judged");
        let output = command.current_dir(place.dir.join("sub")).output().unwrap();
        assert_eq!(out(&output), "judged\n", "{}", err(&output));
        assert!(place.dir.join("up/view.toml").exists());
        let tried = "touch: cannot touch '../none/a.pem'";
        assert!(err(&output).contains(tried), "{}", err(&output));
    }
}

#[test]
fn non_utf8_path_is_hidden_and_refused_if_rules_are_kept() {
    for place in Place::all("not-utf8") {
        let name = OsStr::from_bytes(b"h\xff");
        std::fs::write(place.dir.join(name), "TREASURE\n").unwrap();
        let run = |more: &[&str]| {
            let mut command = place.openpath(["run", "--hide"]);
            command.arg(name).args(more);
            command.args(["--", "sh", "-c", "cat h*; echo judged"]);
            command.output().unwrap()
        };
        assert_eq!(out(&run(&[])), "judged\n");
        for more in [&["--name", "v"][..], &["--dry-run"]] {
            let output = run(more);
            let said = err(&output);
            assert_eq!(output.status.code(), Some(125), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(
                said.contains(r"h\xff") && said.contains("rename it"),
                "{said}"
            );
        }
        assert!(!place.dir.join("state/openpath/views/v").exists());
    }
}

#[test]
fn command_not_found_names_the_path_directory_that_cannot_be_searched() {
    let Some(place) = Place::new("closed-path", Who::Ordinary) else {
        return;
    };
    let closed = place.dir.join("closed");
    std::fs::create_dir(&closed).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&closed, mode).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = place.openpath(["run", "--", "nosuchcmd"]);
    let output = command.env("PATH", format!("{}:{path}", closed.display()));
    let output = output.output().unwrap();
    let said = err(&output);
    assert_eq!(output.status.code(), Some(127), "{said}");
    assert!(
        said.contains("nosuchcmd") && said.contains(&closed.display().to_string()),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}
