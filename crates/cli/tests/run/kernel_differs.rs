// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests, as root, what a command meets in a view that the kernel's overlayfs serves and natively
//! does not, and what is said where that engine cannot be used.

use crate::kernel_engine::{KERNEL, apart, root_place};
use crate::place::{err, out};

/// L146
#[test]
fn directories_of_views_are_empty_and_busy() {
    let Some(place) = root_place("kernel-view-dirs") else {
        return;
    };
    place.plain("mkdir build; echo a > build/a");
    let line = "ls build build/view state/openpath; mkdir build/view; rmdir build/view; \
        mv build moved; touch build/view/x; cp -a build copy; find copy | sort; rm -r build";
    let run = place.run(&[&KERNEL[..], &["./build/view"]].concat(), line);
    let wanted = "build:\na\nview\n\nbuild/view:\n\nstate/openpath:\ncopy\ncopy/a\ncopy/view\n";
    assert_eq!(out(&run), wanted, "{}", err(&run));
    let said = err(&run);
    let why = [
        "File exists",
        "Device or resource busy",
        "Read-only file system",
    ];
    let counts = why.map(|why| said.matches(why).count());
    assert_eq!(counts, [1, 3, 1], "{said}");
}

/// L147
#[test]
fn mount_made_later_is_not_seen() {
    for (engine, seen) in [("kernel", "below"), ("fuse", "above")] {
        let Some(place) = root_place("later-mount") else {
            return;
        };
        place.plain("mkdir at; echo below > at/below; mkfifo ready");
        let line = format!(
            "mount --make-rshared / && {{ read x < ready; mount -t tmpfs none at; touch at/above; \
             echo; }} | \"$OPENPATH\" run -q --engine {engine} -- \
             sh -c 'echo >&3; read x; ls at' 3> ready; ls at"
        );
        let output = apart(&place, &line);
        let wanted = format!("{seen}\nabove\n");
        assert_eq!(out(&output), wanted, "{engine}: {}", err(&output));
    }
}
