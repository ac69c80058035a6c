// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that commands neither see nor forge the overlay attributes (redirects, opaque marks) of
//! root's views, and that directories renamed in a view of the kernel's overlayfs are shown,
//! committed and undone.

use crate::kernel_engine::{Started, apart, commit, kernel, root_place};
use crate::place::{Place, err, out, until};
use std::path::Path;
use std::process::Output;

/// Prints all but the views.
const TREE: &str = "find . -path ./state -prune -o -printf '%P %y %m %s %l\\n' | sort; \
    find . -path ./state -prune -o -type f -print0 | sort -z | xargs -0 cat";

/// Prints the errno of a call that failed.
const SAID: &str = "import errno, os, sys\n\
def said(call, *args):\n    \
try: return call(*args) or 'done'\n    \
except OSError as why: return errno.errorcode[why.errno]\n";

pub(crate) fn fuse(place: &Place, line: &str) -> Output {
    place.run(&["-q", "--engine", "fuse", "--name", "view"], line)
}

pub(crate) fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", out(output), err(output));
    out(output)
}

fn diff(place: &Place) -> String {
    let json = place.openpath(["diff", "--json", "view"]).output().unwrap();
    let text = done(&json).replace(&place.path(""), "");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let all = value["changes"].as_array().unwrap().iter();
    let all = all.map(|change| {
        let from = change["from"].as_str().unwrap_or_default();
        format!(
            "{} {} {from}\n",
            change["path"].as_str().unwrap(),
            change["change"].as_str().unwrap()
        )
    });
    all.collect()
}

/// Gives a view the marks of older versions.
fn make_old(place: &Place) {
    done(&fuse(place, "true"));
    let python = "import os; os.chdir('state/openpath/views/view'); os.remove('marks')\n\
for top, _, _ in os.walk('upper'):\n    \
for name in os.listxattr(top):\n        \
os.setxattr(top, name.replace('trusted', 'user'), os.getxattr(top, name))\n        \
os.removexattr(top, name)";
    place.write("make-old", python);
    done(&place.plain("python3 make-old && rm make-old"));
}

/// The real tree but for the views.
fn tree(place: &Place) -> String {
    out(&place.plain(TREE))
}

/// A user sets attributes `user.overlay.*` on own files of the real tree.
#[test]
fn marks_that_users_set_in_the_real_tree_are_plain_attributes() {
    let Some(place) = root_place("foreign-marks") else {
        return;
    };
    let make = "import os\n\
for kind in ('whiteout', 'opaque', 'redirect', 'metacopy', 'origin'):\n    \
open('f-' + kind, 'w').write(kind); os.mkdir('d-' + kind); open('d-' + kind + '/in', 'w')\n    \
for name in ('f-', 'd-'): os.setxattr(name + kind, 'user.overlay.' + kind, b'y')\n\
os.mkdir('hides'); open('hides/hid', 'w'); os.setxattr('hides', 'user.overlay.opaque', b'x')\n\
os.setxattr('hides/hid', 'user.overlay.whiteout', b'y')";
    place.write("make", make);
    done(&place.plain("python3 make; chown -R 1000:1000 d-* f-* hides"));
    let look = "import os\n\
for top, dirs, files in os.walk('.'):\n    \
dirs[:] = [d for d in dirs if d != 'state']\n    \
for name in sorted(dirs + files):\n        \
path = os.path.join(top, name); stat = os.lstat(path)\n        \
marks = sorted((n, os.getxattr(path, n)) for n in os.listxattr(path))\n        \
print(path, oct(stat.st_mode), stat.st_uid, stat.st_size, marks)\n        \
os.path.isdir(path) or open(path).read()";
    place.write("look", look);
    let real = done(&place.plain("python3 look | sort"));
    assert_eq!(real.matches("user.overlay").count(), 12, "{real}");
    for run in [kernel, fuse] {
        let seen = run(&place, "python3 look | sort");
        assert_eq!(done(&seen), real, "{}", err(&seen));
    }
    let line = "for f in f-* hides/hid; do echo more >> $f; done; \
        for d in d-*; do echo new > $d/new; done";
    assert_eq!(err(&kernel(&place, line)), "");
    let seen = done(&kernel(&place, "python3 look | sort"));
    done(&commit(&place, &[]));
    assert_eq!(done(&place.plain("python3 look | sort")), seen);
    assert_eq!(seen.matches("user.overlay").count(), 12, "{seen}");
}

/// Root's own overlays have marks in the real tree.
#[test]
fn marks_of_other_overlays_stay_in_the_real_tree() {
    let Some(place) = root_place("real-marks") else {
        return;
    };
    place.plain("mkdir a b; echo 1 | tee a/f > b/f");
    let mark = "import os\n\
for path in ('a', 'a/f', 'b', 'b/f'):\n    \
for kind in ('user', 'trusted'): os.setxattr(path, kind + '.overlay.opaque', b'y')";
    place.write("mark", mark);
    let look = "import os\n\
for path in ('a', 'a/f', 'b', 'b/f'): print(path, sorted(os.listxattr(path)))";
    place.write("look", look);
    done(&place.plain("python3 mark"));
    let real = done(&place.plain("python3 look"));
    // The overlay of the kernel shows none of them.
    let seen = done(&kernel(&place, "python3 look; chmod 700 a; chmod 600 a/f"));
    assert_eq!(
        seen,
        real.replace(", 'trusted.overlay.opaque'", "")
            .replace("'trusted.overlay.opaque', ", "")
    );
    assert_eq!(diff(&place), "a attributes \na/f attributes \n");
    let line = "python3 look; chmod 700 b; chmod 600 b/f; python3 look | tail -n 2";
    let tail = real
        .lines()
        .skip(2)
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    let seen = done(&fuse(&place, line));
    assert!(seen.ends_with(&(tail.clone() + &tail)), "{seen}");
    done(&commit(&place, &[]));
    assert_eq!(done(&place.plain("python3 look")), real);
    assert_eq!(
        out(&place.plain("stat -c %a a a/f b b/f")),
        "700\n600\n700\n600\n"
    );
    done(&commit(&place, &["--undo"]));
    assert_eq!(done(&place.plain("python3 look")), real);
}

/// Names in redirects, relative and absolute.
#[test]
fn renamed_directories_of_the_real_tree_are_shown_committed_and_undone() {
    let Some(place) = root_place("kernel-renames") else {
        return;
    };
    let long = format!("{}/{}", "long".repeat(40), "name".repeat(40));
    place.write("long", &long);
    let make = "import os\n\
for dir in (b'plain', b'a dir', b'q\"uo:te\\\\n,=', b'new\\nline', b'hi\\xff', b'p1/p2/p3', \
b'keep', \
open('long', 'rb').read()):\n    \
os.makedirs(dir + b'/sub'); open(dir + b'/f', 'wb').write(dir); open(dir + b'/sub/g', 'w')";
    place.write("make", make);
    done(&place.plain("python3 make"));
    let renames = format!(
        "{SAID}\
for a, b in ((b'plain', b'plain2'), (b'a dir', b'p1/moved'), (b'q\"uo:te\\\\n,=', b'q2'), \
(b'new\\nline', b'nl2'), (b'hi\\xff', b'keep/hi2\\xfe'), (b'p1/p2/p3', b'p3'), (b'p1', b'P1'), \
(b'P1/p2', b'P1/pp2'), (b'plain2', b'plain3'), (b'plain3/sub', b'sub')):\n    \
print(said(os.rename, a, b))\n\
os.mkdir('own'); print(said(os.rename, 'p3', 'own/p3'), said(os.rename, 'own', 'own2'))\n\
open('own2/p3/new', 'w').write('new'); os.unlink('plain3/f'); open('sub/g', 'w').write('changed')\n\
os.mkdir('plain'); open('plain/other', 'w')\n\
long = open('long').read().split('/')[0]; print(said(os.rename, long, 'own2/' + long))\n"
    );
    place.write("renames", renames);
    let before = tree(&place);
    let ran = kernel(&place, "python3 renames");
    assert_eq!(
        done(&ran),
        "done\n".repeat(10) + "done done\ndone\n",
        "{}",
        err(&ran)
    );
    let view = done(&kernel(&place, TREE));
    assert_eq!(done(&fuse(&place, TREE)), view);
    let found = diff(&place);
    for line in [
        "plain3 renamed plain\n",
        "P1 renamed p1\n",
        "P1/pp2 renamed p1/p2\n",
        "P1/moved renamed a dir\n",
        "own2/p3 renamed p1/p2/p3\n",
        "sub renamed plain/sub\n",
        "own2 added \n",
    ] {
        assert!(found.contains(line), "{line}{found}");
    }
    let said = commit(&place, &[]);
    done(&said);
    assert_eq!(tree(&place), view);
    done(&commit(&place, &["--undo"]));
    assert_eq!(tree(&place), before);
    assert_eq!(done(&kernel(&place, TREE)), view);
    done(&commit(&place, &[]));
    assert_eq!(tree(&place), view);
}

#[test]
fn view_with_renamed_directories_goes_on_with_either_engine() {
    let Some(place) = root_place("either-renames") else {
        return;
    };
    place.plain("mkdir -p a/in b/in c; echo 1 > a/in/f; echo 2 > b/in/f");
    done(&fuse(&place, "mv a a2; mv a2/in c/in; echo more >> c/in/f"));
    done(&kernel(
        &place,
        "cat c/in/f; mv b b2; mv c/in in; echo k >> b2/in/f",
    ));
    let last = fuse(&place, "cat in/f b2/in/f; mv b2/in a2/in; ls; rmdir c");
    assert_eq!(done(&last), "1\nmore\n2\nk\na2\nb2\nc\nin\nstate\n");
    assert_eq!(done(&kernel(&place, "ls a2; cat a2/in/f")), "in\n2\nk\n");
    done(&commit(&place, &[]));
    assert_eq!(
        done(&place.plain("ls; cat in/f a2/in/f")),
        "a2\nb2\nin\nstate\n1\nmore\n2\nk\n"
    );
    done(&commit(&place, &["--undo"]));
    assert_eq!(
        done(&place.plain("ls; cat a/in/f b/in/f")),
        "a\nb\nc\nstate\n1\n2\n"
    );
}

#[test]
fn view_of_an_older_version_goes_on_with_its_marks() {
    let Some(place) = root_place("old-marks") else {
        return;
    };
    place.plain("mkdir -p dir d2; echo 1 > dir/f; echo 2 > gone");
    make_old(&place);
    let rename = format!("{SAID}print(said(os.rename, 'dir', 'moved'))");
    place.write("rename", rename);
    let first = kernel(
        &place,
        "python3 rename; rm gone; rm -r d2; mkdir d2; echo k > d2/k",
    );
    assert_eq!(done(&first), "EXDEV\n");
    assert_eq!(
        done(&fuse(&place, "ls d2; ls gone; echo f >> d2/k; true")),
        "k\n"
    );
    let marks = "getfattr -R -d -m - state/openpath/views/view/upper 2> /dev/null";
    let marks = out(&place.plain(marks));
    assert!(marks.contains("user.overlay.opaque"), "{marks}");
    assert!(!marks.contains("trusted.overlay"), "{marks}");
    // A redirect there would fail each access.
    done(&fuse(&place, "mv dir dir2"));
    let refused = kernel(&place, "true");
    assert_eq!(refused.status.code(), Some(125));
    assert!(err(&refused).contains("cannot show"), "{}", err(&refused));
    done(&fuse(&place, "mv dir2 dir"));
    done(&commit(&place, &[]));
    assert_eq!(place.read("d2/k"), "k\nf\n");
    assert!(!Path::new(&place.path("gone")).exists());
}

#[test]
fn view_with_a_redirect_in_a_mount_or_into_one_is_refused() {
    let Some(place) = root_place("redirects-mount") else {
        return;
    };
    for (name, line) in [
        ("inside", "mv top/m/d top/m/e"),
        ("out", "mv top/m/d e"),
        ("into", "mv top/x top/m/x"),
        ("above", "mv top top2; mkdir -p top/m"),
    ] {
        place.plain("rm -rf top; mkdir -p top/m/d top/x; echo below > top/m/d/below");
        let line = format!(
            "mount -t tmpfs none top/m; mkdir top/m/d; \
             \"$OPENPATH\" run -q --engine fuse --name {name} -- sh -c '{line}'; \
             \"$OPENPATH\" run -q --engine kernel --name {name} -- ls; echo $?"
        );
        let output = apart(&place, &line);
        assert_eq!(out(&output), "125\n", "{name}: {}", err(&output));
        let said = err(&output);
        assert!(said.contains("without --engine kernel"), "{name}: {said}");
        assert_eq!(said.lines().count(), 1, "{name}: {said}");
    }
}

/// L140
#[test]
fn directory_of_another_mount_is_not_renamed() {
    let Some(place) = root_place("rename-mount") else {
        return;
    };
    place.plain(&format!(
        "mkdir -p m dir {long}/{long}/d",
        long = "n".repeat(140)
    ));
    let rename = "print(said(os.rename, 'm/d', 'm/e'), said(os.rename, 'dir', 'dir2'))\n\
        long = 2 * ('n' * 140 + '/'); print(said(os.rename, long + 'd', 'd'), \
        said(os.rename, long + 'd', long + 'e'))";
    place.write("rename", format!("{SAID}{rename}"));
    let line = "mount -t tmpfs none m; mkdir m/d; \
        \"$OPENPATH\" run -q --engine kernel --name view -- python3 rename; \
        \"$OPENPATH\" run -q --engine kernel --name view -- ls m";
    let output = apart(&place, line);
    assert_eq!(
        out(&output),
        "EXDEV done\nEXDEV done\nd\n",
        "{}",
        err(&output)
    );
}

#[test]
fn killed_run_loses_no_rename() {
    let Some(place) = root_place("killed-rename") else {
        return;
    };
    place.plain("mkdir -p dir/in other; echo old > dir/in/f; echo o > other/o");
    let line = "mv -T dir moved; echo view >> moved/in/f; mv -T other moved/other; mkdir dir; \
        echo ready; sleep 100";
    let mut started = Started::new(&place, ["sh", "-c", line]);
    started.run.kill().unwrap();
    started.run.wait().unwrap();
    until("the view is free", || {
        let diff = place.openpath(["diff", "view"]).output().unwrap();
        out(&diff).contains("+view")
    });
    assert!(
        diff(&place).contains("moved renamed dir\n"),
        "{}",
        diff(&place)
    );
    assert_eq!(
        done(&fuse(&place, "cat moved/in/f moved/other/o")),
        "old\nview\no\n"
    );
    done(&commit(&place, &[]));
    let real = "cat moved/in/f moved/other/o; ls dir; ls other";
    assert_eq!(out(&place.plain(real)), "old\nview\no\n");
    done(&commit(&place, &["--undo"]));
    assert_eq!(
        out(&place.plain("cat dir/in/f other/o; ls")),
        "old\no\ndir\nother\nstate\n"
    );
}

/// The kernel copies them up with no file, and a commit makes a new file for new data.
#[test]
fn marks_of_other_overlays_stay_at_a_file_with_new_data() {
    for run in [kernel, fuse] {
        let Some(place) = root_place("marks-data") else {
            return;
        };
        place.plain("echo r > r; echo s > s; echo old > other; echo m > m");
        let mark = "import os\n\
for path in ('r', 's', 'other', 'm'):\n    \
for name in ('overlay.redirect', 'plain'): os.setxattr(path, 'trusted.' + name, b'/x')";
        place.write("mark", mark);
        let look = "import os\n\
for path in ('r', 's', 'other', 'm'): \
print(path, sorted(os.listxattr(path)) if os.path.exists(path) else '')";
        place.write("look", look);
        done(&place.plain("python3 mark"));
        let real = done(&place.plain("python3 look"));
        // The last two replace a file by a new one.
        let line = "echo x >> r; chmod 4755 s; echo new > n; mv n other; rm m; echo m > m";
        done(&run(&place, line));
        done(&commit(&place, &[]));
        let all = "['trusted.overlay.redirect', 'trusted.plain']";
        let want = format!("r {all}\ns {all}\nother []\nm []\n");
        assert_eq!(done(&place.plain("python3 look")), want);
        done(&commit(&place, &["--undo"]));
        assert_eq!(done(&place.plain("python3 look")), real);
    }
}

/// Attributes with the names of marks that a command sets are its own, with either engine.
#[test]
fn commands_neither_see_nor_forge_marks() {
    let Some(place) = root_place("forged-marks") else {
        return;
    };
    place.plain("mkdir -p real secret; echo real > real/f; echo TREASURE > secret/gold");
    let set = format!(
        "{SAID}\
os.makedirs('made', exist_ok=True); open('real/f', 'a').write('x')\n\
target = os.path.abspath('secret').encode()\n\
for dir in ('made', 'real'):\n    \
for kind in ('user', 'trusted'):\n        \
for mark, value in (('redirect', target), ('opaque', b'y'), \
('overlay.opaque', b'y')):\n            \
os.setxattr(dir, kind + '.overlay.' + mark, value)\n"
    );
    place.write("set", set);
    let look = "import os\n\
for path in ('made', 'real', 'real/f'): \
print(path, len([n for n in os.listxattr(path) if 'overlay' in n]))\n\
print(os.listdir('made'), os.listdir('real'), os.getxattr('made', 'trusted.overlay.opaque'))\n";
    place.write("look", look);
    let want = "made 6\nreal 6\nreal/f 0\n[] ['f'] b'y'\n";
    for (first, second) in [
        (
            kernel as fn(&Place, &str) -> Output,
            fuse as fn(&Place, &str) -> Output,
        ),
        (fuse, kernel),
    ] {
        for old in [false, true] {
            if old {
                make_old(&place);
            }
            done(&first(&place, "python3 set"));
            for run in [first, second] {
                assert_eq!(done(&run(&place, "python3 look")), want, "old: {old}");
            }
            done(&place.openpath(["discard", "view"]).output().unwrap());
        }
    }
    done(&kernel(&place, "python3 set"));
    done(&commit(&place, &[]));
    assert_eq!(done(&place.plain("python3 look")), want);
}
