// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a command cannot weaken the rules of a later command in the same view: by links that
//! it plants on their paths, or by a `--mount` whose source is below a kept rule.

use crate::place::{Place, err, out};
use std::os::unix::fs::symlink;

/// Places with a secret, a directory to write through, and a directory to mount on.
fn places(name: &str) -> impl Iterator<Item = Place> {
    Place::all(name).inspect(|place| {
        for dir in [".keys", "a", "a/up", "m", "w", "w/base", "w/up"] {
            std::fs::create_dir(place.dir.join(dir)).unwrap();
            place.own(dir);
        }
        for file in [".keys/t", "a/k.pem"] {
            place.write(file, "TREASURE\n");
        }
    })
}

/// Checks that the command does not start, and that the error says why.
fn refused(place: &Place, options: &[&str], why: &str) {
    let output = place.run(options, "cat m/t a/k.pem b/k.pem; echo ran");
    let said = err(&output);
    assert!(out(&output).is_empty(), "{options:?}: {}", out(&output));
    assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
    assert!(said.contains(why), "{options:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

fn done(place: &Place, options: &[&str], line: &str) {
    let output = place.run(options, line);
    assert!(output.status.success(), "{options:?}: {}", err(&output));
}

#[test]
fn layer_replaced_by_a_link_of_the_command_is_refused() {
    for place in places("layers") {
        for (layer, mount, why) in [
            (
                "base",
                "m=overlay,lower=w/base,upper=memory",
                "leads elsewhere now",
            ),
            (
                "up",
                "m=overlay,lower=.,upper=w/up",
                "leads through the link",
            ),
        ] {
            let rules = ["--rw", "w", "--hide", ".keys", "--mount", mount];
            let first = [&["--name", layer], &rules[..]].concat();
            let line = format!("rm -r w/{layer}; ln -s ../.keys w/{layer}");
            done(&place, &first, &line);
            refused(&place, &["--name", layer], why);
            refused(&place, &rules, "leads through the link");
            let options = mount.split_once(',').unwrap().1.split(',');
            let options: Vec<_> = options.map(|option| format!("'{option}'")).collect();
            let file = format!(
                "rw = ['w']\nhide = ['.keys']\n[[mounts]]\ndestination = 'm'\n\
                type = 'overlay'\noptions = [{}]\n",
                options.join(", ")
            );
            place.write("run.toml", file);
            refused(&place, &["--config", "run.toml"], "leads through the link");
        }
    }
}

#[test]
fn upper_layer_through_a_link_of_the_user_is_kept_with_a_view() {
    for place in places("layers-own") {
        symlink("a", place.dir.join("link")).unwrap();
        let mount = "m=overlay,lower=w/base,upper=link/up";
        done(&place, &["--name", "v", "--mount", mount], "echo x > m/x");
        done(&place, &["--name", "v"], "cat m/x");
    }
}

#[test]
fn mount_with_a_source_within_a_kept_rule_is_refused() {
    for place in places("loose-source") {
        done(
            &place,
            &["--name", "v", "--ro", "a", "--hide", ".keys"],
            "true",
        );
        for mount in [
            "m=host:a",
            "m=host:a/up",
            "m=host:.",
            "m=host:.keys,ro",
            "m=host:.,ro",
            "m=overlay,lower=.keys,upper=memory",
            "m=overlay,lower=.,upper=memory",
            "m=overlay,lower=w,upper=a/up",
        ] {
            refused(
                &place,
                &["--name", "v", "--mount", mount],
                "--replace-rules",
            );
        }
        for mount in ["m=host:a,ro", "m=overlay,lower=a,upper=memory", "m=host:w"] {
            done(
                &place,
                &["--name", "v", "--dry-run", "--mount", mount],
                "true",
            );
        }
        done(&place, &["--name", "p", "--absent", "a/*.pem"], "true");
        refused(
            &place,
            &["--name", "p", "--mount", "m=host:a,ro"],
            "--replace-rules",
        );
    }
}

#[test]
fn new_rule_on_a_path_that_is_a_link_in_the_view_is_refused() {
    for place in places("link-in-view") {
        let line = "mv a b && ln -s b a && rm -r w && ln -s m w";
        done(&place, &["--name", "v"], line);
        for rule in [
            ["--ro", "w"],
            ["--ro", "a/up"],
            ["--ro-try", "a/none"],
            ["--hide", "a/k.pem"],
            ["--hide", "a"],
            ["--hide-try", "a/none"],
            ["--absent", "a/*.pem"],
            ["--rw", "w"],
            ["--pass", "w"],
            ["--mount", "w=mem"],
        ] {
            let options = [&["--name", "v"], &rule[..]].concat();
            refused(&place, &options, "is a symbolic link in the view");
        }
        done(
            &place,
            &["--name", "v", "--ro", "m", "--hide", ".keys"],
            "cat b/k.pem",
        );
    }
}

#[test]
fn rule_for_a_missing_path_below_a_link_holds_at_its_target() {
    for place in places("missing-below") {
        symlink("a", place.dir.join("link")).unwrap();
        for option in ["--hide-try", "--ro-try"] {
            for path in ["link/none", "link/none/deep", "w/../link/none"] {
                let line =
                    "mkdir -p a/none/deep && echo MADE; mkdir -p link/none/deep && echo MADE";
                let output = place.run(&[option, path], line);
                assert_eq!(out(&output), "", "{option} {path}: {}", err(&output));
            }
        }
        let output = place.run(&["--hide-try", "link/none"], "mkdir a/other && echo made");
        assert_eq!(out(&output), "made\n", "{}", err(&output));
    }
}

#[test]
fn missing_state_directory_cannot_be_made_in_a_passed_path() {
    for place in places("no-state") {
        let line = "mkdir -p state/openpath/views/t && echo MADE; \
            mv state away && mkdir -p state/openpath/views/t && echo MADE; \
            rm -r state && mkdir -p state/openpath/views/t && echo MADE";
        let output = place.run(&["--pass", "."], line);
        assert_eq!(out(&output), "", "{}", err(&output));
        std::fs::remove_dir_all(place.dir.join("state")).unwrap();
        place.write("state", "a file");
        refused(&place, &["--pass", "."], "openpath keeps to itself");
    }
}

#[test]
fn refused_run_leaves_no_view() {
    for place in places("no-view") {
        for options in [
            &["--ro", "w", "--rw", "w"][..],
            &["--hide", "w", "--rw", "w/up"],
            &["--limit", "time=1s", "--share", "pid"],
        ] {
            refused(&place, &[&["--name", "v"], options].concat(), "openpath: ");
            assert!(!place.dir.join("state/openpath/views/v").exists());
        }
        done(&place, &["--name", "v"], "echo x > new");
        refused(
            &place,
            &["--name", "v", "--ro", "w", "--rw", "w"],
            "keep one",
        );
        assert!(place.dir.join("state/openpath/views/v/upper").exists());
    }
}
