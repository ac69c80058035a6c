// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath version`.

use std::io::Write;

use openpath_bench::Error;

use crate::Outcome;

pub(crate) fn run() -> Result<Outcome, Error> {
    writeln!(std::io::stdout(), "openpath {}", env!("CARGO_PKG_VERSION"))?;
    Ok(Outcome::Done)
}
