// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a page of results: the command, the machine and its load, and the table.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::bars::{self, Bar};
use crate::common::*;
use crate::row::write_table;

/// Lists of pages: `"COMMAND" "TITLE" "FILE" BARS;`.
macro_rules! pages {
    ($($command:literal $title:literal $file:literal $bars:expr;)*) => {
        /// What a command reports besides its measurements: the arguments that write its page
        /// (before ` -- `, those of cargo), the page's title, what is measured and how to read it,
        /// and the rows that the contract requires.
        const PAGES: &[(&str, &str, &str, &[Bar])] =
            &[$(($command, $title, include_str!(concat!("pages/", $file, ".md")), $bars)),*];
    };
}

pages! {
    "walk" "Walks" "walk" bars::WALK;
    "failed-open" "Opens that fail" "failed-open" bars::FAILED_OPEN;
    "same-file" "The same file" "same-file" bars::SAME_FILE;
    "same-file --locks" "Locks of files" "locks" bars::LOCKS;
    "create-existing" "Create in many mounts" "create-existing" bars::CREATE;
    "cached" "Opens that must not wait" "cached" bars::CACHED;
    "shapes" "Shapes" "shapes" &[];
    "fd" "Descriptors" "fd" bars::FD;
    "run" "Programs" "run" bars::PROGRAMS;
    "many" "Many descriptors" "many" bars::MANY;
    "--features wasi -- wasi" "Guests in process" "wasi" bars::WASI;
}

/// The parts of a page besides its rows.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    title: &'static str,
    /// What is measured and how to read it.
    pub(crate) about: String,
    command: &'static str,
    /// The rows that the contract requires.
    pub(crate) bars: &'static [Bar],
    /// Further text, made from the rows.
    pub(crate) more: fn(&[Row]) -> String,
    /// Whether the table has a row.
    pub(crate) shows: fn(&Row) -> bool,
}

/// The load averages of the last one, five and fifteen minutes.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split(' ').take(3).collect();
    words.join(" ")
}

impl Page {
    /// The page of a command, with all rows in its table.
    pub(crate) fn of(command: &str) -> Self {
        let of = PAGES.iter().find(|(all, ..)| *all == command);
        let &(command, title, about, bars) = of.unwrap_or(&("", "", "", &[]));
        Self {
            title,
            about: about.trim_end().to_owned(),
            command,
            bars,
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
        let shown = rows.iter().filter(|row| (self.shows)(row));
        let shown: Vec<Row> = shown.cloned().collect();
        let (title, about, more) = (self.title, &self.about, (self.more)(rows));
        let mut out = Vec::new();
        write!(
            out,
            "# {title}\n\n{about}{more}\n\n\
             Processors: {processors}. Host kernel: Linux {kernel}. Load average when it began: \
             {began}; when it ended: {ended}.\n\
             Repeat with\n\n    cargo run --release -p openpath-bench{cargo} -- {command}\n\n\
             [How to read the table](README.md)\n\n"
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
        let page = Page::of("shapes");
        let rows = [Row::count("a row", "ns", 7.0)];
        page.write(&file, "0.00 0.00 0.00", &rows).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        assert!(text.starts_with("# Shapes\n\nThis page compares"));
        assert!(text.contains("-- shapes\n") && text.contains("a row  7 ns"));
    }
}
