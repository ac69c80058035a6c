// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath completions`: prints a completion script for a shell, made from the definition of the
//! command line.

use crate::console;
use crate::error::Error;
use crate::outcome::Outcome;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
#[command(after_help = "For bash: openpath completions bash > \
    ~/.local/share/bash-completion/completions/openpath")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> Result<Outcome, Error> {
    // The generator would also offer hidden verbs.
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let mut command = clap::Command::new("openpath").subcommands(verbs.cloned());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "openpath", &mut script);
    console::put(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}
