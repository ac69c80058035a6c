// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that nothing is lost if others rename the part of a view that the kernel's overlay serves,
//! or a directory above it, in the real tree while the command runs.

use crate::kernel_engine::{KERNEL, Started, commit, kernel_place};
use crate::place::{Place, Who, err, out};
use std::os::unix::fs::PermissionsExt;

/// A place in which `above/pub` belongs to root, and the part `w` in it to the user.
fn part_in(name: &str) -> Option<Place> {
    let place = kernel_place(name, Who::Ordinary)?;
    let line = "mkdir -p above/pub/w/d above/pub/other; cd above/pub; cp -r w other/w; cd w; \
        for f in gone script keep base d/x; do echo real $f > $f; done; chmod 644 *e* base";
    let made = place.plain(line);
    assert!(made.status.success(), "{}", err(&made));
    for dir in ["above", "above/pub"] {
        let dir = place.dir.join(dir);
        std::os::unix::fs::chown(&dir, Some(0), Some(0)).unwrap();
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
    }
    Some(place)
}

/// What a line says that the user runs in the real tree.
fn sh(place: &Place, line: &str) -> String {
    let done = place.plain(line);
    assert!(done.status.success(), "{line}: {}", err(&done));
    out(&done)
}

/// Runs a line in the part; `meanwhile` happens outside once it has said `ready`.
fn beside(place: &Place, line: &str, meanwhile: &str) -> String {
    let all = [&["run"], &KERNEL[..], &["view", "--", "sh", "-c", line]].concat();
    let mut run = place.openpath(all);
    run.current_dir(place.dir.join("above/pub/w"));
    let started = Started::by(run);
    sh(place, meanwhile);
    started.finish()
}

/// The names and contents of the real tree.
const LOOK: &str = "cd above; find . | sort | while read f; do stat -c '%n %A %s' $f; done; \
    cd pub/w && cat base gone keep script d/x";

/// Ends the line, in success, if the kernel does not detach the overlay.
const DETACHED: &str = "is_attached() { [ \"$(stat -f -c %T $P/w)\" = overlayfs ]; }; \
    for i in $(seq 250); do is_attached || break; sleep 0.02; done; \
    if is_attached; then echo attached; exit; fi;";

/// Everything that the server could do to the part, by its path.
const ATTACK: &str = "cd \"$P/w\" && { ls -A; rm -f gone; echo x >> script; chmod 755 script; \
    echo v > new; chmod 4755 new; mkfifo ff; mkdir nd; rm -rf d; mkdir d; echo n > d/n; \
    setfattr -n user.k -v 1 keep; mv base base2; ln -s q l; ln keep keep2; chmod 711 .; \
    setfattr -n user.openpath.attr -v '33261 0 0 0' .; touch -d 2001-01-01 .; cd ..; \
    chmod 711 w; mv w w3; rmdir w; mv other/w w/w; mv -T other/w w; mv g/gone g/gone2; \
    ln g/keep w/keep3; ln g/keep g/keep4; echo v >> g/script; rm -rf g/d; } >&2 2>/dev/null; true";

#[test]
fn part_that_others_move_away_and_back_is_left_alone() {
    let mut detached = 0;
    for meanwhile in [
        "cd above/pub; mv w g; sleep 0.2; mv g w",
        "cd above/pub; mv w g; mv g w",
        "mv above/pub above/q; mv above/q above/pub",
        "mv above a; mv a above",
        "cd above/pub; mv w g; cp -a g w; rm -r w; mv g w",
        "cd above/pub; mv w g; mkdir w; rmdir w; ln -s g w; sleep 0.1; rm w; mv g w",
    ] {
        let Some(place) = part_in("moves-back") else {
            return;
        };
        let real = sh(&place, LOOK);
        let path = place.path("above/pub");
        let line = format!(
            "echo v > before; echo ready; cat; P={path}; {DETACHED} {ATTACK}; cd /; {ATTACK}"
        );
        detached += usize::from(beside(&place, &line, meanwhile).is_empty());
        let diff = place.openpath(["diff", "view", "--json"]).output().unwrap();
        assert!(diff.status.success(), "{meanwhile}: {}", err(&diff));
        let said = out(&diff);
        for name in ["gone", "script", "base", "d/x"] {
            let name = format!("w/{name}\"");
            assert!(!said.contains(&name), "{meanwhile}: {said}");
        }
        assert!(said.contains("/before\""), "{meanwhile}: {said}");
        assert_eq!(sh(&place, LOOK), real, "{meanwhile}");
        let done = commit(&place, &[&place.path("above/pub/w")]);
        if done.status.success() {
            let made = place.dir.join("above/pub/w/before");
            std::fs::remove_file(made).expect(meanwhile);
        }
        assert_eq!(sh(&place, LOOK), real, "{meanwhile}: {}", err(&done));
    }
    assert!(detached > 0, "the kernel detached no overlay");
}

#[test]
#[ignore = "slow: 9 s"]
fn changes_in_a_part_that_others_replaced_are_conflicts() {
    let line = "echo v >> d/x; echo ready; cat; echo v >> script; chmod 600 keep; echo v >> d/x; \
        echo n > new; cat script";
    for (meanwhile, name) in [
        (
            "cd above/pub; mv w g; mv other/w w; echo o > w/script",
            "script",
        ),
        // The files in it did not change since before the run.
        ("cd above/pub; mv w g; mv other/w w", "script"),
        ("cd above/pub; mv w g; ln -s g w", ""),
        ("cd above/pub; mv w g; ln -s other/w w", ""),
        ("cd above/pub; mv w g", ""),
        ("cd above; mv pub old; cp -a old pub", "keep"),
        ("cd above/pub/w; mv d e; mv ../other/w/d d", "d/x"),
        ("cd above/pub/w; mv d e; mkdir d; mv base d/x", "d/x"),
        ("cd above/pub/w; mv script s; mv base script", "script"),
    ] {
        let Some(place) = part_in("moves-replaced") else {
            return;
        };
        sh(
            &place,
            "cd above/pub; cp -a w other/; echo o > other/w/script; sleep 0.05",
        );
        beside(&place, line, meanwhile);
        let look = "find above -printf '%p %m %s %i %l %T@\\n' | sort";
        let real = sh(&place, look);
        let diff = place.openpath(["diff", "view"]).output().unwrap();
        assert!(diff.status.success(), "{meanwhile}: {}", err(&diff));
        assert!(out(&diff).contains("/w/new"), "{meanwhile}: {}", out(&diff));
        let path = place.path(&format!("above/pub/w/{name}"));
        let path = path.trim_end_matches('/');
        for only in [&[][..], &[path]] {
            let refused = commit(&place, only);
            let said = out(&refused) + &err(&refused);
            assert_eq!(refused.status.code(), Some(1), "{meanwhile}: {said}");
            assert!(
                said.contains("changed on both sides"),
                "{meanwhile}: {said}"
            );
            assert_eq!(sh(&place, look), real, "{meanwhile}");
        }
    }
}

/// A process that works in the part goes on in the overlay that the kernel detached.
#[test]
fn own_directories_stay_out_of_reach_in_a_detached_part() {
    let Some(place) = kernel_place("moves-own", Who::Ordinary) else {
        return;
    };
    sh(&place, "mkdir d; echo base > file");
    let line = "cd d; echo ready; cat; \
        for i in $(seq 200); do [ -e $0/file ] || break; sleep 0.02; done; \
        ls -A ../state ../state/openpath; \
        touch ../state/openpath/x ../state/openpath/views/x; cat ../state/openpath/views/*/lock; \
        mv ../state ../moved; cd -P ..; rm -rf state; ls state; echo v >> file; echo v > new";
    let dir = place.path("");
    let all = [
        &["run"],
        &KERNEL[..],
        &["view", "--", "sh", "-c", line, &dir],
    ]
    .concat();
    let started = Started::by(place.openpath(all));
    let away = place.dir.with_extension("away");
    std::fs::rename(&place.dir, &away).unwrap();
    std::fs::rename(&away, &place.dir).unwrap();
    let said = started.finish();
    assert_eq!(
        said, "../state:\nopenpath\n\n../state/openpath:\nopenpath\n",
        "{dir}"
    );
    let diff = place.openpath(["diff", "view", "--json"]).output().unwrap();
    assert!(diff.status.success(), "{}", err(&diff));
    assert!(!out(&diff).contains("/views"), "{}", out(&diff));
    let done = commit(&place, &[]);
    assert!(done.status.success(), "{}", err(&done));
    assert_eq!(place.read("file"), "base\nv\n");
    assert_eq!(place.read("new"), "v\n");
}
