// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules that would not mean what their author thinks, and what is said of them.

use crate::live::Running;
use crate::place::{Place, err, out};
use std::fs::File;

/// The command does not start, and one sentence says all of `why`.
fn refused(place: &Place, options: &[&str], why: &[&str]) {
    let output = place.run(options, "echo ran");
    let said = err(&output);
    assert_eq!(out(&output), "", "{options:?}");
    assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
    for why in why {
        assert!(said.contains(why), "{options:?}: no `{why}`: {said}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn pattern_in_a_rule_of_a_path_is_refused_unless_a_file_is_called_so() {
    for place in Place::all("glob") {
        for path in ["id_*", "none/id_?", "id_[ab]"] {
            for option in ["--hide", "--hide-try", "--ro", "--ro-try", "--rw", "--pass"] {
                refused(&place, &[option, path], &[option, "no pattern", "--absent"]);
            }
        }
        place.write("id_*", "TREASURE\n");
        let output = place.run(&["--hide-try", "id_*"], "cat 'id_*' || echo held");
        assert_eq!(out(&output), "held\n", "{}", err(&output));
    }
}
