// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs scripts in one environment that is compared, such as `openpath run`, and reports the time
//! of each.
//!
//! A line on standard input is a script as a JSON string; a line on standard output is an `Answer`.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) ns: f64,
    pub(super) out: String,
    /// The error, if its status was not 0.
    pub(super) failed: Option<String>,
}

/// The folders of a worker.
#[derive(Debug, clap::Args)]
pub(crate) struct Worker {
    /// Where scripts start.
    folder: PathBuf,
    /// Where they write.
    out: PathBuf,
}

/// Runs scripts until the input ends; `OUT` names the folder to write to.
pub(crate) fn serve(worker: &Worker) -> io::Result<()> {
    let Worker { folder, out } = worker;
    let (input, mut output) = (io::stdin().lock(), io::stdout().lock());
    for line in input.lines() {
        let script: String = serde_json::from_str(&line?)?;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-ec", &script]).current_dir(folder);
        shell.env("OUT", out).stdin(Stdio::null());
        let begun = Instant::now();
        let done = shell.output()?;
        let ns = begun.elapsed().as_nanos() as f64;
        let failed = (!done.status.success()).then(|| {
            let said = String::from_utf8_lossy(&done.stderr);
            format!("{}: {}", done.status, said.trim())
        });
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        serde_json::to_writer(&mut output, &Answer { ns, out, failed })?;
        writeln!(output)?;
        output.flush()?;
    }
    Ok(())
}
