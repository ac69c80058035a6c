// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a view of the kernel's overlayfs keeps certain directories in place: those above
//! read-only paths, mounts and openpath's own directories. A view in which a command moved one is
//! not committed.

use crate::kernel_engine::{KERNEL, Started, apart, commit, kernel, root_place};
use crate::kernel_marks::{done, fuse};
use crate::place::{err, out};

/// Unmounts, as root, what covers the directories of openpath, and what keeps others in place.
const BARE: &str = "while umount -l state/openpath || umount -l state/openpath/views/view; \
    do :; done 2> /dev/null";

#[test]
fn directories_above_kept_paths_stay_in_place() {
    let Some(place) = root_place("kept-above") else {
        return;
    };
    place.plain("mkdir -p top/ro top/rw/real deep/er/m; echo 1 > top/ro/f; echo 2 > file");
    let python = "import errno, os\n\
for a, b in (('top', 'top2'), ('deep/er', 'er'), ('deep', 'd'), ('state', 's'), ('top/ro', 'ro'), \
('file', 'top/file'), ('top/file', 'deep/er/file'), \
('deep/er/file', 'state/file'), ('state/file', 'f')):\n    \
try: os.rename(a, b); print('done')\n    \
except OSError as why: print(errno.errorcode[why.errno])\n";
    place.write("renames", python);
    let line = "mount -t tmpfs none deep/er/m; \
        \"$OPENPATH\" run -q --engine kernel --name view --ro top/ro --rw top/rw/real -- \
        sh -c 'python3 renames; unshare -Ur --mount mv -T top t; cat top/ro/f deep/er/m/* f'";
    let output = apart(&place, line);
    let want = "EBUSY\n".repeat(5) + &"done\n".repeat(4) + "1\n2\n";
    assert_eq!(out(&output), want, "{}", err(&output));
    assert!(err(&output).contains("busy"), "{}", err(&output));
    assert!(commit(&place, &[]).status.success());
}

/// The directory of views cannot be forged: no command moves it away, or changes what is below.
#[test]
fn view_that_moved_the_directory_of_views_is_not_committed() {
    let Some(place) = root_place("forged-views") else {
        return;
    };
    let forge = "mkdir -p state/openpath/views/forged/upper && \
        echo 'made = 1' > state/openpath/views/forged/view.toml";
    for line in [
        format!("{BARE}; mv -T state away && {forge}"),
        format!("{BARE}; mv -T state/openpath away && {forge}"),
        format!("unshare --mount sh -c '{BARE}; {forge}'"),
        format!("unshare --mount sh -c '{BARE}; mv -T state away; {forge}'"),
        format!("{BARE}; echo x >> state/openpath/views/view/rules.toml"),
        format!("{BARE}; rm -r state"),
    ] {
        let ran = kernel(&place, &format!("{line}; echo other > other"));
        let before = out(&place.plain("ls . state/openpath/views"));
        let said = commit(&place, &["--force"]);
        assert!(!said.status.success(), "{line}: {}", out(&said));
        assert!(
            err(&said).contains("cannot be committed"),
            "{line}: {}{}",
            err(&said),
            err(&ran)
        );
        assert_eq!(err(&said).lines().count(), 1, "{line}: {}", err(&said));
        // Another run does not let it be forgotten.
        done(&fuse(&place, "true"));
        assert!(!commit(&place, &[]).status.success(), "{line}");
        assert_eq!(
            out(&place.plain("ls . state/openpath/views")),
            before,
            "{line}"
        );
        done(&place.openpath(["discard", "view"]).output().unwrap());
    }
    done(&kernel(&place, "echo other > other"));
    done(&commit(&place, &[]));
}

/// The mounts of a view are not in other mount namespaces, so they keep no directory in place
/// there.
#[test]
fn directory_moved_from_outside_above_a_read_only_path_is_not_committed() {
    let Some(place) = root_place("moved-ro") else {
        return;
    };
    place.plain(
        "mkdir -p own/app/conf; echo law > own/app/conf/law; chmod 755 .; chown -R 1000:1000 own",
    );
    for moved in ["own/app", "own/app/conf"] {
        let line = "setpriv --reuid 1000 --regid 1000 --clear-groups -- \
            sh -c 'echo ready; read x || true'";
        let options = [
            &["run"],
            &KERNEL[..],
            &["view", "--ro", "own/app/conf", "--"],
        ];
        let all = [&options.concat()[..], &["sh", "-c", line]].concat();
        let started = Started::of(&place, all);
        let outside = format!(
            "for pid in $(pgrep -u 1000 -x sh); do root=/proc/$pid/root$PWD; \
             [ /proc/$pid/root/ -ef / ] && continue; \
             [ \"$(readlink /proc/$pid/cwd)\" = \"$PWD\" ] || continue; \
             setpriv --reuid 1000 --regid 1000 --clear-groups -- sh -c \
             \"mv -T $root/{moved} $root/own/away && mkdir -p $root/own/app/conf && \
             echo forged > $root/own/app/conf/law && echo moved\"; done"
        );
        let outside = place.plain(&outside);
        started.finish();
        assert_eq!(out(&outside), "moved\n", "{}", err(&outside));
        let said = commit(&place, &["--force"]);
        assert!(!said.status.success(), "{moved}: {}", out(&said));
        assert!(err(&said).contains("cannot be committed"), "{}", err(&said));
        assert_eq!(place.read("own/app/conf/law"), "law\n");
        done(&place.openpath(["discard", "view"]).output().unwrap());
    }
}

/// Root's command can unmount what makes a path read only. What it changes then is not committed.
#[test]
#[ignore = "slow: 5 s"]
fn change_below_a_read_only_path_that_was_unmounted_is_not_committed() {
    let Some(place) = root_place("unmounted-ro") else {
        return;
    };
    place.plain("mkdir -p ro/dir made; echo law > ro/law; echo 1 > ro/dir/f; echo law > single");
    let setup = "echo mine > ro/mine; echo mine > ro/other; echo 2 > ro/dir/f; rm ro/law; \
        mkdir ro/made";
    let changes = [
        "echo forged > ro/law",
        "echo x > ro/new",
        "echo x >> ro/mine",
        "rm ro/other",
        "mv ro/mine ro/other",
        "chmod 700 ro/made",
        "rm ro/dir/f",
        "ln -s x ro/made/link",
        "echo forged > single",
    ];
    for change in changes {
        let path = match change.contains("single") {
            true => "single",
            false => "ro",
        };
        done(&kernel(&place, setup));
        let options = [&KERNEL[..], &["view", "--replace-rules", "--ro", path]].concat();
        // Whiteouts elsewhere change the times of those below the read-only path.
        done(&place.run(&options, "echo x > made/x; rm made/x; ls -R ro"));
        done(&place.run(&options, "touch t && rm t && cat ro/other single"));
        done(&commit(&place, &["--dry-run"]));
        let ran = place.run(&options, &format!("umount -l {path} && {change}"));
        assert!(ran.status.success(), "{change}: {}", err(&ran));
        let refused = commit(&place, &["--force"]);
        assert!(
            err(&refused).contains("cannot be committed"),
            "{change}: {} {}",
            out(&refused),
            err(&refused)
        );
        assert_eq!(place.read("ro/law"), "law\n");
        done(&place.openpath(["discard", "view"]).output().unwrap());
    }
}

/// What the view changed itself before it was protected is committed.
#[test]
fn read_only_path_that_the_view_made_itself_is_committed() {
    let Some(place) = root_place("own-ro") else {
        return;
    };
    place.plain("mkdir -p real made/in; echo 1 > real/f");
    done(&kernel(
        &place,
        "rm -r made; mkdir -p made/in; echo x > made/in/f; echo 2 >> real/f",
    ));
    let options = [&KERNEL[..], &["view", "--replace-rules", "--ro", "made/in"]].concat();
    let options = [&options[..], &["--ro", "real/f"]].concat();
    let ran = place.run(
        &options,
        "echo y > made/in/f; echo y > real/f; echo y > made/y",
    );
    assert_eq!(
        err(&ran).matches("Read-only file system").count(),
        2,
        "{}",
        err(&ran)
    );
    done(&commit(&place, &[]));
    done(&commit(&place, &["--undo"]));
    let ran = place.run(
        &options,
        &format!("echo y > made/in/f; echo y > real/f; {BARE}; mv made m"),
    );
    assert_eq!(
        err(&ran).matches("Read-only file system").count(),
        2,
        "{}",
        err(&ran)
    );
    let refused = commit(&place, &[]);
    assert!(
        err(&refused).contains("cannot be committed"),
        "{}",
        err(&refused)
    );
    let free = ["-q", "--name", "view", "--replace-rules"];
    done(&place.run(&free, "mv m made"));
    done(&commit(&place, &[]));
    assert_eq!(
        (place.read("made/in/f"), place.read("real/f")),
        ("x\n".into(), "1\n2\n".into())
    );
    assert_eq!(place.read("made/y"), "y\n");
}

/// The trial overlay that would tell is refused for another reason, which proves nothing.
#[test]
fn used_view_on_a_mount_that_takes_no_overlay_any_more_is_not_read() {
    let Some(place) = root_place("unbindable") else {
        return;
    };
    place.plain("mkdir small; mkfifo end");
    let line = r#"mount -t tmpfs none small; V=$PWD/small/view
        "$OPENPATH" run -q --engine kernel --upper $V -- sh -c 'echo x > made; read end' \
            < end 2> said & RUN=$!
        exec 3> end
        until ROOT=$(ls -d /proc/[0-9]*/root$PWD/made 2> /dev/null); do sleep 0.02; done
        ROOT=${ROOT%%/root/*}/root
        (cd $ROOT/tmp && exec sleep 600 > /dev/null 2>&1 3>&-) & USER=$!
        until [ "$(cat /proc/$USER/comm)" = sleep ]; do sleep 0.02; done
        mount --make-unbindable small; echo now >&3; wait $RUN; echo run $?
        "$OPENPATH" diff $V; echo diff $?; "$OPENPATH" commit $V; echo commit $?
        mount --make-private small; "$OPENPATH" diff --stat $V; echo diff $?
        kill $USER; wait $USER; "$OPENPATH" diff $V > diff; echo diff $?"#;
    let output = apart(&place, line);
    let said = out(&output);
    let refused = said.starts_with("run ") && said.contains("\ndiff 2\ncommit 2\ndiff 2\ndiff 0\n");
    assert!(refused, "{said}{}{}", err(&output), place.read("said"));
    assert!(place.read("diff").contains("+x"), "{said}");
    assert!(!place.dir.join("made").exists());
}

/// What was copied up for an overlay over a mount goes once nothing uses the view any more, also
/// where the run could not do that itself.
#[test]
#[ignore = "slow: 11 s"]
fn place_of_a_mount_that_has_gone_is_no_change() {
    let Some(place) = root_place("place-gone") else {
        return;
    };
    for end in ["echo now >&3; wait $RUN", "kill -9 $RUN $SERVER; wait $RUN"] {
        place.plain("mkdir -p m/n; mkfifo end");
        let line = format!(
            r#"mount -t tmpfs none m/n; V=$PWD/view
            "$OPENPATH" run -q --engine kernel --upper $V -- sh -c 'echo x > made; read end' \
                < end 2> said & RUN=$!
            exec 3> end
            until ROOT=$(ls -d /proc/[0-9]*/root$PWD/made 2> /dev/null); do sleep 0.02; done
            ROOT=${{ROOT%%/root/*}}/root
            (cd $ROOT/tmp && exec sleep 600 > /dev/null 2>&1 3>&-) & USER=$!
            until [ "$(cat /proc/$USER/comm)" = sleep ]; do sleep 0.02; done
            SERVER=$(pgrep -P $RUN | head -1)
            umount m/n; rmdir m/n m
            {end}
            until kill $USER && wait $USER; [ ! -e $ROOT/made ]; do sleep 0.02; done
            until "$OPENPATH" diff --stat $V; do sleep 0.1; done; "$OPENPATH" commit $V; echo $?"#
        );
        let output = apart(&place, &line);
        let said = out(&output);
        assert!(said.ends_with("\n0\n"), "{end}: {said}{}", err(&output));
        assert!(!said.contains("m/n"), "{end}: {said}");
        assert!(!place.dir.join("m").exists(), "{end}: {said}");
        assert_eq!(place.read("made"), "x\n");
        place.plain("rm -rf view made end");
    }
}

#[test]
fn copied_place_that_was_moved_or_made_anew_stays() {
    let Some(place) = root_place("place-moved") else {
        return;
    };
    place.plain("mkdir -p moved/D made/h w above/c/p; echo data > moved/D/f; echo old > made/h/f");
    let run = |dir: &str, home: &str, line: &str| {
        let mut run = place.openpath(["run", "-q", "--name", "view", "--", "sh", "-c", line]);
        let run = run.current_dir(place.dir.join(dir));
        let ran = run.env("HOME", place.path(home)).output().unwrap();
        assert!(ran.status.success(), "{}", err(&ran));
    };
    // The working directory, in a new directory of the same name.
    run(
        "moved/D",
        "w",
        "cd ../..; mv moved old; mkdir moved; mv old/D moved/D",
    );
    // The home directory, which the view had removed before.
    run("w", "w", "rm -r ../made/h");
    run("w", "made/h", "mkdir -m 700 ../made/h");
    assert!(commit(&place, &[]).status.success());
    assert_eq!(place.read("moved/D/f"), "data\n");
    assert_eq!(out(&place.plain("ls made/h; stat -c %a made/h")), "700\n");
    // Above a mount that has no overlay, of which nothing is copied up.
    let line = r#"mount -t proc proc above/c/p
        "$OPENPATH" run -q --name view -- chmod 700 above/c
        umount above/c/p; "$OPENPATH" commit view; stat -c %a above/c"#;
    let output = apart(&place, line);
    assert!(
        out(&output).ends_with("700\n"),
        "{}{}",
        out(&output),
        err(&output)
    );
}
