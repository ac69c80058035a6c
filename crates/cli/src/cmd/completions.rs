// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath completions`: from the definition of the command, so that they are never behind it.

use crate::error::Error;
use crate::{Outcome, console};
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: openpath completions bash > \
    ~/.local/share/bash-completion/completions/openpath")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> Result<Outcome, Error> {
    // Only of verbs that help lists: the generator would offer the others too.
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let mut command = clap::Command::new("openpath").subcommands(verbs.cloned());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "openpath", &mut script);
    console::put(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}
