// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath man`: writes a manual page for the command and for each subcommand, from their
//! definition.

use crate::error::Error;
use crate::outcome::Outcome;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Then: man -l DIR/openpath-run.1")]
pub(crate) struct Args {
    /// The directory for the pages; made if it does not exist.
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> Result<Outcome, Error> {
    std::fs::create_dir_all(&args.dir)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(command, &args.dir)?;
    Ok(Outcome::Done)
}

/// Writes the page of a command, and the pages of its subcommands.
fn write_pages(mut command: clap::Command, dir: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(inner.clone(), dir)?;
    }
    let usage = command.render_usage().to_string();
    let usage = usage.trim().trim_start_matches("Usage: ");
    let name = command.get_display_name().unwrap_or("openpath").to_owned();
    let page = clap_mangen::Man::new(command).title(name);
    let mut roff = Vec::new();
    page.render(&mut roff)?;
    let roff = String::from_utf8_lossy(&roff);
    std::fs::write(dir.join(page.get_filename()), with_usage(&roff, usage))
}

/// The page with `usage` as its synopsis, which has all arguments.
fn with_usage(roff: &str, usage: &str) -> String {
    let mut text = String::new();
    let mut lines = roff.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        if line == ".SH SYNOPSIS" {
            text.push_str(&usage.replace('-', "\\-"));
            text.push('\n');
            lines.next();
        }
    }
    text
}
