// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath exec`: runs one more command in the view of a command that `openpath run` started.

use crate::outcome::Outcome;
use openpath_run::Refusal;
use std::ffi::OsString;
use std::process::ExitCode;

/// The exit statuses besides those of the command itself.
const STATUS: &str = "Exit status: that of the command, and if a signal killed the command, the \
    same signal kills this program; 125 the view cannot be entered, 126 the command cannot be \
    executed, 127 there is no such command. When the first command of the view ends, all others \
    in it are asked to end, and killed two seconds later.";

/// Options of `exec`.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS)]
pub(crate) struct Args {
    /// A running view: its name, its directory, or its process ID, as `openpath list` shows it.
    /// Root names another user's view with that user's number before it, as in `1000:build`.
    view: String,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    end(openpath_run::exec(&args.view, &args.command))
}

/// Runs the command on a terminal of its own, for another user's view.
pub(crate) fn join(args: &Args) -> Outcome {
    end(openpath_run::exec_relayed(&args.view, &args.command))
}

fn end(done: Result<u8, Refusal>) -> Outcome {
    let code = done.unwrap_or_else(|refusal| {
        crate::console::warn(&format!("openpath: {refusal}"));
        refusal.exit_code()
    });
    Outcome::Status(ExitCode::from(code))
}
