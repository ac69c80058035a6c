// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a full directory for changes or a lower tree that disappears fails single calls of a
//! command, and neither hangs a process nor harms other files.

use crate::place::{Place, err, out};
use std::process::{Command, Output};

/// A command with its arguments, as a shell reads it.
fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| format!("'{}'", word.display()));
    quoted.collect::<Vec<_>>().join(" ")
}

/// Runs a shell's line as root in a new mount namespace, for at most a minute: `RUN` runs a line in
/// the view `up/view`, `DIFF` compares it.
fn apart(place: &Place, options: &[&str], line: &str) -> Output {
    let view = place.path("up/view/");
    let args = [
        &["run", "-q", "--name", &view],
        options,
        &["--", "sh", "-c"],
    ]
    .concat();
    let run = words(&place.openpath(args));
    let diff = words(&place.openpath(["diff", "--stat", &view]));
    let line = format!("RUN() {{ {run} \"$1\"; }}; DIFF() {{ {diff}; }}\n{line}");
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "timeout", "60", "bash", "-c", &line]);
    apart.current_dir(&place.dir).output().unwrap()
}

#[test]
fn full_directory_is_reported_and_breaks_nothing_else() {
    // A late write fails at close(2), and a shell ignores the result of that.
    let ways: [(&[&str], _, _); 2] = [
        (&[], "long 1\n3000000\n", ""),
        (
            &["--write-back"],
            "long 0\n3000002\n",
            "late writes were lost",
        ),
    ];
    for (options, of_long, summary) in ways {
        full_directory(options, of_long, summary);
    }
}

/// The messages about a file that cannot be copied up for lack of space: by its writer, and at the
/// end.
fn full_directory(options: &[&str], of_long: &str, summary: &str) {
    // The kernel's overlay fails when the file is opened, as it copies all of it then.
    for place in Place::all("full-dir").map(Place::needs_fuse) {
        place.write("file", "before\n");
        let long = "b".repeat(3_000_000);
        place.write("long", &long);
        std::fs::create_dir(place.dir.join("up")).unwrap();
        let line = "mount -t tmpfs -o size=2M,mode=1777 none up
            RUN 'head -c 8000000 /dev/zero > big; echo big $?; cat file; echo x >> long; \
                echo long $?; wc -c < long; rm big; until echo y > after; do sleep 0.02; done; \
                cat after; echo z >> file; cat file'
            echo run $?; DIFF; echo diff $?; RUN 'ls; cat file; wc -c < long'; echo again $?";
        let output = apart(&place, options, line);
        let said = out(&output);
        assert!(err(&output).contains("No space left"), "{}", err(&output));
        let begins = format!("big 1\nbefore\n{of_long}y\nbefore\nz\nrun 0\n");
        assert!(said.starts_with(&begins), "{said}{}", err(&output));
        assert!(err(&output).contains(summary), "{}", err(&output));
        assert!(
            said.contains("diff 0\nafter\nfile\nlong\nup\n"),
            "{said}{}",
            err(&output)
        );
        assert!(said.ends_with("before\nz\n3000000\nagain 0\n"), "{said}");
        assert_eq!(
            (place.read("file"), place.read("long")),
            ("before\n".into(), long)
        );
    }
}

#[test]
fn missing_lower_tree_hangs_no_process() {
    for (name, gone) in [("unmounted", "umount -l low"), ("removed", "rm -rf low/*")] {
        for place in Place::all(name) {
            for dir in ["up", "low", "out"] {
                std::fs::create_dir(place.dir.join(dir)).unwrap();
                place.own(dir);
            }
            let line = format!(
                "mount -t tmpfs -o mode=777 none low; mkdir -m 777 low/deep low/cold
                for f in low/file low/deep/file low/deep/more low/cold/file; do echo before > $f; \
                    chmod 666 $f; done
                RUN 'cat low/file; echo changed > low/deep/file; echo new > low/new; \
                    exec 3< low/deep/more; touch out/ready; \
                    until [ -e out/go ]; do sleep 0.02; done; \
                    ls -R low; cat low/file low/deep/more low/cold/file <&3; \
                    echo y >> low/file; echo z > low/cold/new; mv low/deep low/moved; \
                    rm -r low/cold; \
                    cat low/deep/file low/moved/file low/new; find . > /dev/null; echo ended' &
                until [ -e out/ready ]; do sleep 0.02; done; {gone}; touch out/go
                wait $!; echo run $?; DIFF; echo diff $?; RUN 'cat low/new; echo again'
                echo over $?"
            );
            let output = apart(&place, &["--rw", "out"], &line);
            let said = out(&output);
            for part in ["before\n", "ended\nrun 0\n", "diff 0\n", "again\nover 0\n"] {
                assert!(
                    said.contains(part),
                    "{name}: no {part:?} in {said}{}",
                    err(&output)
                );
            }
        }
    }
}
