// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds a tree's states before and after a commit, and checks the state after a kill against them:
//! each name is as in one of the two, and no name of both is gone.

use std::collections::BTreeSet;

/// The two states, as `find` and `cksum` print them: a line for each name.
pub(super) struct States {
    pub(super) before: String,
    pub(super) shown: String,
}

/// The line of a directory as if its owner could write it: a commit adds that right where it works,
/// and removes it at its end.
fn opened(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    if words.get(1).is_some_and(|kind| kind == "d")
        && let Some(mode) = words.get_mut(2)
        && let Ok(bits) = u32::from_str_radix(mode, 8)
    {
        *mode = format!("{:o}", bits | 0o300);
    }
    words.join(" ")
}

impl States {
    /// What violates R1 in the state after a kill.
    pub(super) fn fault(&self, now: &str) -> Option<String> {
        let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        let [before, shown, now] = [&self.before, &self.shown, now].map(|text| {
            let lines: BTreeSet<_> = text.lines().map(opened).collect();
            lines
        });
        let names = |lines: &BTreeSet<String>| lines.iter().map(|line| name(line)).collect();
        let [in_before, in_shown, in_now]: [BTreeSet<String>; 3] =
            [&before, &shown, &now].map(names);
        let torn = now
            .iter()
            .find(|line| !before.contains(*line) && !shown.contains(*line));
        if let Some(line) = torn {
            return Some(format!("neither as before nor as in the view: {line}"));
        }
        let gone = in_before
            .iter()
            .find(|name| in_shown.contains(*name) && !in_now.contains(*name));
        gone.map(|name| format!("gone: {name}"))
    }
}
