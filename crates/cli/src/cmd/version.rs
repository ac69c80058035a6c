// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath version`: prints the version.

use crate::console;
use crate::error::Error;
use crate::outcome::Outcome;

pub(crate) fn run() -> Result<Outcome, Error> {
    console::put(&format!("openpath {}\n", env!("CARGO_PKG_VERSION")))?;
    Ok(Outcome::Done)
}
