// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a page of results: the command, the machine and its load, and the table.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::row::{Row, write_table};
use crate::sys;

/// The parts of a page besides its rows.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Its heading.
    pub(crate) title: &'static str,
    /// What is measured and how to read it.
    pub(crate) about: String,
    /// The arguments that write it; before ` -- ` options of cargo.
    pub(crate) command: &'static str,
    /// Further text, made from the rows.
    pub(crate) more: fn(&[Row]) -> String,
    /// Whether the table has a row.
    pub(crate) shows: fn(&Row) -> bool,
}

impl Default for Page {
    fn default() -> Self {
        Self::new("", "", "")
    }
}

/// The load averages of the last one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split(' ').take(3).collect();
    words.join(" ")
}

impl Page {
    /// A page with all rows in its table.
    pub(crate) fn new(title: &'static str, about: &str, command: &'static str) -> Self {
        Self {
            title,
            about: about.trim_end().to_owned(),
            command,
            more: |_| String::new(),
            shows: |_| true,
        }
    }

    /// Writes it, with the load average at the start of the run.
    pub(crate) fn write(&self, file: &Path, began: &str, rows: &[Row]) -> io::Result<()> {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel: Vec<&str> = kernel.trim().split(['.', '-']).take(2).collect();
        let (kernel, processors, ended) = (kernel.join("."), sys::processors().len(), load());
        let (cargo, command) = match self.command.split_once(" -- ") {
            Some((cargo, command)) => (format!(" {cargo}"), command),
            None => (String::new(), self.command),
        };
        let shown: Vec<Row> = rows
            .iter()
            .filter(|row| (self.shows)(row))
            .cloned()
            .collect();
        let mut out = Vec::new();
        writeln!(
            out,
            "# {}\n\n{}{}\n",
            self.title,
            self.about,
            (self.more)(rows)
        )?;
        writeln!(
            out,
            "Processors: {processors}. Host kernel: Linux {kernel}. Load average when it began: \
             {began}; when it ended: {ended}.\n\
             Repeat with\n\n    cargo run --release -p openpath-bench{cargo} -- {command}\n"
        )?;
        writeln!(out, "```text")?;
        write_table(&mut out, &shown)?;
        writeln!(out, "```")?;
        fs::write(file, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_command_and_rows() {
        let file = std::env::temp_dir().join(format!("openpath-page-{}", std::process::id()));
        let page = Page::new("Title", "About.\n", "that");
        let rows = [Row::count("a row", "ns", 7.0)];
        page.write(&file, "0.00 0.00 0.00", &rows).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        assert!(text.starts_with("# Title\n\nAbout.\n\n"));
        assert!(text.contains("-- that\n") && text.contains("a row  7 ns"));
    }
}
