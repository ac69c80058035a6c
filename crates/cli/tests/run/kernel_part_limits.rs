// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests parts that the kernel's overlay serves with what is hard to keep or to compare. That is
//! attributes that leave no room for ours, real files that their owner cannot read, and rules about
//! openpath's own directories.

use crate::kernel_engine::{KERNEL, commit, kernel};
use crate::kernel_marks::done;
use crate::kernel_parts::{fuse, user_place};
use crate::place::{Place, err, out};

fn diff(place: &Place) -> String {
    done(&place.openpath(["diff", "view"]).output().unwrap())
}

/// Fills the extended attributes of a file.
const FILL: &str = "fill() { i=0; for s in 3000 800 150 60 20 10 4 1 1 1 1 1 1; do i=$((i+1)); \
    setfattr -n user.$2a$i -v \"$(head -c $s /dev/zero | tr '\\0' x)\" $1 2> /dev/null; done; }; ";

/// Divergence: L157
#[test]
fn files_without_room_for_our_attribute_keep_their_modes() {
    let Some(place) = user_place("limits-full") else {
        return;
    };
    // There is room for the kernel's mark alone.
    let files = "mkdir dir; echo d > dir/d; for f in lower list gone; do echo $f > $f; \
        setfattr -n user.room -v 0123456789abcdef $f; fill $f; \
        setfattr -x user.room $f; done; chmod 444 lower; chmod 640 list";
    done(&place.plain(&format!("{FILL}{files}")));
    let line = "echo work > result; for f in made shut run dir/n; do echo $f > $f; fill $f; done; \
        chmod 0 shut; chmod 4751 run; mkdir full; echo f > full/f; fill full; chmod 1751 full; \
        echo more >> list; chmod 644 lower; echo more >> lower; chmod 444 lower; \
        rm gone; mkfifo fifo; \
        for f in acl list2; do echo $f > $f; setfacl -m u:1000:rw,o:r $f; done; fill acl; \
        setfattr -n user.room -v $(seq -s '' 1 23) list2; fill list2; \
        setfattr -x user.room list2; mkdir closed; fill closed; chmod 0 closed";
    done(&kernel(&place, &format!("{FILL}{line}")));
    let look = "stat -c '%n %a %u' *; cat result made run list lower dir/n full/f; \
        getfattr -d made | wc -c";
    let seen = done(&fuse(&place, look));
    for mode in [
        "run 4751 1000",
        "full 1751 1000",
        "list 640 1000",
        "made 644 1000",
    ] {
        assert!(seen.contains(mode), "{mode}: {seen}");
    }
    // Their owner could not read them, and their modes have no other place.
    let is_ext = done(&place.plain("stat -f -c %T .")).starts_with("ext");
    for mode in [
        "acl 600 1000",
        "list2 600 1000",
        "shut 600 1000",
        "lower 644 1000",
        "closed 700 1000",
    ] {
        assert!(!is_ext || seen.contains(mode), "{mode}: {seen}");
    }
    assert_eq!(done(&kernel(&place, look)), seen);
    let listed = diff(&place);
    assert!(
        listed.contains("result") && listed.contains("run"),
        "{listed}"
    );
    done(&commit(&place, &[&place.path("result")]));
    assert_eq!(place.read("result"), "work\n");
    // The command makes room.
    done(&kernel(
        &place,
        "chmod 700 shut; setfattr -x user.a1 shut; chmod 0 shut",
    ));
    assert!(done(&fuse(&place, look)).contains("shut 0 1000"));
    let committed = commit(&place, &[]);
    done(&committed);
    let real = done(&place.plain("stat -c '%n %a' made run full lower shut; cat lower"));
    let lower = if is_ext { "644" } else { "444" };
    let expected = format!("made 644\nrun 4751\nfull 1751\nlower {lower}\nshut 0\nlower\nmore\n");
    assert_eq!(real, expected);
}

#[test]
fn real_files_that_their_owner_cannot_read_are_compared() {
    let Some(place) = user_place("limits-shut") else {
        return;
    };
    let files = "for f in mode data gone stays attr; do echo $f > $f; chmod 0 $f; done; \
        mkdir shut; echo in > shut/in; echo x > shut/x; chmod 0 shut; echo plain > plain";
    done(&place.plain(files));
    let line = "chmod 644 mode; chmod 600 data; echo more >> data; chmod 0 data; rm gone; \
        touch -d 2001-02-03 attr; chmod 700 shut; echo new >> shut/in; rm shut/x; \
        echo y > shut/y; chmod 0 shut; echo more >> plain";
    let look = "stat -c '%n %a %s' mode data attr plain; ls gone; chmod 700 shut; \
        cat shut/in; ls shut; chmod 0 shut";
    let before = done(&place.plain(&format!("{look}; true")));
    kernel(&place, line);
    let listed = diff(&place);
    for name in [
        "mode", "data", "gone", "attr", "plain", "shut/in", "shut/x", "shut/y",
    ] {
        assert!(listed.contains(&format!("/{name}\n")), "{name}: {listed}");
    }
    // What cannot be compared is refused alone.
    for path in [&[][..], &[&*place.path("shut")], &[&*place.path("shut/y")]] {
        let refused = commit(&place, path);
        let said = err(&refused);
        assert_eq!(refused.status.code(), Some(2), "{path:?}: {said}");
        assert!(
            said.contains("cannot be compared with the real tree"),
            "{said}"
        );
    }
    let again = kernel(&place, "true");
    assert!(err(&again).contains("may not look into"), "{}", err(&again));
    done(&fuse(&place, "cat mode"));
    let paths = ["plain", "mode", "data", "gone", "attr"].map(|name| place.path(name));
    done(&commit(&place, &paths.each_ref().map(|path| &**path)));
    let now = done(&place.plain(&format!("{look} 2>&1; true")));
    assert_eq!(now.lines().next(), Some("mode 644 5"), "{before}{now}");
    assert!(now.contains("data 0 10\nattr 0 5\nplain 644 11\n"), "{now}");
    assert!(now.contains("in\nin\nx\n"), "{now}");
    done(&commit(&place, &["--undo"]));
    assert_eq!(done(&place.plain(&format!("{look}; true"))), before);
    // Once the user may look into it, a commit is possible.
    done(&place.plain("chmod 700 shut"));
    let refused = commit(&place, &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
    done(&commit(&place, &["--force"]));
    let real = "chmod 700 shut; cat shut/in shut/y; ls shut";
    assert_eq!(done(&place.plain(real)), "in\nnew\ny\nin\ny\n");
}

/// Hidden is hidden, also where openpath keeps its own files.
#[test]
fn rules_about_our_own_directories_hold_beside_a_part() {
    let Some(place) = user_place("limits-own") else {
        return;
    };
    done(&place.plain("mkdir -p p; echo x > p/f"));
    let run = |engine: &str, option: &str, path: &str, line: &str| {
        let path = place.path(path);
        let args = [
            "run", "-q", "--engine", engine, option, &path, "--", "sh", "-c", line,
        ];
        let mut run = place.openpath(args);
        run.current_dir(place.path("p")).output().unwrap()
    };
    for (option, path) in [
        ("--hide", "state/openpath"),
        ("--hide", "state"),
        ("--hide", "state/openpath/views"),
        ("--ro", "state/openpath"),
        ("--ro", "state"),
    ] {
        let line = "ls -d ../state ../state/openpath; mkdir -p ../state/openpath/x && echo made; \
            mv ../state ../moved; ls -A ..; cat f; echo new > g; cat g";
        let [ours, kernels] = ["fuse", "kernel"].map(|engine| run(engine, option, path, line));
        assert_eq!(
            out(&kernels),
            out(&ours),
            "{option} {path} {}",
            err(&kernels)
        );
        if !ours.status.success() {
            // Not possible with either engine.
            continue;
        }
        let kind = run("kernel", option, path, "stat -f -c %T .");
        assert_eq!(done(&kind), "overlayfs\n", "{option} {path}");
        // Where the part could lie in no other directory.
        let path = place.path(path);
        let args = [
            &["run"],
            &KERNEL[..],
            &["view", option, &path, "--", "true"],
        ]
        .concat();
        let refused = place.openpath(args).output().unwrap();
        let said = err(&refused);
        assert_eq!(refused.status.code(), Some(125), "{option} {path}: {said}");
        assert!(said.contains("--engine kernel"), "{said}");
    }
}
