// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench counts`: what one warm operation takes, counted and not timed.
//!
//! * allocations: by [`sys::CountingAlloc`], in this process;
//! * instructions: callgrind over N and 2N operations, the difference divided by N; where
//!   callgrind is not installed, by single steps;
//! * locked read-modify-writes: by single steps, each instruction looked at;
//! * shared stores: the operations run while the shared memory is read-only;
//! * memory: by the growth of the resident set ([`memory`]).

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::bars;
use crate::error::Error;
use crate::memory;
use crate::one::Case;
use crate::row::Row;
use crate::sys::{self, Steps};
use crate::{PATHS, Plant};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary that has the hidden verb `bench-one`.
    pub exe: PathBuf,
    /// Only rows whose name contains this.
    pub filter: Option<String>,
    /// A fault to plant.
    pub plant: Option<Plant>,
}

/// Rows beyond the contract.
const EXTRA: &[&str] = &[
    "allocations statx d1",
    "instructions failed-open d5",
    "instructions open-close d5",
    "instructions creat-existing d1",
    "instructions stat d1",
    "instructions stat d16",
    "locked failed-open d1",
    "locked creat-existing d1",
    "locked creat-read-only d1",
    "locked stat d1",
    "locked open-close d16",
    "shared-stores creat-read-only d1",
    "shared-stores statx d1",
];
const CALLGRIND_OPS: u64 = 50 * PATHS as u64;
const STEP_OPS: u64 = PATHS as u64;
const SEALED_OPS: u64 = 100_000;

/// Runs every wanted row.
///
/// # Errors
/// `Setup` or `Wrong` if an operation cannot be run or answers wrongly.
pub fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let names = bars::COUNTS
        .iter()
        .map(|bar| bar.name)
        .chain(EXTRA.iter().copied());
    let wanted = names.filter(|name| options.filter.as_ref().is_none_or(|f| name.contains(f)));
    wanted.map(|name| row(options, name)).collect()
}

fn row(options: &Options, name: &str) -> Result<Row, Error> {
    if let Some(why) = bars::find(name).and_then(|bar| bar.pending) {
        return Ok(Row::missing(name, why));
    }
    if name == memory::NAME {
        return memory::row();
    }
    let Some((what, case)) = name.split_once(' ') else {
        return Ok(Row::missing(name, "nothing measures it"));
    };
    match what {
        "allocations" => allocations(options, name, Case::parse(case)?),
        "instructions" => instructions(options, name, case),
        "locked" => {
            let steps = steps(options, case)?;
            Ok(Row::count(
                name,
                "per op",
                steps.locked as f64 / STEP_OPS as f64,
            ))
        }
        "shared-stores" => shared_stores(options, name, case),
        _ => Ok(Row::missing(name, "nothing measures it")),
    }
}

fn allocations(options: &Options, name: &str, case: Case) -> Result<Row, Error> {
    let before = sys::allocations();
    drop(std::hint::black_box(Box::new(1)));
    if sys::allocations() == before {
        return Ok(Row::missing(name, "this binary's allocator does not count"));
    }
    let ops = 10 * PATHS as u64;
    let count = case.warm(|task, ring| {
        let before = sys::allocations();
        let wrong = case.op.ours(task, ops, ring);
        if options.plant == Some(Plant::Alloc) {
            (0..ops).for_each(|i| drop(std::hint::black_box(Box::new(i))));
        }
        let count = sys::allocations() - before;
        if wrong == 0 {
            Ok(count)
        } else {
            Err(Error::Wrong(format!("{name}: {wrong}")))
        }
    })?;
    Ok(Row::count(name, "per op", count as f64 / ops as f64))
}

fn one(options: &Options, case: &str, ops: u64) -> [String; 4] {
    let exe = options.exe.display().to_string();
    [
        exe,
        "bench-one".to_owned(),
        case.to_owned(),
        format!("--ops={ops}"),
    ]
}

fn instructions(options: &Options, name: &str, case: &str) -> Result<Row, Error> {
    let collect = |ops| -> Result<Option<u64>, Error> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        match command.args(one(options, case, ops)).output() {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(Error::setup("run valgrind", why)),
            Ok(out) => {
                let text = String::from_utf8_lossy(&out.stderr).into_owned();
                let total = collected(&text).filter(|_| out.status.success());
                total
                    .map(Some)
                    .ok_or_else(|| Error::Setup(format!("valgrind {name}: {text}")))
            }
        }
    };
    let ops = CALLGRIND_OPS;
    let (Some(n), Some(twice)) = (collect(ops)?, collect(2 * ops)?) else {
        let count = steps(options, case)?.instructions as f64 / STEP_OPS as f64;
        return Ok(Row::count(name, "per op", count).with_note("single steps: no valgrind here"));
    };
    Ok(Row::count(
        name,
        "per op",
        twice.saturating_sub(n) as f64 / ops as f64,
    ))
}

/// The total that callgrind prints at its end.
fn collected(report: &str) -> Option<u64> {
    let line = report
        .lines()
        .find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

/// What `STEP_OPS` operations execute, less what none of them does: the marks.
fn steps(options: &Options, case: &str) -> Result<Steps, Error> {
    let run = |ops| {
        let mut child = spawn(options, case, ops, &["--how=traced"])?;
        let steps = sys::step_between_marks(&child);
        if steps.is_err() {
            let _ = child.kill();
        }
        let ended = child.wait();
        let steps = steps.map_err(|e| Error::setup(&format!("step through {case}"), e))?;
        ended
            .map(|_| steps)
            .map_err(|e| Error::setup("await the stepped process", e))
    };
    // Each step is two switches of context: far cheaper without waking another processor.
    let processors = sys::processors();
    sys::pin(processors.get(..1).unwrap_or_default());
    let both = run(0).and_then(|none| Ok((none, run(STEP_OPS)?)));
    sys::pin(&processors);
    let (none, all) = both?;
    Ok(Steps {
        instructions: all.instructions.saturating_sub(none.instructions),
        locked: all.locked.saturating_sub(none.locked),
    })
}

fn spawn(options: &Options, case: &str, ops: u64, args: &[&str]) -> Result<Child, Error> {
    let [exe, rest @ ..] = one(options, case, ops);
    let mut command = Command::new(exe);
    command.args(rest).args(args).stderr(Stdio::piped());
    command
        .spawn()
        .map_err(|e| Error::setup("start this program again", e))
}

fn shared_stores(options: &Options, name: &str, case: &str) -> Result<Row, Error> {
    let plant = options.plant == Some(Plant::Store);
    let args: &[&str] = if plant {
        &["--how=sealed", "--plant-store"]
    } else {
        &["--how=sealed"]
    };
    let mut child = spawn(options, case, SEALED_OPS, args)?;
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut text);
    }
    let status = child
        .wait()
        .map_err(|e| Error::setup("await the sealed process", e))?;
    match status.code() {
        Some(0) => Ok(Row::count(name, "seen", 0.0)),
        Some(sys::STORE_SEEN) => {
            Ok(Row::count(name, "seen", 1.0).with_note(&format!("first at {}", text.trim())))
        }
        _ => Err(Error::Setup(format!("{name}: {status}: {}", text.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found_in_callgrinds_report() {
        let report = "==1== \n==1== Events    : Ir\n==1== Collected : 3124683\n==1== \n";
        assert_eq!(collected(report), Some(3_124_683));
        assert_eq!(collected("==1== nothing"), None);
    }
}
