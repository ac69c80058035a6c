// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `run`, `diff` and `commit --dry-run` list everything that a command changed and
//! nothing else, for each kind of change, and that `diff` holds one changed file in memory at a
//! time.

use crate::place::{Place, err, out};
use serde_json::Value;

/// Runs a line on the view `v`; returns its summary without the path of the place.
fn summary(place: &Place, line: &str) -> String {
    let output = place.run(&["--name", "v"], line);
    assert!(output.status.success(), "{}", err(&output));
    err(&output).replace(&format!("{}/", place.dir.display()), "")
}

/// The output of another verb on the view, without the path of the place.
fn verb(place: &Place, args: &[&str]) -> String {
    let output = place.openpath(args).output().unwrap();
    assert!(output.status.success(), "{}{}", out(&output), err(&output));
    let path = format!("{}/", place.dir.display());
    let text = out(&output);
    let text = ["a", "b"].iter().fold(text, |text, side| {
        text.replace(&format!("{side}{path}"), &format!("{side}/"))
    });
    text.replace(&path, "")
        .replace(path.trim_start_matches('/'), "")
}

/// The JSON of the change with this end of its path.
fn data(place: &Place, name: &str) -> Value {
    let json: Value = serde_json::from_str(&verb(place, &["diff", "v", "--json"])).unwrap();
    let all = json["changes"].as_array().unwrap();
    let found = all.iter().find(|change| change["path"] == name);
    found.unwrap_or_else(|| panic!("{name}: {json}")).clone()
}

/// `src` with `1`, `2`, `3` and `deep/z`.
fn with_source(name: &str) -> impl Iterator<Item = Place> {
    Place::all(name).inspect(|place| {
        let line = "mkdir -p state src/deep; for i in 1 2 3 deep/z; do echo $i > src/$i; done";
        assert!(place.plain(line).status.success());
    })
}

#[test]
fn names_hidden_by_a_new_directory_are_listed_as_deleted() {
    for place in with_source("hidden-names") {
        let line = "rm -r src; mkdir src; echo q > src/1; cp -p /dev/null src/new";
        let said = summary(&place, line);
        let want = "openpath: 5 changes\n  M  src/  replaced\n  M  src/1  2 B -> 2 B\n  \
            D  src/2  2 B\n  D  src/3  2 B\n  D  src/deep/  1 name\n  A  src/new  0 B\n";
        assert_eq!(said.replace("6 changes", "5 changes"), want);
        let stat = verb(&place, &["diff", "v", "--stat"]);
        assert!(
            stat.contains("D  src/2  +0 -1\n") && stat.contains("D  src/deep/  1 name\n"),
            "{stat}"
        );
        assert_eq!(data(&place, "src/2")["change"], "deleted");
        assert_eq!(data(&place, "src/deep")["names"], 1);
        assert_eq!(data(&place, "src/1")["change"], "modified");
        let dry = verb(&place, &["commit", "v", "--dry-run"]);
        let list = said.split_once('\n').unwrap().1;
        assert_eq!(dry, format!("{list}openpath: 6 changes can be committed\n"));
        let done = verb(&place, &["commit", "v"]);
        assert!(done.starts_with(list), "{done}");
        assert!(done.contains("openpath: 6 changes committed"), "{done}");
        let names = place.plain("find src | sort");
        assert_eq!(out(&names), "src\nsrc/1\nsrc/new\n");
    }
}

#[test]
fn copy_in_place_of_a_directory_lists_missing_names_as_deleted() {
    for place in with_source("copied-over") {
        let line = "cp -rp src new; rm -r src; mv new src; rm src/2";
        let said = summary(&place, line);
        assert!(said.contains("  D  src/2  2 B\n"), "{said}");
        assert!(said.contains("  m  src/1  replaced by a copy\n"), "{said}");
        assert!(!said.contains("  A  "), "{said}");
        verb(&place, &["commit", "v"]);
        let names = place.plain("cat src/1 src/3 src/deep/z; ls src");
        assert_eq!(out(&names), "1\n3\ndeep/z\n1\n3\ndeep\n");
    }
}

#[test]
fn names_replaced_by_a_renamed_directory_are_listed_as_deleted() {
    for place in with_source("renamed-over") {
        let line = "mkdir build; echo 1 > build/1; echo n > build/n";
        assert!(place.plain(line).status.success());
        let said = summary(&place, "rm -r src; mv build src");
        let want = "openpath: 4 changes\n  R  build -> src/  replaces what had this name\n  \
            D  src/2  2 B\n  D  src/3  2 B\n  D  src/deep/  1 name\n";
        assert_eq!(said, want);
        verb(&place, &["commit", "v"]);
        assert_eq!(
            out(&place.plain("ls -A . src")),
            ".:\nsrc\nstate\n\nsrc:\n1\nn\n"
        );
        verb(&place, &["commit", "v", "--undo"]);
        assert_eq!(summary(&place, "true"), want);
    }
}

#[test]
fn change_of_a_files_type_is_listed() {
    for place in with_source("types") {
        let line = "echo text > file; echo long > long; ln -s old link; chmod 755 src";
        assert!(place.plain(line).status.success());
        let line = "rm -r src; echo text > src; rm file; mkdir file; echo in > file/in; \
            rm long; ln -s target long; rm link; echo 1 > link";
        let said = summary(&place, line);
        let want = "openpath: 4 changes\n  M  file/  file -> directory, 1 name\n  \
            M  link  link -> file, 2 B\n  M  long  file -> link to target\n  \
            M  src  directory of 5 names -> file, 5 B\n";
        assert_eq!(said, want);
        let src = data(&place, "src");
        assert_eq!(
            (&src["type_before"], &src["type"]),
            (&"directory".into(), &"file".into())
        );
        assert_eq!(src["names"], 5);
        assert_eq!(data(&place, "long")["target"], "target");
        let diff = verb(&place, &["diff", "v", "src", "file"]);
        assert!(
            diff.contains("old directory mode 0755, 5 names\nnew file mode 0644\n--- /dev/null\n"),
            "{diff}"
        );
        assert!(
            diff.contains("+text\n") && diff.contains("+++ /dev/null\n"),
            "{diff}"
        );
        assert!(!diff.contains("Binary"), "{diff}");
        verb(&place, &["commit", "v"]);
        assert_eq!(
            out(&place.plain("cat src file/in link; readlink long")),
            "text\nin\n1\ntarget\n"
        );
    }
}

#[test]
fn names_of_a_deleted_tree_are_counted() {
    for place in with_source("deleted-tree") {
        let line = "mkdir -p big/sub; touch $(seq -f big/sub/%g 1000) one; mkdir few; touch few/1";
        assert!(place.plain(line).status.success());
        let said = summary(&place, "rm -r big few one; mkdir new; touch new/1");
        let want = "openpath: 4 changes\n  D  big/  1,001 names\n  D  few/  1 name\n  \
            A  new/  1 name, 0 B\n  D  one  0 B\n";
        assert_eq!(said, want);
        assert_eq!(data(&place, "big")["names"], 1001);
        let diff = verb(&place, &["diff", "v"]);
        assert!(
            diff.contains("deleted directory mode 0755, 1,001 names\n"),
            "{diff}"
        );
        let dry = verb(&place, &["commit", "v", "--dry-run"]);
        assert!(
            dry.ends_with("openpath: 4 changes can be committed\n"),
            "{dry}"
        );
        let done = verb(&place, &["commit", "v"]);
        assert!(done.contains("  D  big/  1,001 names\n"), "{done}");
    }
}

#[test]
fn renamed_and_changed_file_is_listed_with_both() {
    for place in Place::all("renamed-changed") {
        place.write("f", "1\n");
        place.write("g", "2\n");
        let said = summary(&place, "mv f f2; echo 22 >> f2; chmod 600 f2; mv g g2");
        let want = "openpath: 2 changes\n  R  f -> f2  2 B -> 5 B, mode 0644 -> 0600\n  \
            R  g -> g2\n";
        assert_eq!(said, want);
        let stat = verb(&place, &["diff", "v", "--stat"]);
        assert!(
            stat.contains("R  f -> f2  +1 -0  2 B -> 5 B, mode 0644 -> 0600\n"),
            "{stat}"
        );
        assert!(stat.contains("R  g -> g2\n"), "{stat}");
        let diff = verb(&place, &["diff", "v"]);
        let want = "rename from f\nrename to f2\nold mode 0644\nnew mode 0600\n--- a/f\n";
        assert!(diff.contains(want), "{diff}");
        let both = ["data_changed", "replaces"].map(|key| data(&place, "f2")[key].clone());
        assert_eq!(both, [Value::Bool(true), Value::Bool(false)]);
    }
}

#[test]
fn attributes_that_differ_are_named() {
    for place in Place::all("attributes") {
        for name in ["attr", "mode", "times"] {
            place.write(name, "x");
        }
        let line = "python3 -c 'import os; os.setxattr(\"attr\", \"user.k\", b\"v\")'; \
            chmod 600 mode; touch -d @1 times";
        let said = summary(&place, line);
        let want = "openpath: 3 changes\n  m  attr  attribute user.k\n  \
            m  mode  mode 0644 -> 0600\n  m  times  times\n";
        assert_eq!(said, want);
        let attr = data(&place, "attr");
        assert_eq!(attr["attributes"], serde_json::json!(["user.k"]));
        assert_eq!(
            data(&place, "mode")["attributes"],
            serde_json::json!(["mode"])
        );
        let diff = verb(&place, &["diff", "v"]);
        assert!(
            diff.contains("attribute user.k\n") && diff.contains("b/times\ntimes\n"),
            "{diff}"
        );
        assert!(!diff.contains("Binary"), "{diff}");
    }
}

#[test]
fn json_members_of_a_missing_side_are_null() {
    for place in Place::all("null") {
        place.write("gone", "1");
        summary(&place, "rm gone; echo 2 > new");
        let (new, gone) = (data(&place, "new"), data(&place, "gone"));
        for member in ["size_before", "mode_before"] {
            assert_eq!(new[member], Value::Null, "{new}");
            assert!(!gone[member].is_null(), "{gone}");
        }
        for member in ["size", "mode"] {
            assert_eq!(gone[member], Value::Null, "{gone}");
            assert!(!new[member].is_null(), "{new}");
        }
        assert_eq!(gone["mode_before"], "0644");
    }
}

#[test]
fn long_list_says_how_to_see_the_rest() {
    for place in Place::all("long-list") {
        let line = "touch $(seq 61)";
        let said = summary(&place, line);
        assert!(
            said.ends_with("  and 11 more: see `openpath diff v --stat`\n"),
            "{said}"
        );
        let said = err(&place.run(&[], line));
        assert!(
            said.ends_with("  and 11 more: `--json` lists them\n"),
            "{said}"
        );
        let refused = place.openpath(["diff", "v", "none"]).output().unwrap();
        assert!(
            err(&refused).contains("see `openpath diff v --stat`"),
            "{}",
            err(&refused)
        );
    }
}

#[test]
fn characters_that_are_not_seen_are_escaped() {
    for place in Place::all("format") {
        let said = summary(
            &place,
            "printf 'a\\342\\200\\256b\\n' > \"$(printf 'x\\342\\200\\256y')\"",
        );
        assert!(said.contains(r"  A  x\u{202e}y  "), "{said}");
        let diff = verb(&place, &["diff", "v"]);
        assert!(
            diff.contains(r"b/x\u{202e}y") && diff.contains(r"+a\u{202e}b"),
            "{diff}"
        );
        assert!(!diff.contains('\u{202e}'), "{diff}");
    }
}

const FILES: &str = "for at in range(40):\n    \
    open(f'f{at}', 'w').write(('y' * 99 + '\\n') * 40000)\n";

/// Runs `diff v` with its first argument as the program, and prints its peak memory in KiB.
const MEASURE: &str = "import resource, subprocess, sys\n\
    subprocess.run([sys.argv[1], 'diff', 'v'], stdout=open('text', 'w'), check=True)\n\
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n";

#[test]
#[ignore = "slow: 12 s"]
fn diff_prints_a_change_before_it_reads_the_next() {
    for place in Place::all("streamed") {
        // 40 files of 4 MB, of which `diff` holds one at a time.
        place.write("files.py", FILES);
        place.write("measure.py", MEASURE);
        let made = place.run(&["-q", "--name", "v"], "python3 files.py");
        assert!(made.status.success(), "{}", err(&made));
        let openpath = crate::place::OPENPATH;
        let diff = place.plain(&format!(
            "export XDG_STATE_HOME=$PWD/state; python3 measure.py {openpath} && wc -l < text"
        ));
        assert_eq!(err(&diff), "");
        let numbers = out(&diff);
        let mut numbers = numbers.lines().map(|line| line.trim().parse().unwrap());
        let (kib, lines): (usize, usize) = (numbers.next().unwrap(), numbers.next().unwrap());
        assert_eq!(lines, 40 * 40_005);
        // Of 160 MB.
        assert!(kib < 120_000, "{kib} KiB");
    }
}

#[test]
#[ignore = "slow: 4 s"]
fn tree_of_two_thousand_levels_is_listed() {
    const DEEP: &str = "import os, sys\n\
        for _ in range(2300):\n    os.mkdir('d' * 250); os.chdir('d' * 250)\n";
    for place in Place::all("deepest") {
        place.write("deep.py", DEEP);
        let told = place.run(&["--upper", "memory:8M"], "python3 deep.py");
        assert!(told.status.success(), "{}", err(&told));
        let said = err(&told);
        assert!(said.starts_with("openpath: 1 change\n"), "{said}");
        assert!(said.ends_with("/  2,299 names, 0 B\n"), "{said}");
    }
}

#[test]
fn undo_of_one_change_is_reported_in_the_singular() {
    for place in Place::all("undone-one") {
        assert!(summary(&place, "mkdir d; touch d/f").contains("1 change\n"));
        verb(&place, &["commit", "v"]);
        let undone = verb(&place, &["commit", "v", "--undo"]);
        let want = "openpath: 1 change undone; the view has it again\n";
        assert!(undone.ends_with(want), "{undone}");
    }
}
