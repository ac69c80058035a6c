// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a mounted file system with a trusted one under load: each of many processes makes the
//! same calls on both, and compares every answer.
//!
//! # Rules
//! R1. Every process has a folder of its own on both sides, where all answers must agree
//!     (`compared`). All share one folder of the mount, where only a call's possible answers are
//!     checked (`shared`).
//! R2. A process is a child of this program, started again with its number; it prints its faults, a
//!     line each.
//! R3. The folders may exist before, with the same contents on both sides (`fill`): the lower layer
//!     of an overlay.
//! R4. At the end the folders are removed, which must succeed: a lost name or count shows then.

mod compared;
mod shared;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::rng::Rng;

/// The parameters of a process.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The mount.
    pub on: PathBuf,
    /// A folder of a file system that is trusted.
    pub beside: PathBuf,
    /// How long it runs.
    pub time: Duration,
    /// Seed of the random choices.
    pub seed: u64,
}

/// The results of a process, or of all together.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Calls that were compared.
    pub compared: u64,
    /// Calls in the shared folder.
    pub shared: u64,
    /// Faults.
    pub wrong: Vec<String>,
}

/// How many differences end one process.
const WRONG_MAX: usize = 10;
/// Steps between two checks of the clock and of the whole trees.
const ROUND: usize = 200;

/// Runs as process `number`, until its time is over.
///
/// # Errors
/// The folders cannot be made.
pub fn one(plan: &Plan, number: u64) -> io::Result<Report> {
    let name = name_of(number);
    let mut folders = compared::TwoFolders::new(plan.on.join(&name), plan.beside.join(&name))?;
    let mut shared = shared::SharedFolder::new(plan.on.join("crowd"), number)?;
    let mut rng = Rng::new(plan.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut report = Report::default();
    let by = Instant::now() + plan.time;
    while Instant::now() < by && report.wrong.len() < WRONG_MAX {
        for _ in 0..ROUND {
            report.compared += 1;
            folders.step(&mut rng, &mut report.wrong);
            report.shared += 1;
            shared.step(&mut rng, &mut report.wrong);
        }
        folders.compare(&mut report.wrong);
    }
    folders.end(&mut report.wrong);
    Ok(report)
}

/// Makes in `folder` what the folders of `processes` begin with.
///
/// # Errors
/// A folder cannot be made.
pub fn fill(folder: &Path, processes: u64, seed: u64) -> io::Result<()> {
    let mut rng = Rng::new(seed);
    for number in 0..processes {
        compared::TwoFolders::fill(folder.join(name_of(number)), &mut rng)?;
    }
    Ok(())
}

/// The name of the folder of a process.
fn name_of(number: u64) -> String {
    format!("process{number}")
}

/// Starts `processes` processes and waits for all.
///
/// # Errors
/// One cannot be started.
pub fn all(plan: &Plan, processes: u64) -> io::Result<Report> {
    let exe = std::env::current_exe()?;
    let start = |number: u64| {
        let mut child = Command::new(&exe);
        child.arg("--on").arg(&plan.on);
        child.arg("--beside").arg(&plan.beside);
        child.args(["--seconds", &plan.time.as_secs().to_string()]);
        child.args(["--seed", &plan.seed.to_string()]);
        child.args(["--process", &number.to_string()]);
        child.stdout(Stdio::piped()).spawn()
    };
    let children: Vec<_> = (0..processes).map(start).collect::<io::Result<_>>()?;
    let mut sum = Report::default();
    for (number, child) in children.into_iter().enumerate() {
        let done = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&done.stdout);
        for line in said.lines() {
            let count = |word: &str| line.strip_prefix(word).and_then(|n| n.parse::<u64>().ok());
            if let Some(n) = count("compared: ") {
                sum.compared += n;
            } else if let Some(n) = count("shared: ") {
                sum.shared += n;
            } else if let Some(wrong) = line.strip_prefix("WRONG: ") {
                sum.wrong.push(format!("process {number}: {wrong}"));
            }
        }
        // Status 1 means faults, which were printed.
        if !matches!(done.status.code(), Some(0 | 1)) {
            sum.wrong
                .push(format!("process {number} ended: {}", done.status));
        }
    }
    if let Err(why) = std::fs::remove_dir_all(plan.on.join("crowd")) {
        sum.wrong
            .push(format!("the shared folder cannot be removed: {why}"));
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn plan(name: &str) -> Plan {
        let top = format!("openpath-stress-{name}-{}", std::process::id());
        let top = std::env::temp_dir().join(top);
        Plan {
            on: top.join("on"),
            beside: top.join("beside"),
            time: Duration::from_millis(50),
            seed: 1,
        }
    }

    #[test]
    fn folders_of_one_file_system_agree() {
        let plan = plan("same");
        let report = one(&plan, 0).unwrap();
        fs::remove_dir_all(plan.on.parent().unwrap()).unwrap();
        assert_eq!(report.wrong, Vec::<String>::new());
        assert!(report.compared >= ROUND as u64);
    }

    #[test]
    fn surplus_on_one_side_is_reported() {
        let plan = plan("other");
        fs::create_dir_all(plan.on.join("process0/extra")).unwrap();
        let report = one(&plan, 0).unwrap();
        fs::remove_dir_all(plan.on.parent().unwrap()).unwrap();
        assert!(report.wrong[0].contains("extra"), "{:?}", report.wrong);
    }
}
