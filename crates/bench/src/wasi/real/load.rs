// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines what the measured programs do (their loads); `cargo xtask wasi-programs` builds them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::*;
use crate::host;

/// A part of the Go tree, of more than 200 files.
const GO_FILES: &str = "src/os";
/// How many turns of SQLite's statements run.
const TURNS: usize = 10;

pub(super) struct Load {
    /// The beginning of its row names.
    pub(super) name: &'static str,
    /// The process' file; the guest's ends with `.wasm`.
    pub(super) program: &'static str,
    pub(super) args: &'static [&'static str],
    pub(super) input: String,
    /// Its first files.
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    /// A file that a run leaves and the next must not find.
    pub(super) leaves: Option<&'static str>,
}

impl Load {
    pub(super) fn all() -> Result<[Self; 2], Error> {
        let gofmt = Self {
            name: "wasi gofmt",
            program: "gofmt",
            args: &["-l", "."],
            input: String::new(),
            files: go_files()?,
            leaves: None,
        };
        let sqlite = Self {
            name: "wasi sqlite",
            program: "sqlite",
            args: &["test.db"],
            input: statements(),
            files: Vec::new(),
            leaves: Some("test.db"),
        };
        Ok([gofmt, sqlite])
    }
}

/// Inserts, updates and queries, some transactions each turn, and a check of all.
fn statements() -> String {
    let mut script = String::from(
        "pragma journal_mode=delete; create table t (a integer primary key, b text, c real);
        create index by_b on t (b);",
    );
    for turn in 0..TURNS {
        script += &format!(
            "begin; with recursive n(x) as (select 1 union all select x + 1 from n where x < 500)
            insert into t (b, c) select 'row ' || (x * 7919 % 500), x / 3.0 from n; commit;
            update t set b = b || '.{turn}' where a % 11 = {}; delete from t where a % 17 = {};",
            turn % 11,
            turn % 17,
        );
    }
    script + "select count(*), sum(a), max(b) from t; vacuum; pragma integrity_check;"
}

/// Files of the installed Go without their indentation, and so unformatted.
fn go_files() -> Result<Vec<(PathBuf, Vec<u8>)>, Error> {
    let asked = host::run(Command::new("go").args(["env", "GOROOT"]));
    let [root, _] = asked.setup("ask for the Go tree")?;
    let from = Path::new(&root).join(GO_FILES);
    let mut files = Vec::new();
    read(&from, &from, &mut files).setup("read the Go tree")?;
    Ok(files)
}

fn read(root: &Path, dir: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, files)?;
        } else if path.extension().is_some_and(|end| end == "go") {
            let text = fs::read_to_string(&path)?.replace("\n\t", "\n  ");
            let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
            files.push((name, text.into_bytes()));
        }
    }
    Ok(())
}
