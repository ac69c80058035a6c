// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a change to a file of the real tree with several hard links reaches only the name
//! that was used, in the view and in the commit.

use crate::place::{Place, err, out};

/// A place with `a`, `b` and `c` as names of one file.
fn linked(name: &str) -> impl Iterator<Item = Place> {
    Place::all(name).inspect(|place| {
        place.write("a", "old\n");
        for other in ["b", "c"] {
            std::fs::hard_link(place.dir.join("a"), place.dir.join(other)).unwrap();
        }
    })
}

/// Runs a line in a kept view, and commits it; returns the output and the real files.
fn committed(place: &Place, line: &str, names: &[&str]) -> (String, String) {
    let view = place.path("view");
    let ran = place.run(&["-q", "--upper", &view], line);
    assert!(ran.status.success(), "{}", err(&ran));
    let done = place.openpath(["commit", &view]).output().unwrap();
    assert!(done.status.success(), "{}", err(&done));
    let all = names.iter().map(|name| place.read(name));
    (out(&ran), all.collect())
}

#[test]
fn change_goes_to_the_name_that_was_used() {
    for place in linked("written") {
        let line = "cat a b c; echo new >> b; echo 3 >> c; cat a b c";
        let (seen, real) = committed(&place, line, &["a", "b", "c"]);
        assert_eq!(seen, "old\nold\nold\nold\nold\nnew\nold\n3\n");
        assert_eq!(real, "old\nold\nnew\nold\n3\n");
    }
}

#[test]
fn change_is_not_lost_with_the_removal_of_another_name() {
    for place in linked("removed") {
        let line = "cat a b c >/dev/null; echo new >> a; rm b; chmod 600 c; mv c d; cat a; \
            stat -c '%a %h' d";
        let (seen, real) = committed(&place, line, &["a", "d"]);
        assert_eq!(seen, "old\nnew\n600 1\n");
        assert_eq!(real, "old\nnew\nold\n");
    }
}

#[test]
fn names_of_one_file_show_one_inode_number_until_one_is_changed() {
    // The kernel shows the directory of the view, empty.
    for place in linked("numbers").map(Place::needs_fuse) {
        let line = "stat -c '%i %h' a b c | uniq -c | wc -l; ls -i | awk '{print $1}' | uniq -c | \
            wc -l; ln a d; echo new >> d; cat a d b; stat -c %h a b d";
        let (seen, real) = committed(&place, line, &["a", "b", "d"]);
        assert_eq!(seen, "1\n1\nold\nnew\nold\nnew\nold\n2\n3\n2\n");
        assert_eq!(real, "old\nnew\nold\nold\nnew\n");
    }
}
