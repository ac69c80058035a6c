// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree before a commit and after it, and whether what is there now is one of both.

use std::collections::BTreeSet;

/// What a tree was and is to be, as `find` and `cksum` tell it: a line for each name.
pub(super) struct Both {
    pub(super) before: String,
    pub(super) shown: String,
}

impl Both {
    /// What is wrong with what is there after a kill (R1).
    pub(super) fn amiss(&self, now: &str) -> Option<String> {
        let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        let [before, shown, now] = [&self.before, &self.shown, now].map(|text| {
            let lines: BTreeSet<_> = text.lines().map(str::to_owned).collect();
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
