// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures real programs: each as a guest here, as a guest of wasmtime's own WASI, and as a
//! process of this machine. The time is from the making of the guest, or the start of the process,
//! to its end.
//!
//! # Rules
//! R1. However long runs take, there are as many rounds as a row needs. Stolen time drops none: one
//!     run is too long to avoid it, and it affects all sides alike.
//! R2. Every run must end as the first one did with the same output, or the benchmark ends.

mod load;
mod sides;

use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

use super::Options;
use crate::common::*;
use load::Load;
use sides::{Ended, Program, SIDES, Way};

/// The name of the row that compares with a side.
fn name(load: &Load, (_, label): (Way, &str)) -> String {
    format!("{}, {label}", load.name)
}

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    let Some(programs) = &options.programs else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    for load in Load::all()? {
        let names: Vec<String> = SIDES[1..].iter().map(|side| name(&load, *side)).collect();
        if options.ask.wants_any(&names) {
            rows.extend(of(&load, programs, options)?);
        }
    }
    Ok(rows)
}

fn of(load: &Load, programs: &Path, options: &Options) -> Result<Vec<Row>, Error> {
    tell(&format!("{}, which is compiled first", load.name));
    let program = &Program::new(load, programs, &options.folder)?;
    // R2
    let first = &RefCell::new(None);
    let mut plan = Plan::long();
    let sides = SIDES.map(|side| {
        let name = name(load, side);
        plan.own(&name.clone(), move || {
            run_once(&name, program, side.0, first)
        })
    });
    for (at, side @ (way, label)) in SIDES.into_iter().enumerate().skip(1) {
        let compare = if way == Way::Process {
            Row::growth
        } else {
            Row::faster
        };
        plan.row(compare, &name(load, side), sides[0], label, sides[at]);
    }
    plan.run(&options.ask)
}

fn run_once(
    name: &str,
    program: &Program<'_>,
    way: Way,
    first: &RefCell<Option<Ended>>,
) -> Result<f64, Error> {
    program.clear(way)?;
    let start = Instant::now();
    let ended = program.run(way)?;
    let took = start.elapsed();
    if *first.borrow_mut().get_or_insert_with(|| ended.clone()) == ended {
        return Ok(took.as_nanos() as f64);
    }
    let Ended(status, said) = ended;
    let text: String = String::from_utf8_lossy(&said).chars().take(200).collect();
    let why = format!("{name}: status {status}, and it says {text:?}");
    Err(Error::Wrong(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasi::tests::options;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    /// Makes the directory `left`, prints the contents of the file `word`, and exits with 3.
    const GUEST: &str = r#"(module
      (import "wasi_snapshot_preview1" "path_open"
        (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_read"
        (func $fd_read (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "fd_write"
        (func $fd_write (param i32 i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "path_create_directory"
        (func $mkdir (param i32 i32 i32) (result i32)))
      (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (memory (export "memory") 1)
      (data (i32.const 16) "word")
      (data (i32.const 24) "left")
      (data (i32.const 32) "\00\01\00\00\05\00\00\00")
      (func (export "_start")
        (if (call $mkdir (i32.const 3) (i32.const 24) (i32.const 4)) (then unreachable))
        (if (call $path_open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 4)
              (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0))
          (then unreachable))
        (if (call $fd_read (i32.load (i32.const 0)) (i32.const 32) (i32.const 1) (i32.const 36))
          (then unreachable))
        (if (call $fd_write (i32.const 1) (i32.const 32) (i32.const 1) (i32.const 4))
          (then unreachable))
        (call $exit (i32.const 3))))"#;

    /// Runs the program `word`, with this script as its process.
    fn run(script: &str, rounds: usize) -> Result<Vec<Row>, Error> {
        let load = Load {
            name: "wasi word",
            program: "word",
            args: &[],
            input: String::new(),
            files: vec![(PathBuf::from("word"), b"hello".to_vec())],
            leaves: Some("left"),
        };
        let dir = Scratch::new(&std::env::temp_dir()).unwrap();
        let (dir, process) = (dir.path(), dir.path().join("word"));
        fs::write(dir.join("word.wasm"), GUEST).unwrap();
        fs::write(&process, script).unwrap();
        fs::set_permissions(&process, fs::Permissions::from_mode(0o755)).unwrap();
        let mut options = options(None, 1);
        options.ask = Ask::rounds(rounds);
        of(&load, dir, &options)
    }

    #[test]
    fn program_has_row_for_each_way() {
        let script = "#!/bin/sh\nmkdir left && cat word; exit 3\n";
        let rows = run(script, crate::row::WINDOWS_MIN).unwrap();
        for row in &rows {
            assert!(row.ratio.is_some_and(|ratio| ratio > 0.0), "{row:?}");
        }
        assert_eq!(rows[2].name, "wasi word, native");
    }

    #[test]
    fn different_output_ends_benchmark() {
        for script in [
            "#!/bin/sh\necho no; exit 3\n",
            "#!/bin/sh\ncat word; exit 4\n",
        ] {
            let told = run(script, 1);
            assert!(matches!(told, Err(Error::Wrong(_))), "{told:?}");
        }
    }
}
