// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses mount tables, lines of `/proc/self/mountinfo`, and makes them comparable: it replaces the
//! numbers of mounts, peer groups and devices by names.
//!
//! # Rules
//! * A table is sorted by path; of a stack on one path the lower mount comes first; then by what
//!   the mounts are mounted in.
//! * Mounts, peer groups and devices get names in the order of first appearance, through the tables
//!   of all tasks: one object of the kernel has one name.
//! * A parent that no table shows is `-`.

use std::collections::HashMap;
use std::fmt::Write as _;

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    id: u64,
    parent: u64,
    dev: String,
    root: String,
    point: String,
    options: String,
    spread: Vec<(String, Option<u64>)>,
    kind: String,
    read_only: bool,
}

impl std::str::FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Line, String> {
        let bad = || format!("not a line of mountinfo: {line}");
        let (before, after) = line.split_once(" - ").ok_or_else(bad)?;
        let mut words = before.split(' ');
        let mut word = || words.next().ok_or_else(bad);
        let number = |w: &str| w.parse::<u64>().map_err(|_| bad());
        let mut made = Line {
            id: number(word()?)?,
            parent: number(word()?)?,
            dev: word()?.to_owned(),
            root: word()?.to_owned(),
            point: word()?.to_owned(),
            options: word()?.to_owned(),
            ..Line::default()
        };
        for tag in words {
            made.spread.push(match tag.split_once(':') {
                Some((tag, group)) => (tag.to_owned(), Some(number(group)?)),
                None => (tag.to_owned(), None),
            });
        }
        let mut words = after.split(' ');
        made.kind = words.next().ok_or_else(bad)?.to_owned();
        let options = words.nth(1).ok_or_else(bad)?;
        made.read_only = options.split(',').any(|o| o == "ro");
        Ok(made)
    }
}

/// The lines of a table.
///
/// # Errors
/// A message about the first invalid line.
pub fn lines(text: &str) -> Result<Vec<Line>, String> {
    text.lines().map(str::parse).collect()
}

/// Names in the order of first appearance.
#[derive(Debug)]
struct Seen<K>(HashMap<K, usize>);

impl<K: std::hash::Hash + Eq> Seen<K> {
    fn new() -> Self {
        Seen(HashMap::new())
    }

    fn name(&mut self, key: K) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(key).or_insert(next)
    }
}

/// A unique key: where a mount is, and all its parents from the lowest on.
fn chain(table: &[Line], of: &Line) -> Vec<String> {
    let (mut at, mut chain) = (of, vec![of.point.clone()]);
    // No chain is longer than its table.
    for _ in table {
        match table.iter().find(|l| l.id == at.parent && l.id != at.id) {
            Some(below) => {
                chain.push(below.point.clone());
                at = below;
            }
            None => break,
        }
    }
    chain.reverse();
    chain
}

/// The tables of all tasks in comparable form.
#[must_use]
pub fn comparable(mut tables: Vec<Vec<Line>>) -> Vec<Vec<String>> {
    let (mut ids, mut groups, mut devices) = (Seen::new(), Seen::new(), Seen::new());
    for table in &mut tables {
        let whole = table.clone();
        table.sort_by_cached_key(|l| {
            let chain = chain(&whole, l);
            (l.point.clone(), chain.len(), chain)
        });
        for line in table {
            ids.name(line.id);
        }
    }
    let mut show = |line: &Line| {
        let mut out = format!("m{}", ids.name(line.id));
        match ids.0.get(&line.parent) {
            Some(parent) if line.parent != line.id => {
                let _ = write!(out, " in m{parent}");
            }
            _ => out.push_str(" in -"),
        }
        let device = devices.name(line.dev.clone());
        let write = if line.read_only { "ro" } else { "rw" };
        let _ = write!(
            out,
            " {}{device}({write}):{} on {} {}",
            line.kind, line.root, line.point, line.options
        );
        for (tag, group) in &line.spread {
            let _ = match group {
                Some(group) => write!(out, " {tag}:{}", groups.name(*group)),
                None => write!(out, " {tag}"),
            };
        }
        out
    };
    tables
        .iter()
        .map(|t| t.iter().map(&mut show).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_differ_in_numbers_are_equal() {
        let one = "40 30 0:50 / / rw,relatime - tmpfs case rw,size=1k\n\
                   42 41 0:52 / /a rw,relatime shared:7 - tmpfs x ro\n\
                   41 40 0:51 /d /a ro,noatime shared:9 master:7 - tmpfs x rw\n";
        let two = "10 3 0:20 / / rw,relatime - tmpfs case rw\n\
                   11 10 0:21 /d /a ro,noatime shared:2 master:1 - tmpfs x rw\n\
                   12 11 0:22 / /a rw,relatime shared:1 - tmpfs x ro\n";
        let table = |text: &str| comparable(vec![lines(text).expect("lines")]);
        assert_eq!(table(one), table(two));
        assert_eq!(
            table(one)[0][1],
            "m2 in m1 tmpfs2(rw):/d on /a ro,noatime shared:1 master:2"
        );
        assert_ne!(table(one), table(&two.replace("master:1", "master:5")));
        assert!(lines("40 30 0:50").is_err());
    }
}
