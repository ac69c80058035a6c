// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes a list of budgets or exceptions: `name = value`, one per line, below comments
//! that explain them.

use std::fs;
use std::io::{self, Error};
use std::path::Path;

/// The lines of a file, without those that are empty or begin with `#`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    head: String,
    pub(super) entries: Vec<(String, String)>,
}

impl List {
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Self::parse(&text).map_err(|line| {
            let path = path.display();
            Error::other(format!("{path}:{line}: not `name = value`, or there twice"))
        })
    }

    /// Parses the text; the error is the number of the first invalid line.
    pub(super) fn parse(text: &str) -> Result<Self, usize> {
        let mut list = Self::default();
        for (at, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                if list.entries.is_empty() {
                    list.head.push_str(line);
                    list.head.push('\n');
                }
                continue;
            }
            let (name, value) = line.split_once(" = ").ok_or(at)?;
            let (name, value) = (name.trim(), value.trim());
            if list.get(name).is_some() {
                return Err(at);
            }
            list.entries.push((name.to_owned(), value.to_owned()));
        }
        Ok(list)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.entries.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn store(&self, path: &Path) -> io::Result<()> {
        fs::write(path, self.text())
    }

    fn text(&self) -> String {
        let lines = self.entries.iter();
        let lines = lines.map(|(name, value)| format!("{name} = {value}\n"));
        self.head.clone() + &lines.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::List;

    #[test]
    fn list_round_trips() {
        let text = "# head\n\na | b, same d1 = 7\nc = 8 9: why\n";
        let list = List::parse(text).unwrap();
        assert_eq!(list.get("a | b, same d1"), Some("7"));
        assert_eq!(list.get("c"), Some("8 9: why"));
        assert_eq!(list.get("d"), None);
        assert_eq!(list.text(), text);
    }

    #[test]
    fn wrong_line_is_reported() {
        assert_eq!(List::parse("# x\na = 1\nb\n"), Err(3));
        assert_eq!(List::parse("a = 1\na = 2\n"), Err(2));
    }
}
