// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath man`: a page for the command and one for each verb, from its definition.

use crate::Outcome;
use crate::error::Error;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Then: man -l DIR/openpath-run.1")]
pub(crate) struct Args {
    /// Where to; made if it is not there.
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, command: clap::Command) -> Result<Outcome, Error> {
    std::fs::create_dir_all(&args.dir)?;
    clap_mangen::generate_to(command, &args.dir)?;
    Ok(Outcome::Done)
}
