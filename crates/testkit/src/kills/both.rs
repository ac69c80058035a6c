// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree before a commit and after it, and whether what is there now is one of both.

use std::collections::BTreeSet;

/// What a tree was and is to be, as `find` and `cksum` tell it: a line for each name.
pub(super) struct Both {
    pub(super) before: String,
    pub(super) shown: String,
}

/// A line, that of a directory as if its owner could write it: a commit opens those that it works
/// in, and closes them at its end.
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

impl Both {
    /// What is wrong with what is there after a kill (R1).
    pub(super) fn amiss(&self, now: &str) -> Option<String> {
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
