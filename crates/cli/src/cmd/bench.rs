// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath bench`: runs `openpath-bench`, a separate program, if it is installed beside this one.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::error::Error;
use crate::outcome::Outcome;

/// The program.
const PROGRAM: &str = "openpath-bench";

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments for `openpath-bench`.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    args: Vec<OsString>,
}

/// Becomes the program; only a failure returns.
///
/// # Errors
/// The program is not beside this one, or cannot be started.
pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let own = std::env::current_exe();
    let own = own.map_err(|why| Error::setup("cannot find this program", why))?;
    let program = own.with_file_name(PROGRAM);
    let why = Command::new(&program).args(&args.args).exec();
    if why.kind() == io::ErrorKind::NotFound {
        return Err(Error::Setup(format!(
            "{PROGRAM} is not installed beside this program: in a checkout, run \
             `cargo run --release -p {PROGRAM} -- ...`"
        )));
    }
    Err(Error::setup(&program.display().to_string(), why))
}
