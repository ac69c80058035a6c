// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of results: what was run, where and under which load, and the table.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::row::{Row, write_table};
use crate::sys;

/// What a page says beside its rows.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// Its heading.
    pub title: &'a str,
    /// What is measured and how it is to be read.
    pub about: &'a str,
    /// The command that writes it, without the program; before ` -- ` what cargo has to be told.
    pub command: &'a str,
    /// The load average when the run began.
    pub load: &'a str,
}

/// The load averages of the last one, five and fifteen minutes.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split(' ').take(3).collect();
    words.join(" ")
}

/// Writes the page.
///
/// # Errors
/// What the file system says.
pub fn write(file: &Path, page: &Page<'_>, rows: &[Row]) -> io::Result<()> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: Vec<&str> = kernel.trim().split(['.', '-']).take(2).collect();
    let mut out = Vec::new();
    writeln!(out, "# {}\n\n{}\n", page.title, page.about)?;
    writeln!(
        out,
        "Processors: {}. Host kernel: Linux {}. Load average when it began: {}; when it ended: {}.",
        sys::processors().len(),
        kernel.join("."),
        page.load,
        load()
    )?;
    let (told, command) = match page.command.split_once(" -- ") {
        Some((told, command)) => (format!(" {told}"), command),
        None => (String::new(), page.command),
    };
    writeln!(
        out,
        "Repeat with\n\n    cargo run --release -p openpath-bench{told} -- {command}\n"
    )?;
    writeln!(out, "```text")?;
    write_table(&mut out, rows)?;
    writeln!(out, "```")?;
    fs::write(file, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_command_and_its_rows() {
        let file = std::env::temp_dir().join(format!("openpath-page-{}", std::process::id()));
        let page = Page {
            title: "Title",
            about: "About.",
            command: "that",
            load: "0.00 0.00 0.00",
        };
        write(&file, &page, &[Row::count("a row", "ns", 7.0)]).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(file).unwrap();
        assert!(text.starts_with("# Title\n\nAbout.\n"));
        assert!(text.contains("-- that\n") && text.contains("a row  7 ns"));
    }
}
