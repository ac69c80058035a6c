// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an overlayfs that a command mounts inside its view works, and that its whiteouts
//! (character devices 0:0) are files of the view that are kept and committed like others.

use crate::place::{Place, Who, err, out};

/// Mounts a kernel overlay in the view.
const MOUNT: &str = "mount -t overlay overlay \
    -o lowerdir=k/l,upperdir=k/u,workdir=k/w k/m";
const FURNISH: &str = "mkdir -p state k/l/dir k/l/moved k/u k/w k/m && echo a > k/l/a && \
    echo b > k/l/b && echo c > k/l/dir/c && echo d > k/l/moved/d && echo f > k/l/from-below && \
    mknod k/u/from-below c 0 0";
const CHANGE: &str = "rm k/m/a && mv k/m/b k/m/b2 && rm -r k/m/dir && mkdir k/m/dir && \
    mv k/m/moved/d k/m/d2 && echo new > k/m/new && mv k/m/new k/m/newer";
const LOOK: &str = "cd k/m && find . -printf '%p %y\\n' | sort";
const WANT: &str = ". d\n./b2 f\n./d2 f\n./dir d\n./moved d\n./newer f\n";

#[test]
fn kernel_overlay_in_a_view_removes_and_renames_files_durably() {
    // L145
    let Some(place) = Place::new("whiteouts", Who::Caller).map(Place::needs_fuse) else {
        return;
    };
    assert!(place.plain(FURNISH).status.success());
    let line = format!("{MOUNT} && {CHANGE} && umount k/m && {MOUNT} && {LOOK}");
    for options in [&["--quiet"][..], &["--quiet", "--name", "view"]] {
        let output = place.run(options, &line);
        assert_eq!(out(&output), WANT, "{options:?}: {}", err(&output));
    }
    // The next run on the view finds it unchanged, and a commit gives the real tree the same.
    let again = format!("{MOUNT} && {LOOK}");
    let output = place.run(&["--quiet", "--name", "view"], &again);
    assert_eq!(out(&output), WANT, "{}", err(&output));
    let committed = place.openpath(["commit", "view"]).output().unwrap();
    let said = format!("{}{}", out(&committed), err(&committed));
    assert!(committed.status.success(), "{said}");
    let devices = "cd k/u && find . -type c -printf '%p %m\\n' | sort; stat -c %t:%T a";
    let devices = out(&place.plain(devices));
    assert_eq!(
        devices,
        "./a 0\n./b 0\n./from-below 644\n./moved/d 0\n0:0\n"
    );
    let real = place.plain(&format!("unshare --mount sh -c \"{MOUNT} && {LOOK}\""));
    assert_eq!(out(&real), WANT, "{}", err(&real));
}

#[test]
fn device_0_0_is_a_file_of_the_view_and_is_committed_as_one() {
    // L143
    for place in Place::all("device-0-0").map(Place::needs_fuse) {
        let made = place.plain("mkdir -p state && mknod -m 640 real c 0 0 && mknod gone c 0 0");
        assert!(made.status.success(), "{}", err(&made));
        let line = "rm gone && mknod -m 640 new c 0 0 && ln new second && mknod gone2 c 0 0 && \
            rm gone2 && chmod 600 real && ls";
        let output = place.run(&["--quiet", "--name", "view"], line);
        let want = "new\nreal\nsecond\n";
        let shown: String = out(&output)
            .lines()
            .filter(|name| !name.starts_with("fuse-") && *name != "state")
            .map(|name| format!("{name}\n"))
            .collect();
        assert_eq!(shown, want, "{}", err(&output));
        let committed = place.openpath(["commit", "view"]).output().unwrap();
        let said = format!("{}{}", out(&committed), err(&committed));
        assert!(committed.status.success(), "{said}");
        let look =
            "find . -path ./state -prune -o -type c ! -name 'fuse-*' -printf '%p %m %n\\n' | sort";
        let real = out(&place.plain(look));
        assert_eq!(real, "./new 640 2\n./real 600 1\n./second 640 2\n");
    }
}

#[test]
fn kernel_overlay_in_a_view_strips_set_id_bits_at_copy_up() {
    // L145
    let Some(place) = Place::new("set-id", Who::Caller).map(Place::needs_fuse) else {
        return;
    };
    let made = place.plain("mkdir -p k/l k/u k/w k/m && echo a > k/l/a && chmod 4755 k/l/a");
    assert!(made.status.success(), "{}", err(&made));
    let line = format!("{MOUNT} && stat -c %a k/m/a && touch k/m/a && stat -c %a k/m/a");
    let output = place.run(&["-q"], &line);
    assert_eq!(out(&output), "4755\n755\n", "{}", err(&output));
    let real = place.plain(&format!("unshare --mount sh -c \"{line}\""));
    assert_eq!(out(&real), "4755\n4755\n", "{}", err(&real));
}
