// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists all entries of the dentry cache as text, to find one that should not be there.

use super::{Dcache, dflag};

/// What an entry can be, in words.
const WORDS: [(u64, &str); 11] = [
    (dflag::NEGATIVE, "negative"),
    (dflag::NOT_DIR, "not-dir"),
    (dflag::LINK, "link"),
    (dflag::MOUNTED, "mounted"),
    (dflag::SLOW_SEARCH, "slow-search"),
    (dflag::UNHASHED, "unhashed"),
    (dflag::REVALIDATE, "revalidate"),
    (dflag::ROOT, "root"),
    (dflag::COMPLETE, "complete"),
    (dflag::CONFIRM, "confirm"),
    (dflag::TRIES, "tries"),
];

impl Dcache {
    /// A line for each entry that is not free. Entries may come and go meanwhile.
    pub(crate) fn inventory(&self) -> Vec<String> {
        let touched = 1..self.store.dentries_touched();
        touched.filter_map(|index| self.line(index)).collect()
    }

    fn line(&self, index: u32) -> Option<String> {
        let (d, cold) = (self.at(index), self.cold(index));
        let now = d.word().sample();
        if !now.is_live() {
            return None;
        }
        let (name, parent) = self.name_of(index).unwrap_or_default();
        let words = WORDS.iter().filter(|(flag, _)| now.has(*flag));
        let words: Vec<&str> = words.map(|&(_, word)| word).collect();
        Some(format!(
            "{index}: \"{}\" below {parent}, superblock {}, {}, {} children, account {:#x}{}{}",
            name.escape_ascii(),
            d.sb.get(),
            words.join(" "),
            self.child_count(index),
            cold.account.get(),
            if now.is_dying() { ", dying" } else { "" },
            if now.is_busy() { ", busy" } else { "" },
        ))
    }
}
