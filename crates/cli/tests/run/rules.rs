// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the rules of a view (`--hide`, `--absent`, `--ro` and others) hold for each command
//! in it, that contradictory ones are refused, and that kept rules are loosened only on request.

use crate::place::{Place, err, out};

/// Places with a tree for the rules.
fn places(name: &str) -> impl Iterator<Item = Place> {
    Place::all(name).inspect(|place| {
        for dir in [
            ".keys",
            "w",
            "w/ro",
            "w/ro/rw",
            "w/ro/rw/x",
            "w/ro/rw/x/rw",
            "a",
        ] {
            std::fs::create_dir(place.dir.join(dir)).unwrap();
            place.own(dir);
        }
        for file in [".keys/t", "a/k.pem", "a/z.pem", "a/open"] {
            place.write(file, "TREASURE\n");
        }
    })
}

/// Checks that the command does not start, and that the error says why.
fn refused(place: &Place, options: &[&str], why: &str) {
    let output = place.run(options, "echo ran");
    let said = err(&output);
    assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
    assert!(
        out(&output).is_empty() && said.contains(why),
        "{options:?}: {said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Checks that the command sees nothing hidden.
fn hides(place: &Place, options: &[&str], line: &str) {
    let output = place.run(options, line);
    let said = out(&output) + &err(&output);
    assert!(!said.contains("TREASURE"), "{options:?}: {said}");
    assert!(out(&output).ends_with("judged\n"), "{options:?}: {said}");
}

#[test]
fn rules_of_a_view_hold_in_its_next_run() {
    for place in places("kept-rules") {
        let first = [
            "--name", "gk", "--hide", ".keys", "--absent", "a/*.pem", "--ro", "w", "--rw", "w/ro",
        ];
        hides(&place, &first, "cat .keys/t a/k.pem; echo judged");
        let line = "cat .keys/t a/k.pem a/z.pem; mkdir .keys; touch a/n.pem w/new; \
            echo disk > w/ro/new; cat a/open > /dev/null; echo judged";
        hides(&place, &["--name", "gk"], line);
        assert_eq!(place.read("w/ro/new"), "disk\n");
        let output = place.run(&["--name", "gk"], "touch w/new");
        assert!(err(&output).contains("Read-only"), "{}", err(&output));
        // New rules add to them, and are kept too.
        hides(
            &place,
            &["--name", "gk", "--hide", "a"],
            "cat a/open; echo judged",
        );
        hides(&place, &["--name", "gk"], "cat a/open .keys/t; echo judged");
        let replaced = place.run(&["--name", "gk", "--replace-rules"], "cat .keys/t a/k.pem");
        assert_eq!(
            out(&replaced).matches("TREASURE").count(),
            2,
            "{}",
            err(&replaced)
        );
        let after = place.run(&["--name", "gk"], "cat .keys/t");
        assert_eq!(out(&after), "TREASURE\n", "{}", err(&after));
        refused(&place, &["--replace-rules"], "--name");
    }
}

#[test]
fn kept_rules_hold_for_paths_that_are_made_again() {
    for place in places("kept-gone") {
        let first = ["--name", "v", "--hide", ".keys", "--ro", "a"];
        hides(&place, &first, "cat .keys/t; echo judged");
        std::fs::remove_dir_all(place.dir.join(".keys")).unwrap();
        std::fs::remove_dir_all(place.dir.join("a")).unwrap();
        let output = place.run(&["--name", "v"], "mkdir .keys || mkdir a || echo held");
        assert_eq!(out(&output), "held\n", "{}", err(&output));
        std::fs::create_dir(place.dir.join(".keys")).unwrap();
        place.own(".keys");
        place.write(".keys/t", "TREASURE\n");
        hides(&place, &["--name", "v"], "cat .keys/t; echo judged");
    }
}

#[test]
fn kept_rule_that_cannot_hold_any_more_is_an_error() {
    for place in places("kept-broken") {
        place.run(&["--name", "v", "--rw", "w/ro/rw"], "true");
        std::fs::rename(place.dir.join("w/ro/rw"), place.dir.join("moved")).unwrap();
        refused(&place, &["--name", "v"], "--replace-rules");
        // The user did not choose where the path leads now.
        std::os::unix::fs::symlink(place.dir.join("a"), place.dir.join("w/ro/rw")).unwrap();
        refused(&place, &["--name", "v"], "leads elsewhere");
        std::fs::remove_file(place.dir.join("w/ro/rw")).unwrap();
        std::fs::rename(place.dir.join("moved"), place.dir.join("w/ro/rw")).unwrap();
        assert!(place.run(&["--name", "v"], "true").status.success());
        place.write("state/openpath/views/v/rules.toml", "no = \"rule\"");
        refused(&place, &["--name", "v"], "--replace-rules");
        assert!(
            place
                .run(&["--name", "v", "--replace-rules"], "true")
                .status
                .success()
        );
    }
}

#[test]
fn kept_rule_is_loosened_only_on_request() {
    for place in places("kept-loose") {
        let first = ["--name", "v", "--ro", "w", "--rw", "a"];
        assert!(place.run(&first, "true").status.success());
        for loose in ["--rw", "--pass"] {
            refused(&place, &["--name", "v", loose, "w/ro"], "--replace-rules");
            refused(&place, &["--name", "v", loose, "w"], "--replace-rules");
        }
        refused(
            &place,
            &["--name", "v", "--mount", "w/ro=mem"],
            "--replace-rules",
        );
        refused(&place, &["--name", "v", "--ro", "."], "--replace-rules");
        // The same rule again is not a new rule.
        assert!(place.run(&first, "true").status.success());
        let again = [
            "--name",
            "v",
            "--replace-rules",
            "--ro",
            "w",
            "--rw",
            "w/ro",
        ];
        let output = place.run(&again, "echo x > w/ro/new");
        assert!(output.status.success(), "{}", err(&output));
    }
}

#[test]
fn rules_hold_for_exec() {
    for place in places("exec-rules") {
        // Root's `exec` searches the runs of all users: no other test has this name.
        let options = "--name entered-rules --hide .keys --absent '*.pem' --ro w --rw w/ro";
        let inner = "cat .keys/t a/k.pem; mkdir .keys; touch a/n.pem w/new && echo LOST; \
            echo disk > w/ro/new; echo judged";
        let line = format!(
            "timeout 120 {0} run -q {options} -- sh -c 'until [ -e stop ]; do sleep 0.05; done' & \
            for n in $(seq 2400); do {0} stats entered-rules > /dev/null 2>&1 && break; \
            sleep 0.05; done; \
            {0} exec entered-rules -- sh -c '{inner}'; {0} exec entered-rules -- touch stop; wait",
            crate::place::OPENPATH
        );
        let state = place.path("state");
        let output = place.plain(&format!("export XDG_STATE_HOME={state}; {line}"));
        let said = out(&output) + &err(&output);
        assert!(
            !said.contains("TREASURE") && !said.contains("LOST"),
            "{said}"
        );
        assert!(out(&output).contains("judged"), "{said}");
        assert_eq!(place.read("w/ro/new"), "disk\n");
    }
}

#[test]
fn dry_run_prints_a_config_that_can_be_run() {
    // --engine auto adds a line.
    for place in places("dry").map(Place::needs_fuse) {
        let options = [
            "--hide",
            ".keys",
            "--hide-try",
            "none",
            "--absent",
            "a/{k,z}.pem",
            "--ro",
            "w",
            "--ro-try",
            "gone",
            "--rw",
            "w/ro",
            "--mount",
            "w/ro/rw=mem,size=1M",
        ];
        let named = [&["--name", "v"], &options[..]].concat();
        let dry = place.run(&[&named[..], &["--dry-run"]].concat(), "true");
        assert!(!place.dir.join("state").exists(), "{}", err(&dry));
        assert!(place.run(&named, "true").status.success());
        let kept = place.run(&["--name", "v", "--dry-run"], "true");
        for rule in [
            ".keys",
            "none",
            "a/{k,z}.pem",
            "/w\"",
            "gone",
            "w/ro\"",
            "w/ro/rw",
        ] {
            assert!(
                out(&kept).contains(rule),
                "{rule}: {}{}",
                out(&kept),
                err(&kept)
            );
        }
        for text in [out(&dry), out(&kept)] {
            place.write("run.toml", &text);
            let again = place.run(
                &["--config", "run.toml", "--replace-rules", "--dry-run"],
                "true",
            );
            assert_eq!(out(&again), text, "{}", err(&again));
            let line = "cat .keys/t a/k.pem; touch w/x none gone; echo x > w/ro/rw/m; \
                cat w/ro/rw/m; ls -A | wc -l; echo judged";
            hides(&place, &["--config", "run.toml", "--replace-rules"], line);
        }
        assert!(!place.dir.join("w/ro/rw/m").exists());
    }
}

#[test]
fn absent_patterns_with_a_slash_start_at_the_working_directory() {
    for place in places("absent-dialect") {
        let line = "cat a/k.pem a/z.pem; cp a/open b.pem; touch a/n.pem && echo TREASURE; \
            echo judged";
        std::os::unix::fs::symlink("a", place.dir.join("way")).unwrap();
        let anchored = format!("{}/a/*.pem", place.dir.display());
        for pattern in [
            "a/*.pem",
            "a/**",
            "**/a/?.pem",
            "a/{k,z,n}.pem",
            "way/[knz].pem",
            &anchored,
        ] {
            hides(&place, &["--absent", pattern], line);
        }
        let top = place.run(&["--absent", "/a/*.pem"], "cat a/k.pem");
        assert_eq!(out(&top), "TREASURE\n");
        let escaped = place.run(
            &["--absent", r"a/\{k\,z\}.pem"],
            "cat a/k.pem; touch 'a/{k,z}.pem'",
        );
        assert!(out(&escaped).contains("TREASURE"));
        assert!(
            err(&escaped).contains("Operation not permitted"),
            "{}",
            err(&escaped)
        );
        std::fs::create_dir(place.dir.join("conf")).unwrap();
        place.write("conf/run.toml", "absent = [\"../x\"]\n");
        refused(
            &place,
            &["--config", "conf/run.toml"],
            "without `.` and `..`",
        );
        place.write("a/run.toml", "absent = [\"./*.pem\"]\n");
        hides(&place, &["--config", "a/run.toml"], line);
        for wrong in [
            "",
            "{k,z",
            "[kz",
            "a/",
            "!k.pem",
            "a**b",
            "[[:alpha:]]",
            "k\\",
        ] {
            refused(&place, &["--absent", wrong], "no pattern of absent names");
        }
    }
}

#[test]
fn rules_without_effect_are_refused() {
    for place in places("no-effect") {
        for (options, why) in [
            (&["--hide", "/"][..], "--hide /"),
            (&["--hide", "missing"], "--hide-try"),
            (&["--ro", "missing"], "--ro-try"),
            (&["--rw", "missing"], "--rw"),
            (&["--rw", "a/open"], "not a directory"),
            (&["--pass", "missing"], "--pass"),
            (&["--mount", "missing=mem"], "--mount"),
            (&["--mount", "a=host:missing"], "--mount"),
            (&["--mount", "/dev/shm=mem"], "/dev passes"),
            (&["--pass", "w", "--ro", "w/ro"], "passes"),
            (&["--pass", "w", "--hide", "w/ro"], "passes"),
            (&["--pass", "w", "--mount", "w/ro=mem"], "passes"),
            (&["--pass", "w", "--absent", "w/ro/*"], "passes"),
            (&["--ro", "w", "--rw", "w"], "keep one"),
            (&["--rw", "w", "--pass", "w"], "keep one"),
            (
                &["--mount", "w=mem", "--mount", "w=mem,size=1M"],
                "keep one",
            ),
            (&["--hide", "w", "--rw", "w/ro"], "leave one out"),
            (&["--upper", "memory:"], "no size"),
            (&["--upper", "memory:5X"], "no size"),
        ] {
            refused(&place, options, why);
        }
        let output = place.run(&["--hide-try", "missing"], "mkdir missing || echo held");
        assert_eq!(out(&output), "held\n", "{}", err(&output));
        let output = place.run(&["--ro-try", "missing"], "mkdir missing || echo held");
        assert_eq!(out(&output), "held\n", "{}", err(&output));
        let told = place.run(&["--pass", "a", "--absent", "*.pem"], "cat a/k.pem");
        assert!(
            err(&told).contains("*.pem does not hold in"),
            "{}",
            err(&told)
        );
        let none = place.run(&["--upper", "memory:0"], "echo x > new || echo held");
        assert_eq!(out(&none), "held\n", "{}", err(&none));
    }
}

#[test]
fn rule_against_a_kept_one_is_refused_with_both() {
    for place in places("kept-against") {
        let hidden = format!("--hide {}", place.path("w/ro"));
        for first in [
            ["--name", "v", "--hide", "w/ro"],
            ["--name", "u", "--absent", "k.*"],
        ] {
            let made = place.run(&first, "echo ran");
            assert_eq!(out(&made), "ran\n", "{}", err(&made));
        }
        for (rule, path) in [("--rw", "w/ro"), ("--mount", "w/ro=mem"), ("--pass", "w")] {
            let options = ["--name", "v", rule, path];
            for why in [rule, &*hidden, "which is kept with", "--replace-rules"] {
                refused(&place, &options, why);
            }
        }
        let why = "is kept with the view u: give all rules again with --replace-rules";
        std::fs::create_dir(place.dir.join("k.d")).unwrap();
        refused(&place, &["--name", "u", "--ro", "k.d"], why);
        // The rules of the run exclude each other without the kept ones.
        let own = ["--name", "v", "--ro", "w", "--rw", "w"];
        refused(&place, &own, "keep one");
    }
}

#[test]
fn innermost_rule_wins() {
    for place in places("innermost") {
        let line = "for d in . w w/ro w/ro/rw w/ro/rw/x w/ro/rw/x/rw; do \
            touch $d/new 2> /dev/null && echo $d; done; \
            mv w/ro/rw w/ro/moved 2> /dev/null && echo MOVED; \
            mv w/ro/rw/x w/ro/rw/moved 2> /dev/null && echo MOVED; \
            mv w/ro w/moved 2> /dev/null && echo MOVED; rmdir w/ro/rw/x/rw && echo MOVED; true";
        let rules = [
            "--rw",
            "w",
            "--ro",
            "w/ro",
            "--rw",
            "w/ro/rw",
            "--ro",
            "w/ro/rw/x",
        ];
        let deepest = ["--rw", "w/ro/rw/x/rw"];
        let output = place.run(&[&rules[..], &deepest].concat(), line);
        assert_eq!(
            out(&output),
            ".\nw\nw/ro/rw\nw/ro/rw/x/rw\n",
            "{}",
            err(&output)
        );
        for new in ["w/new", "w/ro/rw/new", "w/ro/rw/x/rw/new"] {
            assert!(place.dir.join(new).exists(), "{new}");
        }
        // An allow-list of writes.
        let output = place.run(
            &["--ro", ".", "--rw", "w", "--mount", "a=mem"],
            "touch new; \
            touch .keys/new; echo disk > w/new; echo mem > a/new && cat a/new",
        );
        assert_eq!(out(&output), "mem\n", "{}", err(&output));
        assert_eq!(
            err(&output).matches("Read-only").count(),
            2,
            "{}",
            err(&output)
        );
        assert_eq!(place.read("w/new"), "disk\n");
        // A passed path stays as it is.
        let output = place.run(
            &["--ro", ".", "--pass", "w"],
            "echo passed > w/new; touch new",
        );
        assert!(err(&output).contains("Read-only"), "{}", err(&output));
        assert_eq!(place.read("w/new"), "passed\n");
        // The name is unique in the shared directory.
        let line = format!(
            "echo disk > w/new; touch new /tmp/openpath-innermost-{}",
            std::process::id()
        );
        let output = place.run(&["--ro", "/", "--rw", "w"], &line);
        assert_eq!(
            err(&output).matches("Read-only").count(),
            2,
            "{}",
            err(&output)
        );
        assert_eq!(place.read("w/new"), "disk\n");
    }
}

#[test]
fn config_writable_by_the_command_is_refused() {
    for place in places("config-rw") {
        place.write("w/agent.toml", "rw = [\".\"]\n");
        refused(
            &place,
            &["--config", "w/agent.toml"],
            "the command can change it",
        );
        place.write("w/agent.toml", "rw = [\".\"]\nro = [\"agent.toml\"]\n");
        let line = "echo x > w/agent.toml; rm -f w/agent.toml; mv w w2; touch w/new; \
            ln w/agent.toml w/other && echo x > w/other; true";
        let output = place.run(&["--config", "w/agent.toml"], line);
        assert!(output.status.success(), "{}", err(&output));
        assert!(place.read("w/agent.toml").contains("agent.toml"));
        assert!(place.dir.join("w/new").exists());
        place.write("agent.toml", "pass = [\"w\"]\n");
        std::os::unix::fs::symlink("../agent.toml", place.dir.join("w/link.toml")).unwrap();
        std::os::unix::fs::symlink("w/link.toml", place.dir.join("link.toml")).unwrap();
        refused(
            &place,
            &["--config", "link.toml"],
            "a link on the way to it",
        );
        let output = place.run(&["--config", "agent.toml"], "true");
        assert!(output.status.success(), "{}", err(&output));
        // An earlier run replaced the directory by a link.
        std::os::unix::fs::symlink("../a", place.dir.join("w/way")).unwrap();
        refused(
            &place,
            &["--rw", "w", "--rw", "w/way"],
            "leads through the link",
        );
    }
}

#[test]
fn pass_that_lifts_a_kept_pattern_is_refused() {
    for place in places("pass-pattern") {
        place.plain("mkdir keys other; echo secret > keys/x.pem");
        for (pattern, passes) in [
            ("*.pem", false),
            ("keys/*.pem", false),
            ("other/*.pem", true),
        ] {
            let kept = place.run(&["-q", "--name", "v", "--absent", pattern], "true");
            assert!(kept.status.success(), "{}", err(&kept));
            let output = place.run(&["-q", "--name", "v", "--pass", "keys"], "cat keys/x.pem");
            let wanted = if passes { "secret\n" } else { "" };
            assert_eq!(out(&output), wanted, "{pattern}: {}", err(&output));
            let refused = err(&output).contains("is kept with the view v");
            assert_eq!(refused, !passes, "{pattern}: {}", err(&output));
            let gone = place.openpath(["discard", "v"]).output().unwrap();
            assert!(gone.status.success(), "{}", err(&gone));
        }
    }
}

#[test]
fn directory_with_hidden_names_is_not_removed() {
    for place in places("hidden-rm") {
        let line = "rm -r a; ls a; rmdir a; mv .keys keys; echo judged";
        let options = ["--absent", "a/*.pem", "--hide", ".keys/t"];
        let output = place.run(&options, line);
        assert_eq!(out(&output), "judged\n", "{}", err(&output));
        let said = err(&output);
        assert_eq!(said.matches("Directory not empty").count(), 3, "{said}");
        assert_eq!(place.read(".keys/t"), "TREASURE\n");
    }
}

/// Prints which namespaces of the host a command has.
const SHARES: &str = "for n in ipc net; do readlink /proc/self/ns/$n; done";

#[test]
fn namespaces_and_limits_are_kept_with_a_view_and_hold_for_exec() {
    for place in places("kept-space") {
        let host = out(&place.plain(SHARES));
        let host: Vec<&str> = host.lines().collect();
        let of_host = |output: &std::process::Output| {
            let said = out(output);
            let all: Vec<bool> = said.lines().zip(&host).map(|(a, b)| a == *b).collect();
            assert_eq!(all.len(), 2, "{}", err(output));
            (all[0], all[1])
        };
        let given = ["--share", "ipc", "--net", "none", "--limit", "time=60s"];
        let options = [&["--name", "v"][..], &given].concat();
        assert_eq!(of_host(&place.run(&options, SHARES)), (true, false));
        let name = ["-q", "--name", "v"];
        assert_eq!(of_host(&place.run(&name, SHARES)), (true, false));
        refused(
            &place,
            &["--name", "v", "--net", "host"],
            "is kept with the view",
        );
        refused(
            &place,
            &["--name", "v", "--limit", "time=61s"],
            "is kept with the view",
        );
        let running = crate::live::Running::start(&place, &name, "true");
        let exec = ["exec", &running.pid(), "--", "sh", "-c", SHARES];
        assert_eq!(
            of_host(&place.openpath(exec).output().unwrap()),
            (true, false)
        );
        running.end();
        let shorter = ["-q", "--name", "v", "--limit", "time=300ms"];
        for options in [&shorter[..], &name] {
            let ended = place.run(options, "sleep 30");
            assert_eq!(ended.status.code(), Some(124), "{}", err(&ended));
        }
        let anew = ["-q", "--name", "v", "--replace-rules"];
        for options in [&anew[..], &name] {
            assert_eq!(of_host(&place.run(options, SHARES)), (false, true));
        }
    }
}
