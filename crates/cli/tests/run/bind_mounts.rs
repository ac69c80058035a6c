// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests commits of views that changed a directory or a file of the real tree by two of its paths,
//! where the host has a bind mount. Tests also that a run leaves no mount of the host in use.

use crate::kernel_engine::{apart, root_place};
use crate::place::{Place, err, out};

/// Runs `view` in a view, and then `after`, where `bd` is a bind mount of `src`.
fn bound(name: &str, (make, view, after): (&str, &str, &str)) -> Option<Vec<(Place, String)>> {
    let mut all = Vec::new();
    for engine in ["kernel", "fuse"] {
        let place = root_place(&format!("bind-{name}-{engine}"))?;
        let line = format!(
            "mkdir src bd; echo s > src/s; {make}; mount --bind src bd || exit; \
             op() {{ verb=$1; shift; \"$OPENPATH\" $verb view \"$@\" 2>&1; echo \"= $?\"; }}; \
             tree() {{ (cd src; find . -type f | sort | xargs grep -H ''); }}; \
             \"$OPENPATH\" run -q --engine {engine} --name view -- sh -ec '{view}' || exit; {after}"
        );
        let output = apart(&place, &line);
        assert_eq!(err(&output), "", "{engine}");
        let said = out(&output).replace(&place.path(""), "");
        all.push((place, said));
    }
    Some(all)
}

#[test]
fn mount_that_a_run_has_looked_at_is_free_when_the_run_ends() {
    for engine in ["kernel", "fuse"] {
        let Some(place) = root_place(&format!("free-{engine}")) else {
            return;
        };
        let line = format!(
            "mkdir own; for n in $(seq 20); do mount -t tmpfs none own; echo x > own/f; \
             (cd own; \"$OPENPATH\" run -q --engine {engine} -- cat f) && umount own || exit; done"
        );
        let output = apart(&place, &line);
        assert_eq!(out(&output), "x\n".repeat(20), "{engine}: {}", err(&output));
    }
}

/// Divergence: L156
#[test]
fn links_and_renames_across_mounts_are_made_by_our_mount() {
    for (engine, answers) in [
        ("kernel", "18\n18\nbd/n\nsrc/s\n"),
        ("fuse", "0\n0\nbd/l\nsrc/n\nsrc/s\n"),
    ] {
        let Some(place) = root_place(&format!("across-{engine}")) else {
            return;
        };
        let call = "import os, sys\ntry: getattr(os, sys.argv[1])(*sys.argv[2:]); print(0)\n\
                    except OSError as why: print(why.errno)";
        let line = format!(
            "mkdir src bd; echo s > src/s; mount -t tmpfs none bd; echo n > bd/n; \
             \"$OPENPATH\" run -q --engine {engine} -- sh -c \
             'python3 -c \"$0\" link src/s bd/l; python3 -c \"$0\" rename bd/n src/n; \
             find src bd -type f | sort' '{call}'"
        );
        let output = apart(&place, &line);
        assert_eq!(err(&output), "", "{engine}");
        assert_eq!(out(&output), answers, "{engine}");
    }
}

/// The refusal that names both paths.
fn both(what: &str, a: &str, b: &str) -> String {
    format!(
        "openpath: {a} and {b} are the same {what}, and the view changed both: commit one of them \
         by its path\n= 2\n"
    )
}

#[test]
fn changes_by_both_paths_of_a_bind_mount_are_committed_by_one() {
    let view = "echo X > bd/s; echo Y > src/s; echo only-src > src/n2; echo only-bd > bd/n2; \
        mkdir bd/dd; echo 1 > bd/dd/1; mkdir src/dd; echo 2 > src/dd/2";
    let after = "op commit; op commit --dry-run; op commit --force; tree; op commit src; tree; \
        echo rest; op commit; tree; echo dir; op commit bd/dd; tree";
    let Some(all) = bound("names", (":", view, after)) else {
        return;
    };
    for (_, said) in all {
        let refused = both("directory", "bd", "src");
        let said = said.strip_prefix(&refused.repeat(3)).expect(&said);
        let said = said.strip_prefix("./s:s\n").expect(said);
        let (first, rest) = said.split_once("rest\n").expect(said);
        assert!(
            first.ends_with("= 0\n./dd/2:2\n./n2:only-src\n./s:Y\n"),
            "{said}"
        );
        // The other half is a conflict.
        for line in [
            "bd/s: modified in the view, made",
            "bd/n2: modified in the view, made",
        ] {
            assert!(rest.contains(line), "{line}: {rest}");
        }
        let kept = "./dd/2:2\n./n2:only-src\n./s:Y\n";
        let (rest, dir) = rest.split_once("dir\n").expect(rest);
        assert!(rest.ends_with(&format!("= 1\n{kept}")), "{rest}");
        // Both made the directory.
        assert!(dir.ends_with(&format!("= 0\n./dd/1:1\n{kept}")), "{dir}");
    }
}

#[test]
#[ignore = "slow: 16 s"]
fn directory_that_is_removed_by_one_path_and_changed_by_the_other_is_refused() {
    for (name, view, which) in [
        (
            "removed",
            "rm -r bd/a; echo x > src/a/b/n",
            "bd/a and src/a",
        ),
        (
            "replaced",
            "rm -r bd/a; mkdir bd/a; echo x > src/a/b/n",
            "bd/a and src/a",
        ),
        (
            "moved",
            "mv bd/a bd/z; echo x > src/a/b/n",
            "bd/a and src/a",
        ),
        (
            "mode",
            "chmod 700 bd/a/b; echo x > src/a/b/n",
            "bd/a/b and src/a/b",
        ),
        (
            "modes",
            "chmod 700 bd/a/b; chmod 711 src/a/b",
            "bd/a and src/a",
        ),
        (
            "deep",
            "echo x > bd/a/b/n; echo x > src/a/b/m",
            "bd/a/b and src/a/b",
        ),
        ("into", "mv bd/c bd/a/c; echo x > src/a/n", "bd/a and src/a"),
    ] {
        let make = "mkdir -p src/a/b src/c; echo f > src/a/b/f";
        let after = "op commit; find src/* -printf '%p %m\\n' | sort; op commit src; \
            op commit --undo; find src/* -printf '%p %m\\n' | sort";
        let Some(all) = bound(name, (make, view, after)) else {
            return;
        };
        for (_, said) in all {
            let (a, b) = which.split_once(" and ").unwrap();
            let refused = both("directory", a, b);
            let said = said
                .strip_prefix(&refused)
                .unwrap_or_else(|| panic!("{name}: {said}"));
            let tree = "src/a 755\nsrc/a/b 755\nsrc/a/b/f 644\nsrc/c 755\nsrc/s 644\n";
            let said = said
                .strip_prefix(tree)
                .unwrap_or_else(|| panic!("{name}: {said}"));
            let done = said.matches("= 0\n").count();
            assert!(done == 2 && said.ends_with(tree), "{name}: {said}");
        }
    }
}

#[test]
fn directories_apart_are_committed_by_both_paths() {
    let make = "mkdir src/a src/b; ln src/s src/a/s";
    let view =
        "echo x > bd/a/x; echo y > src/b/y; chmod 700 src/b; echo z > bd/a/s; echo t > src/s";
    let after = "op commit; op commit --undo; op commit -q > /dev/null; op commit; tree; \
        stat -c %a src/b";
    let Some(all) = bound("apart", (make, view, after)) else {
        return;
    };
    for (_, said) in all {
        let want = "./a/s:z\n./a/x:x\n./b/y:y\n./s:t\n700\n";
        assert!(said.ends_with(want), "{said}");
    }
}

#[test]
fn file_that_is_mounted_over_another_is_changed_by_one_path() {
    let Some(place) = root_place("bind-file") else {
        return;
    };
    let line = "echo f > f; echo g > g; mount --bind f g || exit; \
        op() { verb=$1; shift; \"$OPENPATH\" $verb \"$@\" 2>&1; echo \"= $?\"; }; \
        run() { \"$OPENPATH\" run -q --engine fuse --name \"$1\" -- sh -ec \"$2\" || exit; }; \
        run one 'chmod 600 f; chmod 640 g'; op commit one; stat -c %a f g; \
        op commit one g; stat -c %a f g; op commit one; \
        run two 'echo more >> f; chmod 644 g'; op commit two; op commit two f; cat f; \
        op commit two; stat -c %a g";
    let output = apart(&place, line);
    assert_eq!(err(&output), "");
    let said = out(&output).replace(&place.path(""), "");
    let refused = both("file", "f", "g");
    let conflict = |path| {
        format!(
            "  C  {path}: attributes in the view, changed by others since\nopenpath: nothing was \
             done, because 1 path changed on both sides: name other paths, or overwrite them with \
             `--force`\n= 1\n"
        )
    };
    let done = "openpath: 1 change committed; `--undo` takes that back\n= 0\n";
    let want = [
        format!("{refused}644\n644\n  m  g  mode 0644 -> 0640\n{done}640\n640\n"),
        conflict("f"),
        format!("{refused}  M  f  2 B -> 7 B\n{done}f\nmore\n"),
        conflict("g") + "640\n",
    ];
    assert_eq!(said, want.concat());
}

/// A bind mount below the directory that it shows.
#[test]
fn directory_that_is_mounted_in_itself_is_committed_by_one_path() {
    let Some(place) = root_place("bind-inside") else {
        return;
    };
    let line = "mkdir -p src/in; mount --bind src src/in || exit; \
        op() { verb=$1; shift; \"$OPENPATH\" $verb view \"$@\" 2>&1; echo \"= $?\"; }; \
        \"$OPENPATH\" run -q --name view -- sh -ec 'echo 1 > src/a; echo 2 > src/in/b' || exit; \
        op commit; op commit src/in; op commit; cat src/a src/b";
    let output = apart(&place, line);
    assert_eq!(err(&output), "");
    let said = out(&output).replace(&place.path(""), "");
    let done = "openpath: 1 change committed; `--undo` takes that back\n= 0\n";
    let want = format!(
        "openpath: src and src/in are the same directory, and the view changed both: commit src/in \
         or other paths alone\n= 2\n  A  src/in/b  2 B\n{done}  A  src/a  2 B\n{done}1\n2\n"
    );
    assert_eq!(said, want);
}
