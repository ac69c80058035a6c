// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests root's views with a rule of names, of which the kernel's overlay serves a part: the rule
//! holds, and changes, conflicts and commits are the same as with our mount alone.

use crate::kernel_engine::{Started, commit, root_place};
use crate::kernel_marks::done;
use crate::place::{Place, err, out, until};
use std::process::{Command, Output};

/// A place whose working directory is a part beside a hidden directory.
fn part(name: &str) -> Option<Place> {
    let mut place = root_place(name)?;
    done(&place.plain("mkdir -p secret w/state; echo key > secret/key"));
    place.dir.push("w");
    Some(place)
}

fn run(place: &Place, engine: &str, line: &str) -> Output {
    let rules = [
        "-q",
        "--engine",
        engine,
        "--name",
        "view",
        "--hide",
        "../secret",
    ];
    place.run(&rules, line)
}

fn changes(place: &Place) -> Vec<(String, String)> {
    let diff = place.openpath(["diff", "view", "--json"]).output().unwrap();
    let said = done(&diff).replace(place.dir.parent().unwrap().to_str().unwrap(), "");
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    let list = value["changes"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let list = list.map(|change| (text(&change["path"]), text(&change["change"])));
    let mut list: Vec<_> = list.collect();
    list.sort();
    list
}

const FILES: &str =
    "mkdir dir; for f in file gone mode old dir/a dir/b; do echo $f > $f; done; chown 7:8 old";

const LINE: &str = "echo more >> file; rm gone; mkdir -p made/in; echo x > made/in/f; \
    chmod 600 mode; ln -s file link; mkfifo fifo; mknod null c 1 3; rm -r dir; mkdir dir; \
    echo y > dir/new; ln file second; echo z > zero; chmod 0 zero; chown 5:6 mode; \
    echo s > suid; chmod 6755 suid; touch -d 2001-02-03 old; echo out > ../out";

#[test]
fn changes_beside_a_rule_are_the_same_with_both_engines() {
    let mut seen = Vec::new();
    for engine in ["fuse", "kernel"] {
        let Some(place) = part("root-part") else {
            return;
        };
        done(&place.plain(FILES));
        let real =
            "find .. -printf '%p %M %n %U:%G %s %l\\n' | grep -v state | sort; cat file dir/*";
        let before = done(&place.plain(real));
        let line = format!("{LINE}; ls -I state ..; cat ../secret/key 2>&1; stat -f -c %T . ..");
        let said = done(&run(&place, engine, &line));
        let types = match engine {
            "fuse" => "fuseblk\nfuseblk\n",
            _ => "overlayfs\nfuseblk\n",
        };
        let hidden = "out\nw\ncat: ../secret/key: No such file or directory\n";
        assert_eq!(said, format!("{hidden}{types}"), "{engine}");
        assert_eq!(done(&place.plain(real)), before);
        let listed = changes(&place);
        // It goes on with the other.
        let other = if engine == "fuse" { "kernel" } else { "fuse" };
        let more = "cat file; echo again >> file; rm fifo; echo new > dir/again";
        assert_eq!(done(&run(&place, other, more)), "file\nmore\n");
        done(&commit(&place, &[]));
        seen.push((listed, done(&place.plain(real))));
        done(
            &place
                .openpath(["commit", "view", "--undo"])
                .output()
                .unwrap(),
        );
        assert_eq!(done(&place.plain(real)), before);
    }
    assert!(seen[0].0.len() > 12, "{:?}", seen[0].0);
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn changes_in_memory_of_root_are_listed() {
    let Some(place) = part("root-part-memory") else {
        return;
    };
    done(&place.plain(FILES));
    let rules = ["--engine", "kernel", "--hide", "../secret"];
    let ended = place.run(&rules, LINE);
    assert!(ended.status.success(), "{}", err(&ended));
    for name in ["file", "gone", "made/", "null", "mode", "../out"] {
        let path = place.dir.join(name);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(err(&ended).contains(name), "{name}: {}", err(&ended));
    }
    assert_eq!(place.read("file"), "file\n");
}

#[test]
fn changes_by_others_in_a_part_of_root_are_conflicts() {
    let Some(place) = part("root-part-conflicts") else {
        return;
    };
    for (line, meanwhile) in [
        ("echo view >> file", "echo other > new; mv new file"),
        ("rm file", "echo other >> file"),
        ("rm -r dir", "echo other > dir/late"),
        ("chmod 600 file", "chmod 640 file"),
        ("echo view > made", "echo other > made"),
    ] {
        done(&place.plain(
            "rm -rf p; mkdir -p p/dir; cd p; echo base > file; echo in > dir/in; sleep 0.02",
        ));
        let line = format!("cd p; cat file dir/in >&2; echo ready; cat; {line}");
        let started = start(&place, &line);
        done(&place.plain(&format!("cd p; {meanwhile}")));
        started.finish();
        let all = "cd p; ls -l; cat file dir/late made 2>/dev/null; true";
        let before = done(&place.plain(all));
        let refused = commit(&place, &[]);
        let text = err(&refused);
        assert_eq!(
            refused.status.code(),
            Some(1),
            "{line}: {meanwhile}: {text}"
        );
        assert_eq!(done(&place.plain(all)), before, "{line}: {meanwhile}");
        done(&place.openpath(["discard", "view"]).output().unwrap());
    }
}

fn start(place: &Place, line: &str) -> Started {
    let rules = [
        "-q",
        "--engine",
        "kernel",
        "--name",
        "view",
        "--hide",
        "../secret",
    ];
    let words = [&["run"], &rules[..], &["--", "sh", "-c", line]].concat();
    Started::of(place, words)
}

#[test]
fn part_of_root_that_others_move_away_and_back_is_left_alone() {
    let Some(place) = part("root-part-moved") else {
        return;
    };
    done(&place.plain("echo real > gone; echo real > script; chmod 644 script"));
    let dir = place.dir.display();
    let line = format!(
        "echo ready; cat; cd {dir}; [ -e script ] && exit; rm -f gone; \
         chmod 755 script; mkfifo fifo; echo n > new; true"
    );
    let started = start(&place, &line);
    // If the kernel does not look meanwhile, it goes on with the overlay.
    done(&place.plain("cd ..; mv w g; sleep 0.2; mv g w"));
    started.finish();
    let _any = commit(&place, &[]);
    let files = "cat gone script; stat -c %a gone script; ls -I state";
    assert_eq!(
        done(&place.plain(files)),
        "real\nreal\n644\n644\ngone\nscript\n"
    );
}

#[test]
fn renamed_directory_in_a_part_of_root_needs_our_mount() {
    let Some(place) = part("root-part-redirect") else {
        return;
    };
    done(&place.plain("mkdir dir; echo in > dir/in"));
    done(&run(&place, "fuse", "mv dir moved"));
    let refused = run(&place, "kernel", "cat moved/in");
    assert_eq!(refused.status.code(), Some(125));
    assert!(err(&refused).contains("cannot show"), "{}", err(&refused));
    assert_eq!(
        done(&run(&place, "fuse", "cat moved/in; ls -I state")),
        "in\nmoved\n"
    );
    done(&commit(&place, &[]));
    assert_eq!(place.read("moved/in"), "in\n");
}

#[test]
fn killed_run_with_a_part_of_root_leaves_a_view_that_is_compared() {
    let Some(place) = part("root-part-killed") else {
        return;
    };
    done(&place.plain(FILES));
    let line = format!("{LINE}; echo ready; cat");
    let mut started = start(&place, &line);
    let front = started.run.id();
    let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).unwrap();
    let kill = format!("kill -9 {front} {children}");
    let _some_are_gone = Command::new("sh").args(["-c", &kill]).status().unwrap();
    started.run.wait().unwrap();
    let mut said = String::new();
    until("the view is free", || {
        let diff = place.openpath(["diff", "view", "--json"]).output().unwrap();
        said = out(&diff) + &err(&diff);
        diff.status.success()
    });
    assert!(said.contains("dir/new") && said.contains("gone"), "{said}");
    done(&commit(&place, &[]));
    assert_eq!(place.read("file"), "file\nmore\n");
}

#[test]
fn dry_run_says_which_part_of_root_the_kernel_serves() {
    let Some(place) = part("root-part-dry") else {
        return;
    };
    let dry = |engine: &str| {
        done(&place.run(
            &["--dry-run", "--engine", engine, "--hide", "../secret"],
            "true",
        ))
    };
    let part = format!(
        "# kernel: it serves {}, and fuse the rest",
        place.dir.display()
    );
    assert!(dry("kernel").contains(&part));
    let why = "# auto: fuse serves the view, because the kernel can serve only a part";
    assert!(dry("auto").contains(why), "{}", dry("auto"));
}
