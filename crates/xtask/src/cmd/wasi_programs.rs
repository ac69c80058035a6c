// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask wasi-programs`: builds real programs from what their projects publish, for
//! WASI and for this machine, and runs the tests that compare both.
//!
//! | program | from | built by |
//! |---|---|---|
//! | gofmt | the installed Go | the same |
//! | esbuild | the Go modules' proxy | Go |
//! | SQLite | the crate `libsqlite3-sys` | Debian's clang 14 with wasi-libc, unpacked beside; cc |

use super::{Done, cargo, pass_on, root, target};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// esbuild's module and version, and the path of its command.
const ESBUILD: (&str, &str) = ("github.com/evanw/esbuild", "v0.25.12");
/// The crate with SQLite's source.
const SQLITE: (&str, &str) = ("libsqlite3-sys", "=0.39.1");
/// Compiler flags of SQLite for both: one thread, and no memory that processes share.
const SQLITE_FLAGS: &[&str] = &[
    "-O2",
    "-DSQLITE_THREADSAFE=0",
    "-DSQLITE_OMIT_LOAD_EXTENSION",
    "-DSQLITE_OMIT_WAL",
    "-DSQLITE_DEFAULT_MEMSTATUS=0",
];
/// Debian's packages of a compiler for WASI.
const PACKAGES: &[&str] = &[
    "clang-14",
    "libclang-common-14-dev",
    "libclang-cpp14",
    "libclang-rt-14-dev-wasm32",
    "libclang1-14",
    "libllvm14",
    "lld-14",
    "wasi-libc",
];

/// Builds the missing programs, and runs the tests of all.
pub(crate) fn run() -> Done {
    let dir = target("wasi-programs");
    std::fs::create_dir_all(&dir)?;
    for build in [gofmt, esbuild, sqlite] {
        build(&dir)?;
    }
    let mut test = cargo(&["test", "--profile=oracle", "--package=openpath-cli"]);
    test.args([
        "--features=wasi",
        "--test=wasi",
        "--",
        "programs",
        "--nocapture",
    ]);
    pass_on(test.env("OPENPATH_WASI_PROGRAMS", dir))
}

/// Runs a program that must succeed.
fn must(command: &mut Command) -> io::Result<()> {
    if pass_on(command)? == ExitCode::SUCCESS {
        return Ok(());
    }
    let program = command.get_program().display().to_string();
    Err(io::Error::other(format!("{program} failed")))
}

/// Removes a built program unless it was built from this version.
fn built_of(dir: &Path, name: &str, what: &str) -> io::Result<()> {
    let note = dir.join(format!("{name}.built-of"));
    if std::fs::read_to_string(&note).is_ok_and(|known| known == what) {
        return Ok(());
    }
    for old in [name.to_owned(), format!("{name}.wasm")] {
        match std::fs::remove_file(dir.join(old)) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
            _ => {}
        }
    }
    std::fs::write(note, what)
}

/// The version that a program prints.
fn version(of: &mut Command) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&of.output()?.stdout).into_owned())
}

/// Builds a Go program from `at` for both, in this version.
fn go(dir: &Path, name: &str, at: &Path, package: &str, of: &str) -> io::Result<()> {
    let compiler = version(Command::new("go").arg("version"))?;
    built_of(dir, name, &format!("{of}\n{compiler}"))?;
    for (file, wasi) in [(name.to_owned(), false), (format!("{name}.wasm"), true)] {
        let to = dir.join(file);
        if to.exists() {
            continue;
        }
        let mut build = Command::new("go");
        build
            .current_dir(at)
            .arg("build")
            .arg("-o")
            .arg(to)
            .arg(package);
        if wasi {
            build.envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]);
        }
        must(&mut build)?;
    }
    Ok(())
}

fn gofmt(dir: &Path) -> io::Result<()> {
    let root = version(Command::new("go").args(["env", "GOROOT"]))?;
    let at = Path::new(root.trim()).join("src/cmd/gofmt");
    go(dir, "gofmt", &at, ".", "its own")
}

fn esbuild(dir: &Path) -> io::Result<()> {
    let (module, version) = ESBUILD;
    let at = dir.join("esbuild.src");
    std::fs::create_dir_all(&at)?;
    let package = format!("{module}/cmd/esbuild");
    let tool = format!("//go:build tools\n\npackage scratch\n\nimport _ {package:?}\n");
    std::fs::write(at.join("tools.go"), tool)?;
    std::fs::write(
        at.join("go.mod"),
        format!("module scratch\n\ngo 1.21\n\nrequire {module} {version}\n"),
    )?;
    must(Command::new("go").current_dir(&at).args(["mod", "tidy"]))?;
    go(dir, "esbuild", &at, &package, version)
}

fn sqlite(dir: &Path) -> io::Result<()> {
    let source = crate_source(dir, SQLITE)?.join("sqlite3");
    let files = [
        root().join("crates/cli/tests/wasi/sql.c"),
        source.join("sqlite3.c"),
    ];
    let compiler = version(Command::new("cc").arg("--version"))?;
    let shell = std::fs::read_to_string(&files[0])?;
    let of = format!("{SQLITE:?} {SQLITE_FLAGS:?} {PACKAGES:?}\n{compiler}\n{shell}");
    built_of(dir, "sqlite", &of)?;
    let native = dir.join("sqlite");
    if !native.exists() {
        let mut cc = Command::new("cc");
        cc.args(SQLITE_FLAGS).arg("-I").arg(&source).args(&files);
        must(cc.arg("-lm").arg("-o").arg(&native))?;
    }
    let guest = dir.join("sqlite.wasm");
    if !guest.exists() {
        let tools = debian(dir)?;
        let usr = tools.join("usr");
        let mut clang = Command::new(usr.join("lib/llvm-14/bin/clang"));
        clang.env("LD_LIBRARY_PATH", usr.join("lib/x86_64-linux-gnu"));
        clang.arg("--target=wasm32-wasi").arg("--sysroot").arg(&usr);
        clang.arg(format!("-fuse-ld={}", usr.join("bin/wasm-ld-14").display()));
        clang.args(SQLITE_FLAGS).arg("-I").arg(&source).args(&files);
        clang.args(["-D_WASI_EMULATED_GETPID", "-lwasi-emulated-getpid"]);
        must(clang.arg("-o").arg(&guest))?;
    }
    Ok(())
}

/// The source of a crate in cargo's cache.
fn crate_source(dir: &Path, (name, version): (&str, &str)) -> io::Result<PathBuf> {
    let at = dir.join(name);
    std::fs::create_dir_all(at.join("src"))?;
    std::fs::write(at.join("src/lib.rs"), "")?;
    std::fs::write(
        at.join("Cargo.toml"),
        format!(
            "[package]\nname = \"scratch\"\nversion = \"0.0.0\"\n[workspace]\n\
             [dependencies]\n{name} = \"{version}\"\n"
        ),
    )?;
    let mut ask = cargo(&["metadata", "--format-version=1", "--manifest-path"]);
    let told = ask.arg(at.join("Cargo.toml")).output()?;
    let told: serde_json::Value = serde_json::from_slice(&told.stdout)?;
    let packages = told["packages"].as_array().into_iter().flatten();
    let mut paths = packages
        .filter(|package| package["name"] == name)
        .filter_map(|package| Path::new(package["manifest_path"].as_str()?).parent());
    let path = paths.next().map(Path::to_owned);
    path.ok_or_else(|| io::Error::other(format!("cargo knows of no {name}")))
}

/// Unpacks Debian's compiler without installing it.
fn debian(dir: &Path) -> io::Result<PathBuf> {
    let (packages, to) = (dir.join("debian"), dir.join("debian.root"));
    if to.join("usr/bin/wasm-ld-14").exists() {
        return Ok(to);
    }
    std::fs::create_dir_all(&packages)?;
    let mut download = Command::new("apt-get");
    must(
        download
            .current_dir(&packages)
            .arg("download")
            .args(PACKAGES),
    )?;
    for package in std::fs::read_dir(&packages)? {
        must(Command::new("dpkg").arg("-x").arg(package?.path()).arg(&to))?;
    }
    Ok(to)
}
