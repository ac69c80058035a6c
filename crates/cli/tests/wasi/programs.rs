// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that real programs (gofmt, esbuild, SQLite) as WebAssembly guests print the same and leave
//! the same files as natively.
//!
//! `cargo xtask wasi-programs` builds the programs and passes their directory
//! (`OPENPATH_WASI_PROGRAMS`). Without it only gofmt is tested, if Go is installed.

use crate::place::{Place, err, out};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program, built for this machine and for WASI.
struct Program {
    native: PathBuf,
    guest: PathBuf,
}

impl Program {
    /// The program of this name, if it was built.
    fn built(name: &str) -> Option<Program> {
        let dir = std::env::var_os("OPENPATH_WASI_PROGRAMS").map(PathBuf::from);
        let Some(dir) = dir else {
            eprintln!("skipped: {name} is built by `cargo xtask wasi-programs`");
            return None;
        };
        Some(Program {
            native: dir.join(name),
            guest: dir.join(format!("{name}.wasm")),
        })
    }

    /// gofmt, built now if needed; `None` if Go is not installed.
    fn gofmt() -> Option<Program> {
        if std::env::var_os("OPENPATH_WASI_PROGRAMS").is_some() {
            return Program::built("gofmt");
        }
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let program = Program {
            native: dir.join("gofmt"),
            guest: dir.join("gofmt.wasm"),
        };
        let source = goroot()?.join("src/cmd/gofmt");
        for (to, wasi) in [(&program.native, false), (&program.guest, true)] {
            let mut build = Command::new("go");
            build
                .current_dir(&source)
                .args(["build", "-o"])
                .arg(to)
                .arg(".");
            if wasi {
                build.envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]);
            }
            assert!(build.status().unwrap().success());
        }
        Some(program)
    }

    /// Runs the program natively and as a guest, each in its own tree that `fill` makes. Output,
    /// exit status and resulting files must be equal. Compiled modules are kept for the next test.
    fn same(&self, name: &str, args: &[&str], input: &str, fill: impl Fn(&Path)) {
        let place = Place::new(name, false);
        let tree = place.dir.join("tree");
        let mut ran = Vec::new();
        for guest in [false, true, true] {
            fill(&tree);
            place.write("input", input);
            let mut command = match guest {
                false => Command::new(&self.native),
                true => {
                    let wasm = self.guest.display().to_string();
                    let mut command = place.command(&["-q", "--rw", ".", &wasm]);
                    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
                    command
                }
            };
            let input = std::fs::File::open(place.path("input")).unwrap();
            let output = command.args(args).current_dir(&tree).stdin(input).output();
            ran.push((output.unwrap(), contents(&tree)));
            std::fs::remove_dir_all(&tree).unwrap();
        }
        let (here, left) = &ran[0];
        for (guest, left_by_guest) in &ran[1..] {
            assert_eq!(out(guest), out(here), "{}", err(guest));
            // Go has its own texts for the errors of WASI, with capitals.
            assert_eq!(err(guest).to_lowercase(), err(here).to_lowercase());
            assert_eq!(guest.status.code(), here.status.code());
            differ(left, left_by_guest);
        }
        // In a view the real tree stays as it is, and the listed changes are the true ones.
        fill(&tree);
        let before = contents(&tree);
        let wasm = self.guest.display().to_string();
        let mut command = place.command(&["--json", "--report", &place.path("report"), &wasm]);
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        let input = std::fs::File::open(place.path("input")).unwrap();
        let output = command.args(args).current_dir(&tree).stdin(input).output();
        let output: Output = output.unwrap();
        assert_eq!(out(&output), out(here));
        differ(&before, &contents(&tree));
        let told: serde_json::Value = serde_json::from_str(&place.read("report")).unwrap();
        let changed = left
            .iter()
            .filter(|(path, data)| before.get(*path) != Some(data));
        let gone = before.keys().filter(|path| !left.contains_key(*path));
        let told = told["changes"].as_array().unwrap().iter();
        let files = told.filter(|change| change["type"] == "file").count();
        assert_eq!(files, changed.count() + gone.count());
    }
}

/// All files of a tree by path.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_owned();
                all.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    all
}

/// Reports which files differ, without their contents.
fn differ(a: &BTreeMap<PathBuf, Vec<u8>>, b: &BTreeMap<PathBuf, Vec<u8>>) {
    let names = a.keys().chain(b.keys());
    let differ: Vec<_> = names.filter(|name| a.get(*name) != b.get(*name)).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

fn goroot() -> Option<PathBuf> {
    let Ok(told) = Command::new("go").args(["env", "GOROOT"]).output() else {
        eprintln!("skipped: there is no Go here");
        return None;
    };
    Some(PathBuf::from(out(&told).trim()))
}

/// The Go files of `from`, with the indentation of each line removed.
fn unformatted(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_dir() {
            if name != "testdata" {
                unformatted(&path, &to.join(name));
            }
        } else if path.extension().is_some_and(|end| end == "go") {
            let text = std::fs::read_to_string(&path).unwrap();
            // Spaces between backquotes may matter.
            let text = match text.contains('`') {
                true => text,
                false => text.replace("\n\t", "\n  "),
            };
            std::fs::write(to.join(name), text).unwrap();
            let mode = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(to.join(name), mode).unwrap();
        }
    }
}

#[test]
fn programs_gofmt_formats_a_part_of_the_go_tree() {
    let (Some(gofmt), Some(root)) = (Program::gofmt(), goroot()) else {
        return;
    };
    let net = root.join("src/net");
    let fill = |to: &Path| unformatted(&net, to);
    gofmt.same("gofmt-l", &["-l", "."], "", fill);
    gofmt.same("gofmt-w", &["-l", "-w", "."], "", fill);
    gofmt.same(
        "gofmt-stdin",
        &[],
        "package p\nfunc  f( ) { }\n",
        fill_nothing,
    );
    gofmt.same("gofmt-fails", &["-l", "none.go"], "", fill_nothing);
}

fn fill_nothing(to: &Path) {
    std::fs::create_dir(to).unwrap();
}

#[test]
fn programs_esbuild_bundles_a_project() {
    let Some(esbuild) = Program::built("esbuild") else {
        return;
    };
    let fill = |to: &Path| {
        let write = |name: &str, text: &str| {
            let path = to.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mut main = String::from("import { shout } from 'words';\nimport './style.css';\n");
        for n in 0..200 {
            let text = format!("export const n{n}: number = {n};\nexport default () => n{n};\n");
            write(&format!("src/part/{n}.ts"), &text);
            main += &format!("import f{n} from './part/{n}';\nconsole.log(shout(f{n}()));\n");
        }
        write("src/main.ts", &main);
        write(
            "src/style.css",
            "body { color: rgb(1, 2, 3); background: url(./dot.svg) }\n",
        );
        write("src/dot.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>\n");
        write(
            "tsconfig.json",
            "{ \"compilerOptions\": { \"target\": \"es2020\" } }\n",
        );
        let words = "{ \"name\": \"words\", \"main\": \"./lib/index.js\" }\n";
        write("node_modules/words/package.json", words);
        let index = "exports.shout = (word) => `${word}!`;\n";
        write("node_modules/words/lib/index.js", index);
    };
    let bundle = [
        "src/main.ts",
        "--bundle",
        "--loader:.svg=file",
        "--sourcemap",
    ];
    let out = [
        "--minify",
        "--metafile=meta.json",
        "--outdir=out",
        "--log-level=error",
    ];
    esbuild.same("esbuild", &[&bundle[..], &out].concat(), "", fill);
    esbuild.same("esbuild-fails", &["src/none.ts", "--bundle"], "", fill);
}

#[test]
fn programs_sqlite_inserts_asks_and_checks() {
    let Some(sqlite) = Program::built("sqlite") else {
        return;
    };
    let mut script = String::from(
        "pragma journal_mode=delete; create table t (a integer primary key, b text, c real);
        create index by_b on t (b);",
    );
    for round in 0..20 {
        script += &format!(
            "begin; with recursive n(x) as (select 1 union all select x + 1 from n where x < 500)
            insert into t (b, c) select 'row ' || (x * 7919 % 500), x / 3.0 from n; commit;
            update t set b = b || '.{round}' where a % 11 = {}; delete from t where a % 17 = {};
            begin; delete from t where a > 100; rollback;",
            round % 11,
            round % 17,
        );
    }
    script += "select count(*), sum(a), max(b), round(total(c), 3) from t;
        select b, count(*) from t group by b having count(*) > 30 order by 1 limit 20;
        vacuum; pragma integrity_check; pragma page_count; select it from nowhere;";
    sqlite.same("sqlite", &["test.db"], &script, fill_nothing);
}
